//! A [`Host`] is what a URL of the operator names: a name or an IP address.
//!
//! **Invariant:** an address counts as one only in its plain form. No other spelling passes as a
//! name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dialects::address::{forbidden_ip, private_ip};

/// The fault of a forbidden host, as the rest of a sentence.
pub const FORBIDDEN: &str = "is a link-local, metadata or other special address, which the gateway never calls: write another one";

/// A host that a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A name, in lower case.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl Host {
    /// Reads a host as it stands in a URL. An error is the rest of a sentence.
    pub fn read(host: &str) -> Result<Self, String> {
        const WRONG: &str = "must have a host that is a name or an IP address, such as api.example.com, 10.0.0.1 or [fd00::1]";
        if let Some(v6) = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
        {
            return v6
                .parse::<Ipv6Addr>()
                .map(|v6| Self::Address(v6.into()))
                .map_err(|_| WRONG.to_owned());
        }
        if let Ok(v4) = host.parse::<Ipv4Addr>() {
            return Ok(Self::Address(v4.into()));
        }
        let name = host.to_ascii_lowercase();
        // Resolvers take `2852039166` and `0xa9.0xfe.43518` for addresses. Such an address must be
        // written as an address.
        if name.len() > 253
            || !name.split('.').all(is_label)
            || name.rsplit('.').next().is_none_or(is_number)
        {
            return Err(WRONG.to_owned());
        }
        Ok(Self::Name(name))
    }

    /// Returns whether the gateway never calls this host.
    pub fn is_forbidden(&self) -> bool {
        match self {
            Self::Address(ip) => forbidden_ip(*ip),
            // The names of Google Cloud's metadata servers, and of AWS's.
            Self::Name(name) => {
                matches!(
                    name.as_str(),
                    "metadata"
                        | "metadata.google.internal"
                        | "metadata.goog"
                        | "instance-data"
                        | "instance-data.ec2.internal"
                )
            }
        }
    }

    /// Returns whether the host is surely this machine or in a private network.
    pub fn is_private(&self) -> bool {
        match self {
            Self::Address(ip) => private_ip(*ip),
            Self::Name(name) => name == "localhost",
        }
    }

    /// Returns the host as a resolver takes it: IPv6 without brackets.
    pub fn bare(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Address(ip) => ip.to_string(),
        }
    }
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        && !label.starts_with('-')
}

fn is_number(label: &str) -> bool {
    label.bytes().all(|b| b.is_ascii_digit()) || label.starts_with("0x")
}

/// Writes the host as it stands in a URL.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(ip @ IpAddr::V4(_)) => write!(f, "{ip}"),
            Self::Address(ip @ IpAddr::V6(_)) => write!(f, "[{ip}]"),
        }
    }
}

/// Returns whether a host is the machine on which its name or address is used. The host is in lower
/// case, and IPv6 has no brackets.
pub fn is_this_machine(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Reads a port, which is `default` if none is written.
pub fn port_or(default: u16, written: Option<&str>) -> Result<u16, &'static str> {
    written.map_or(Ok(default), |port| {
        port.parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or("must have a port from 1 to 65535, or no port")
    })
}

/// Splits what stands in a URL between the user and the path.
pub fn host_and_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let end = if authority.starts_with('[') {
        authority.find(']')? + 1
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (host, port) = authority.split_at_checked(end)?;
    match port.strip_prefix(':') {
        None if port.is_empty() => Some((host, None)),
        // Without this check `u16::from_str` would take a sign.
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => Some((host, Some(port))),
        None | Some(_) => None,
    }
}

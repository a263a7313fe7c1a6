//! Addresses: a [`Cidr`] is a range of IP addresses, as an operator writes it;
//! [`reachable_address`] says where a listener is reached; [`append_address`] writes an address
//! without a `String` between.
//!
//! An IPv4 address inside an IPv6 one (mapped, or by way of NAT64) always counts as the IPv4
//! address, so that no rule can be passed by writing an address differently.

use std::fmt;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use dialects::address::plain_address;

/// Returns the address at which this machine reaches a listener.
pub fn reachable_address(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    address
}

/// Returns how many bytes [`append_address`] writes.
pub fn address_length(address: IpAddr) -> usize {
    let digit_count = |part: u8| 1 + usize::from(part >= 10) + usize::from(part >= 100);
    match address {
        // Three dots.
        IpAddr::V4(four) => four.octets().into_iter().map(digit_count).sum::<usize>() + 3,
        IpAddr::V6(six) => six.to_string().len(),
    }
}

/// Appends an address to these bytes.
pub fn append_address(bytes: &mut Vec<u8>, address: IpAddr) {
    let IpAddr::V4(four) = address else {
        // Anything can be written to a buffer.
        let _written = write!(bytes, "{address}");
        return;
    };
    for (index, part) in four.octets().into_iter().enumerate() {
        if index > 0 {
            bytes.push(b'.');
        }
        if part >= 100 {
            bytes.push(b'0' + part / 100);
        }
        if part >= 10 {
            bytes.push(b'0' + part / 10 % 10);
        }
        bytes.push(b'0' + part % 10);
    }
}

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or one bare address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// Any address of the range.
    address: IpAddr,
    bits: u8,
}

impl Cidr {
    /// Returns whether the address lies in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.shares_prefix(plain_address(address))
    }

    /// Returns whether each address of another range lies in this one.
    pub fn covers(&self, other: &Cidr) -> bool {
        // The other's address stays as it is: a range of IPv6 may begin with a mapped address.
        self.bits <= other.bits && self.shares_prefix(other.address)
    }

    /// Returns whether an address of the same family begins with the bits of the range.
    fn shares_prefix(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(address)) => {
                let differ = u32::from(own) ^ u32::from(address);
                differ.checked_shr(32 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(address)) => {
                let differ = u128::from(own) ^ u128::from(address);
                differ.checked_shr(128 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WRONG: &str = "must be an IP address or a range of addresses, such as 10.0.0.0/8, 192.0.2.7 or fd00::/8";
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let written: IpAddr = address.parse().map_err(|_| WRONG)?;
        let max_bits: u8 = if written.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => max_bits,
            Some(bits) if !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= max_bits)
                .ok_or_else(|| format!("must have a number from 0 to {max_bits} after the /"))?,
            Some(_) => return Err(WRONG.to_owned()),
        };
        // `::ffff:10.0.0.0/104` is `10.0.0.0/8`. A shorter prefix of a mapped address covers more
        // than IPv4.
        let (address, bits) = match (written, plain_address(written)) {
            (IpAddr::V6(_), v4 @ IpAddr::V4(_)) => match bits.checked_sub(96) {
                Some(bits) => (v4, bits),
                None => (written, bits),
            },
            _ => (written, bits),
        };
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_written_as_std_writes_it() {
        let fours = (0..=255).map(|part| IpAddr::from([part, 0, 255 - part, 100]));
        for address in fours.chain(["::1", "fd00::1:2", "::ffff:10.0.0.1"].map(ip)) {
            let mut bytes = b"at ".to_vec();
            append_address(&mut bytes, address);
            assert_eq!(String::from_utf8_lossy(&bytes), format!("at {address}"));
            assert_eq!(address_length(address), bytes.len() - 3);
        }
    }

    #[test]
    fn ranges() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.9.9.9/8", "10.0.0.1", "::a00:1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("192.0.2.7", "::ffff:192.0.2.7", "::ffff:192.0.2.6"),
            ("::ffff:10.0.0.0/104", "10.1.1.1", "11.1.1.1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::1", "::1", "::2"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
        ] {
            let range: Cidr = range.parse().unwrap();
            assert!(range.contains(ip(inside)), "{inside} in {range}");
            assert!(!range.contains(ip(outside)), "{outside} not in {range}");
        }
    }

    #[test]
    fn a_range_covers_no_other_family() {
        for (wide, narrow, expected) in [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.1.0.0/16", "10.0.0.0/8", false),
            ("10.0.0.0/8", "::ffff:10.0.0.0/104", true),
            ("10.0.0.0/8", "::ffff:10.0.0.0/90", false),
            ("::ffff:10.0.0.0/90", "10.0.0.0/8", false),
            ("::ffff:10.0.0.0/90", "::ffff:10.0.0.0/90", true),
            ("::/0", "::ffff:10.0.0.0/90", true),
            ("::/0", "10.0.0.0/8", false),
            ("fd00::/8", "fd00:1::/32", true),
        ] {
            let [wide, narrow] = [wide, narrow].map(|range| range.parse::<Cidr>().unwrap());
            assert_eq!(wide.covers(&narrow), expected, "{wide} covers {narrow}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for wrong in [
            "",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "10.0/8",
            "::/129",
            "localhost",
            "10.0.0.1:80",
        ] {
            assert!(wrong.parse::<Cidr>().is_err(), "{wrong}");
        }
    }
}

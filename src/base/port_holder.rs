//! Which process listens at an address, as far as the system shows it to this user.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// A process that listens. It is written `nginx (process 77)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortHolder {
    /// The name of its program.
    pub program: String,
    /// Its number.
    pub process: u32,
}

impl fmt::Display for PortHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.program, self.process)
    }
}

impl PortHolder {
    /// Returns whether the process is a Portcullis.
    pub fn is_gateway(&self) -> bool {
        self.program == env!("CARGO_PKG_NAME")
    }

    /// Writes how to stop the process, if it is not needed: `stop it with …`.
    pub fn stop_advice(&self) -> String {
        match &*self.program {
            _ if self.is_gateway() => format!(
                "stop it with `kill {}` (a service with `systemctl stop`)",
                self.process
            ),
            "systemd" => "stop the socket that `systemctl list-sockets` names".to_owned(),
            _ => "stop it".to_owned(),
        }
    }
}

/// Finds the process that listens at this address, or at all addresses of its port. Processes of
/// other users are seen by root only.
pub fn find_port_holder(address: SocketAddr) -> Option<PortHolder> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let sockets = tables
        .iter()
        .flatten()
        .flat_map(|table| table.lines().filter_map(read_listener))
        .filter(|(listens, _)| exclude_each_other(*listens, address))
        .map(|(_, inode)| format!("socket:[{inode}]"));
    let sockets: Vec<String> = sockets.collect();
    if sockets.is_empty() {
        return None;
    }
    let mut processes = fs::read_dir("/proc").ok()?.flatten();
    processes.find_map(|process| {
        let number = process.file_name().to_str()?.parse().ok()?;
        has_socket(&process.path(), &sockets).then(|| PortHolder {
            program: fs::read_to_string(process.path().join("comm"))
                .map_or("a program".to_owned(), |name| {
                    name.trim().escape_debug().to_string()
                }),
            process: number,
        })
    })
}

/// Returns whether a process has one of these sockets.
fn has_socket(process: &Path, sockets: &[String]) -> bool {
    let Ok(open) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    let mut links = open
        .flatten()
        .filter_map(|one| fs::read_link(one.path()).ok());
    links.any(|link| sockets.iter().any(|socket| link.as_os_str() == &**socket))
}

/// Returns whether one of two listeners keeps the other one out.
pub(crate) fn exclude_each_other(one: SocketAddr, other: SocketAddr) -> bool {
    let (ip, other_ip) = (one.ip(), other.ip());
    let is_covered = covers(ip, other_ip) || covers(other_ip, ip);
    one.port() == other.port() && (is_covered || ip.to_canonical() == other_ip.to_canonical())
}

/// Returns whether a listener at one address has the other one, too: `[::]` has all addresses, and
/// `0.0.0.0` those of IPv4.
fn covers(wide: IpAddr, other: IpAddr) -> bool {
    wide.is_unspecified() && (wide.is_ipv6() || other.to_canonical().is_ipv4())
}

/// Reads the address and the inode of a line of `/proc/net/tcp`, if that socket listens.
fn read_listener(line: &str) -> Option<(SocketAddr, &str)> {
    const LISTENS: &str = "0A";
    let mut words = line.split_whitespace();
    let (address, state) = (words.nth(1)?, words.nth(1)?);
    let (ip, port) = address.split_once(':').filter(|_| state == LISTENS)?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // Each group of eight digits is four bytes in the order of the machine.
    let mut bytes = Vec::new();
    for start in (0..ip.len()).step_by(8) {
        let group = u32::from_str_radix(ip.get(start..start + 8)?, 16).ok()?;
        bytes.extend(group.to_ne_bytes());
    }
    let ip = match *bytes {
        [a, b, c, d] => IpAddr::from(Ipv4Addr::new(a, b, c, d)),
        _ => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
    };
    Some((SocketAddr::new(ip, port), words.nth(5)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_process_of_a_port_is_found() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let bound = listener.local_addr().expect("an address");
            let found = find_port_holder(bound).expect("this process");
            assert_eq!(found.process, std::process::id(), "{bound}");
            drop(listener);
            assert_eq!(find_port_holder(bound), None, "{bound}");
        }
    }

    #[test]
    fn only_listeners_of_the_address_count() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0";
        let listens = "127.0.0.1:8080".parse().expect("an address");
        if cfg!(target_endian = "little") {
            assert_eq!(read_listener(line), Some((listens, "4711")));
        }
        assert_eq!(read_listener(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(read_listener("  sl  local_address rem_address   st"), None);
        for (other, expected) in [
            ("127.0.0.1:8080", true),
            ("0.0.0.0:8080", true),
            ("[::]:8080", true),
            ("[::ffff:127.0.0.1]:8080", true),
            ("127.0.0.2:8080", false),
            ("127.0.0.1:8081", false),
        ] {
            let other = other.parse().expect("an address");
            assert_eq!(exclude_each_other(listens, other), expected, "{other}");
        }
        let [wide, other] = ["0.0.0.0:8080", "[::1]:8080"].map(|text| text.parse().expect("one"));
        assert!(!exclude_each_other(wide, other) && !exclude_each_other(other, wide));
    }
}

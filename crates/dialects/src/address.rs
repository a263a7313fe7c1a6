//! This module decides which hosts and IP addresses may be called, and which are open to the public
//! internet.
//!
//! **Invariant:** an IPv4 address inside an IPv6 address (mapped, or through NAT64) always counts
//! as the IPv4 address. So no rule can be avoided by another spelling of an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether no account may ever use this address. These are link-local addresses, the
/// metadata services of clouds (which give credentials to every program that asks), and addresses
/// that are no host.
pub fn forbidden_ip(address: IpAddr) -> bool {
    match plain_address(address) {
        IpAddr::V4(v4) => {
            v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_multicast()
                || v4.is_broadcast()
                // Alibaba Cloud, Oracle Cloud (classic), Azure's wire server.
                || [[100, 100, 100, 200], [192, 0, 0, 192], [168, 63, 129, 16]].contains(&v4.octets())
        }
        IpAddr::V6(v6) => {
            v6.is_unicast_link_local()
                || v6.is_unspecified()
                || v6.is_multicast()
                // AWS, Google Cloud.
                || v6 == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)
                || v6 == Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)
        }
    }
}

/// Returns whether an address belongs to this machine or to a private network. An `http:` URL needs
/// no permission there.
pub fn private_ip(address: IpAddr) -> bool {
    match plain_address(address) {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local(),
    }
}

/// Returns whether a host is a name or an address of the public internet. The host is written as in
/// a URL.
///
/// A host that is not surely public counts as not public. Addresses are read in every form that a
/// fetcher of the URL may accept (`0x7f.1`, `2130706433`, `0177.0.0.1`).
///
/// A public name may still resolve to a private address. Only the server that resolves the name can
/// check that.
pub fn is_public_host(host: &str) -> bool {
    if let Some(v6) = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        return v6.parse::<Ipv6Addr>().is_ok_and(|v6| is_public_v6(&v6));
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    // No top-level domain begins with a digit, so this is an address.
    if last.starts_with(|c: char| c.is_ascii_digit()) {
        return loose_v4(host).is_some_and(is_public_v4);
    }
    let host = host.to_ascii_lowercase();
    // A name without a dot is looked up in the domains of the local network.
    let is_own = !host.contains('.')
        || OWN_DOMAINS.iter().any(|own| {
            host.strip_suffix(own)
                .is_some_and(|rest| rest.ends_with('.'))
        });
    !is_own && host != "metadata.goog" && host.split('.').all(is_host_label)
}

fn is_host_label(label: &str) -> bool {
    let mut bytes = label.bytes();
    !label.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// Domains outside the public name space. Their meaning differs from network to network.
const OWN_DOMAINS: [&str; 14] = [
    "localhost",
    "localdomain",
    "local",
    "internal",
    "home.arpa",
    "lan",
    "home",
    "corp",
    "intranet",
    "private",
    "svc",
    "test",
    "invalid",
    "onion",
];

/// Reads an IPv4 address in one to four parts. Each part is decimal, octal or hexadecimal, as in
/// the WHATWG's standard and in `inet_aton`.
fn loose_v4(host: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u64> = host.split('.').map(parse_v4_part).collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    let rest = 4usize.checked_sub(first.len()).filter(|rest| *rest > 0)?;
    if first.iter().any(|part| *part > 255) || *last >= 1 << (8 * rest) {
        return None;
    }
    let high = first
        .iter()
        .enumerate()
        .fold(0, |sum, (index, part)| sum | part << (8 * (3 - index)));
    u32::try_from(high | last).ok().map(Ipv4Addr::from)
}

fn parse_v4_part(part: &str) -> Option<u64> {
    let (digits, radix) = match part.as_bytes() {
        [b'0', b'x' | b'X', ..] => (part.get(2..)?, 16),
        [b'0', _, ..] => (part.get(1..)?, 8),
        _ => (part, 10),
    };
    // `from_str_radix` accepts a sign, but an address has none.
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    if digits.is_empty() {
        Some(0)
    } else {
        u64::from_str_radix(digits, radix).ok()
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    // "This network", networks shared by carriers, the IETF's own, benchmarks, and reserved ones.
    let is_special = matches!(
        (a, b, c),
        (0, ..) | (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _) | (240.., ..)
    );
    !is_special && !private_ip(v4.into()) && !forbidden_ip(v4.into())
}

fn is_public_v6(v6: &Ipv6Addr) -> bool {
    let address = IpAddr::V6(*v6);
    if let IpAddr::V4(v4) = plain_address(address) {
        return is_public_v4(v4);
    }
    match v6.octets() {
        // 6to4 (RFC 3056) leads to the IPv4 address inside.
        [0x20, 0x02, a, b, c, d, ..] => is_public_v4(Ipv4Addr::new(a, b, c, d)),
        // Only 2000::/3 is assigned. In it, Teredo leads to an address that is hidden in the
        // address.
        [0x20, 0x01, 0, 0, ..] => false,
        [0x20..=0x3f, ..] => !private_ip(address) && !forbidden_ip(address),
        _ => false,
    }
}

/// Returns the IPv4 address that an IPv6 address stands for; any other address stays as it is.
pub fn plain_address(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    if let Some(v4) = v6.to_ipv4_mapped() {
        return IpAddr::V4(v4);
    }
    match v6.octets() {
        // RFC 6052, the well-known prefix of NAT64.
        [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => {
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn s10_forbidden_addresses() {
        for bad in [
            "169.254.169.254",
            "169.254.1.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "168.63.129.16",
        ] {
            assert!(forbidden_ip(ip(bad)), "{bad}");
        }
        for good in [
            "127.0.0.1",
            "10.0.0.1",
            "::1",
            "fd00::1",
            "8.8.8.8",
            "2001:db8::1",
            "100.64.0.1",
        ] {
            assert!(!forbidden_ip(ip(good)), "{good}");
        }
        for private in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "::1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(private_ip(ip(private)), "{private}");
        }
        for public in ["8.8.8.8", "172.32.0.1", "2001:db8::1", "169.254.1.1"] {
            assert!(!private_ip(ip(public)), "{public}");
        }
    }

    #[test]
    fn a_host_not_surely_public_is_not_public() {
        for host in [
            "example.com",
            "EXAMPLE.com.",
            "xn--bcher-kva.de",
            "a_b.example.com",
            "localhost.example.com",
            "8.8.8.8",
            "134744072",
            "0x8080808",
            "[2606:4700::1111]",
            "[::ffff:8.8.8.8]",
            "[64:ff9b::808:808]",
            "[2002:808:808::1]",
            "100.128.0.1",
            "172.32.0.1",
        ] {
            assert!(is_public_host(host), "{host}");
        }
        for host in [
            "",
            ".",
            "localhost",
            "LocalHost.",
            "a.localhost",
            "localhost.localdomain",
            "vllm",
            "metadata",
            "metadata.google.internal",
            "metadata.goog",
            "vllm.default.svc",
            "vllm.default.svc.cluster.local",
            "printer.local",
            "nas.home.arpa",
            "wiki.corp",
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f000001",
            "0X7F.1",
            "0177.0.0.1",
            "017700000001",
            "0x7f.0.0.0x1",
            "0",
            "0x",
            "0.0.0.0",
            "10.0.0.1",
            "10.1",
            "167772161",
            "172.16.0.1",
            "192.168.1.1",
            "0300.0250.1.1",
            "169.254.169.254",
            "2852039166",
            "0xa9fea9fe",
            "0xa9.0xfe.43518",
            "100.64.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "4294967296",
            "1.2.3.4.5",
            "127.0.0.09",
            "256.1.1.1",
            "1.2.3.0x1g",
            "[::1]",
            "[::]",
            "[fe80::1]",
            "[fe80::1%25eth0]",
            "[fd00::1]",
            "[fec0::1]",
            "[ff02::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[64:ff9b:1::1]",
            "[2002:7f00:1::1]",
            "[2002:a00:1::1]",
            "[2001::1]",
            "[::1",
            "::1",
            "[v1.x]",
            "a..b.com",
            "user@example.com",
            "example.com:80",
            "１２７.0.0.1",
            "127。0。0。1",
            "loc%61lhost.com",
            "é.com",
        ] {
            assert!(!is_public_host(host), "{host}");
        }
    }
}

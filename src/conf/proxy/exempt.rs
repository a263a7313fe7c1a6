//! The servers that `NO_PROXY` exempts from the environment's proxies.
//!
//! There is no standard. Entries mean what they mean to curl, and ranges of addresses and ports
//! what they mean to Go. No name is looked up: only an address that is written as one is in a
//! range.

use crate::base::address::Cidr;
use crate::base::host::host_and_port;
use std::net::IpAddr;

/// The servers that are reached without a proxy: hosts, each at one port or at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Exempt(Vec<(ExemptHost, Option<u16>)>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum ExemptHost {
    /// `*`: every server.
    All,
    /// A host, and all hosts below it.
    Name(String),
    /// An address, or a range of addresses.
    Range(Cidr),
}

impl Exempt {
    /// Reads a list with commas or blanks between its entries. Returns also how many entries can
    /// match nothing.
    pub(super) fn parse(list: &str) -> (Exempt, usize) {
        let entries = list
            .split([',', ' ', '\t', '\r', '\n'])
            .filter(|entry| !entry.is_empty());
        let read: Vec<_> = entries.map(ExemptHost::parse).collect();
        let wrong = read.iter().filter(|entry| entry.is_none()).count();
        (Exempt(read.into_iter().flatten().collect()), wrong)
    }

    /// Returns whether a server is reached without a proxy. The host is in lower case, and IPv6 has
    /// no brackets.
    pub(super) fn has(&self, host: &str, port: u16) -> bool {
        let address: Option<IpAddr> = host.parse().ok();
        let mut entries = self.0.iter();
        entries
            .any(|(entry, only)| only.is_none_or(|only| only == port) && entry.has(host, address))
    }
}

impl ExemptHost {
    fn has(&self, host: &str, address: Option<IpAddr>) -> bool {
        match self {
            ExemptHost::All => true,
            ExemptHost::Name(name) => {
                let is_below = |rest: &str| rest.is_empty() || rest.ends_with('.');
                address.is_none() && host.strip_suffix(&**name).is_some_and(is_below)
            }
            ExemptHost::Range(range) => address.is_some_and(|address| range.contains(address)),
        }
    }

    fn parse(text: &str) -> Option<(ExemptHost, Option<u16>)> {
        if text == "*" {
            return Some((ExemptHost::All, None));
        }
        if let Ok(range) = text.parse() {
            return Some((ExemptHost::Range(range), None));
        }
        let (host, port) = host_and_port(text)?;
        let port = port
            .map(|port| port.parse().ok().filter(|port| *port > 0).ok_or(()))
            .transpose()
            .ok()?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        if let Ok(range) = bare.parse() {
            return Some((ExemptHost::Range(range), port));
        }
        let name = host
            .strip_prefix('*')
            .filter(|rest| rest.starts_with('.'))
            .unwrap_or(host);
        let name = name.strip_prefix('.').unwrap_or(name);
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let is_name = name.split('.').all(|label| {
            let mut bytes = label.bytes();
            !label.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        });
        is_name.then_some((ExemptHost::Name(name), port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exempt() {
        for (list, inside, outside) in [
            ("", "", "a.b:443 127.0.0.1:80"),
            (",, ,", "", "a.b:443"),
            ("*", "a.b:443 10.0.0.1:80 ::1:80", ""),
            ("a.b,*", "c.d:443", ""),
            (
                "corp.example",
                "corp.example:443 a.corp.example:80 x.a.corp.example:80",
                "mycorp.example:443 example:80",
            ),
            (
                ".corp.example",
                "corp.example:443 a.corp.example:80",
                "mycorp.example:443",
            ),
            (
                "*.corp.example",
                "corp.example:443 a.corp.example:80",
                "mycorp.example:443",
            ),
            ("Corp.Example.", "a.corp.example:80", "corp.example.org:80"),
            ("a.b c.d\te.f,g.h", "a.b:1 c.d:1 e.f:1 g.h:1", "i.j:1"),
            ("a.b:8443", "a.b:8443 x.a.b:8443", "a.b:443"),
            (".svc,vllm", "vllm:80 llm.ns.svc:80", "vllm2:80"),
            (
                "10.0.0.5",
                "10.0.0.5:80 10.0.0.5:443",
                "10.0.0.6:80 110.0.0.5:80",
            ),
            ("10.0.0.5:80", "10.0.0.5:80", "10.0.0.5:443"),
            ("10.0.0.0/8", "10.255.0.1:80", "11.0.0.1:80 10.a.b:80"),
            ("::1", "::1:80", "::2:80"),
            ("[fd00::1]:80", "fd00::1:80", "fd00::1:443"),
            ("[fd00::1]", "fd00::1:80 fd00::1:443", "fd00::2:80"),
            ("fd00::/8", "fdab::1:80", "fe00::1:80"),
            // An address within another counts as that address.
            ("10.0.0.0/8", "::ffff:10.0.0.1:80", "::ffff:11.0.0.1:80"),
            // A name is no address, and is not looked up.
            ("127.0.0.0/8", "127.0.0.1:80", "a.b:80"),
            ("0.0.1", "", "10.0.0.1:80"),
        ] {
            let (exempt, _) = Exempt::parse(list);
            let check = |server: &str, expected: bool| {
                let (host, port) = server.rsplit_once(':').expect("a port");
                assert_eq!(
                    exempt.has(host, port.parse().expect("a number")),
                    expected,
                    "{server} in {list:?}"
                );
            };
            inside
                .split_whitespace()
                .for_each(|server| check(server, true));
            outside
                .split_whitespace()
                .for_each(|server| check(server, false));
        }
    }

    #[test]
    fn entries_that_match_nothing_are_counted() {
        for (list, wrong) in [
            ("a.b,10.0.0.0/8,*", 0),
            ("http://a.b,c.d", 1),
            ("a*b,10.0.0.0/33,a.b:x,a.b:0,a..b,[::1,é", 7),
            ("", 0),
        ] {
            assert_eq!(Exempt::parse(list).1, wrong, "{list}");
        }
    }
}

//! Decides to which names in the header `Host` the admin listener answers.
//!
//! A page that an operator visits can make its own name mean 127.0.0.1 (DNS rebinding), and then
//! read the answers under that name. For that it needs a name that everybody can look up. So an
//! address passes, and so does every name that cannot exist in the public DNS; others must be
//! written in `admin.hosts`.

use std::net::{IpAddr, Ipv6Addr};

use super::access::{AddedSetting, admin_line};
use crate::conf::config::Admin;

/// Endings that no public name has: those of one machine, of one cluster, of one network.
const PRIVATE: [&str; 6] = [
    "localhost",
    "svc",
    "cluster.local",
    "internal",
    "local",
    "home.arpa",
];

/// The public names to which the listener answers: the machine's names, and those of
/// `admin.hosts`.
#[derive(Debug, Clone, Default)]
pub(super) struct HostNames(Vec<String>);

impl HostNames {
    /// Collects the machine's name, its other names in the text of `/etc/hosts`, and the names that
    /// the operator configured.
    pub(super) fn new(machine_name: &str, hosts_file: &str, configured: &[String]) -> Self {
        let lines = hosts_file.lines().map(|line| {
            line.split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .skip(1)
        });
        let aliases = lines
            .filter(|names| names.clone().any(|name| name == machine_name))
            .flatten();
        let names = aliases
            .chain([machine_name])
            .chain(configured.iter().map(String::as_str))
            .map(normal_name);
        Self(names.filter(|name| !name.is_empty()).collect())
    }

    /// Returns whether a request with this text in `Host` may be answered.
    pub(super) fn allow(&self, host: &str) -> bool {
        let Some(name) = host_name(host) else {
            return false;
        };
        let is_private = PRIVATE.into_iter().any(|ending| {
            let rest = name.strip_suffix(ending);
            rest.is_some_and(|rest| rest.ends_with('.'))
        });
        let is_address = name.parse::<IpAddr>().is_ok();
        let has_no_dot = !name.contains('.');
        // In HTTP/1.1 a client that knows no name may send an empty one. A browser always knows
        // one.
        name.is_empty() || is_address || has_no_dot || is_private || self.0.contains(&name)
    }
}

/// Returns the host without its port, in lower case; an IPv6 address has no brackets. Returns
/// `None` if the text is no host.
fn host_name(host: &str) -> Option<String> {
    let host = host.trim();
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let is_port_valid = port.is_empty() || is_port(port.strip_prefix(':')?);
        return (is_port_valid && address.parse::<Ipv6Addr>().is_ok()).then(|| address.to_owned());
    }
    let name = match host.split_once(':') {
        Some((name, port)) => is_port(port).then_some(name)?,
        None => host,
    };
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    name.bytes().all(is_of_name).then(|| normal_name(name))
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a name in lower case, without the dot at its end.
fn normal_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Returns the answer to a request that used another name.
pub(super) fn host_refusal(host: &str, admin: &Admin) -> String {
    let shown = host_name(host).filter(|name| name.len() <= 253);
    let shown_name = shown.as_deref().map_or_else(
        || "the name in the header `Host`".to_owned(),
        |name| format!("\"{name}\""),
    );
    let key_note = if admin.key.is_some() || !admin.page {
        "; leave its `key` and `page` as they are"
    } else {
        ""
    };
    format!(
        "the admin listener refuses requests to {shown_name}: it is a public name, and any web page could use a \
         public name to reach this address. Use an IP address or a name without a dot. If the name is \
         yours, write in server.yaml: `{}`{key_note}\n",
        admin_line(
            admin,
            AddedSetting::Host(shown.as_deref().unwrap_or("NAME"))
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(hosts: &[&str], allowed: bool) {
        let table = "127.0.0.1 localhost\n10.0.0.7\tgw-1.of.example.net Gw-1.Example.com # evil.example\n10.0.0.8 gw-2.example.com\n";
        let names = HostNames::new("Gw-1.Example.com", table, &["admin.example.org".to_owned()]);
        for host in hosts {
            assert_eq!(names.allow(host), allowed, "{host:?}");
        }
    }

    #[test]
    fn addresses_and_names_that_nobody_can_have_pass() {
        check(
            &[
                "127.0.0.1",
                "127.0.0.1:9090",
                "10.1.2.3:80",
                "[::1]",
                "[::1]:9090",
                "[2001:db8::1]:9090",
            ],
            true,
        );
        check(
            &[
                "localhost",
                "LOCALHOST:9090",
                "localhost.",
                "a.localhost",
                "gateway",
                "portcullis:9090",
                "my_service",
                "",
            ],
            true,
        );
        check(
            &[
                "gw.ns.svc",
                "gw.ns.svc:9090",
                "gw.ns.svc.cluster.local",
                "gw.ns.svc.cluster.local.",
                "ip-10-0-0-1.ec2.internal",
            ],
            true,
        );
        check(
            &[
                "host.docker.internal",
                "printer.local",
                "nas.home.arpa",
                "NAS.Home.Arpa:1",
            ],
            true,
        );
        check(
            &[
                "gw-1.example.com",
                "gw-1.of.example.net",
                "GW-1.EXAMPLE.COM:9090",
                "admin.example.org",
                "admin.example.org.:9090",
            ],
            true,
        );
    }

    #[test]
    fn public_names_do_not() {
        check(
            &[
                "evil.example",
                "evil.example:9090",
                "example.com",
                "gw-2.example.com",
                "x.gw-1.example.com",
                "admin.test",
            ],
            false,
        );
        check(
            &[
                "127.0.0.1.evil.example",
                "127.0.0.1.nip.io",
                "localhost.evil.example",
                "svc.evil.example",
                "evil-svc.example",
            ],
            false,
        );
        check(
            &[
                "notlocal.notinternal",
                "evil.xlocal",
                "home.arpa.evil.example",
                "1.2.3.4.5",
                "0x7f.1",
                "127.1",
            ],
            false,
        );
        check(
            &[
                "evil.example, localhost",
                "localhost@evil.example",
                "evil.example/localhost",
                "[::1",
                "[evil]",
                "::1:x",
                "a b",
                "ü.example",
            ],
            false,
        );
    }

    #[test]
    fn the_refusal_says_what_to_write() {
        let hosts = vec!["a.example".to_owned(), "127.1".to_owned()];
        let mut admin = Admin {
            address: "[::1]:9090".parse().unwrap(),
            hosts,
            key: None,
            page: true,
        };
        let says = host_refusal("Grafana.Example.com:9090", &admin);
        let line = "`admin: { address: \"[::1]:9090\", hosts: [a.example, \"127.1\", grafana.example.com] }`\n";
        assert!(
            says.contains("\"grafana.example.com\"") && says.ends_with(line),
            "{says}"
        );
        admin.hosts.clear();
        let says = host_refusal("<script>", &admin);
        assert!(
            says.contains("hosts: [\"NAME\"]") && !says.contains("script"),
            "{says}"
        );
        admin.page = false;
        assert!(host_refusal("a.b", &admin).contains("leave its `key` and `page`"));
    }
}

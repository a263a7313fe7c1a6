//! The proxies that the environment names, for the whole process: `HTTPS_PROXY`, `HTTP_PROXY` and
//! `NO_PROXY`. They are read once, at the start, and only if server.yaml says so.

use super::exempt::Exempt;
use super::{Proxy, ProxyChoice, SHAPE};
use crate::base::host::is_this_machine;
use crate::conf::secret_ref::STAND_IN;
use std::sync::Arc;

/// The variables, those in lower case first, as curl reads them.
const HTTPS: [&str; 2] = ["https_proxy", "HTTPS_PROXY"];
const HTTP: [&str; 2] = ["http_proxy", "HTTP_PROXY"];
const EXEMPT: [&str; 2] = ["no_proxy", "NO_PROXY"];
/// These are not read. They only decide the text of a warning.
const ALL: [&str; 2] = ["all_proxy", "ALL_PROXY"];

/// The proxies of the process. By default there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// The proxy to `https:` servers.
    https: Option<Arc<Proxy>>,
    /// The proxy to `http:` servers.
    http: Option<Arc<Proxy>>,
    exempt: Exempt,
    /// True if server.yaml says that the variables count.
    uses_environment: bool,
}

/// A warning about the environment.
#[derive(Debug, PartialEq, Eq)]
pub enum EnvironmentWarning {
    /// No variable names a proxy.
    NoProxy,
    /// Only `ALL_PROXY` names one, which is not read.
    OnlyAllProxy,
    /// This many entries of `NO_PROXY` match nothing.
    UselessExemptions(usize),
}

impl Proxies {
    /// Reads the environment through a function that returns the value of a variable, empty if it
    /// is not set. The error names the variable, and never its value.
    pub fn from_environment(
        mut variable: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<(Proxies, Vec<EnvironmentWarning>), String> {
        let https = read_proxy(first_set(HTTPS, &mut variable)?)?;
        let http = read_proxy(first_set(HTTP, &mut variable)?)?;
        let list = first_set(EXEMPT, &mut variable)?
            .map(|(_, list)| list)
            // A stand-in: the value was not read.
            .filter(|list| list != STAND_IN)
            .unwrap_or_default();
        let (exempt, wrong) = Exempt::parse(&list);
        let proxies = Proxies {
            https,
            http,
            exempt,
            uses_environment: true,
        };
        let missing = proxies
            .is_empty()
            .then(|| match first_set(ALL, &mut variable) {
                Ok(None) => EnvironmentWarning::NoProxy,
                Ok(Some(_)) | Err(_) => EnvironmentWarning::OnlyAllProxy,
            });
        let useless = (wrong > 0).then_some(EnvironmentWarning::UselessExemptions(wrong));
        Ok((proxies, missing.into_iter().chain(useless).collect()))
    }

    /// Returns the proxy through which a server is reached, if there is one. A choice of the
    /// account itself counts first, even for this machine. Otherwise this machine is never reached
    /// through a proxy.
    pub fn proxy_for(
        &self,
        choice: &ProxyChoice,
        tls: bool,
        host: &str,
        port: u16,
    ) -> Option<Arc<Proxy>> {
        match choice {
            ProxyChoice::Own(proxy) => Some(proxy.clone()),
            ProxyChoice::Never => None,
            ProxyChoice::ProcessDefault => {
                let proxy = if tls { &self.https } else { &self.http };
                proxy
                    .clone()
                    .filter(|_| !is_this_machine(host) && !self.exempt.has(host, port))
            }
        }
    }

    /// Returns whether `server.yaml` lets the variables decide.
    pub fn uses_environment(&self) -> bool {
        self.uses_environment
    }

    /// Returns whether there are no proxies.
    pub fn is_empty(&self) -> bool {
        self.https.is_none() && self.http.is_none()
    }

    /// Returns the proxies without passwords.
    pub fn without_secrets(&self) -> Proxies {
        let bare = |proxy: &Option<Arc<Proxy>>| Some(Arc::new(proxy.as_ref()?.without_secret()));
        Proxies {
            https: bare(&self.https),
            http: bare(&self.http),
            exempt: self.exempt.clone(),
            uses_environment: self.uses_environment,
        }
    }
}

/// Returns the first of these variables that is set, and its value.
fn first_set(
    names: [&'static str; 2],
    variable: &mut impl FnMut(&str) -> Result<String, String>,
) -> Result<Option<(&'static str, String)>, String> {
    for name in names {
        let value = variable(name).map_err(|_| format!("{name} is not UTF-8"))?;
        let value = value.trim_end_matches(['\r', '\n']);
        if !value.is_empty() {
            return Ok(Some((name, value.to_owned())));
        }
    }
    Ok(None)
}

fn read_proxy(found: Option<(&str, String)>) -> Result<Option<Arc<Proxy>>, String> {
    let Some((name, value)) = found else {
        return Ok(None);
    };
    let proxy = match value.as_str() {
        // The value is a stand-in if secrets are not read.
        STAND_IN => Ok(Proxy::assumed()),
        "none" => return Err(format!("{name} {SHAPE}; for no proxy unset it")),
        url if url.contains("://") => Proxy::parse(url),
        host => Proxy::parse(&format!("http://{host}")),
    };
    proxy
        .map(|proxy| Some(Arc::new(proxy)))
        .map_err(|why| format!("{name} {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<(Proxies, Vec<EnvironmentWarning>), String> {
        Proxies::from_environment(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            Ok(found
                .map(|(_, value)| (*value).to_owned())
                .unwrap_or_default())
        })
    }

    /// The proxies to an `https:` and to an `http:` server.
    fn both(proxies: &Proxies, host: &str) -> [Option<String>; 2] {
        [(true, 443), (false, 80)].map(|(tls, port)| {
            proxies
                .proxy_for(&ProxyChoice::ProcessDefault, tls, host, port)
                .map(|proxy| proxy.to_string())
        })
    }

    #[test]
    fn each_scheme_has_its_variable() {
        let [one, two] = ["http://one:1", "http://two:2"];
        for (variables, https, http) in [
            (vec![("HTTPS_PROXY", one)], Some(one), None),
            (vec![("HTTP_PROXY", one)], None, Some(one)),
            (
                vec![("https_proxy", one), ("HTTPS_PROXY", two)],
                Some(one),
                None,
            ),
            (
                vec![("https_proxy", ""), ("HTTPS_PROXY", two)],
                Some(two),
                None,
            ),
            (
                vec![("http_proxy", "one:1"), ("https_proxy", "u:p@two:2/")],
                Some(two),
                Some(one),
            ),
            (vec![("HTTPS_PROXY", one), ("NO_PROXY", "a.b")], None, None),
            (
                vec![
                    ("HTTPS_PROXY", one),
                    ("no_proxy", "c.d"),
                    ("NO_PROXY", "a.b"),
                ],
                Some(one),
                None,
            ),
            (
                vec![("https_proxy", "\r\n"), ("HTTPS_PROXY", "http://two:2\n")],
                Some(two),
                None,
            ),
            (
                vec![("ALL_PROXY", "socks5://x:1"), ("HTTPS_PROXY", one)],
                Some(one),
                None,
            ),
        ] {
            let (proxies, _) = read(&variables).expect("proxies");
            assert_eq!(
                both(&proxies, "a.b"),
                [https, http].map(|url| url.map(str::to_owned)),
                "{variables:?}"
            );
        }
    }

    #[test]
    fn this_machine_and_what_an_account_says_come_first() {
        let (proxies, _) = read(&[
            ("HTTPS_PROXY", "http://one:1"),
            ("HTTP_PROXY", "http://one:1"),
        ])
        .expect("proxies");
        for host in [
            "localhost",
            "a.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
        ] {
            assert_eq!(both(&proxies, host), [None, None], "{host}");
        }
        let own = ProxyChoice::parse("http://own:1").expect("a choice");
        assert_eq!(
            proxies
                .proxy_for(&own, true, "127.0.0.1", 443)
                .map(|proxy| proxy.to_string())
                .as_deref(),
            Some("http://own:1")
        );
        assert_eq!(
            proxies.proxy_for(&ProxyChoice::Never, true, "a.b", 443),
            None
        );
        assert_eq!(both(&Proxies::default(), "a.b"), [None, None]);
    }

    #[test]
    fn what_is_wrong_is_told_without_the_value() {
        for (name, value, why) in [
            (
                "HTTPS_PROXY",
                "socks5://u:s3cret@p:1",
                "HTTPS_PROXY is a SOCKS proxy",
            ),
            (
                "http_proxy",
                "http://u:s3cret@169.254.169.254",
                "http_proxy is a link-local, metadata",
            ),
            (
                "HTTP_PROXY",
                "http://u:s3cret@",
                "HTTP_PROXY must have a host",
            ),
            (
                "HTTPS_PROXY",
                "none",
                "HTTPS_PROXY must be a URL such as http://proxy.example.com:3128; for no proxy unset it",
            ),
        ] {
            let error = read(&[(name, value)]).expect_err(value);
            assert!(
                error.starts_with(why) && !error.contains("s3cret"),
                "{error}"
            );
        }
        let error = read(&[("HTTP_PROXY", "ftp://s3cret@p:1")]).expect_err("no proxy");
        assert_eq!(
            error,
            "HTTP_PROXY must be a URL such as http://proxy.example.com:3128"
        );
        assert_eq!(
            read(&[("ALL_PROXY", "http://u:s3cret@p:1")])
                .expect("none")
                .1,
            [EnvironmentWarning::OnlyAllProxy]
        );
        assert_eq!(
            read(&[]).expect("none"),
            (
                Proxies {
                    uses_environment: true,
                    ..Proxies::default()
                },
                vec![EnvironmentWarning::NoProxy]
            )
        );
        let useless = read(&[("HTTPS_PROXY", "p:1"), ("NO_PROXY", "http://a.b,c.d")])
            .expect("proxies")
            .1;
        assert_eq!(useless, [EnvironmentWarning::UselessExemptions(1)]);
    }

    #[test]
    fn no_password_is_shown() {
        let (proxies, _) = read(&[("HTTPS_PROXY", "http://u:s3cret@one:1")]).expect("proxies");
        assert!(!format!("{proxies:?}").contains("s3cret"));
        let bare = proxies
            .without_secrets()
            .proxy_for(&ProxyChoice::ProcessDefault, true, "a.b", 443)
            .expect("a proxy");
        assert_eq!(
            bare.credential().map(crate::base::secret::Secret::expose),
            Some(STAND_IN)
        );
        let (assumed, warnings) =
            Proxies::from_environment(|_| Ok(STAND_IN.to_owned())).expect("stand-ins");
        assert_eq!(
            (both(&assumed, "a.b")[0].as_deref(), warnings),
            (Some("(its URL is not read here)"), vec![])
        );
    }
}

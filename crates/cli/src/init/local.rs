//! Servers of models on this machine. A server is known by its answers, never by its port alone.

use std::sync::Arc;
use std::time::Duration;

use dialects::{Protocol, presets};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::accounts::{FoundAccount, server_format};
use portcullis::account::failure::Failure;
use portcullis::base::units::format_count;
use portcullis::catalog::listing::ListedNames;
use portcullis::conf::yaml::edit::NewValue;
use portcullis::exchange::lists;
use portcullis::exchange::upstream::Upstream;
use portcullis::live::ready_account::ReadyAccount;

/// The longest time for all usual ports together. They are asked side by side.
const PORTS_TIMEOUT: Duration = Duration::from_millis(250);
/// The longest time for the servers that were named.
const NAMED_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of a list of models.
const MAX_LIST_BYTES: usize = 4 << 20;
/// The address of LM Studio. Those of the others are in their presets.
const LM_STUDIO: &str = "http://127.0.0.1:1234";

/// What servers write into their lists as the owner of the models, and the name of the account.
const OWNERS: [(&str, &str); 4] = [
    ("vllm", "vllm"),
    ("llamacpp", "llama_cpp"),
    ("sglang", "sglang"),
    ("organization_owner", "lm_studio"),
];
/// It is known by a list of its own.
const OLLAMA: &str = "ollama";
/// It lists models as OpenAI does, and does not say what it is.
const UNKNOWN: &str = "local";

/// Why there is no server of models at an address. The first two are worth a note, even if nobody
/// has named the address.
pub(super) const NEEDS_KEY: &str = "wants a key (a Portcullis that runs already does; a provider \
                                    is found by OPENAI_API_KEY and OPENAI_BASE_URL)";
pub(super) const LATE: &str = "did not answer in time";
const FOREIGN: &str = "has no list of models";
const SILENT: &str = "does not answer: does the server run?";

/// The name for a server and its models, or why there is none.
type Probed = Result<(&'static str, ListedNames), &'static str>;

/// Returns the addresses on this machine at which servers of models usually are.
fn usual_addresses() -> impl Iterator<Item = String> {
    presets::ALL
        .iter()
        .filter(|preset| preset.key.is_none())
        .map(|preset| preset.base_url)
        .chain([LM_STUDIO])
        .map(str::to_owned)
}

/// Returns the URL of a server without its path. Many copy an address out of a URL.
fn server_url(address: &str) -> String {
    let url = address.trim_end_matches('/');
    let url = url.strip_suffix("/v1").unwrap_or(url);
    if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    }
}

/// Returns a server as an account: what it speaks follows from `kind`, the name for such servers.
fn server_account(
    name: String,
    kind: &'static str,
    url: &str,
    listed: Option<ListedNames>,
) -> Result<FoundAccount, String> {
    let path = if kind == OLLAMA { "" } else { "/v1" };
    let base_url = NewValue::text(format!("{url}{path}"));
    let mut fields = vec![server_format(kind), ("base_url", base_url)];
    let count = listed
        .as_ref()
        .map_or(0, |listed| listed.names.len() + listed.left_out);
    let seen = format!("answers at {url}, with {}", format_count(count, "model"));
    // Plain HTTP to a host of any name must be allowed. There is no key that others could read.
    let account = FoundAccount::new(name.clone(), fields.clone(), seen.clone()).or_else(|_| {
        fields.push(("insecure", NewValue::Bool(true)));
        FoundAccount::new(name, fields, seen)
    })?;
    Ok(FoundAccount { listed, ..account })
}

/// Returns the addresses to ask, those that are named or else the usual ones, and the longest time.
pub(super) fn addresses_to_ask(named: &[String]) -> (Vec<String>, Duration) {
    match named {
        [] => (usual_addresses().collect(), PORTS_TIMEOUT),
        named => (named.to_vec(), NAMED_TIMEOUT),
    }
}

/// Asks all servers at once. Returns the results in their order, each with its URL.
pub(super) async fn probe_servers(
    addresses: &[String],
    within: Duration,
) -> Result<Vec<(String, Result<FoundAccount, &'static str>)>, String> {
    let (upstream, due) = (Arc::new(Upstream::default()), Instant::now() + within);
    let mut running = JoinSet::new();
    for (nth, address) in addresses.iter().enumerate() {
        let url = server_url(address);
        let asked = server_account("server".to_owned(), UNKNOWN, &url, None)
            .map_err(|why| format!("--server: write an address such as 10.0.0.5:8000. {why}"))?;
        let upstream = upstream.clone();
        running.spawn(async move {
            let probed = timeout_at(due, probe_server(&upstream, &asked.ready_account)).await;
            (nth, url, probed.unwrap_or(Err(LATE)))
        });
    }
    let mut results = running.join_all().await;
    results.sort_by_key(|(nth, ..)| *nth);
    let (mut names, mut found) = (Vec::new(), Vec::new());
    for (_, url, probed) in results {
        let account = match probed {
            Ok((kind, listed)) => {
                let mut name = kind.to_owned();
                if names.contains(&name) {
                    name = format!("{name}-{}", names.len() + 1);
                }
                names.push(name.clone());
                Ok(server_account(name, kind, &url, Some(listed))?)
            }
            Err(why) => Err(why),
        };
        found.push((url, account));
    }
    Ok(found)
}

/// Asks a server for its models, as clients of OpenAI and of Ollama do.
async fn probe_server(upstream: &Upstream, server: &Arc<ReadyAccount>) -> Probed {
    let (models, tags) = tokio::join!(
        Box::pin(fetch_path(upstream, server, "/v1/models")),
        Box::pin(fetch_path(upstream, server, "/api/tags"))
    );
    let recognised = recognise_server(
        models.as_deref().unwrap_or_default(),
        tags.as_deref().unwrap_or_default(),
    );
    recognised.ok_or(match models {
        Err(failure) if matches!(failure.facts().status, Some(401 | 403)) => NEEDS_KEY,
        Err(Failure::Unreachable(_)) => SILENT,
        Ok(_) | Err(_) => FOREIGN,
    })
}

/// Returns what a server has at a path. The caller waits for a shorter time.
async fn fetch_path(
    upstream: &Upstream,
    server: &Arc<ReadyAccount>,
    path: &str,
) -> Result<Vec<u8>, Failure> {
    let due = Instant::now() + 2 * NAMED_TIMEOUT;
    lists::get_bytes(upstream, server, path, MAX_LIST_BYTES, due, &mut None).await
}

/// Recognises a server by its answers to a client of OpenAI and to one of Ollama. llama.cpp answers
/// both.
fn recognise_server(models: &[u8], tags: &[u8]) -> Option<(&'static str, ListedNames)> {
    let list: Value = serde_json::from_slice(models).unwrap_or_default();
    let owner = list.pointer("/data/0/owned_by").and_then(Value::as_str);
    let known = OWNERS.iter().find(|(name, _)| Some(*name) == owner);
    let (kind, names) = match (known, names_in("ollama", tags)) {
        (None, Some(names)) => (OLLAMA, names),
        (known, _) => (
            known.map_or(UNKNOWN, |(_, kind)| kind),
            names_in("openai", models)?,
        ),
    };
    Some((kind, ListedNames::new(names)))
}

/// Returns the names in a dialect's list of models.
fn names_in(dialect: &str, body: &[u8]) -> Option<Vec<String>> {
    let listing = Protocol::find(dialect)?.endpoints.listing?;
    Some(listing.read_page(body)?.names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENAI: &str = r#"{"object":"list","data":[{"id":"b"},{"id":"a","object":"model"}]}"#;
    const TAGS: &str = r#"{"models":[{"name":"llama3.2:3b","model":"llama3.2:3b"}]}"#;

    fn owned(owner: &str) -> String {
        format!(r#"{{"object":"list","data":[{{"id":"m","owned_by":"{owner}"}}]}}"#)
    }

    fn recognise(models: &str, tags: &str) -> Option<(&'static str, String)> {
        let (kind, listed) = recognise_server(models.as_bytes(), tags.as_bytes())?;
        Some((kind, listed.names.join(" ")))
    }

    #[test]
    fn a_server_is_known_by_its_answers() {
        for (owner, kind) in OWNERS {
            let expected = Some((kind, "m".to_owned()));
            assert_eq!(recognise(&owned(owner), "404"), expected);
            // llama.cpp has the list of Ollama, too.
            assert_eq!(recognise(&owned(owner), TAGS), expected);
        }
        let ollama = Some(("ollama", "llama3.2:3b".to_owned()));
        assert_eq!(recognise(&owned("library"), TAGS), ollama);
        assert_eq!(recognise("", TAGS), ollama);
        assert_eq!(recognise(OPENAI, ""), Some(("local", "a b".to_owned())));
        for other in [
            "",
            "<html>",
            "{}",
            r#"{"error":{"code":"missing_key"}}"#,
            "[1]",
        ] {
            assert_eq!(recognise(other, other), None, "{other}");
        }
    }

    #[test]
    fn every_kind_is_an_account_of_the_catalog() {
        for (kind, format) in [
            ("vllm", ("preset", "vllm")),
            ("llama_cpp", ("preset", "llama_cpp")),
            ("sglang", ("preset", "sglang")),
            ("lm_studio", ("dialect", "openai")),
            (OLLAMA, ("dialect", "ollama")),
            (UNKNOWN, ("dialect", "openai")),
        ] {
            assert_eq!(server_format(kind), (format.0, format.1.into()));
            let account = server_account("a".to_owned(), kind, "http://127.0.0.1:1", None);
            let account = account.unwrap_or_else(|why| panic!("{kind}: {why}"));
            assert!(account.is_own() && account.is_nearby() && account.has_list());
        }
    }

    #[test]
    fn a_named_server_may_have_any_name() {
        for (url, is_allowed) in [("http://10.0.0.5:1", false), ("http://gpu.example:1", true)] {
            let account = server_account("a".to_owned(), UNKNOWN, url, None);
            let entry = account.unwrap_or_else(|why| panic!("{url}: {why}")).entry;
            assert_eq!(entry.flow().contains("insecure: true"), is_allowed, "{url}");
        }
    }

    #[test]
    fn a_long_list_is_counted_whole() {
        let listed = ListedNames::new((0..6_000).map(|nth| format!("m{nth}")));
        let account = server_account("a".to_owned(), UNKNOWN, "http://127.0.0.1:1", Some(listed));
        let seen = account.expect("an account").seen;
        assert!(seen.ends_with("with 6000 models"), "{seen}");
    }

    #[test]
    fn an_address_may_be_a_url() {
        for (address, url) in [
            ("10.0.0.5:8000", "http://10.0.0.5:8000"),
            ("http://localhost:1234/v1/", "http://localhost:1234"),
            ("https://gpu.example/v1", "https://gpu.example"),
        ] {
            assert_eq!(server_url(address), url);
        }
    }

    /// As many servers as there are usual ports take connections, and say nothing.
    #[tokio::test]
    async fn servers_that_hang_are_waited_for_together() {
        assert!(PORTS_TIMEOUT <= Duration::from_millis(300));
        let servers: Vec<_> = usual_addresses()
            .map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let named: Vec<String> = servers
            .iter()
            .map(|server| server.local_addr().unwrap().to_string())
            .collect();
        let results = probe_servers(&named, PORTS_TIMEOUT).await.expect("results");
        assert_eq!(results.len(), servers.len());
        for (_, result) in results {
            assert_eq!(result.err(), Some(LATE));
        }
    }
}

//! The status of a running gateway is fetched, or read from the file that it was saved to.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::http::{self, AdminRequest, FetchError, MAX_ANSWER_BYTES, PageUrl};
use portcullis::base::secret::Secret;
use portcullis::explain::{Input, Instance, remaining_text};

/// The longest wait for the admin listener, which is quick.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);
const URL_HINT: &str = ". For any other URL save the page with curl, and give the file";

/// Fetches a status from a URL, or reads the file that it was saved to.
pub(crate) fn read_status(
    from: &str,
    conf: &Path,
    key: Option<Secret>,
) -> Result<Instance, FetchError> {
    let (source, json) = if from.contains("://") {
        let keys = http::key_lookup(conf, key);
        (
            from.to_owned(),
            http::send_to_url(
                PageUrl {
                    url: from,
                    usual_path: "/status",
                    hint: URL_HINT,
                },
                AdminRequest::Get,
                &keys,
                PAGE_TIMEOUT,
            )?,
        )
    } else {
        let (age, json) =
            read_saved(from).map_err(|why| format!("the file cannot be read: {why}"))?;
        let age = age
            .map(|age| format!(", saved {} ago,", remaining_text(age)))
            .unwrap_or_default();
        (format!("{from}{age}"), json)
    };
    parse_status(source, &json).map_err(FetchError::from)
}

fn read_saved(path: &str) -> io::Result<(Option<Duration>, Vec<u8>)> {
    let file = File::open(path)?;
    let age = file
        .metadata()?
        .modified()
        .ok()
        .and_then(|saved| saved.elapsed().ok());
    let mut json = Vec::new();
    file.take(MAX_ANSWER_BYTES).read_to_end(&mut json)?;
    Ok((age, json))
}

/// Reads the status of this source.
fn parse_status(source: String, json: &[u8]) -> Result<Instance, String> {
    let status = serde_json::from_slice(json).map_err(|why| {
        format!("this is not a /status page of this version of Portcullis: {why}")
    })?;
    Ok(Instance { source, status })
}

/// The sender of a request: the id of its key, and the name of the door that it comes in by.
#[derive(Clone, Copy)]
pub(super) struct Sender<'a> {
    pub(super) key: &'a str,
    pub(super) door: &'a str,
}

/// Asks the running gateway what would become of the request: only it knows what is used of the
/// limits. The error says why it could not be asked.
pub(super) fn ask_gateway(
    from: &str,
    sender: Sender<'_>,
    input: &Input,
    key: &dyn Fn(SocketAddr) -> Option<Secret>,
) -> Result<Value, String> {
    let (scheme, rest) = from.split_once("://").unwrap_or_default();
    let body: &RawValue = serde_json::from_slice(&input.body)
        .map_err(|_| "the request is not JSON, so the gateway was not asked".to_owned())?;
    let headers = input
        .headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let mut written: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in headers {
        // A header may stand several times.
        let all = written.entry(name).or_default();
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(value);
    }
    let question = json!({
        "key": sender.key, "door": sender.door, "path_model": input.asked.model, "stream": input.asked.stream,
        "headers": written, "body": body,
    });
    let origin = format!("{scheme}://{}", rest.split('/').next().unwrap_or_default());
    let url = format!("{origin}/explain");
    let question = question.to_string();
    let page = PageUrl {
        url: &url,
        usual_path: "/explain",
        hint: "",
    };
    let request = AdminRequest::Post(question.as_bytes());
    let answer = http::send_to_url(page, request, key, PAGE_TIMEOUT).map_err(|error| error.why)?;
    serde_json::from_slice(&answer)
        .map_err(|_| format!("{url} answers with something else than an explanation"))
}

//! The status of a running gateway is fetched, or read from the file that it was saved to.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use crate::cli::http::{self, LARGEST};
use crate::explain::{Instance, left};

/// The longest wait for the admin listener, which is quick.
const PATIENCE: Duration = Duration::from_secs(5);
const OTHERWISE: &str = ". For any other URL save the page with curl, and give the file";

/// Fetches a status from a URL, or reads the file that it was saved to.
pub(in crate::cli) fn read(from: &str, conf: &Path) -> Result<Instance, String> {
    let (source, json) = if from.contains("://") {
        (
            from.to_owned(),
            http::of_admin((from, "/status"), OTHERWISE, conf, PATIENCE).map_err(|why| format!("--status: {why}"))?,
        )
    } else {
        let (age, json) = saved(from).map_err(|why| format!("--status: the file cannot be read: {why}"))?;
        let age = age.map(|age| format!(", saved {} ago,", left(age))).unwrap_or_default();
        (format!("{from}{age}"), json)
    };
    of(source, &json)
}

fn saved(path: &str) -> io::Result<(Option<Duration>, Vec<u8>)> {
    let file = File::open(path)?;
    let age = file.metadata()?.modified().ok().and_then(|saved| saved.elapsed().ok());
    let mut json = Vec::new();
    file.take(LARGEST).read_to_end(&mut json)?;
    Ok((age, json))
}

/// Reads the status of this source.
fn of(source: String, json: &[u8]) -> Result<Instance, String> {
    let status = serde_json::from_slice(json)
        .map_err(|why| format!("--status: this is not a /status page of this version of Portcullis: {why}"))?;
    Ok(Instance { source, status })
}

//! The rows of requests: lines of the access log, as they are kept in memory.

use super::query::LiveQuery;
use crate::access_log::{Recent, RecentLine, end_user_hash};
use serde::Deserialize;
use std::borrow::Cow;

/// The fields by which a request is found.
#[derive(Deserialize)]
struct Findable<'l> {
    #[serde(borrow)]
    request_id: Cow<'l, str>,
    #[serde(borrow)]
    session: Option<Cow<'l, str>>,
    #[serde(borrow)]
    caller: Option<Cow<'l, str>>,
    #[serde(borrow)]
    key: Option<Cow<'l, str>>,
    #[serde(borrow)]
    model: Option<Cow<'l, str>>,
    #[serde(borrow)]
    account: Option<Cow<'l, str>>,
    #[serde(borrow)]
    end_user: Option<Cow<'l, str>>,
    #[serde(borrow)]
    attempts: Vec<AskedAccount<'l>>,
}

#[derive(Deserialize)]
struct AskedAccount<'l> {
    #[serde(borrow)]
    account: Cow<'l, str>,
}

/// A text by which requests are found.
struct SearchText<'q> {
    text: &'q str,
    /// The text as it stands in a line.
    quoted: Vec<u8>,
    /// The hash of an end user with this name.
    hash: String,
}

impl<'q> SearchText<'q> {
    fn new(text: &'q str) -> SearchText<'q> {
        let mut written = Vec::new();
        dialects::wire::json::escape_into(text, &mut written);
        SearchText {
            text,
            quoted: written,
            hash: end_user_hash(text),
        }
    }

    /// Returns whether a line is one that is looked for.
    fn is_in(&self, line: &[u8]) -> bool {
        let has = |text: &[u8]| memchr::memmem::find(line, text).is_some();
        // Few lines have the text anywhere, so few are read.
        if !has(&self.quoted) && !has(self.hash.as_bytes()) {
            return false;
        }
        let Ok(line) = serde_json::from_slice::<Findable<'_>>(line) else {
            return false;
        };
        let Findable {
            request_id,
            session,
            caller,
            key,
            model,
            account,
            end_user,
            attempts,
        } = &line;
        let named = [session, caller, key, model, account]
            .into_iter()
            .flatten()
            .chain([request_id]);
        let mut names = named.chain(attempts.iter().map(|attempt| &attempt.account));
        let is_end_user = |user: &Cow<'_, str>| *user == self.hash || *user == self.text;
        names.any(|name| name.contains(self.text)) || end_user.as_ref().is_some_and(is_end_user)
    }
}

/// Returns the lines that a query wants, the newest first. `newest` is the number of the newest
/// line: whoever has seen a later one has seen those of a process before this one.
pub(super) fn wanted_lines(recent: &Recent, query: &LiveQuery, newest: u64) -> Vec<RecentLine> {
    let after = if query.after > newest { 0 } else { query.after };
    let before = query.before.unwrap_or(newest + 1);
    let mut lines = if query.failures {
        recent.failures(after, before)
    } else {
        recent.lines(after, before)
    };
    if !query.find.is_empty() {
        let sought = SearchText::new(&query.find);
        lines.retain(|line| sought.is_in(&line.json));
    }
    lines
}

/// Returns the newest line of the request with this id.
pub(super) fn find_by_id(recent: &Recent, id: &str) -> Option<String> {
    let mut written = Vec::new();
    dialects::wire::json::escape_into(id, &mut written);
    for newest_lines in [Recent::lines, Recent::failures] {
        let lines = newest_lines(recent, 0, u64::MAX).into_iter();
        let mut lines = lines.filter(|line| memchr::memmem::find(&line.json, &written).is_some());
        let found = lines.find(|line| {
            let line = serde_json::from_slice::<Findable<'_>>(&line.json);
            line.is_ok_and(|line| line.request_id == id)
        });
        if let Some(line) = found {
            return Some(request_row(&line) + "\n");
        }
    }
    None
}

/// Writes a line as a row: with its number first.
pub(super) fn request_row(line: &RecentLine) -> String {
    let fields = line.json.get(1..).unwrap_or_default();
    format!("{{\"seq\":{},{}", line.seq, String::from_utf8_lossy(fields))
}

//! `/live` is what the page of operators shows: one answer of at most 64 KiB, asked for each second
//! while somebody looks.
//!
//! What all viewers see is gathered into a `LiveView`, at most twice a second and only when
//! somebody asks. **Invariant:** an answer is never longer than [`MAX_ANSWER_BYTES`], whatever
//! names, texts and numbers there are. What does not fit is counted in `more`.

mod caller;
mod callers;
mod configuration;
mod context;
mod figures;
mod models;
mod query;
mod requests;
mod rows;
mod view;

use crate::base::calendar;
use crate::base::clock::Clock;
use crate::base::lock::Lock;
use crate::desk::record::Books;
use crate::exchange::backends::Backends;
use crate::operator::watch::Watch;
use query::{LiveQuery, Section};
use rows::Room;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use view::LiveView;

/// The most bytes of an answer.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// The time for which all viewers see the same. What has changed is on every page within two
/// seconds, since pages ask each second.
const MAX_VIEW_AGE: Duration = Duration::from_millis(700);

/// The query for the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LivePart {
    /// `/live`
    All,
    /// `/live/caller`
    Caller,
    /// `/live/request`
    Request,
}

/// The handler of `/live`.
pub struct LivePage {
    books: Arc<Books>,
    backends: Arc<Backends>,
    watch: Arc<Watch>,
    started: Instant,
    last_view: Lock<Option<Arc<LiveView>>>,
}

impl LivePage {
    /// Makes the page of a process. `started` is the time at which it began to serve.
    pub fn new(
        books: Arc<Books>,
        backends: Arc<Backends>,
        watch: Arc<Watch>,
        started: Instant,
    ) -> LivePage {
        LivePage {
            books,
            backends,
            watch,
            started,
            last_view: Lock::default(),
        }
    }

    /// Returns the status, the content type and the body of an answer.
    pub async fn page(&self, part: LivePart, query: &str) -> (u16, &'static str, String) {
        let found = match part {
            LivePart::All => self.answer(query).map(Some),
            LivePart::Request => self.request(query),
            LivePart::Caller => match query::only_value(query, "id") {
                Ok(id) => {
                    let store = self.backends.store.as_ref();
                    Ok(caller::describe_caller(
                        &self.books.live,
                        store,
                        &id,
                        calendar::now_millis(),
                    )
                    .await)
                }
                Err(why) => Err(why),
            },
        };
        match found {
            Ok(Some(json)) => (200, "application/json", json),
            Ok(None) => (
                404,
                "text/plain",
                "nothing has this name, or it is not kept any more\n".to_owned(),
            ),
            Err(why) => (400, "text/plain", format!("{why}\n")),
        }
    }

    /// Answers a question, which is the query of its URL.
    fn answer(&self, query: &str) -> Result<String, String> {
        let query = LiveQuery::from_url(query)?;
        let view = self.view();
        let recent = self.books.access_log.recent();
        let seq = recent.newest_number();
        let mut text = String::with_capacity(MAX_ANSWER_BYTES);
        text.push_str(&format!("{{\"seq\":{seq},{}", view.head));
        for section in [Section::Figures, Section::Configuration] {
            if query.shows(section) {
                text.push_str(if section == Section::Figures {
                    &view.figures
                } else {
                    &view.configuration
                });
            }
        }
        // What one section leaves, the next may take.
        let mut room = Room::new(MAX_ANSWER_BYTES.saturating_sub(text.len()), &query);
        if query.shows(Section::Models) {
            let (rows, offered, total) = find_rows(&view.models, &query.models, query.models_from);
            room.write_section(
                &mut text,
                Section::Models,
                offered,
                Some(total),
                rows.map(|row| row.json(&view.context).into()),
            );
        }
        if query.shows(Section::Callers) {
            let (rows, offered, total) =
                find_rows(&view.callers, &query.callers, query.callers_from);
            room.write_section(
                &mut text,
                Section::Callers,
                offered,
                Some(total),
                rows.map(|row| row.json(&view.context).into()),
            );
        }
        if query.shows(Section::Requests) {
            let lines = requests::wanted_lines(recent, &query, seq);
            room.write_section(
                &mut text,
                Section::Requests,
                lines.len(),
                None,
                lines.iter().map(|line| requests::request_row(line).into()),
            );
        }
        text.push_str("}\n");
        Ok(text)
    }

    /// Returns the whole line of a request, if it is kept.
    fn request(&self, query: &str) -> Result<Option<String>, String> {
        let id = query::only_value(query, "id")?;
        Ok(requests::find_by_id(self.books.access_log.recent(), &id))
    }

    /// Returns what all viewers see now.
    fn view(&self) -> Arc<LiveView> {
        let mut last = self.last_view.lock();
        let now = Clock::now();
        if let Some(view) = last
            .as_ref()
            .filter(|view| now.saturating_duration_since(view.context.now) < MAX_VIEW_AGE)
        {
            return view.clone();
        }
        let view = Arc::new(LiveView::gather(self, now, calendar::now_millis()));
        *last = Some(view.clone());
        view
    }
}

/// A row that is found by its name.
trait HasName {
    /// Returns the name.
    fn name(&self) -> &str;
}

/// Returns the rows whose names have a text, from a place on: with how many there are from there,
/// and in all.
fn find_rows<'r, R: HasName>(
    rows: &'r [R],
    text: &'r str,
    from: usize,
) -> (impl Iterator<Item = &'r R>, usize, usize) {
    let is_found = move |row: &&R| text.is_empty() || row.name().contains(text);
    let found = move || rows.iter().filter(is_found);
    let total = if text.is_empty() {
        rows.len()
    } else {
        found().count()
    };
    (found().skip(from), total.saturating_sub(from), total)
}

/// Writes a value as JSON. Numbers, texts and lists of them always can be written.
fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;

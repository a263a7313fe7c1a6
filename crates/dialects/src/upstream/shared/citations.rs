//! Citations as providers write them. An answer does not fail because of one: a citation that
//! cannot be read is one of nothing, so that the caller is told of its loss.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::lenient::{Count, object};
use super::text::Text;
use crate::neutral::{Citation, CitedPlace, Emit, Event};

/// Reads a list of citations.
pub(crate) fn list<'a, T: Deserialize<'a> + Default>(list: Option<&'a RawValue>) -> Vec<T> {
    let Some(list) = list.map(RawValue::get).filter(|list| !matches!(*list, "null" | "{}" | "false" | "\"\"")) else {
        return Vec::new();
    };
    let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(list) else { return vec![T::default()] };
    entries.into_iter().map(|entry| object(entry.get().as_bytes()).unwrap_or_default()).collect()
}

/// An annotation of OpenAI's: of a page of the web, or of a file.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Annotation<'a> {
    #[serde(borrow)]
    url: Text<'a>,
    title: Text<'a>,
    filename: Text<'a>,
    file_id: Text<'a>,
    start_index: Count,
    end_index: Count,
    /// Chat completions have the members of a citation in an object of their own.
    url_citation: Option<&'a RawValue>,
}

impl Annotation<'_> {
    /// Emits the annotation. `place` makes a place of the characters that it names.
    pub(crate) fn emit(&self, choice: u32, place: impl FnOnce(std::ops::Range<usize>) -> CitedPlace, emit: Emit<'_>) {
        let inner: Option<Annotation<'_>> = self.url_citation.and_then(|inner| object(inner.get().as_bytes()));
        let all = inner.as_ref().unwrap_or(self);
        let (start, end) = (number(all.start_index), number(all.end_index));
        let place = start.zip(end).filter(|(start, end)| start <= end).map(|(start, end)| place(start..end));
        let title = all.title.filled().or(all.filename.filled()).or(all.file_id.filled()).unwrap_or_default();
        let citation = Citation { url: all.url.as_str(), title, quote: "", place: place.unwrap_or(CitedPlace::End) };
        emit(Event::Citation(choice, &citation));
    }
}

/// Returns a count as a number that may be an index.
pub(crate) fn number(count: Count) -> Option<usize> {
    count.0.and_then(|count| usize::try_from(count).ok())
}

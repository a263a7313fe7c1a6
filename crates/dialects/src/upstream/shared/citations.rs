//! Citations as providers write them. An answer does not fail because of a citation. A citation
//! that cannot be read becomes an empty one, so that the caller learns of its loss.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::lenient::{Count, read_object};
use super::text::Text;
use crate::neutral::{Citation, CitedRange, Emit, Event};

/// Reads a list of citations. One object that stands alone is a list of one.
pub(crate) fn read_list<'a, T: Deserialize<'a> + Default>(list: Option<&'a RawValue>) -> Vec<T> {
    let Some(list) = list
        .map(RawValue::get)
        .filter(|list| !matches!(*list, "null" | "{}" | "false" | "\"\""))
    else {
        return Vec::new();
    };
    match serde_json::from_str::<Vec<&RawValue>>(list) {
        Ok(entries) => entries
            .into_iter()
            .map(|entry| read_object(entry.get().as_bytes()).unwrap_or_default())
            .collect(),
        Err(_) => vec![read_object(list.as_bytes()).unwrap_or_default()],
    }
}

/// Returns a source's address if it is one of the web, else an empty text.
pub(crate) fn web_address(address: &str) -> &str {
    let is_web = address.starts_with("https://") || address.starts_with("http://");
    if is_web { address } else { "" }
}

/// An open block of a stream's text, and its citations. They may come before the text, and wait for
/// the block's end.
#[derive(Debug, Default)]
pub(crate) struct CitedBlock {
    /// The bytes of the text so far.
    pub(crate) bytes: usize,
    /// The citations, as JSON texts.
    waiting: Vec<Box<str>>,
    waiting_bytes: usize,
}

/// The most bytes of citations that wait. Those after them stand where they come.
const MOST_WAITING: usize = 1 << 20;

impl CitedBlock {
    /// Takes a citation. `emit_one` reads and emits one.
    pub(crate) fn take(&mut self, citation: &RawValue, emit_one: EmitOne, emit: Emit<'_>) {
        self.waiting_bytes += citation.get().len() + size_of::<Box<str>>();
        if self.waiting_bytes > MOST_WAITING {
            return emit_one(citation.get(), self.bytes, emit);
        }
        self.waiting.push(citation.get().into());
    }

    /// Emits the citations, as the text has ended.
    pub(crate) fn end(&mut self, emit_one: EmitOne, emit: Emit<'_>) {
        for citation in std::mem::take(&mut self.waiting) {
            emit_one(&citation, self.bytes, emit);
        }
        *self = Self::default();
    }
}

/// Reads a citation from its JSON text, and emits it for so many bytes at the end of the text.
pub(crate) type EmitOne = fn(&str, usize, Emit<'_>);

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
    /// Emits the annotation. `to_cited_range` makes a place of the characters that it names.
    pub(crate) fn emit(
        &self,
        choice: u32,
        to_cited_range: impl FnOnce(std::ops::Range<usize>) -> CitedRange,
        emit: Emit<'_>,
    ) {
        let inner: Option<Annotation<'_>> = self
            .url_citation
            .and_then(|inner| read_object(inner.get().as_bytes()));
        let all = inner.as_ref().unwrap_or(self);
        let (start, end) = (
            count_to_index(all.start_index),
            count_to_index(all.end_index),
        );
        let cited_range = start
            .zip(end)
            .filter(|(start, end)| start <= end)
            .map(|(start, end)| to_cited_range(start..end));
        let title = all
            .title
            .filled()
            .or(all.filename.filled())
            .or(all.file_id.filled())
            .unwrap_or_default();
        let citation = Citation {
            url: all.url.as_str(),
            title,
            quote: "",
            cited_range: cited_range.unwrap_or(CitedRange::End),
        };
        emit(Event::Citation(choice, &citation));
    }
}

/// Returns a count as a number that may be an index.
pub(crate) fn count_to_index(count: Count) -> Option<usize> {
    count.0.and_then(|count| usize::try_from(count).ok())
}

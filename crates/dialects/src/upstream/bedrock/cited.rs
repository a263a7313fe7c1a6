//! The citations of an answer's text. A source is a page of the web, a result of the caller's own
//! search, or a document of the request.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::neutral::{Citation, CitedRange, Emit, Event};
use crate::upstream::shared::citations::{read_list, web_address};
use crate::upstream::shared::lenient::{Object, read_object};
use crate::upstream::shared::text::Text;

/// A block of text with its sources.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CitedContent<'a> {
    #[serde(borrow)]
    content: Option<Vec<Object<CitedText<'a>>>>,
    citations: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CitedText<'a> {
    #[serde(borrow)]
    text: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SourceCitation<'a> {
    #[serde(borrow)]
    title: Text<'a>,
    /// The name of the source in the caller's search. It may be a URL.
    source: Text<'a>,
    source_content: Option<Vec<Object<CitedText<'a>>>>,
    location: Option<Object<Location<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Location<'a> {
    #[serde(borrow)]
    web: Option<Object<Page<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Page<'a> {
    #[serde(borrow)]
    url: Text<'a>,
    domain: Text<'a>,
}

impl CitedContent<'_> {
    /// Emits the text, and its citations.
    pub(super) fn emit(&self, emit: Emit<'_>) {
        let mut bytes = 0;
        for piece in self.content.iter().flatten() {
            bytes += piece.text.as_str().len();
            piece.text.emit(|text| Event::Text(0, text), emit);
        }
        for citation in read_list::<SourceCitation<'_>>(self.citations) {
            citation.emit(bytes, emit);
        }
    }
}

/// Emits a citation from its JSON text, for so many bytes at the end of the text.
pub(super) fn emit_citation(json: &str, bytes: usize, emit: Emit<'_>) {
    read_object::<SourceCitation<'_>>(json.as_bytes())
        .unwrap_or_default()
        .emit(bytes, emit);
}

impl SourceCitation<'_> {
    fn emit(&self, bytes: usize, emit: Emit<'_>) {
        let page = self
            .location
            .as_ref()
            .and_then(|location| location.web.as_ref());
        let (url, domain) = page.map_or((None, None), |page| {
            (page.url.filled(), page.domain.filled())
        });
        let quote: String = self
            .source_content
            .iter()
            .flatten()
            .map(|piece| piece.text.as_str())
            .collect();
        let url = url.unwrap_or_else(|| web_address(self.source.as_str()));
        let name = domain.or(self.source.filled().filter(|_| url.is_empty()));
        let citation = Citation {
            url,
            title: self.title.filled().or(name).unwrap_or_default(),
            quote: &quote,
            cited_range: CitedRange::LastBytes(bytes),
        };
        emit(Event::Citation(0, &citation));
    }
}

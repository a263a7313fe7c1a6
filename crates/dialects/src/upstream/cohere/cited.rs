//! The citations of an answer's text. Each is for some characters of the text, and has one source
//! or several: documents of the request, and results of tools. A source has the members that it was
//! given by the caller, and among them may be a URL.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::neutral::{Citation, CitedRange, Emit, Event};
use crate::upstream::shared::citations::{count_to_index, read_list, web_address};
use crate::upstream::shared::lenient::{Count, read_object};
use crate::upstream::shared::text::Text;

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpanCitation<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    start: Count,
    end: Count,
    sources: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CitedSource<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    document: Option<&'a RawValue>,
    tool_output: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SourceMembers<'a> {
    #[serde(borrow)]
    url: Text<'a>,
    title: Text<'a>,
}

/// Emits citations: a list, or the one of an event.
pub(super) fn emit_all(citations: Option<&RawValue>, emit: Emit<'_>) {
    for citation in read_list::<SpanCitation<'_>>(citations) {
        citation.emit(emit);
    }
}

/// Emits a citation that cannot be read, so that the caller learns of its loss.
pub(super) fn emit_unreadable(emit: Emit<'_>) {
    emit(Event::Citation(0, &Citation::default()));
}

impl SpanCitation<'_> {
    fn emit(&self, emit: Emit<'_>) {
        let sources: Vec<CitedSource<'_>> = read_list(self.sources);
        // No format can cite for thinking or for a plan.
        let is_of_text = matches!(self.kind.as_str(), "" | "TEXT_CONTENT");
        if !is_of_text || sources.is_empty() {
            return emit_unreadable(emit);
        }
        let range = count_to_index(self.start)
            .zip(count_to_index(self.end))
            .filter(|(start, end)| start <= end);
        let cited_range = range.map_or(CitedRange::End, |(start, end)| {
            CitedRange::Characters(start..end)
        });
        for source in sources {
            source.emit(cited_range.clone(), emit);
        }
    }
}

impl CitedSource<'_> {
    fn emit(&self, cited_range: CitedRange, emit: Emit<'_>) {
        let members = self
            .document
            .or(self.tool_output)
            .and_then(|members| read_object(members.get().as_bytes()));
        let members: SourceMembers<'_> = members.unwrap_or_default();
        let url = web_address(members.url.as_str());
        // An id such as `doc:0` is no title of a page.
        let id = self.id.filled().filter(|_| url.is_empty());
        let title = members.title.filled().or(id).unwrap_or_default();
        emit(Event::Citation(
            0,
            &Citation {
                url,
                title,
                quote: "",
                cited_range,
            },
        ));
    }
}

//! The sources of a candidate's text. Google's servers list all sources at the candidate's end.

use crate::neutral::citation::PlacedCitation;
use crate::wire::json::Writer;

/// The most sources of a candidate, and the most places that have one.
const MAX_SUPPORTS: usize = 1_000;

/// The sources, and the places of the text that have them.
#[derive(Debug, Default)]
pub(super) struct Grounding {
    /// Each source once, as JSON text.
    chunks: Vec<String>,
    /// The start and the end of each place in bytes of the text, and the number of its source.
    supports: Vec<(usize, usize, usize)>,
}

impl Grounding {
    /// Takes a citation. Returns whether the format can show it.
    pub(super) fn take(&mut self, citation: &PlacedCitation<'_>) -> bool {
        let Some(chunk) = source_chunk(citation) else {
            return false;
        };
        let known = self.chunks.iter().position(|known| *known == chunk);
        if self.supports.len() >= MAX_SUPPORTS {
            return false;
        }
        let chunk_index = known.unwrap_or(self.chunks.len());
        if known.is_none() {
            self.chunks.push(chunk);
        }
        let support = (citation.bytes.start, citation.bytes.end, chunk_index);
        if !self.supports.contains(&support) {
            self.supports.push(support);
        }
        true
    }

    /// Appends the sources, as a member that is not the first.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if self.chunks.is_empty() {
            return;
        }
        let mut w = Writer::default();
        w.object(|w| {
            w.key("groundingChunks")
                .each(&self.chunks, |w, chunk| w.raw(chunk));
            w.key("groundingSupports")
                .each(&self.supports, |w, (start, end, chunk)| {
                    w.object(|w| {
                        w.key("segment").object(|w| {
                            w.key("startIndex").number(*start as u64);
                            w.key("endIndex").number(*end as u64);
                        });
                        w.key("groundingChunkIndices")
                            .array(|w| w.number(*chunk as u64));
                    });
                });
        });
        out.extend_from_slice(br#","groundingMetadata":"#);
        out.append(&mut w.into_bytes());
    }
}

/// Returns a source as JSON text: a page of the web, or a text that the caller gave.
fn source_chunk(citation: &PlacedCitation<'_>) -> Option<String> {
    let source = citation.source;
    let mut w = Writer::default();
    match (source.url, source.title, source.quote) {
        ("", "", "") => return None,
        ("", title, quote) => w.object(|w| {
            w.key("retrievedContext")
                .object(|w| w.texts([("title", title), ("text", quote)]));
        }),
        (url, title, _) => w.object(|w| {
            w.key("web")
                .object(|w| w.texts([("uri", url), ("title", title)]));
        }),
    }
    String::from_utf8(w.into_bytes()).ok()
}

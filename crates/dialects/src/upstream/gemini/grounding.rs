//! The sources of a candidate's text: pages that Google found, or documents that it was given.
//! Places of the text are bytes of UTF-8.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::neutral::{Citation, CitedRange, Emit, Event};
use crate::upstream::shared::citations::{count_to_index, read_list, web_address};
use crate::upstream::shared::lenient::{Count, Object, read_object};
use crate::upstream::shared::text::Text;

/// Hashes of the citations that were emitted: each chunk of a stream may repeat the sources.
#[derive(Debug, Default)]
pub(super) struct CitedAlready(BTreeSet<u64>);

impl CitedAlready {
    /// Emits a citation that was not emitted yet.
    fn emit_new(&mut self, choice: u32, citation: &Citation<'_>, emit: Emit<'_>) {
        if self.is_new(citation) {
            emit(Event::Citation(choice, citation));
        }
    }

    fn is_new(&mut self, citation: &Citation<'_>) -> bool {
        let mut hash = DefaultHasher::new();
        (citation.url, citation.title).hash(&mut hash);
        if let CitedRange::Bytes(range) = &citation.cited_range {
            (range.start, range.end).hash(&mut hash);
        }
        self.0.len() < MAX_SUPPORTS && self.0.insert(hash.finish())
    }
}

/// The most places with a source.
const MAX_SUPPORTS: usize = 4_096;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    grounding_chunks: Option<&'a RawValue>,
    grounding_supports: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow)]
    web: Option<Object<Source<'a>>>,
    retrieved_context: Option<Object<Source<'a>>>,
    maps: Option<Object<Source<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Source<'a> {
    #[serde(borrow)]
    uri: Text<'a>,
    title: Text<'a>,
    text: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Support<'a> {
    segment: Option<Object<Segment>>,
    #[serde(borrow)]
    grounding_chunk_indices: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Segment {
    start_index: Count,
    end_index: Count,
}

/// Emits the sources of a candidate. With its last ones, `is_last`, sources follow that are for no
/// place of the text.
pub(super) fn emit_sources(
    metadata: &RawValue,
    is_last: bool,
    choice: u32,
    cited: &mut CitedAlready,
    emit: Emit<'_>,
) {
    let Some(metadata) = read_object::<Metadata<'_>>(metadata.get().as_bytes()) else {
        return;
    };
    let chunks: Vec<Chunk<'_>> = read_list(metadata.grounding_chunks);
    let mut used = BTreeSet::new();
    for support in read_list::<Support<'_>>(metadata.grounding_supports) {
        let segment = support.segment.unwrap_or_default();
        // Zero is left out.
        let range = count_to_index(segment.start_index).unwrap_or(0)
            ..count_to_index(segment.end_index).unwrap_or(0);
        let places: Vec<Count> = support
            .grounding_chunk_indices
            .and_then(|all| serde_json::from_str(all.get()).ok())
            .unwrap_or_default();
        for (chunk_index, chunk) in places
            .into_iter()
            .filter_map(count_to_index)
            .filter_map(|chunk_index| Some((chunk_index, chunks.get(chunk_index)?)))
        {
            used.insert(chunk_index);
            cited.emit_new(
                choice,
                &chunk.citation(CitedRange::Bytes(range.clone())),
                emit,
            );
        }
    }
    if is_last {
        let unused = chunks
            .iter()
            .enumerate()
            .filter(|(chunk_index, _)| !used.contains(chunk_index));
        unused
            .for_each(|(_, chunk)| cited.emit_new(choice, &chunk.citation(CitedRange::End), emit));
    }
}

impl Chunk<'_> {
    fn citation(&self, cited_range: CitedRange) -> Citation<'_> {
        let source = self
            .web
            .as_ref()
            .or(self.retrieved_context.as_ref())
            .or(self.maps.as_ref());
        Citation {
            // Documents may be in a store that only Google's servers read.
            url: web_address(source.map_or("", |source| source.uri.as_str())),
            title: source.map_or("", |source| source.title.as_str()),
            quote: source.map_or("", |source| source.text.as_str()),
            cited_range,
        }
    }
}

//! The usage that an upstream reports in its chunks.

use super::super::meter::Counts;
use super::super::scan::Scan;
use super::MAX_HELD;
use crate::neutral::mark;
use crate::wire::json::span_bytes;

/// The last usage that the upstream reported.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    pub(crate) counts: Option<Counts>,
    pub(super) object: Vec<u8>,
    /// The chunk that had only the usage, if there was one.
    pub(super) chunk: Vec<u8>,
    /// True if the counts are an estimate: our own, in a converted answer, or the estimate of an
    /// upstream that is a gateway like this one.
    pub(crate) is_estimate: bool,
}

impl Reported {
    /// Takes the usage of a chunk from any place. The last usage counts, so a usage that grows from
    /// chunk to chunk, or comes twice, is counted once.
    pub(super) fn take(&mut self, text: &[u8], scan: &Scan, keeps_chunk: bool) {
        let in_choice = scan.entries.iter().find_map(|choice| choice.usage.clone());
        let mut places = [scan.usage.clone(), scan.groq_usage(text), in_choice]
            .into_iter()
            .flatten();
        let found = places.find_map(|usage| Some((Counts::read(text, &usage.value)?, usage.value)));
        let Some((counts, span)) = found else { return };
        self.counts = Some(counts);
        // The upstream may be a gateway like this one.
        self.is_estimate = scan
            .x_portcullis
            .as_ref()
            .is_some_and(|mark| mark::is_estimated(span_bytes(text, &mark.value)));
        self.object.clear();
        if counts.are_believed() && span.len() <= MAX_HELD {
            self.object.extend_from_slice(span_bytes(text, &span));
        }
        if keeps_chunk && scan.entries.is_empty() && scan.usage.is_some() && text.len() <= MAX_HELD
        {
            self.chunk.clear();
            self.chunk.extend_from_slice(text);
        }
    }
}

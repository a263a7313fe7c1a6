//! The items of an answer are kept for later requests, once the answer is whole.

use super::{Piece, Producer};

impl Producer<'_> {
    /// Keeps the items of an answer, if its caller may refer to them later. The piece is all of the
    /// answer, or its end.
    pub(super) fn keep_items(&self, piece: &Piece) {
        let envelope = &self.request.envelope;
        if !envelope.places.keeps_items {
            return;
        }
        let (answer, is_stream) = match piece {
            Piece::Whole(answer) => (&answer.body[..], false),
            Piece::Events(events) | Piece::End(events) => (&events[..], true),
        };
        envelope
            .front
            .each_item(answer, is_stream, &mut |id, item| {
                self.shared.keep_item(&self.request.rights.key, id, item);
            });
    }
}

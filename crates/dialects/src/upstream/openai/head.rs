//! A head is the fields that all chunks of a stream share. They also stand at the top of a whole
//! answer.

use super::shape::{Shape, set_member};
use crate::neutral::AnswerHeader;
use crate::wire::json;
use crate::wire::splice::Edits;

/// The id, the time and the model, as literals.
#[derive(Debug)]
pub(super) struct Head {
    model: Vec<u8>,
    id: Vec<u8>,
    created: Vec<u8>,
    /// True if the id is final. The upstream's id is taken until the first chunk has left; then it
    /// stays. `has_created` works in this way, too.
    has_id: bool,
    has_created: bool,
}

impl Head {
    pub(super) fn new(header: &AnswerHeader) -> Self {
        Self {
            model: json::quote_string(&header.model).into_bytes(),
            id: json::quote_string(&header.id).into_bytes(),
            created: header.created.to_string().into_bytes(),
            has_id: false,
            has_created: false,
        }
    }

    /// Takes the id and the time from the upstream, if they are not final yet.
    pub(super) fn learn(&mut self, text: &[u8], shape: &Shape) {
        if !self.has_id
            && let Some(id) = shape.id(text)
        {
            self.id.clear();
            self.id.extend_from_slice(id);
            self.has_id = true;
        }
        if !self.has_created
            && let Some(created) = shape.created(text)
        {
            self.created = created.to_string().into_bytes();
            self.has_created = true;
        }
    }

    /// Sets id, object, created and model. From then on they do not change.
    pub(super) fn edit<'e>(
        &'e mut self,
        shape: &Shape,
        object: &'static [u8],
        edits: &mut Edits<'e>,
    ) {
        (self.has_id, self.has_created) = (true, true);
        set_member(edits, shape.open, br#""id""#, &shape.id, self.id.as_slice());
        set_member(edits, shape.open, br#""object""#, &shape.object, object);
        set_member(
            edits,
            shape.open,
            br#""created""#,
            &shape.created,
            self.created.as_slice(),
        );
        set_member(
            edits,
            shape.open,
            br#""model""#,
            &shape.model,
            self.model.as_slice(),
        );
    }
}

//! A head is the fields that all chunks of a stream share. They also stand at the top of a whole
//! answer.

use super::scan::{Scan, set_member};
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
    pub(super) fn learn(&mut self, text: &[u8], scan: &Scan) {
        if !self.has_id
            && let Some(id) = scan.id(text)
        {
            self.id.clear();
            self.id.extend_from_slice(id);
            self.has_id = true;
        }
        if !self.has_created
            && let Some(created) = scan.created(text)
        {
            self.created = created.to_string().into_bytes();
            self.has_created = true;
        }
    }

    /// Sets id, object, created and model. From then on they do not change.
    pub(super) fn edit<'e>(
        &'e mut self,
        scan: &Scan,
        object: &'static [u8],
        edits: &mut Edits<'e>,
    ) {
        (self.has_id, self.has_created) = (true, true);
        set_member(edits, scan.open, br#""id""#, &scan.id, self.id.as_slice());
        set_member(edits, scan.open, br#""object""#, &scan.object, object);
        set_member(
            edits,
            scan.open,
            br#""created""#,
            &scan.created,
            self.created.as_slice(),
        );
        set_member(
            edits,
            scan.open,
            br#""model""#,
            &scan.model,
            self.model.as_slice(),
        );
    }
}

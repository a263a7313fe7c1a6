//! Empty requests. They show whether a server has an endpoint: an endpoint that is there refuses
//! them, and charges nothing.

use bytes::Bytes;

use super::{Dialect, Outbound};
use crate::neutral::{Losses, Undo};

impl Dialect {
    /// Returns a request at the path for this model. Its body is an empty list, where every server
    /// expects an object.
    pub fn empty(&self, model: &str) -> Outbound {
        let protocol = self.protocol.for_model(model);
        Outbound {
            path: protocol.path(&self.settings, model, false),
            body: vec![Bytes::from_static(b"[]")],
            headers: Vec::new(),
            copied: 0,
            losses: Losses::default(),
            undo: Undo::default(),
        }
    }

    /// Returns whether the path names the model.
    pub fn has_model_in_path(&self) -> bool {
        (self.protocol.model_in_path)(&self.settings)
    }
}

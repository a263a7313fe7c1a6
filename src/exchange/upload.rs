//! An [`Upload`] is a form that a caller has sent. It goes on as it came, from the spool, but for
//! the name of the model: each attempt reads it again.

use crate::account::failure::Failure;
use crate::base::memory::Held;
use crate::base::spool::Spooled;
use bytes::Bytes;
use dialects::wire::json::Span;
use http::HeaderValue;
use std::ops::Range;

/// A form, on its way to an account.
pub struct Upload {
    spooled: Spooled,
    /// The place of the model's name.
    place: Span,
    /// What stands around the name, if the form itself does not name the model.
    around: [Bytes; 2],
    /// The `content-type`. It names the boundary.
    pub content_type: Option<HeaderValue>,
    /// The part of the spool that the form holds.
    _room: Held,
}

/// A slice of a request's body.
pub enum Slice<'u> {
    /// It is in memory.
    Here(Bytes),
    /// It is in the spool.
    There(&'u Spooled, Range<usize>),
}

impl Upload {
    /// Puts an upload together. `place` is where the form names the model, if it does.
    pub fn new(spooled: Spooled, boundary: &str, place: Option<Span>, room: Held) -> Upload {
        let around = match place {
            Some(_) => Default::default(),
            None => {
                let head = format!("--{boundary}\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n");
                [head.into(), Bytes::from_static(b"\r\n")]
            }
        };
        let content_type = HeaderValue::try_from(format!("multipart/form-data; boundary=\"{boundary}\"")).ok();
        Upload { spooled, place: place.unwrap_or_default(), around, content_type, _room: room }
    }

    /// Returns the length of the form with a name of this length.
    pub fn length(&self, name: usize) -> usize {
        let around: usize = self.around.iter().map(Bytes::len).sum();
        self.spooled.length() - self.place.len() + around + name
    }

    /// Returns the number of bytes that the caller has sent.
    pub fn came(&self) -> usize {
        self.spooled.length()
    }

    /// Returns the form with this name, in slices of at most `longest` bytes.
    pub fn slices<'u>(&'u self, name: &'u [Bytes], longest: usize) -> impl Iterator<Item = Slice<'u>> {
        let spooled = move |part| self.spooled.ranges(part, longest).map(|range| Slice::There(&self.spooled, range));
        let [before, after] = &self.around;
        let here = std::iter::once(before).chain(name).chain([after]).filter(|part| !part.is_empty());
        spooled(0..self.place.start)
            .chain(here.cloned().map(Slice::Here))
            .chain(spooled(self.place.end..self.spooled.length()))
    }
}

impl Slice<'_> {
    /// Returns its bytes.
    pub async fn read(self) -> Result<Bytes, Failure> {
        match self {
            Slice::Here(bytes) => Ok(bytes),
            Slice::There(spooled, range) => spooled.read(range).await.map_err(|why| {
                log::error!("an upload could not be read from the spool: {why}");
                Failure::NoRoom
            }),
        }
    }
}

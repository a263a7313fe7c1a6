//! An [`Upload`] is a form that a caller has sent. It goes on as it came, from the spool, but for
//! the names of models: each attempt reads it again.

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
    /// The places of the texts that change on the way. The first one is the place of the model's
    /// name.
    places: Vec<Span>,
    /// The bytes around the name, if the form itself does not name the model.
    model_part: [Bytes; 2],
    /// The `content-type`. It names the boundary.
    pub content_type: Option<HeaderValue>,
    /// The part of the spool that the form holds.
    _room: Held,
}

/// A slice of a request's body.
pub enum Slice<'u> {
    /// It is in memory.
    InMemory(Bytes),
    /// It is in the spool.
    InSpool(&'u Spooled, Range<usize>),
}

impl Upload {
    /// Puts an upload together. `places` are those of the texts that change on the way, and say
    /// whether the form names the model.
    pub fn new(spooled: Spooled, boundary: &str, places: (Vec<Span>, bool), room: Held) -> Upload {
        let (places, names_model) = places;
        let model_part = if names_model {
            Default::default()
        } else {
            let head =
                format!("--{boundary}\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n");
            [head.into(), Bytes::from_static(b"\r\n")]
        };
        let content_type =
            HeaderValue::try_from(format!("multipart/form-data; boundary=\"{boundary}\"")).ok();
        Upload {
            spooled,
            places,
            model_part,
            content_type,
            _room: room,
        }
    }

    /// Returns the length of the form with texts of this length, which have a byte between two.
    pub fn length(&self, texts: usize) -> usize {
        let model_part_length: usize = self.model_part.iter().map(Bytes::len).sum();
        let old: usize = self.places.iter().map(Span::len).sum();
        let between = self.places.len().saturating_sub(1);
        (self.spooled.length() + model_part_length + texts).saturating_sub(old + between)
    }

    /// Returns the number of bytes that the caller has sent.
    pub fn received_bytes(&self) -> usize {
        self.spooled.length()
    }

    /// Returns the form with these texts, in slices of at most `max_length` bytes.
    pub fn slices<'u>(
        &'u self,
        texts: &[Bytes],
        max_length: usize,
    ) -> impl Iterator<Item = Slice<'u>> {
        let mut texts = self.placed(texts);
        texts.sort_by_key(|(span, _)| span.start);
        let starts = texts
            .iter()
            .map(|(span, _)| span.start)
            .chain([self.spooled.length()]);
        let ends = std::iter::once(0).chain(texts.iter().map(|(span, _)| span.end));
        let between: Vec<Range<usize>> = ends.zip(starts).map(|(end, start)| end..start).collect();
        let here = texts
            .into_iter()
            .map(|(_, parts)| parts)
            .chain([Vec::new()]);
        between.into_iter().zip(here).flat_map(move |(part, here)| {
            let spooled = self
                .spooled
                .ranges(part, max_length)
                .map(|range| Slice::InSpool(&self.spooled, range));
            spooled.chain(
                here.into_iter()
                    .filter(|part| !part.is_empty())
                    .map(Slice::InMemory),
            )
        })
    }

    /// Returns the texts with their places, and what stands around them.
    fn placed(&self, texts: &[Bytes]) -> Vec<(Span, Vec<Bytes>)> {
        let all = match texts {
            [one] => one.clone(),
            several => several.concat().into(),
        };
        let mut start = 0;
        let texts = all.split(|byte| *byte == 0).map(|text| {
            let here = start..start + text.len();
            start = here.end + 1;
            vec![all.slice(here)]
        });
        let mut placed: Vec<_> = self.places.iter().cloned().zip(texts).collect();
        if let Some((_, model)) = placed.first_mut() {
            let [before, after] = self.model_part.clone();
            model.insert(0, before);
            model.push(after);
        }
        placed
    }
}

impl Slice<'_> {
    /// Returns its bytes.
    pub async fn read(self) -> Result<Bytes, Failure> {
        match self {
            Slice::InMemory(bytes) => Ok(bytes),
            Slice::InSpool(spooled, range) => spooled.read(range).await.map_err(|why| {
                log::error!("an upload could not be read from the spool: {why}");
                Failure::NoRoom
            }),
        }
    }
}

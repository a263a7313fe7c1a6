//! The search for references in a conversation: texts that name something which the request does
//! not hold. They may stand at any depth, results of tools included.

use super::place::{BodyPlace, Folded};
use super::references::{AllowedReferences, Judgement};
use crate::neutral::Refused;
use crate::wire::json::{Cursor, Kind, ScanResult, name_of, text_of};

/// The conversation of a request, in a format's words.
pub struct Contents {
    /// The names of the fields that hold the conversation, without case and underscores.
    pub(crate) fields: &'static [&'static str],
    /// Returns whether a member may refer to something. Of the others a server makes text, or they
    /// are the model's own text. The arguments are the name, whether it stands in the message
    /// itself, and whether it holds a text.
    pub(crate) may_refer: fn(&[u8], bool, bool) -> bool,
    /// The types of a search's results. Their addresses tell where a text was found; no server
    /// fetches them again.
    pub(crate) results: &'static [&'static str],
    /// The texts of which one is in each body with calls.
    pub(crate) call_marks: &'static [&'static str],
}

/// The reading of one body.
struct ContentCheck<'c> {
    contents: &'c Contents,
    allowed: AllowedReferences,
    refused: Option<Refused>,
}

impl Contents {
    /// Returns whether a conversation may hold calls, without reading it.
    pub fn may_call(&self, body: &[u8]) -> bool {
        self.call_marks
            .iter()
            .any(|mark| memchr::memmem::find(body, mark.as_bytes()).is_some())
    }

    /// Refuses a conversation with a reference that is not allowed. The body was read before.
    pub(super) fn check(&self, allowed: &AllowedReferences, body: &[u8]) -> Result<(), Refused> {
        let mut content_check = ContentCheck {
            contents: self,
            allowed: *allowed,
            refused: None,
        };
        // A body that is no JSON was refused before.
        let _read = Cursor::new(body).object(|cursor, key| {
            let name = name_of(body, &key);
            match self.fields.contains(&Folded::fold(&name).word()) {
                true => content_check.value(cursor, &BodyPlace::at_field(&name)),
                false => cursor.skip(),
            }
        });
        content_check.refused.map_or(Ok(()), Err)
    }
}

impl ContentCheck<'_> {
    /// Reads any value. The scanner bounds the depth.
    fn value(&mut self, cursor: &mut Cursor<'_>, place: &BodyPlace<'_>) -> ScanResult<()> {
        match cursor.kind()? {
            Kind::Object => self.object(cursor, place),
            Kind::Array => cursor
                .array(|cursor, index| self.value(cursor, &place.element(index)))
                .map(drop),
            Kind::String if !place.is_outside() => {
                let (text, span) = (cursor.text(), cursor.value()?);
                self.refuse(self.allowed.judge(place.name(), text, &span), place);
                Ok(())
            }
            Kind::String | Kind::Number | Kind::Bool | Kind::Null => cursor.skip(),
        }
    }

    /// Reads an object. Its type may come last, so its own addresses are judged at its end.
    fn object(&mut self, cursor: &mut Cursor<'_>, place: &BodyPlace<'_>) -> ScanResult<()> {
        let (text, is_message) = (cursor.text(), place.is_outside());
        let mut types = 0;
        let mut is_found = false;
        let mut held = None;
        cursor.object(|cursor, key| {
            let (name, kind) = (name_of(text, &key), cursor.kind()?);
            let is_text = kind == Kind::String;
            match &*name {
                b"type" => {
                    types += 1;
                    let kind = text_of(text, &cursor.value()?);
                    is_found = kind.is_some_and(|kind| self.contents.results.contains(&&*kind));
                    Ok(())
                }
                name if !(self.contents.may_refer)(name, is_message, is_text) => cursor.skip(),
                name @ (b"url" | b"source") if is_text && !self.contents.results.is_empty() => {
                    let span = cursor.value()?;
                    held = held.or(self.allowed.judge(name, text, &span));
                    Ok(())
                }
                name => self.value(cursor, &place.member(name)),
            }
        })?;
        if !(is_found && types == 1) {
            self.refuse(held, place);
        }
        Ok(())
    }

    /// Keeps the first refusal.
    fn refuse(&mut self, judgement: Option<Judgement>, place: &BodyPlace<'_>) {
        if let Some(judgement) = judgement.filter(|_| self.refused.is_none()) {
            self.refused = Some(Refused::unsupported(place.shown(), judgement.message()));
        }
    }
}

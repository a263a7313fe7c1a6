//! This module finds the references of a chat request: texts that name something that the request
//! does not hold. A reference may stand in every text of a part of a message, under any name,
//! because each server has names of its own (`image_url`, `video_url`, `source`, and so on). It may
//! also stand in fields that only some servers know.

use crate::front::references::{AllowedReferences, Judgement};
use crate::neutral::Refused;
use crate::wire::json::{self, Broken, Cursor, Kind};

/// Longer names of members are cut in what is said of them.
const MAX_NAME: usize = 40;

/// Refuses a request that refers to what it may not. The body was read before.
pub(super) fn check(allowed: &AllowedReferences, body: &[u8]) -> Result<(), Refused> {
    if *allowed == AllowedReferences::ALL {
        return Ok(());
    }
    let mut look = Look { allowed: *allowed, text: body, refused: None };
    // What is no JSON was refused before.
    let _read = look.top(&mut Cursor::new(body));
    look.refused.map_or(Ok(()), Err)
}

/// Members of a message that refer to nothing: a server makes text of them. An assistant's `audio`
/// is the id of what the model itself said before.
pub(super) fn is_plain_in_message(name: &[u8]) -> bool {
    name == b"audio" || is_plain(name)
}

/// Members of a part, or of a message, that refer to nothing.
pub(super) fn is_plain(name: &[u8]) -> bool {
    matches!(
        name,
        b"type"
            | b"text"
            | b"role"
            | b"name"
            | b"refusal"
            | b"cache_control"
            | b"prompt_cache_breakpoint"
            | b"thinking"
            | b"signature"
            | b"thinking_blocks"
            | b"reasoning"
            | b"reasoning_content"
            | b"reasoning_details"
            | b"annotations"
            | b"citations"
            | b"tool_calls"
            | b"tool_call_id"
            | b"function_call"
            | b"extra_content"
    )
}

/// The reading of one body.
struct Look<'a> {
    allowed: AllowedReferences,
    text: &'a [u8],
    refused: Option<Refused>,
}

/// Writes the path of a text. It is called once the text is refused.
type ParamOf<'p> = &'p dyn Fn() -> String;

impl<'a> Look<'a> {
    fn top(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Broken> {
        let read = cursor.object(|cursor, key| match json::name_of(self.text, &key).as_ref() {
            b"messages" if cursor.kind()? == Kind::Array => {
                cursor.array(|cursor, index| self.message(cursor, index)).map(drop)
            }
            b"data_sources" | b"dataSources" if !self.allowed.data_sources => {
                let value = cursor.value()?;
                if !matches!(json::slice(self.text, &value), b"null" | b"[]") {
                    self.refuse(&|| "data_sources".to_owned(), &Judgement::DATA_SOURCES);
                }
                Ok(())
            }
            name @ (b"cached_content" | b"cachedContent" | b"extra_body" | b"google") if !self.allowed.cached => {
                self.stored(cursor, name)
            }
            _ => cursor.value().map(drop),
        });
        read.map(drop)
    }

    /// Reads the value of `name`. It may hold names of what the account has stored. Servers look
    /// for such names at any depth and in any case.
    fn stored(&mut self, cursor: &mut Cursor<'a>, name: &[u8]) -> Result<(), Broken> {
        if json::folds_to(name, "cached_content") || json::folds_to(name, "cachedcontent") {
            let value = cursor.value()?;
            if !matches!(json::slice(self.text, &value), b"null" | b"\"\"") {
                self.refuse(&|| "cached_content".to_owned(), &Judgement::CACHED);
            }
            return Ok(());
        }
        match cursor.kind()? {
            Kind::Object => cursor.object(|cursor, key| self.stored(cursor, &json::name_of(self.text, &key))).map(drop),
            Kind::Array => cursor.array(|cursor, _| self.stored(cursor, name)).map(drop),
            Kind::String | Kind::Number | Kind::Bool | Kind::Null => cursor.value().map(drop),
        }
    }

    fn message(&mut self, cursor: &mut Cursor<'a>, message: usize) -> Result<(), Broken> {
        if cursor.kind()? != Kind::Object {
            return cursor.value().map(drop);
        }
        let read = cursor.object(|cursor, key| {
            let name = json::name_of(self.text, &key);
            match (name.as_ref(), cursor.kind()?) {
                (b"content", Kind::Array) => {
                    let part = |cursor: &mut Cursor<'a>, part| {
                        self.part(cursor, &|| format!("messages[{message}].content[{part}]"))
                    };
                    cursor.array(part).map(drop)
                }
                (b"content", Kind::Object) => self.part(cursor, &|| format!("messages[{message}]")),
                (name, Kind::Array | Kind::Object) if !is_plain_in_message(name) => {
                    self.value(cursor, name, &|| format!("messages[{message}].{}", String::from_utf8_lossy(name)))
                }
                _ => cursor.value().map(drop),
            }
        });
        read.map(drop)
    }

    fn part(&mut self, cursor: &mut Cursor<'a>, param: ParamOf<'_>) -> Result<(), Broken> {
        if cursor.kind()? != Kind::Object {
            return cursor.value().map(drop);
        }
        let read = cursor.object(|cursor, key| {
            let name = json::name_of(self.text, &key);
            // The name goes into an answer.
            let shown = name.get(..MAX_NAME).unwrap_or(&name);
            self.value(cursor, &name, &|| format!("{}.{}", param(), String::from_utf8_lossy(shown)))
        });
        read.map(drop)
    }

    /// Reads any value; `name` is the member that holds it. The scanner bounds the depth.
    fn value(&mut self, cursor: &mut Cursor<'a>, name: &[u8], param: ParamOf<'_>) -> Result<(), Broken> {
        match cursor.kind()? {
            _ if is_plain(name) => cursor.value().map(drop),
            Kind::Object => {
                cursor.object(|cursor, key| self.value(cursor, &json::name_of(self.text, &key), param)).map(drop)
            }
            Kind::Array => cursor.array(|cursor, _| self.value(cursor, name, param)).map(drop),
            Kind::String => {
                let span = cursor.value()?;
                if self.refused.is_none()
                    && let Some(judgement) = self.allowed.judge(name, self.text, &span)
                {
                    self.refuse(param, &judgement);
                }
                Ok(())
            }
            Kind::Number | Kind::Bool | Kind::Null => cursor.value().map(drop),
        }
    }

    fn refuse(&mut self, param: ParamOf<'_>, judgement: &Judgement) {
        self.refused.get_or_insert_with(|| Refused::unsupported(param(), judgement.message()));
    }
}

#[cfg(test)]
mod tests;

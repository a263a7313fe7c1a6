//! This module finds the references of a Responses request: texts that name something that the
//! request does not hold. Only what the reader takes can go up, so only the parts of contents and
//! outputs are looked at.

use crate::front::references::AllowedReferences;
use crate::neutral::Refused;
use crate::wire::json::{self, Broken, Cursor, Kind};

/// Refuses a request that refers to what it may not. The body was read before.
pub(super) fn check(allowed: &AllowedReferences, body: &[u8]) -> Result<(), Refused> {
    if *allowed == AllowedReferences::ALL {
        return Ok(());
    }
    let mut look = Judging { allowed: *allowed, refused: None };
    // What is no JSON was refused before.
    let _read = Cursor::new(body).object(|cursor, key| match &*json::name_of(body, &key) {
        b"input" => cursor.maybe_array(|cursor, index| look.item(cursor, index)),
        _ => cursor.value(),
    });
    look.refused.map_or(Ok(()), Err)
}

/// The reading of one body.
struct Judging {
    allowed: AllowedReferences,
    refused: Option<Refused>,
}

impl Judging {
    fn item(&mut self, cursor: &mut Cursor<'_>, index: usize) -> Result<(), Broken> {
        let text = cursor.text();
        let item = cursor.maybe_object(|cursor, key| match &*json::name_of(text, &key) {
            b"content" | b"output" => cursor.maybe_array(|cursor, _| self.part(cursor, index)),
            _ => cursor.value(),
        });
        item.map(drop)
    }

    /// Reads a part, or an object inside one. The scanner bounds the depth.
    fn part(&mut self, cursor: &mut Cursor<'_>, index: usize) -> Result<(), Broken> {
        let text = cursor.text();
        let part = cursor.maybe_object(|cursor, key| {
            let name = json::name_of(text, &key);
            match cursor.kind()? {
                // A model reads these, and nobody else.
                _ if matches!(
                    &*name,
                    b"type" | b"text" | b"refusal" | b"filename" | b"detail" | b"annotations" | b"stdout" | b"stderr"
                ) =>
                {
                    cursor.value().map(drop)
                }
                Kind::Object => self.part(cursor, index),
                Kind::String => {
                    let value = cursor.value()?;
                    if self.refused.is_none()
                        && let Some(judgement) = self.allowed.judge(&name, text, &value)
                    {
                        self.refused = Some(Refused::unsupported(format!("input[{index}]"), judgement.message()));
                    }
                    Ok(())
                }
                Kind::Array | Kind::Number | Kind::Bool | Kind::Null => cursor.value().map(drop),
            }
        });
        part.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::references::Urls;

    const NOTHING: AllowedReferences = AllowedReferences {
        gs: false,
        s3: false,
        files: false,
        data_sources: false,
        cached: false,
        urls: Urls::Public,
    };

    #[track_caller]
    fn check_is(body: &str, param: Option<&str>) {
        let refused = check(&NOTHING, body.as_bytes()).err();
        let found = refused.map(|refused| match refused {
            Refused::Unsupported(why) | Refused::Invalid(why) => why.param,
        });
        assert_eq!(found.as_deref(), param, "{body}");
        assert_eq!(check(&AllowedReferences::ALL, body.as_bytes()), Ok(()));
    }

    #[test]
    fn what_is_not_in_the_body_is_found_wherever_it_stands() {
        for (part, is_refused) in [
            (r#"{"type":"input_image","image_url":"http://10.0.0.1/x"}"#, true),
            (r#"{"type":"input_image","image_url":"https://example.com/x.png"}"#, false),
            (r#"{"type":"input_image","image_url":"data:image/png;base64,AAAA"}"#, false),
            (r#"{"type":"input_file","file_url":"gs://a/b"}"#, true),
            (r#"{"type":"input_file","file_id":"file-1"}"#, true),
            (r#"{"type":"input_audio","input_audio":{"data":"http://10.0.0.1/x","format":"wav"}}"#, true),
            (r#"{"type":"input_text","text":"http://10.0.0.1/x"}"#, false),
        ] {
            let param = is_refused.then_some("input[0]");
            check_is(&format!(r#"{{"input":[{{"role":"user","content":[{part}]}}]}}"#), param);
            check_is(&format!(r#"{{"input":[{{"type":"function_call_output","output":[{part}]}}]}}"#), param);
        }
        check_is(r#"{"input":"http://10.0.0.1/x"}"#, None);
        check_is(r#"{"input":[{"type":"function_call","arguments":"{\"url\":\"http://10.0.0.1/x\"}"}]}"#, None);
    }
}

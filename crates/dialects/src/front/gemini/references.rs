//! This module finds the references of a Gemini request: the addresses of files, in any part.

use super::camel;
use crate::front::references::AllowedReferences;
use crate::neutral::Refused;
use crate::wire::json::{self, Broken, Cursor, Kind};

/// Refuses a request that refers to what it may not. The body was read before.
pub(super) fn check(allowed: &AllowedReferences, body: &[u8]) -> Result<(), Refused> {
    if *allowed == AllowedReferences::ALL {
        return Ok(());
    }
    let mut look = ReferenceSearch { allowed: *allowed, refused: None };
    // What is no JSON was refused before.
    let _read =
        Cursor::new(body).object(|cursor, key| match &*camel(&String::from_utf8_lossy(&json::name_of(body, &key))) {
            "contents" if cursor.kind()? == Kind::Array => {
                cursor.array(|cursor, index| look.value(cursor, &|| format!("contents[{index}]"))).map(drop)
            }
            name @ ("contents" | "systemInstruction") => look.value(cursor, &|| name.to_owned()),
            _ => cursor.value().map(drop),
        });
    look.refused.map_or(Ok(()), Err)
}

/// The reading of one body.
struct ReferenceSearch {
    allowed: AllowedReferences,
    refused: Option<Refused>,
}

impl ReferenceSearch {
    /// Reads any value. The scanner bounds the depth.
    fn value(&mut self, cursor: &mut Cursor<'_>, param: &dyn Fn() -> String) -> Result<(), Broken> {
        let text = cursor.text();
        match cursor.kind()? {
            Kind::Object => cursor.object(|cursor, key| {
                match &*camel(&String::from_utf8_lossy(&json::name_of(text, &key))) {
                    // What tools were asked, and what they said, is text.
                    "args" | "response" => cursor.value().map(drop),
                    "fileUri" => {
                        let span = cursor.value()?;
                        let judgement = self.allowed.judge(b"file_uri", text, &span);
                        if let Some(judgement) = judgement.filter(|_| self.refused.is_none()) {
                            self.refused = Some(Refused::unsupported(param(), judgement.message()));
                        }
                        Ok(())
                    }
                    _ => self.value(cursor, param),
                }
            }),
            Kind::Array => cursor.array(|cursor, _| self.value(cursor, param)),
            Kind::String | Kind::Number | Kind::Bool | Kind::Null => cursor.value(),
        }
        .map(drop)
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

    #[test]
    fn addresses_are_judged_wherever_they_stand() {
        let check = |part: &str, is_refused: bool| {
            for contents in [format!(r#"[{{"parts":[{part}]}}]"#), format!(r#"{{"parts":{part}}}"#)] {
                let body = format!(r#"{{"contents":{contents}}}"#);
                let found = super::check(&NOTHING, body.as_bytes());
                assert_eq!(found.is_err(), is_refused, "{body}");
                assert_eq!(super::check(&AllowedReferences::ALL, body.as_bytes()), Ok(()));
            }
        };
        for uri in ["http://10.0.0.1/x", "gs://b/x", "file:///etc/passwd", "s3://b/x"] {
            check(&format!(r#"{{"fileData":{{"fileUri":"{uri}"}}}}"#), true);
            check(&format!(r#"{{"file_data":{{"file_uri":"{uri}"}}}}"#), true);
            let inside = format!(r#"{{"fileData":{{"fileUri":"{uri}"}}}}"#);
            check(&format!(r#"{{"functionResponse":{{"name":"f","parts":[{inside}]}}}}"#), true);
            check(&format!(r#"{{"functionResponse":{{"name":"f","response":{inside}}}}}"#), false);
            check(&format!(r#"{{"functionCall":{{"name":"f","args":{inside}}}}}"#), false);
            check(&format!(r#"{{"text":"{uri}"}}"#), false);
        }
        check(r#"{"fileData":{"fileUri":"https://example.com/x.png"}}"#, false);
    }
}

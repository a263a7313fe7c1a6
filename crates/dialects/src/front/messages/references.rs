//! This module finds the references of a Messages request: texts that name something that the
//! request does not hold. They stand in the sources of pictures and documents, at any depth; in
//! `container`; and in `mcp_servers`.

use crate::front::references::{AllowedReferences, Judgement};
use crate::neutral::Refused;
use crate::wire::json::{self, Broken, Cursor, Kind};

/// Refuses a request that refers to what it may not. The body was read before.
pub(super) fn check(allowed: &AllowedReferences, body: &[u8]) -> Result<(), Refused> {
    if *allowed == AllowedReferences::ALL {
        return Ok(());
    }
    let mut look = Look { allowed: *allowed, refused: None };
    // What is no JSON was refused before.
    let _read = Cursor::new(body).object(|cursor, key| match &*json::name_of(body, &key) {
        b"messages" if cursor.kind()? == Kind::Array => {
            cursor.array(|cursor, index| look.value(cursor, b"message", &|| format!("messages[{index}]"))).map(drop)
        }
        b"system" => look.value(cursor, b"system", &|| "system".to_owned()),
        b"mcp_servers" => look.value(cursor, b"mcp_servers", &|| "mcp_servers".to_owned()),
        b"container" => look.stored(cursor, "container"),
        b"thread" => look.stored(cursor, "thread"),
        _ => cursor.value().map(drop),
    });
    look.refused.map_or(Ok(()), Err)
}

/// The reading of one body.
struct Look {
    allowed: AllowedReferences,
    refused: Option<Refused>,
}

/// Members that refer to nothing: a server makes text of them, or they are what the model said.
fn is_plain(name: &[u8]) -> bool {
    matches!(
        name,
        b"type"
            | b"role"
            | b"text"
            | b"title"
            | b"context"
            | b"thinking"
            | b"signature"
            | b"data"
            | b"id"
            | b"name"
            | b"tool_use_id"
            | b"tool_name"
            | b"input"
            | b"cache_control"
            | b"citations"
            | b"media_type"
            | b"encrypted_content"
    )
}

/// Returns whether objects of this type are results of a search. Their addresses say where they
/// were found; nobody fetches them again.
fn is_result(kind: &[u8]) -> bool {
    matches!(kind, br#""search_result""# | br#""web_search_result""# | br#""web_fetch_result""#)
}

impl Look {
    /// Reads any value; `name` is the member that holds it. The scanner bounds the depth.
    fn value(&mut self, cursor: &mut Cursor<'_>, name: &[u8], param: &dyn Fn() -> String) -> Result<(), Broken> {
        let text = cursor.text();
        match cursor.kind()? {
            _ if is_plain(name) => cursor.value().map(drop),
            Kind::Object => self.object(cursor, param),
            Kind::Array => cursor.array(|cursor, _| self.value(cursor, name, param)).map(drop),
            // A message's text is no reference, whatever it says.
            Kind::String if matches!(name, b"content" | b"message" | b"system") => cursor.value().map(drop),
            Kind::String => {
                let span = cursor.value()?;
                self.refuse(self.allowed.judge(name, text, &span), param);
                Ok(())
            }
            Kind::Number | Kind::Bool | Kind::Null => cursor.value().map(drop),
        }
    }

    /// Reads an object. Its type may come last, so its own addresses are judged at its end.
    fn object(&mut self, cursor: &mut Cursor<'_>, param: &dyn Fn() -> String) -> Result<(), Broken> {
        let text = cursor.text();
        let (mut types, mut is_found, mut held) = (0, false, None);
        cursor.object(|cursor, key| match (&*json::name_of(text, &key), cursor.kind()?) {
            (b"type", _) => {
                types += 1;
                is_found = is_result(json::slice(text, &cursor.value()?));
                Ok(())
            }
            (name @ (b"url" | b"source"), Kind::String) => {
                let span = cursor.value()?;
                held = held.or(self.allowed.judge(name, text, &span));
                Ok(())
            }
            (name, _) => self.value(cursor, name, param),
        })?;
        if !(is_found && types == 1) {
            self.refuse(held, param);
        }
        Ok(())
    }

    /// Keeps the first refusal.
    fn refuse(&mut self, judgement: Option<Judgement>, param: &dyn Fn() -> String) {
        if let Some(judgement) = judgement.filter(|_| self.refused.is_none()) {
            self.refused = Some(Refused::unsupported(param(), judgement.message()));
        }
    }

    /// Reads a name of what the account has stored, or an object that has it.
    fn stored(&mut self, cursor: &mut Cursor<'_>, name: &str) -> Result<(), Broken> {
        let is_null = cursor.kind()? == Kind::Null;
        cursor.value()?;
        if !is_null && !self.allowed.files && self.refused.is_none() {
            self.refused = Some(Refused::unsupported(name.to_owned(), Judgement::STORED.message()));
        }
        Ok(())
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
    fn check_is(allowed: &AllowedReferences, body: &str, param: Option<&str>) {
        let refused = check(allowed, body.as_bytes()).err();
        let found = refused.map(|refused| match refused {
            Refused::Unsupported(why) | Refused::Invalid(why) => why.param,
        });
        assert_eq!(found.as_deref(), param, "{body}");
    }

    #[test]
    fn what_is_not_in_the_body_is_found_wherever_it_stands() {
        let source = |source: &str| format!(r#"{{"type":"image","source":{source}}}"#);
        let user = |block: &str| format!(r#"{{"messages":[{{"role":"user","content":[{block}]}}]}}"#);
        let inside = |block: &str| user(&format!(r#"{{"type":"tool_result","tool_use_id":"a","content":[{block}]}}"#));
        let file = source(r#"{"type":"file","file_id":"file_1"}"#);
        let near = source(r#"{"type":"url","url":"http://10.0.0.1/x"}"#);
        let far = source(r#"{"type":"url","url":"https://example.com/x.png"}"#);
        let data = source(r#"{"type":"base64","media_type":"image/png","data":"AAAA"}"#);
        for body in [user(&file), inside(&file), user(&near), inside(&near)] {
            check_is(&NOTHING, &body, Some("messages[0]"));
            check_is(&AllowedReferences::ALL, &body, None);
        }
        for body in [user(&far), inside(&far), user(&data), inside(&data)] {
            check_is(&NOTHING, &body, None);
        }
        check_is(&NOTHING, r#"{"container":"c_1"}"#, Some("container"));
        check_is(&NOTHING, r#"{"thread":{"id":"t_1"}}"#, Some("thread"));
        let found = r#"{"type":"search_result","source":"s3://bucket/a.pdf","title":"a","content":[]}"#;
        check_is(&NOTHING, &user(found), None);
        check_is(&NOTHING, &user(&found.replace("search_result", "image")), Some("messages[0]"));
        let output = format!(r#"{{"type":"x_result","content":{{"content":[{file}]}}}}"#);
        check_is(&NOTHING, &user(&output), Some("messages[0]"));
        check_is(&NOTHING, r#"{"container":null,"messages":[{"content":"http://10.0.0.1/x"}]}"#, None);
        check_is(&NOTHING, r#"{"mcp_servers":[{"type":"url","url":"http://10.0.0.1/x"}]}"#, Some("mcp_servers"));
        let called = r#"{"type":"tool_use","id":"a","name":"f","input":{"url":"http://10.0.0.1/x"}}"#;
        check_is(&NOTHING, &user(called), None);
    }
}

//! This module finds the references of a Responses request: texts that name something that the
//! request does not hold. They stand in the parts of contents and outputs, in tools that a server
//! runs, and where an item names the container in which such a tool ran.

use crate::front::references::{AllowedReferences, Judgement};
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
        b"tools" => cursor.maybe_array(|cursor, index| look.tool(cursor, || format!("tools[{index}]"))),
        _ => cursor.value(),
    });
    look.refused.map_or(Ok(()), Err)
}

/// The member in which an item names the container where a tool ran.
const CONTAINER: &[u8] = b"container_id";
/// The members in which a tool names what the account has stored.
const STORED: [&str; 5] = ["container_id", "file_ids", "skill_id", "skill_ids", "vector_store_ids"];

/// Consumes a tool, and returns whether a server runs it.
pub(super) fn is_servers(cursor: &mut Cursor<'_>) -> Result<bool, Broken> {
    let text = cursor.text();
    let (mut types, mut is_clients) = (0, false);
    cursor.maybe_members(|key, value| {
        if *json::name_of(text, &key) == *b"type" {
            types += 1;
            let known = [r#""function""#, r#""custom""#, r#""namespace""#, r#""tool_search""#];
            is_clients = known.iter().any(|known| json::slice(text, &value) == known.as_bytes());
        }
    })?;
    Ok(!(is_clients && types == 1))
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
            b"content" | b"output" if cursor.kind()? == Kind::Object => {
                let start = cursor.at();
                self.part(cursor, index).map(|()| start..cursor.at())
            }
            b"content" | b"output" => cursor.maybe_array(|cursor, _| self.part(cursor, index)),
            b"tools" => cursor.maybe_array(|cursor, _| self.tool(cursor, || format!("input[{index}].tools"))),
            name => {
                let is_named = *name == *CONTAINER && !matches!(cursor.kind()?, Kind::Null);
                let value = cursor.value()?;
                if is_named {
                    self.stored(|| format!("input[{index}].container_id"));
                }
                Ok(value)
            }
        });
        item.map(drop)
    }

    /// Reads a tool. A client's own tool refers to nothing; its type may come last.
    fn tool(&mut self, cursor: &mut Cursor<'_>, param: impl Fn() -> String) -> Result<(), Broken> {
        let text = cursor.text();
        let start = cursor.at();
        if !is_servers(cursor)? {
            return Ok(());
        }
        self.of_server(&mut Cursor::starting_at(text, start), b"", &param)
    }

    /// Reads any value in a tool that a server runs; `name` is the member that holds it. The
    /// scanner bounds the depth.
    fn of_server(&mut self, cursor: &mut Cursor<'_>, name: &[u8], param: &dyn Fn() -> String) -> Result<(), Broken> {
        let (text, kind) = (cursor.text(), cursor.kind()?);
        let is_stored = |name: &[u8]| STORED.iter().any(|known| json::folds_to(name, known));
        match kind {
            // A model reads these, or the caller's own server.
            _ if matches!(name, b"type" | b"description" | b"server_description" | b"authorization" | b"headers") => {
                cursor.value().map(drop)
            }
            Kind::Object => {
                cursor.object(|cursor, key| self.of_server(cursor, &json::name_of(text, &key), param)).map(drop)
            }
            Kind::Array => {
                let mut is_empty = true;
                cursor.array(|cursor, _| {
                    is_empty = false;
                    self.of_server(cursor, name, param)
                })?;
                if !is_empty && is_stored(name) {
                    self.stored(param);
                }
                Ok(())
            }
            Kind::String => {
                let value = cursor.value()?;
                if is_stored(name) || name == b"container" {
                    self.stored(param);
                } else if let Some(judgement) = self.allowed.judge(name, text, &value) {
                    self.refused.get_or_insert_with(|| Refused::unsupported(param(), judgement.message()));
                }
                Ok(())
            }
            Kind::Number | Kind::Bool | Kind::Null => cursor.value().map(drop),
        }
    }

    /// Notes a name of what the account has stored.
    fn stored(&mut self, param: impl Fn() -> String) {
        if !self.allowed.files {
            self.refused.get_or_insert_with(|| Refused::unsupported(param(), Judgement::STORED.message()));
        }
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
    use crate::front::RESPONSES;
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
        let output =
            r#"{"input":[{"type":"computer_call_output","output":{"type":"computer_screenshot","file_id":"f"}}]}"#;
        check_is(output, Some("input[0]"));
        check_is(r#"{"input":"http://10.0.0.1/x"}"#, None);
        check_is(r#"{"input":[{"type":"function_call","arguments":"{\"url\":\"http://10.0.0.1/x\"}"}]}"#, None);
    }

    #[test]
    fn what_a_servers_tool_would_use_of_the_account_is_found() {
        for (tool, is_refused) in [
            (r#"{"type":"web_search","filters":{"allowed_domains":["x.test"]}}"#, false),
            (r#"{"type":"code_interpreter","container":{"type":"auto"}}"#, false),
            (r#"{"type":"code_interpreter","container":{"type":"auto","file_ids":[]}}"#, false),
            (r#"{"type":"code_interpreter","container":{"type":"auto","file_ids":["file-1"]}}"#, true),
            (r#"{"type":"code_interpreter","container":"cntr_1"}"#, true),
            (r#"{"vector_store_ids":["vs_1"],"type":"file_search"}"#, true),
            (r#"{"type":"image_generation","size":"auto"}"#, false),
            (r#"{"type":"image_generation","input_image_mask":{"file_id":"f"}}"#, true),
            (r#"{"type":"image_generation","input_image_mask":{"image_url":"http://10.0.0.1/x"}}"#, true),
            (r#"{"type":"mcp","server_url":"https://mcp.example.com/x","authorization":"s"}"#, false),
            (r#"{"type":"mcp","server_url":"http://10.0.0.1/x"}"#, true),
            (r#"{"type":"shell","environment":{"type":"container_reference","container_id":"c"}}"#, true),
            (r#"{"type":"function","name":"f","parameters":{"vector_store_ids":["x"]}}"#, false),
            (r#"{"type":"function","name":"f","type":"file_search","vector_store_ids":["x"]}"#, true),
            (r#"{"type":"namespace","tools":[{"type":"function","description":"http://10.0.0.1/"}]}"#, false),
        ] {
            let refers = (RESPONSES.envelope)(format!(r#"{{"model":"m","input":"x","tools":[{tool}]}}"#).as_bytes())
                .unwrap()
                .refers;
            assert!(refers || !is_refused, "nobody looks at {tool}");
            check_is(&format!(r#"{{"input":"x","tools":[{tool}]}}"#), is_refused.then_some("tools[0]"));
            let shown = format!(r#"{{"input":[{{"type":"additional_tools","tools":[{tool}]}}]}}"#);
            check_is(&shown, is_refused.then_some("input[0].tools"));
        }
        let ran = r#"{"input":[{"type":"code_interpreter_call","id":"ci_1","container_id":"c","outputs":null}]}"#;
        check_is(ran, Some("input[0].container_id"));
    }
}

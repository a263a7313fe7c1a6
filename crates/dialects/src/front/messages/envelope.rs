//! The envelope of a Messages request: the few fields that decide where it goes, with their exact
//! spans.

use crate::front::reading::count::{Read, elements, members, spoken};
use crate::front::reading::media::{self, MediaPlace};
use crate::front::reading::scan::{Scan, asks_json, number};
use crate::front::{Envelope, Fault, MESSAGES};
use crate::wire::json::{self, Broken, Cursor, Kind, Span, slice};

/// Reads a request body.
pub(super) fn read(body: &[u8]) -> Result<Envelope, Fault> {
    envelope(body, true)
}

/// Reads the body of a request whose tokens are counted: nobody answers it.
pub(super) fn to_count(body: &[u8]) -> Result<Envelope, Fault> {
    envelope(body, false).map(|envelope| Envelope {
        stream: false,
        ..envelope
    })
}

fn envelope(body: &[u8], is_answered: bool) -> Result<Envelope, Fault> {
    let mut has_messages = false;
    let mut has_most = false;
    let mut scan = Scan::over(body, &MESSAGES, |scan, cursor, name| {
        has_messages |= name == b"messages";
        has_most |= name == b"max_tokens";
        field(scan, cursor, name)
    })?;
    // Every answer has its usage here.
    scan.envelope.include_usage = true;
    let missing = [
        (has_messages, "messages"),
        (has_most || !is_answered, "max_tokens"),
    ];
    scan.envelope(
        missing
            .into_iter()
            .find(|(is_there, _)| !is_there)
            .map(|(_, name)| name),
    )
}

/// Consumes the value of a top-level field.
fn field<'a>(scan: &mut Scan<'a>, cursor: &mut Cursor<'a>, name: &[u8]) -> Result<(), Broken> {
    match name {
        b"model" => scan.model(cursor)?,
        b"messages" => {
            cursor.kind()?;
            let start = cursor.at();
            scan.messages(cursor, "messages", message)?;
            scan.envelope.places.thoughts = scan.read.has_thoughts.then_some(start..cursor.at());
        }
        b"system" => content(cursor, &mut scan.read)?,
        b"stream" => scan.envelope.stream = scan.flag(cursor, "stream")?.0.unwrap_or(false),
        b"max_tokens" => {
            let kind = cursor.kind()?;
            let span = cursor.value()?;
            let most = number(cursor, &span);
            if most.is_none_or(|most| most == 0) {
                scan.note(|| Fault::of_type("max_tokens", "a whole number above 0", kind));
            }
            scan.envelope.max_tokens_said = true;
            scan.envelope.most_tokens = most;
            scan.envelope.places.most_tokens = Some(span);
        }
        b"thinking" => {
            cursor.kind()?;
            let start = cursor.at();
            scan.read.setting(cursor, name)?;
            scan.envelope.places.thinking = Some(start..cursor.at());
        }
        b"tools" => scan.read.tools(cursor)?,
        b"output_config" | b"output_format" => {
            let span = cursor.value()?;
            scan.read.more += span.len();
            scan.envelope.wants_json |= asks_json(slice(cursor.text(), &span));
        }
        b"metadata" => {
            scan.envelope.user = member(cursor, b"user_id")?;
        }
        _ => scan.read.setting(cursor, name)?,
    }
    Ok(())
}

/// Consumes a message, counts what is in it, and returns whether it is a user's.
fn message(cursor: &mut Cursor<'_>, read: &mut Read) -> Result<bool, Broken> {
    spoken(cursor, read, |cursor, name, read| match name {
        b"content" => content(cursor, read),
        _ => read.other(cursor),
    })
}

/// Consumes a content: a text, or blocks.
fn content(cursor: &mut Cursor<'_>, read: &mut Read) -> Result<(), Broken> {
    match cursor.kind()? {
        Kind::Array => elements(cursor, read, block),
        Kind::Object => {
            read.refers = true;
            read.text(cursor)
        }
        Kind::String | Kind::Number | Kind::Bool | Kind::Null => read.text(cursor),
    }
}

/// Consumes a block.
fn block(cursor: &mut Cursor<'_>, read: &mut Read) -> Result<(), Broken> {
    members(cursor, read, |cursor, name, read| match name {
        b"text" | b"thinking" | b"title" | b"context" => read.text(cursor),
        b"content" => content(cursor, read),
        b"input" => {
            read.text += cursor.value()?.len();
            Ok(())
        }
        b"source" if cursor.kind()? == Kind::Object => source(cursor, read),
        b"type" => {
            let kind = cursor.value()?;
            read.has_thoughts |= !is_plain(slice(cursor.text(), &kind));
            Ok(())
        }
        b"id" | b"name" | b"tool_use_id" | b"tool_name" | b"is_error" | b"cache_control"
        | b"signature" | b"data" | b"citations" => read.other(cursor),
        _ => {
            read.refers = true;
            read.other(cursor)
        }
    })
}

/// Returns whether a block of this type is no thought. A type with an escape may be one.
fn is_plain(kind: &[u8]) -> bool {
    !kind.ends_with(b"thinking\"") && memchr::memchr(b'\\', kind).is_none()
}

/// Consumes the source of a picture or a document.
fn source(cursor: &mut Cursor<'_>, read: &mut Read) -> Result<(), Broken> {
    let mut kind: Option<Span> = None;
    let mut said: Option<Span> = None;
    let mut data: Option<Span> = None;
    let before = cursor.at();
    let mut inside = false;
    cursor.object(|cursor, key| {
        let name = json::name_of(cursor.text(), &key);
        match &*name {
            b"content" => {
                inside = true;
                return content(cursor, read);
            }
            b"type" => kind = Some(cursor.value()?),
            b"media_type" => said = Some(cursor.value()?),
            b"data" => data = Some(cursor.value()?),
            _ => {
                read.refers = true;
                cursor.value()?;
            }
        }
        Ok(())
    })?;
    let text = cursor.text();
    let is_base64 = kind.is_some_and(|kind| slice(text, &kind) == br#""base64""#);
    match data {
        Some(data) if is_base64 => {
            let said = said.map(|said| slice(text, &said)).unwrap_or_default();
            let said = said
                .get(1..said.len().saturating_sub(1))
                .unwrap_or_default();
            let place = if said.starts_with(b"image/") {
                MediaPlace::Image
            } else {
                MediaPlace::File
            };
            let medium = media::of_base64(place, slice(text, &data), said, cursor.at() - before);
            read.medium(medium, true);
        }
        Some(data) => read.text += data.len(),
        // Somebody else has it. It counts as a file does of which nobody knows the size.
        None if !inside => read.medium(media::elsewhere(), true),
        None => {}
    }
    Ok(())
}

/// Consumes a value, and returns one of its members, if that is a text.
fn member(cursor: &mut Cursor<'_>, wanted: &[u8]) -> Result<Option<Span>, Broken> {
    let text = cursor.text();
    let mut found = None;
    cursor.maybe_members(|key, value| {
        if *json::name_of(text, &key) == *wanted && slice(text, &value).starts_with(b"\"") {
            found = Some(value);
        }
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> Envelope {
        read(body.as_bytes()).expect("a request")
    }

    #[test]
    fn what_decides_is_read_in_one_pass() {
        let body = r#"{"model":"m","max_tokens":7,"stream":true,"metadata":{"user_id":"u"},"system":"abc",
            "messages":[{"role":"user","content":"hello"}]}"#;
        let envelope = of(body);
        assert_eq!(
            (
                envelope.model.as_str(),
                envelope.stream,
                envelope.most_tokens
            ),
            ("m", true, Some(7))
        );
        assert_eq!(envelope.prompt_bytes, 8);
        assert_eq!(envelope.user.map(|span| &body[span]), Some(r#""u""#));
        assert!(envelope.include_usage && !envelope.refers && !envelope.wants_json);
    }

    #[test]
    fn what_is_no_request_is_refused_by_its_field() {
        for (body, param, code) in [
            ("{}", Some("model"), Some("missing_required_parameter")),
            (
                r#"{"model":"m","max_tokens":1}"#,
                Some("messages"),
                Some("missing_required_parameter"),
            ),
            (
                r#"{"model":"m","messages":[{}]}"#,
                Some("max_tokens"),
                Some("missing_required_parameter"),
            ),
            (
                r#"{"model":"m","messages":[{}],"max_tokens":0}"#,
                Some("max_tokens"),
                Some("invalid_type"),
            ),
            (
                r#"{"model":"m","messages":[{}],"max_tokens":"x"}"#,
                Some("max_tokens"),
                Some("invalid_type"),
            ),
            (
                r#"{"model":"m","messages":[],"max_tokens":1}"#,
                Some("messages"),
                Some("empty_array"),
            ),
            (
                r#"{"model":"m","model":"m","messages":[{}],"max_tokens":1}"#,
                Some("model"),
                None,
            ),
            ("[]", None, None),
        ] {
            let fault = read(body.as_bytes()).unwrap_err();
            assert_eq!(
                (fault.param.as_deref(), fault.code),
                (param, code),
                "{body}"
            );
        }
    }

    #[test]
    fn media_count_by_kind_and_size_wherever_they_stand() {
        let picture = format!("iVBORw0KGgoAAAA{}", "A".repeat(40_000));
        let block = format!(
            r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{picture}"}}}}"#
        );
        let body = |content: &str| {
            format!(
                r#"{{"model":"m","max_tokens":7,"messages":[{{"role":"user","content":{content}}}]}}"#
            )
        };
        let plain = of(&body(&format!("[{block}]")));
        let inside = of(&body(&format!(
            r#"[{{"type":"tool_result","tool_use_id":"a","content":[{block}]}}]"#
        )));
        assert!(!plain.refers && !inside.refers);
        assert!(plain.most_prompt < 2_000, "{}", plain.most_prompt);
        assert!(inside.most_prompt < 2_000, "{}", inside.most_prompt);
        let url = of(&body(
            r#"[{"type":"image","source":{"type":"url","url":"https://x/y.png"}}]"#,
        ));
        assert!(url.refers && url.most_prompt > 1_500);
    }

    #[test]
    fn a_schema_asks_for_json_at_either_place() {
        let base = r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]"#;
        for (more, asks) in [
            (
                r#","output_config":{"format":{"type":"json_schema","schema":{}}}"#,
                true,
            ),
            (
                r#","output_format":{"type":"json_schema","schema":{}}"#,
                true,
            ),
            (r#","output_config":{"effort":"low"}"#, false),
        ] {
            assert_eq!(of(&format!("{base}{more}}}")).wants_json, asks, "{more}");
        }
    }
}

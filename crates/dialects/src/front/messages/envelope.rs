//! The envelope of a Messages request: the few fields that decide where it goes, with their exact
//! spans.

use crate::front::reading::count::{ReadTotals, each_element, each_member, each_message_member};
use crate::front::reading::media::{self, MediaKind};
use crate::front::reading::scan::{Scan, asks_json};
use crate::front::{Envelope, Fault, MESSAGES};
use crate::wire::json::{self, Cursor, Kind, ScanResult, Span, span_bytes};

/// Reads a request body.
pub(super) fn read_envelope(body: &[u8]) -> Result<Envelope, Fault> {
    scan_envelope(body, true)
}

/// Reads the body of a request whose tokens are counted: it gets no answer.
pub(super) fn to_count(body: &[u8]) -> Result<Envelope, Fault> {
    scan_envelope(body, false).map(|envelope| Envelope {
        stream: false,
        ..envelope
    })
}

fn scan_envelope(body: &[u8], is_answered: bool) -> Result<Envelope, Fault> {
    let mut has_messages = false;
    let mut has_max_tokens = false;
    let mut scan = Scan::over(body, &MESSAGES, |scan, cursor, name| {
        has_messages |= name == b"messages";
        has_max_tokens |= name == b"max_tokens";
        scan_field(scan, cursor, name)
    })?;
    // Every answer has its usage here.
    scan.envelope.include_usage = true;
    let missing = [
        (has_messages, "messages"),
        (has_max_tokens || !is_answered, "max_tokens"),
    ];
    scan.envelope(
        missing
            .into_iter()
            .find(|(is_there, _)| !is_there)
            .map(|(_, name)| name),
    )
}

/// Consumes the value of a top-level field.
fn scan_field<'a>(scan: &mut Scan<'a>, cursor: &mut Cursor<'a>, name: &[u8]) -> ScanResult<()> {
    match name {
        b"model" => scan.model(cursor)?,
        b"messages" => {
            cursor.kind()?;
            let start = cursor.offset();
            scan.messages(cursor, "messages", scan_message)?;
            scan.envelope.places.thoughts =
                scan.totals.has_thoughts.then_some(start..cursor.offset());
        }
        b"system" => scan_content(cursor, &mut scan.totals)?,
        b"stream" => scan.envelope.stream = scan.flag(cursor, "stream")?.0.unwrap_or(false),
        b"max_tokens" => scan.max_tokens(cursor, "max_tokens")?,
        b"thinking" => {
            cursor.kind()?;
            let start = cursor.offset();
            scan.totals.count_setting(cursor, name)?;
            scan.envelope.places.thinking = Some(start..cursor.offset());
        }
        b"tools" => scan.totals.count_tools(cursor)?,
        b"output_config" | b"output_format" => {
            let span = cursor.value()?;
            scan.totals.other_bytes += span.len();
            scan.envelope.wants_json |= asks_json(span_bytes(cursor.text(), &span));
        }
        b"metadata" => {
            scan.envelope.user = find_text_member(cursor, b"user_id")?;
        }
        _ => scan.totals.count_setting(cursor, name)?,
    }
    Ok(())
}

/// Consumes a message, counts its content, and returns whether it is a user's.
fn scan_message(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<bool> {
    each_message_member(cursor, totals, |cursor, name, totals| match name {
        b"content" => scan_content(cursor, totals),
        _ => totals.count_other(cursor),
    })
}

/// Consumes a content: a text, or blocks.
fn scan_content(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<()> {
    match cursor.kind()? {
        Kind::Array => each_element(cursor, totals, scan_block),
        Kind::Object => {
            totals.may_refer = true;
            totals.count_text(cursor)
        }
        Kind::String | Kind::Number | Kind::Bool | Kind::Null => totals.count_text(cursor),
    }
}

/// Consumes a block.
fn scan_block(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<()> {
    each_member(cursor, totals, |cursor, name, totals| match name {
        b"text" | b"thinking" | b"title" | b"context" => totals.count_text(cursor),
        b"content" => scan_content(cursor, totals),
        b"input" => {
            totals.text += cursor.value()?.len();
            Ok(())
        }
        b"source" if cursor.kind()? == Kind::Object => scan_source(cursor, totals),
        b"type" => {
            let kind = cursor.value()?;
            totals.has_thoughts |= !is_plain(span_bytes(cursor.text(), &kind));
            Ok(())
        }
        b"id" | b"name" | b"tool_use_id" | b"tool_name" | b"is_error" | b"cache_control"
        | b"signature" | b"data" | b"citations" => totals.count_other(cursor),
        _ => {
            totals.may_refer = true;
            totals.count_other(cursor)
        }
    })
}

/// Returns whether a block of this type is no thought. A type with an escape may be one.
fn is_plain(kind: &[u8]) -> bool {
    !kind.ends_with(b"thinking\"") && memchr::memchr(b'\\', kind).is_none()
}

/// Consumes the source of a picture or a document.
fn scan_source(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<()> {
    let mut kind: Option<Span> = None;
    let mut declared_type: Option<Span> = None;
    let mut data: Option<Span> = None;
    let before = cursor.offset();
    let mut inside = false;
    cursor.object(|cursor, key| {
        let name = json::name_of(cursor.text(), &key);
        match &*name {
            b"content" => {
                inside = true;
                return scan_content(cursor, totals);
            }
            b"type" => kind = Some(cursor.value()?),
            b"media_type" => declared_type = Some(cursor.value()?),
            b"data" => data = Some(cursor.value()?),
            _ => {
                totals.may_refer = true;
                cursor.value()?;
            }
        }
        Ok(())
    })?;
    let text = cursor.text();
    let is_base64 = kind.is_some_and(|kind| span_bytes(text, &kind) == br#""base64""#);
    match data {
        Some(data) if is_base64 => {
            let declared_type = declared_type
                .map(|declared_type| span_bytes(text, &declared_type))
                .unwrap_or_default();
            let declared_type = declared_type
                .get(1..declared_type.len().saturating_sub(1))
                .unwrap_or_default();
            let media_kind = if declared_type.starts_with(b"image/") {
                MediaKind::Image
            } else {
                MediaKind::File
            };
            let medium = media::from_base64(
                media_kind,
                span_bytes(text, &data),
                declared_type,
                cursor.offset() - before,
            );
            totals.count_medium(medium);
        }
        Some(data) => totals.text += data.len(),
        // Another server has the file, so its size is not known.
        None if !inside => totals.count_medium(media::remote_file()),
        None => {}
    }
    Ok(())
}

/// Consumes a value, and returns one of its members, if that is a text.
fn find_text_member(cursor: &mut Cursor<'_>, wanted: &[u8]) -> ScanResult<Option<Span>> {
    let text = cursor.text();
    let mut found = None;
    cursor.maybe_members(|key, value| {
        if *json::name_of(text, &key) == *wanted && span_bytes(text, &value).starts_with(b"\"") {
            found = Some(value);
        }
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> Envelope {
        read_envelope(body.as_bytes()).expect("a request")
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
                envelope.max_tokens
            ),
            ("m", true, Some(7))
        );
        assert_eq!(envelope.prompt_bytes, 8);
        assert_eq!(envelope.user.map(|span| &body[span]), Some(r#""u""#));
        assert!(envelope.include_usage && !envelope.conversation_may_refer && !envelope.wants_json);
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
            let fault = read_envelope(body.as_bytes()).unwrap_err();
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
        assert!(!plain.conversation_may_refer && !inside.conversation_may_refer);
        assert!(
            plain.max_prompt_tokens < 2_000,
            "{}",
            plain.max_prompt_tokens
        );
        assert!(
            inside.max_prompt_tokens < 2_000,
            "{}",
            inside.max_prompt_tokens
        );
        let url = of(&body(
            r#"[{"type":"image","source":{"type":"url","url":"https://x/y.png"}}]"#,
        ));
        assert!(url.conversation_may_refer && url.max_prompt_tokens > 1_500);
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

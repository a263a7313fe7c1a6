//! The envelope of a Responses request: the few fields that decide where it goes, with their exact
//! spans. A request that needs a stored response is refused here.

use crate::wire::shorten_text;
use std::borrow::Cow;

use super::references;
use crate::front::reading::count::{ReadTotals, each_element, each_member};
use crate::front::reading::media::{self, MediaKind};
use crate::front::reading::scan::{Scan, asks_json, scan_text};
use crate::front::{Envelope, Fault, ItemReference, RESPONSES};
use crate::wire::json::{self, Cursor, Kind, ScanResult, span_bytes};

/// Reads a request body.
pub(super) fn read_envelope(body: &[u8]) -> Result<Envelope, Fault> {
    let mut has_input = false;
    let mut refuses_store = false;
    let mut scan = Scan::over(body, &RESPONSES, |scan, cursor, name| {
        has_input |= name == b"input";
        if name == b"store" {
            let value = cursor.value()?;
            refuses_store = span_bytes(cursor.text(), &value) == b"false";
            return Ok(());
        }
        scan_field(scan, cursor, name)
    })?;
    // Every answer has its usage here.
    scan.envelope.include_usage = true;
    scan.envelope.places.keeps_items = !refuses_store;
    scan.envelope((!has_input).then_some("input"))
}

/// Consumes the value of a top-level field.
fn scan_field<'a>(scan: &mut Scan<'a>, cursor: &mut Cursor<'a>, name: &[u8]) -> ScanResult<()> {
    match name {
        b"model" => scan.model(cursor)?,
        b"input" if cursor.kind()? == Kind::String => {
            let start = cursor.offset();
            scan.totals.count_text(cursor)?;
            scan.envelope.beginning = Some(start..cursor.offset());
        }
        b"input" => {
            let mut found = Vec::new();
            let mut next = 0;
            scan.messages(cursor, "input", |cursor, totals| {
                let start = cursor.offset();
                let (is_users, id) = scan_item(cursor, totals)?;
                let index = next;
                next += 1;
                found.extend(id.map(|id| ItemReference {
                    index,
                    span: start..cursor.offset(),
                    id,
                }));
                Ok(is_users)
            })?;
            scan.envelope.places.references = found;
        }
        b"instructions" => {
            let kind = cursor.kind()?;
            if !matches!(kind, Kind::String | Kind::Null) {
                scan.note(|| Fault::of_type("instructions", "a text", kind));
            }
            scan.totals.count_text(cursor)?;
        }
        b"stream" => scan.envelope.stream = scan.flag(cursor, "stream")?.0.unwrap_or(false),
        b"max_output_tokens" if cursor.kind()? == Kind::Null => {
            cursor.value()?;
        }
        b"max_output_tokens" => scan.max_tokens(cursor, "max_output_tokens")?,
        b"tools" => scan.totals.count_tools(cursor)?,
        b"text" => {
            let span = cursor.value()?;
            scan.totals.other_bytes += span.len();
            scan.envelope.wants_json |= asks_json(span_bytes(cursor.text(), &span));
        }
        b"prompt_cache_key" | b"user" | b"safety_identifier" => scan.user_field(cursor, name)?,
        b"previous_response_id" | b"conversation" | b"prompt" | b"background" => {
            refuse_stored(scan, cursor, name)?
        }
        _ => scan.totals.count_setting(cursor, name)?,
    }
    Ok(())
}

/// Refuses a field that needs a server that stores responses.
fn refuse_stored(scan: &mut Scan<'_>, cursor: &mut Cursor<'_>, name: &[u8]) -> ScanResult<()> {
    let span = cursor.value()?;
    let value = span_bytes(cursor.text(), &span);
    if matches!(value, b"null" | b"false") {
        return Ok(());
    }
    scan.note(|| {
        let (param, message) = match name {
            b"previous_response_id" => {
                let id = json::text_of(value, &(0..value.len())).unwrap_or_default();
                let id = shorten_text(&id, 80);
                let message = format!("Previous response with id '{id}' not found.");
                return Fault::of_field(
                    "previous_response_id",
                    "previous_response_not_found",
                    message,
                );
            }
            b"background" => ("background", "responses. Leave it out."),
            b"prompt" => ("prompt", "prompts. Send `input` instead."),
            _ => ("conversation", "conversations. Send all of it in `input`."),
        };
        let message = format!("`{param}` is not supported: the gateway stores no {message}");
        Fault::of_field(param, "unsupported_parameter", message)
    });
    Ok(())
}

/// Consumes an item, and counts its content. Returns whether it is a user's message, and the id of
/// another item if it only refers to that.
fn scan_item(
    cursor: &mut Cursor<'_>,
    totals: &mut ReadTotals,
) -> ScanResult<(bool, Option<String>)> {
    let mut kind = None;
    let mut id = None;
    let mut role = None;
    each_member(cursor, totals, |cursor, name, totals| match name {
        b"type" => scan_text(cursor).map(|span| kind = span),
        b"id" => scan_text(cursor).map(|span| id = span),
        b"role" => cursor.value().map(|span| role = Some(span)),
        b"content" | b"output" => scan_content(cursor, totals),
        b"tools" => totals.count_tools(cursor),
        b"container_id" | b"environment" => totals.count_setting(cursor, name),
        b"arguments" | b"input" => {
            totals.text += cursor.value()?.len();
            Ok(())
        }
        // These members are not passed on.
        b"summary" | b"encrypted_content" => cursor.skip(),
        _ => {
            totals.may_refer |= references::may_refer(name);
            totals.count_other(cursor)
        }
    })?;
    let body = cursor.text();
    let is_users = role
        .as_ref()
        .is_some_and(|role| span_bytes(body, role) == br#""user""#);
    let is_reference = match kind.and_then(|kind| json::text_of(body, &kind)) {
        Some(kind) => kind == "item_reference",
        None => role.is_none(),
    };
    let id = id
        .filter(|_| is_reference)
        .and_then(|id| json::text_of(body, &id));
    Ok((
        is_users,
        id.filter(|id| !id.is_empty()).map(Cow::into_owned),
    ))
}

/// Consumes a content: a text, or parts.
fn scan_content(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<()> {
    match cursor.kind()? {
        Kind::Array => each_element(cursor, totals, scan_part),
        Kind::Object => scan_part(cursor, totals),
        Kind::String | Kind::Number | Kind::Bool | Kind::Null => totals.count_text(cursor),
    }
}

/// Consumes a part.
fn scan_part(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<()> {
    each_member(cursor, totals, |cursor, name, totals| match name {
        b"text" | b"refusal" => totals.count_text(cursor),
        b"image_url" => {
            totals.may_refer = true;
            totals.count_medium(media::read_medium(cursor, MediaKind::Image)?);
            Ok(())
        }
        b"input_audio" => {
            totals.may_refer = true;
            totals.count_medium(media::read_medium(cursor, MediaKind::Audio)?);
            Ok(())
        }
        b"file_data" => {
            totals.may_refer = true;
            scan_file(cursor, totals)
        }
        b"file_url" | b"file_id" => {
            totals.may_refer = true;
            // Another server has the file, so its size is not known.
            totals.count_medium(media::remote_file());
            cursor.skip()
        }
        _ => {
            totals.may_refer |= references::may_refer(name);
            totals.count_other(cursor)
        }
    })
}

/// Consumes the data of a file: a data URL, or base64 alone.
fn scan_file(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<()> {
    let span = cursor.value()?;
    let quoted = span_bytes(cursor.text(), &span);
    // The comma before the base64 stands where the first quote would.
    let comma = quoted
        .iter()
        .take(256)
        .position(|byte| *byte == b',')
        .unwrap_or_default();
    let (head, base64) = quoted.split_at_checked(comma).unwrap_or((b"", quoted));
    let media_type = head.strip_prefix(b"\"data:").unwrap_or_default();
    let media_type = media_type
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default();
    totals.count_medium(media::from_base64(
        MediaKind::File,
        base64,
        media_type,
        span.len(),
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> Envelope {
        read_envelope(body.as_bytes()).expect("a request")
    }

    #[test]
    fn what_decides_is_read_in_one_pass() {
        let body = r#"{"model":"m","max_output_tokens":7,"stream":true,"user":"u","safety_identifier":"s",
            "prompt_cache_key":"k","instructions":"abc","input":[{"role":"developer","content":"ab"},
            {"role":"user","content":[{"type":"input_text","text":"hello"}]},
            {"type":"function_call_output","call_id":"c","output":"four"}]}"#;
        let envelope = of(body);
        assert_eq!(
            (
                envelope.model.as_str(),
                envelope.stream,
                envelope.max_tokens
            ),
            ("m", true, Some(7))
        );
        assert_eq!(envelope.prompt_bytes, 3 + 2 + 5 + 4);
        assert_eq!(envelope.user.map(|span| &body[span]), Some(r#""s""#));
        assert_eq!(envelope.cache_key.map(|span| &body[span]), Some(r#""k""#));
        let beginning = &body[envelope.beginning.unwrap()];
        assert!(
            beginning.starts_with(r#"{"role":"developer""#) && beginning.ends_with(r#""hello"}]}"#),
            "{beginning}"
        );
        assert!(envelope.include_usage && !envelope.conversation_may_refer && !envelope.wants_json);

        let body = r#"{"model":"m","input":"hello"}"#;
        let envelope = of(body);
        assert_eq!((envelope.prompt_bytes, envelope.has_max_tokens), (5, false));
        assert_eq!(
            envelope.beginning.map(|span| &body[span]),
            Some(r#""hello""#)
        );
    }

    #[test]
    fn what_is_no_request_is_refused_by_its_field() {
        for (body, param, code) in [
            ("{}", Some("model"), Some("missing_required_parameter")),
            (
                r#"{"model":"m"}"#,
                Some("input"),
                Some("missing_required_parameter"),
            ),
            (
                r#"{"model":"m","input":[]}"#,
                Some("input"),
                Some("empty_array"),
            ),
            (
                r#"{"model":"m","input":7}"#,
                Some("input"),
                Some("invalid_type"),
            ),
            (
                r#"{"model":"m","input":["x"]}"#,
                Some("input[0]"),
                Some("invalid_type"),
            ),
            (
                r#"{"model":"m","input":"x","max_output_tokens":0}"#,
                Some("max_output_tokens"),
                Some("invalid_type"),
            ),
            (
                r#"{"model":"m","input":"x","stream":"yes"}"#,
                Some("stream"),
                Some("invalid_type"),
            ),
            (
                r#"{"model":"m","input":"x","input":"y"}"#,
                Some("input"),
                None,
            ),
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
    fn what_needs_a_stored_response_is_refused() {
        for (field, param, code) in [
            (
                r#""previous_response_id":"resp_1""#,
                "previous_response_id",
                "previous_response_not_found",
            ),
            (
                r#""conversation":"conv_1""#,
                "conversation",
                "unsupported_parameter",
            ),
            (
                r#""conversation":{"id":"conv_1"}"#,
                "conversation",
                "unsupported_parameter",
            ),
            (
                r#""background":true"#,
                "background",
                "unsupported_parameter",
            ),
            (r#""prompt":{"id":"p"}"#, "prompt", "unsupported_parameter"),
        ] {
            let fault = read_envelope(format!(r#"{{"model":"m","input":"x",{field}}}"#).as_bytes())
                .unwrap_err();
            assert_eq!(
                (fault.param.as_deref(), fault.code),
                (Some(param), Some(code)),
                "{field}"
            );
            // It is the reason even where nothing else is said.
            let fault =
                read_envelope(format!(r#"{{"model":"m",{field}}}"#).as_bytes()).unwrap_err();
            assert_eq!(fault.param.as_deref(), Some(param));
        }
        let fault = read_envelope(br#"{"model":"m","input":"x","previous_response_id":"resp_1"}"#)
            .unwrap_err();
        assert_eq!(
            fault.message,
            "Previous response with id 'resp_1' not found."
        );
        for field in [
            r#""previous_response_id":null"#,
            r#""conversation":null"#,
            r#""background":false"#,
            r#""background":null"#,
            r#""prompt":null"#,
        ] {
            of(&format!(r#"{{"model":"m","input":"x",{field}}}"#));
        }
    }

    #[test]
    fn references_to_items_are_found_with_their_places() {
        let body = r#"{"model":"m","input":[{"role":"user","content":"x"}, {"type":"item_reference","id":"msg_1"},
            {"id":"rs_1"},{"id":"msg_2","role":"assistant","content":"y"},{"type":"function_call","id":"fc_1"},
            {"id":null},{"id":""}]}"#;
        let places = of(body).places;
        let found: Vec<_> = places
            .references
            .iter()
            .map(|one| (one.index, &*one.id, &body[one.span.clone()]))
            .collect();
        assert_eq!(
            found,
            [
                (1, "msg_1", r#"{"type":"item_reference","id":"msg_1"}"#),
                (2, "rs_1", r#"{"id":"rs_1"}"#)
            ]
        );
        for (store, keeps) in [
            ("", true),
            (r#","store":true"#, true),
            (r#","store":null"#, true),
            (r#","store":false"#, false),
        ] {
            assert_eq!(
                of(&format!(r#"{{"model":"m","input":"x"{store}}}"#))
                    .places
                    .keeps_items,
                keeps,
                "{store}"
            );
        }
    }

    #[test]
    fn media_count_by_kind_and_size_wherever_they_stand() {
        let picture = format!("iVBORw0KGgoAAAA{}", "A".repeat(40_000));
        let paper = format!("JVBERi0xLjcK{}", "A".repeat(40_000));
        let parts = [
            format!(
                r#"{{"type":"input_image","image_url":"data:image/png;base64,{picture}","detail":"original"}}"#
            ),
            format!(
                r#"{{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,{paper}"}}"#
            ),
        ];
        for part in parts {
            for item in [
                format!(r#"{{"role":"user","content":[{part}]}}"#),
                format!(r#"{{"type":"function_call_output","call_id":"c","output":[{part}]}}"#),
            ] {
                let envelope = of(&format!(r#"{{"model":"m","input":[{item}]}}"#));
                assert!(
                    envelope.max_prompt_tokens < 4_000 && envelope.max_prompt_tokens > 1_000,
                    "{}",
                    envelope.max_prompt_tokens
                );
            }
        }
        let url = of(
            r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_url":"https://x/y"}]}]}"#,
        );
        assert!(
            url.conversation_may_refer && url.max_prompt_tokens > 4_000,
            "{}",
            url.max_prompt_tokens
        );
    }

    #[test]
    fn a_format_asks_for_json() {
        for (text, asks) in [
            (
                r#"{"format":{"type":"json_schema","name":"x","schema":{}}}"#,
                true,
            ),
            (r#"{"format":{"type":"json_object"}}"#, true),
            (r#"{"format":{"type":"text"},"verbosity":"low"}"#, false),
        ] {
            assert_eq!(
                of(&format!(r#"{{"model":"m","input":"x","text":{text}}}"#)).wants_json,
                asks,
                "{text}"
            );
        }
    }
}

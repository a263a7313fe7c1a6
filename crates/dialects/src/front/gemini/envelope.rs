//! The envelope of a Gemini request: the few fields that decide what it may cost and how it is
//! answered. The path names the model, and asks for a stream or a whole answer.

use super::{camel_name, references};
use crate::front::reading::count::{ReadTotals, each_member};
use crate::front::reading::media::{self, MediaKind};
use crate::front::reading::scan::{Scan, lenient_number, read_choice_count};
use crate::front::{Envelope, Fault, Front};
use crate::wire::json::{self, Cursor, Kind, ScanResult, span_bytes};

/// Reads a request body.
pub(super) fn read_envelope(body: &[u8], front: &'static Front) -> Result<Envelope, Fault> {
    let mut seen = Vec::new();
    let mut found = Found::default();
    let mut scan = Scan::over(body, front, |scan, cursor, name| {
        let name = name_text(name);
        if let Some(known) = FIELDS.into_iter().find(|known| *known == camel_name(&name)) {
            // A name may be in camel case or in snake case.
            if seen.contains(&known) {
                scan.note(|| Fault::duplicate(known));
            }
            seen.push(known);
        }
        scan_field(scan, cursor, &camel_name(&name), &mut found)
    })?;
    scan.envelope.include_usage = true;
    scan.envelope.hide_thoughts = !found.thoughts;
    scan.envelope.wants_json = found.is_json.unwrap_or(found.has_schema);
    scan.envelope_without_model((!seen.contains(&"contents")).then_some("contents"))
}

/// The fields that are read here.
const FIELDS: [&str; 4] = ["contents", "systemInstruction", "tools", "generationConfig"];

/// The settings of the answer that the envelope needs.
#[derive(Default)]
struct Found {
    thoughts: bool,
    is_json: Option<bool>,
    has_schema: bool,
}

/// Consumes the value of a top-level field.
fn scan_field<'a>(
    scan: &mut Scan<'a>,
    cursor: &mut Cursor<'a>,
    name: &str,
    found: &mut Found,
) -> ScanResult<()> {
    match name {
        "contents" if cursor.kind()? == Kind::Object => {
            let start = cursor.offset();
            if scan_content(cursor, &mut scan.totals)? {
                scan.envelope.beginning = Some(start..cursor.offset());
            }
        }
        "contents" => scan.messages(cursor, "contents", scan_content)?,
        "systemInstruction" => drop(scan_content(cursor, &mut scan.totals)?),
        "tools" => scan.totals.count_tools(cursor)?,
        "generationConfig" => scan_settings(scan, cursor, found)?,
        name => scan.totals.count_setting(cursor, name.as_bytes())?,
    }
    Ok(())
}

/// Consumes the settings of the answer.
fn scan_settings<'a>(
    scan: &mut Scan<'a>,
    cursor: &mut Cursor<'a>,
    found: &mut Found,
) -> ScanResult<()> {
    if cursor.kind()? != Kind::Object {
        return scan.totals.count_other(cursor);
    }
    cursor.object(|cursor, key| {
        let body = cursor.text();
        let name = name_text(&json::name_of(body, &key)).into_owned();
        match &*camel_name(&name) {
            "maxOutputTokens" => {
                let span = cursor.value()?;
                // Zero sets no limit.
                let max_tokens = lenient_number(cursor, &span).filter(|max_tokens| *max_tokens > 0);
                scan.envelope.max_tokens = scan.envelope.max_tokens.max(max_tokens);
                scan.envelope.has_max_tokens = scan.envelope.max_tokens.is_some();
            }
            "candidateCount" => {
                scan.envelope.choices.set_shown(read_choice_count(cursor)?);
            }
            "responseMimeType" => {
                let span = cursor.value()?;
                found.is_json = json::text_of(body, &span).map(|kind| kind == "application/json");
            }
            "responseSchema" | "responseJsonSchema" => {
                found.has_schema |= cursor.kind()? == Kind::Object;
                scan.totals.other_bytes += cursor.value()?.len();
            }
            "thinkingConfig" => {
                cursor.maybe_members(|key, value| {
                    if camel_name(&name_text(&json::name_of(body, &key))) == "includeThoughts" {
                        found.thoughts = span_bytes(body, &value) == b"true";
                    }
                })?;
            }
            name => scan.totals.count_setting(cursor, name.as_bytes())?,
        }
        Ok(())
    })?;
    Ok(())
}

/// Consumes a content, counts its parts, and returns whether it is a user's.
pub(super) fn scan_content(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<bool> {
    let mut is_users = true;
    each_member(cursor, totals, |cursor, name, totals| match name {
        b"role" => {
            let role = cursor.value()?;
            is_users = matches!(span_bytes(cursor.text(), &role), br#""user""# | b"null");
            Ok(())
        }
        b"parts" => one_or_more(cursor, totals),
        _ => {
            totals.may_refer = true;
            totals.count_other(cursor)
        }
    })?;
    Ok(is_users)
}

/// Consumes parts: an array, or one.
fn one_or_more(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<()> {
    if cursor.kind()? == Kind::Array {
        cursor
            .array(|cursor, _| scan_part(cursor, totals))
            .map(drop)
    } else {
        scan_part(cursor, totals)
    }
}

/// Consumes a part.
fn scan_part(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<()> {
    each_member(cursor, totals, |cursor, name, totals| {
        match &*camel_name(&name_text(name)) {
            "text" | "output" | "code" => totals.count_text(cursor),
            "inlineData" => scan_data(cursor, totals),
            "fileData" => {
                // Another server has the file, so its size is not known.
                totals.may_refer = true;
                totals.count_medium(media::remote_file());
                totals.count_other(cursor)
            }
            "functionCall" | "functionResponse" => {
                each_member(cursor, totals, |cursor, name, totals| {
                    match &*camel_name(&name_text(name)) {
                        "args" | "response" => {
                            totals.text += cursor.value()?.len();
                            Ok(())
                        }
                        "parts" => one_or_more(cursor, totals),
                        _ => {
                            totals.may_refer |= references::may_refer(name);
                            totals.count_other(cursor)
                        }
                    }
                })
            }
            "executableCode" | "codeExecutionResult" => scan_part(cursor, totals),
            _ => {
                totals.may_refer |= references::may_refer(name);
                totals.count_other(cursor)
            }
        }
    })
}

/// Consumes media in base64.
fn scan_data(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<()> {
    if cursor.kind()? != Kind::Object {
        return totals.count_other(cursor);
    }
    let body = cursor.text();
    let mut media_type: &[u8] = b"";
    let mut data: &[u8] = b"";
    let before = cursor.offset();
    cursor.object(|cursor, key| {
        let name = json::name_of(body, &key);
        let value = span_bytes(body, &cursor.value()?);
        match &*camel_name(&name_text(&name)) {
            "mimeType" => media_type = value,
            "data" => data = value,
            _ => {}
        }
        Ok(())
    })?;
    let media_type = media_type
        .get(1..media_type.len().saturating_sub(1))
        .unwrap_or_default();
    let media_kind = match media_type.get(..6) {
        Some(b"image/") => MediaKind::Image,
        Some(b"audio/") => MediaKind::Audio,
        _ => MediaKind::File,
    };
    let bytes = cursor.offset() - before;
    totals.count_medium(media::from_base64(media_kind, data, media_type, bytes));
    Ok(())
}

fn name_text(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{GEMINI, PathRequest};

    fn of(body: &str) -> Envelope {
        GEMINI.envelope(body.as_bytes()).expect("a request")
    }

    #[test]
    fn what_decides_is_read_in_one_pass() {
        let body = r#"{"systemInstruction":{"parts":{"text":"abc"}},"generationConfig":{"maxOutputTokens":7,"candidateCount":2,
            "thinkingConfig":{"includeThoughts":true}},"contents":[{"role":"model","parts":[{"text":"x"}]},
            {"parts":[{"text":"hello"}]}]}"#;
        let envelope = of(body).with_path(PathRequest {
            model: Some("m".into()),
            stream: true,
        });
        assert_eq!((envelope.model.as_str(), envelope.stream), ("m", true));
        assert_eq!(
            (
                envelope.max_tokens,
                envelope.choices.shown,
                envelope.prompt_bytes
            ),
            (Some(7), 2, 9)
        );
        assert!(
            envelope.include_usage
                && !envelope.hide_thoughts
                && !envelope.conversation_may_refer
                && !envelope.wants_json
        );
        assert_eq!(
            envelope.beginning.map(|span| body[span].contains("hello")),
            Some(true)
        );
        let snake = r#"{"contents":{"parts":{"text":"hello"}},"generation_config":{"max_output_tokens":7}}"#;
        let envelope = of(snake);
        assert_eq!((envelope.max_tokens, envelope.prompt_bytes), (Some(7), 5));
        assert!(envelope.hide_thoughts && envelope.beginning.is_some());
    }

    #[test]
    fn what_is_no_request_is_refused_by_its_field() {
        for (body, param, code) in [
            ("{}", Some("contents"), Some("missing_required_parameter")),
            (r#"{"contents":[]}"#, Some("contents"), Some("empty_array")),
            (
                r#"{"contents":"x"}"#,
                Some("contents"),
                Some("invalid_type"),
            ),
            (
                r#"{"contents":[1]}"#,
                Some("contents[0]"),
                Some("invalid_type"),
            ),
            (
                r#"{"contents":[{}],"generationConfig":{},"generation_config":{}}"#,
                Some("generationConfig"),
                None,
            ),
            ("[]", None, None),
        ] {
            let fault = GEMINI.envelope(body.as_bytes()).unwrap_err();
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
        for (kind, data) in [("mimeType", "inlineData"), ("mime_type", "inline_data")] {
            let part = format!(r#"{{"{data}":{{"{kind}":"image/png","data":"{picture}"}}}}"#);
            for body in [
                format!(r#"{{"contents":[{{"parts":[{part}]}}]}}"#),
                format!(
                    r#"{{"contents":[{{"parts":[{{"functionResponse":{{"name":"f","parts":[{part}]}}}}]}}]}}"#
                ),
            ] {
                let envelope = of(&body);
                assert!(
                    !envelope.conversation_may_refer && envelope.max_prompt_tokens < 2_000,
                    "{} {body:.60}",
                    envelope.max_prompt_tokens
                );
            }
        }
        let far = of(
            r#"{"contents":[{"parts":[{"fileData":{"mimeType":"image/png","fileUri":"https://x/y"}}]}]}"#,
        );
        assert!(far.conversation_may_refer && far.max_prompt_tokens > 1_500);
    }

    #[test]
    fn json_is_wanted_where_it_is_said() {
        let wants = |settings: &str| {
            of(&format!(
                r#"{{"contents":[{{"parts":[]}}],"generationConfig":{{{settings}}}}}"#
            ))
            .wants_json
        };
        assert!(wants(r#""responseMimeType":"application/json""#));
        assert!(wants(
            r#""responseMimeType":"application/json","responseJsonSchema":{}"#
        ));
        assert!(wants(r#""response_schema":{"type":"OBJECT"}"#));
        assert!(!wants(r#""responseMimeType":"text/plain""#));
        assert!(!wants(r#""temperature":1"#));
    }

    #[test]
    fn a_reference_is_seen_however_its_names_are_written() {
        let part = r#"{"fileData":{"fileUri":"gs://b/x.pdf"}}"#;
        for parts in ["parts", "parts_", "_parts"] {
            let response = format!(r#"{{"name":"f","response":{{}},"{parts}":[{part}]}}"#);
            let body =
                format!(r#"{{"contents":[{{"parts":[{{"functionResponse":{response}}}]}}]}}"#);
            assert!(of(&body).conversation_may_refer, "{parts}");
        }
    }

    #[test]
    fn a_maximum_of_zero_says_nothing() {
        let body =
            r#"{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"maxOutputTokens":0}}"#;
        assert_eq!(of(body).max_tokens, None);
    }
}

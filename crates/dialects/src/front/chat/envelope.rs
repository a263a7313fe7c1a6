//! The envelope of a chat request: the few fields that decide where it goes, with their exact
//! spans.

mod content;

use content::scan_message;
pub(crate) use content::scan_part;

use crate::front::reading::scan::{Scan, lenient_number, read_choice_count};
use crate::front::{CHAT, Envelope, Fault};
use crate::wire::json::{self, Cursor, Kind, ScanResult};

/// The fields that decide where a request goes, what it may cost and how it is answered. Some
/// servers ignore the case of these names, and of several fields they take the last one. So a name
/// that differs only in its case (`Model`) is refused: a server could read that field in place of
/// the one that was checked here.
const KNOWN: [&str; 8] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "n",
    "best_of",
];

/// Returns the known name that differs from this name in its case only.
fn find_other_case<'k>(name: &[u8], known: &[&'k str]) -> Option<&'k str> {
    // An ASCII name without capitals is no known name in another case.
    if !name
        .iter()
        .any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii())
    {
        return None;
    }
    known
        .iter()
        .copied()
        .find(|word| json::folds_to(name, word))
}

/// Reads a request body.
pub(super) fn read_envelope(body: &[u8]) -> Result<Envelope, Fault> {
    let mut has_messages = false;
    let scan = Scan::over(body, &CHAT, |scan, cursor, name| {
        has_messages |= name == b"messages";
        scan_field(scan, cursor, name)
    })?;
    scan.envelope((!has_messages).then_some("messages"))
}

/// Consumes the value of a top-level field.
fn scan_field<'a>(scan: &mut Scan<'a>, cursor: &mut Cursor<'a>, name: &[u8]) -> ScanResult<()> {
    match name {
        b"model" => scan.model(cursor)?,
        b"messages" => scan.messages(cursor, "messages", scan_message)?,
        b"stream" => {
            let (flag, _span) = scan.flag(cursor, "stream")?;
            scan.envelope.stream = flag.unwrap_or(false);
        }
        b"stream_options" => scan_stream_options(scan, cursor)?,
        // Some callers write both: the larger one is the limit that may be reached. A `null` of
        // `max_tokens` is noted, since the catalog's default is written in its place.
        b"max_tokens" | b"max_completion_tokens" => {
            let is_null = cursor.kind()? == Kind::Null;
            let span = cursor.value()?;
            scan.envelope.has_max_tokens |= !is_null;
            scan.envelope.max_tokens = scan.envelope.max_tokens.max(lenient_number(cursor, &span));
            if name == b"max_tokens" {
                scan.envelope.places.max_tokens_null = is_null.then_some(span);
            }
        }
        // The caller gets `n` answers. The server writes `best_of`, and all that are written cost.
        b"n" => {
            scan.envelope.choices.set_shown(read_choice_count(cursor)?);
        }
        b"best_of" => {
            scan.envelope
                .choices
                .raise_written(read_choice_count(cursor)?);
        }
        b"tools" => scan.totals.count_tools(cursor)?,
        b"functions" => scan.totals.other_bytes += cursor.value()?.len(),
        b"response_format" => {
            let span = cursor.value()?;
            scan.totals.other_bytes += span.len();
            scan.envelope.wants_json = is_json_format(json::span_bytes(cursor.text(), &span));
        }
        b"prompt_cache_key" | b"user" | b"safety_identifier" => scan.user_field(cursor, name)?,
        name => {
            if let Some(known) = find_other_case(name, &KNOWN) {
                scan.note(|| Fault::wrong_case(name, known));
            }
            scan.totals.count_setting(cursor, name)?;
        }
    }
    Ok(())
}

/// Consumes `stream_options`.
pub(crate) fn scan_stream_options<'a>(
    scan: &mut Scan<'a>,
    cursor: &mut Cursor<'a>,
) -> ScanResult<()> {
    let kind = cursor.kind()?;
    let span = if kind == Kind::Object {
        cursor.object(|cursor, key| {
            let name = json::name_of(cursor.text(), &key);
            if *name != *b"include_usage" {
                if let Some(known) = find_other_case(&name, &["include_usage"]) {
                    scan.note(|| Fault::wrong_case(&name, known));
                }
                return cursor.skip();
            }
            if scan.envelope.places.include_usage.is_some() {
                scan.note(|| Fault::duplicate("stream_options.include_usage"));
            }
            let (flag, span) = scan.flag(cursor, "stream_options.include_usage")?;
            scan.envelope.include_usage = flag.unwrap_or(false);
            scan.envelope.places.include_usage = Some(span);
            Ok(())
        })?
    } else {
        if kind != Kind::Null {
            scan.note(|| Fault::of_type("stream_options", "an object", kind));
        }
        cursor.value()?
    };
    scan.envelope.places.stream_options = Some(span);
    Ok(())
}

/// Returns whether a `response_format` asks for JSON.
fn is_json_format(format: &[u8]) -> bool {
    let mut found = false;
    let read = Cursor::new(format).object(|cursor, key| {
        let value = cursor.value()?;
        if *json::name_of(format, &key) == *b"type" {
            found = json::text_of(format, &value)
                .is_some_and(|kind| matches!(&*kind, "json_object" | "json_schema"));
        }
        Ok(())
    });
    read.is_ok() && found
}

#[cfg(test)]
mod tests;

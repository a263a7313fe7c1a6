//! The items of an answer, to which a later request may refer by their ids.

use crate::front::{Front, RESPONSES};
use crate::wire::json::{self, Cursor, ScanResult, Span, span_bytes};

impl Front {
    /// Calls `each` with the id and the JSON of each item of an answer to which a later request may
    /// refer. `answer` is a whole answer, or the end of a stream.
    pub fn each_item(&self, answer: &[u8], is_stream: bool, each: &mut dyn FnMut(&str, &[u8])) {
        if self == &RESPONSES {
            each_of(answer, is_stream, each);
        }
    }
}

/// Calls `each` with the id and the JSON of each item. The last event of a stream repeats all
/// items.
fn each_of(answer: &[u8], is_stream: bool, each: &mut dyn FnMut(&str, &[u8])) {
    if !is_stream {
        // An answer that cannot be read has no items.
        let _read = in_response(&mut Cursor::new(answer), each);
        return;
    }
    let lines = answer.split(|byte| matches!(byte, b'\n' | b'\r'));
    for data in lines.filter_map(|line| line.strip_prefix(b"data:")) {
        let _read =
            Cursor::new(data).maybe_object(|cursor, key| match &*json::name_of(data, &key) {
                b"response" => in_response(cursor, each),
                _ => cursor.value(),
            });
    }
}

/// Consumes a response.
fn in_response(cursor: &mut Cursor<'_>, each: &mut dyn FnMut(&str, &[u8])) -> ScanResult<Span> {
    let text = cursor.text();
    cursor.maybe_object(|cursor, key| match &*json::name_of(text, &key) {
        b"output" => cursor.maybe_array(|cursor, _| visit_item(cursor, each)),
        _ => cursor.value(),
    })
}

fn visit_item(cursor: &mut Cursor<'_>, each: &mut dyn FnMut(&str, &[u8])) -> ScanResult<Span> {
    let text = cursor.text();
    let mut id = None;
    let span = cursor.maybe_members(|key, value| {
        if *json::name_of(text, &key) == *b"id" {
            id = json::text_of(text, &value);
        }
    })?;
    if let Some(id) = id.filter(|id| !id.is_empty()) {
        each(&id, span_bytes(text, &span));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use crate::front::{RESPONSES, STANDARD};

    fn items(answer: &str, is_stream: bool) -> Vec<String> {
        let mut found = Vec::new();
        RESPONSES.each_item(answer.as_bytes(), is_stream, &mut |id, item| {
            found.push(format!("{id} {}", String::from_utf8_lossy(item)));
        });
        found
    }

    #[test]
    fn each_item_of_an_answer_is_found_once() {
        let one = r#"{"type":"message","id":"msg_1","content":[{"id":"no"}]}"#;
        let response = format!(
            r#"{{"id":"resp_1","output":[{one}, {{"type":"x"}},{{"id":"fc_1"}}],"x":{{"output":[{one}]}}}}"#
        );
        let expected = [format!("msg_1 {one}"), r#"fc_1 {"id":"fc_1"}"#.to_owned()];
        assert_eq!(items(&response, false), expected);
        let begun = r#"event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1","output":[]}}\n\n"#;
        let added = format!("event: response.output_item.done\ndata: {{\"item\":{one}}}\n\n");
        let stream = format!(
            "{}{added}event: response.completed\ndata: {{\"response\":{response}}}\n\n",
            begun.replace("\\n", "\n")
        );
        assert_eq!(items(&stream, true), expected);
        for broken in [
            "",
            "{",
            "[]",
            r#"{"output":7}"#,
            r#"{"output":[{"id":7},{"id":""}]}"#,
        ] {
            assert!(
                items(broken, false).is_empty()
                    && items(&format!("data: {broken}"), true).is_empty(),
                "{broken}"
            );
        }
        let mut is_asked = false;
        STANDARD.each_item(response.as_bytes(), false, &mut |_, _| is_asked = true);
        assert!(!is_asked);
    }
}

//! The labels of an answer are its provider's id and names for it: traces show them. They are read
//! only if they are wanted.

use crate::wire::json::{Cursor, ScanResult, span_bytes};
use crate::wire::without_bom;

/// The longest text that can be a label.
const MAX_LABEL: usize = 128;
/// The most bytes that are kept of a stream's start, which has its labels.
const MAX_START: usize = 16 * 1024;
/// The longest raw text that is kept of the start of a stream. No label is longer, but the
/// instructions before the model's name are.
const MAX_TEXT: usize = 6 * MAX_LABEL;

/// A provider's labels of its answer, as far as it sends them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// The provider's own id for the answer.
    pub id: Option<String>,
    /// The name of the model that answered. It is often longer than the requested one.
    pub model: Option<String>,
    /// The tier at which the answer was processed.
    pub tier: Option<String>,
}

impl Labels {
    /// Reads the labels of a whole answer, in whichever format.
    pub fn of_answer(body: &[u8]) -> Option<Labels> {
        let mut labels = Labels::default();
        // The labels before a fault still count.
        labels
            .object(&mut Cursor::new(without_bom(body)), true)
            .ok();
        Some(labels).filter(|labels| *labels != Labels::default())
    }

    /// Makes labels of the values of an answer, as they stand in it.
    pub(crate) fn of_values(id: &[u8], model: &[u8], tier: &[u8]) -> Labels {
        Labels {
            id: read_label(id),
            model: read_label(model),
            tier: read_label(tier),
        }
    }

    /// Removes each label that has one of these secrets in it.
    pub fn remove(&mut self, secrets: &[&str]) {
        for label in [&mut self.id, &mut self.model, &mut self.tier] {
            label.take_if(|label| {
                let mut secrets = secrets.iter();
                secrets.any(|secret| !secret.is_empty() && label.contains(secret))
            });
        }
    }

    /// Consumes a value, which has labels if it is an object. If it is `outer`, it may be an event
    /// that has the answer inside.
    fn object(&mut self, cursor: &mut Cursor<'_>, outer: bool) -> ScanResult<()> {
        let text = cursor.text();
        cursor.maybe_object(|cursor, key| {
            let target = match span_bytes(text, &key) {
                br#""id""# | br#""responseId""# => &mut self.id,
                br#""model""# | br#""modelVersion""# => &mut self.model,
                br#""service_tier""# => &mut self.tier,
                // Events of Anthropic's and of OpenAI's Responses.
                br#""message""# | br#""response""# if outer => return self.object(cursor, false),
                _ => return cursor.skip(),
            };
            let value = cursor.value()?;
            if target.is_none() {
                *target = read_label(span_bytes(text, &value));
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// Returns the label that a value is, if it looks like one.
fn read_label(value: &[u8]) -> Option<String> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if has_escapes(inner) {
        let label: String = serde_json::from_slice(value).ok()?;
        return is_label(label.as_bytes()).then_some(label);
    }
    is_label(inner)
        .then(|| str::from_utf8(inner).ok().map(str::to_owned))
        .flatten()
}

// Without an early end, both checks take many bytes at once.

fn is_label(text: &[u8]) -> bool {
    (1..=MAX_LABEL).contains(&text.len())
        && text
            .iter()
            .fold(true, |is_good, byte| is_good & byte.is_ascii_graphic())
}

fn has_escapes(text: &[u8]) -> bool {
    text.len() <= 6 * MAX_LABEL && text.iter().fold(false, |has, byte| has | (*byte == b'\\'))
}

/// The start of a stream, as it came, but without long texts.
#[derive(Debug, Default)]
pub struct Start {
    kept: Vec<u8>,
    /// The text that the next byte belongs to.
    text: Option<Text>,
}

/// A text that has begun.
#[derive(Debug)]
struct Text {
    /// The place in the kept bytes where the text's content begins.
    content_start: usize,
    /// True if it is too long for a label, so that no more of it is kept.
    is_long: bool,
    /// True after a backslash.
    is_escaped: bool,
}

impl Start {
    /// Takes the next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.kept.len() >= MAX_START {
                return;
            }
            self.step(*byte);
        }
    }

    fn step(&mut self, byte: u8) {
        let Some(text) = &mut self.text else {
            self.kept.push(byte);
            self.text = (byte == b'"').then_some(Text {
                content_start: self.kept.len(),
                is_long: false,
                is_escaped: false,
            });
            return;
        };
        // A line that ends in a text was no JSON.
        let has_ended = (byte == b'"' && !text.is_escaped) || matches!(byte, b'\n' | b'\r');
        text.is_escaped = byte == b'\\' && !text.is_escaped;
        if !text.is_long && !has_ended && self.kept.len() - text.content_start >= MAX_TEXT {
            text.is_long = true;
            self.kept.truncate(text.content_start);
        }
        if !text.is_long || has_ended {
            self.kept.push(byte);
        }
        if has_ended {
            self.text = None;
        }
    }

    /// Reads the labels of the first event that has some.
    pub fn labels(&self) -> Option<Labels> {
        let lines = self.kept.split(|byte| matches!(byte, b'\n' | b'\r'));
        lines
            .map(|line| line.strip_prefix(b"data:").unwrap_or(line).trim_ascii())
            .filter(|line| line.starts_with(b"{"))
            .find_map(Labels::of_answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(id: &str, model: &str, tier: &str) -> Option<Labels> {
        let [id, model, tier] =
            [id, model, tier].map(|label| Some(label.to_owned()).filter(|label| !label.is_empty()));
        Some(Labels { id, model, tier })
    }

    #[test]
    fn each_format_has_its_own_words() {
        let check = |body: &str, expected| {
            assert_eq!(Labels::of_answer(body.as_bytes()), expected, "{body}")
        };
        let openai = r#"{"id":"chatcmpl-1","model":"gpt-4o-2024-08-06","choices":[{"id":"x"}],"service_tier":"flex"}"#;
        check(openai, labels("chatcmpl-1", "gpt-4o-2024-08-06", "flex"));
        let anthropic = r#"{"type":"message","id":"msg_1","model":"claude-x","usage":{"service_tier":"batch"}}"#;
        check(anthropic, labels("msg_1", "claude-x", ""));
        check(
            r#"{"candidates":[],"modelVersion":"gemini-x-001","responseId":"r1"}"#,
            labels("r1", "gemini-x-001", ""),
        );
        check(
            r#"{"id":"c1","message":{"role":"assistant","content":[]}}"#,
            labels("c1", "", ""),
        );
        check(
            "\u{feff}{\"model\":\"llama\",\"message\":\"text\"}",
            labels("", "llama", ""),
        );
        check(
            r#"{"output":{"message":{"role":"assistant"}},"usage":{}}"#,
            None,
        );
        check("[]", None);
    }

    #[test]
    fn what_is_no_label_is_not_taken_for_one() {
        let long = "x".repeat(MAX_LABEL + 1);
        for id in ["", "two words", "line\nbreak", "ünïcode", &long] {
            let body =
                serde_json::json!({ "id": id, "model": "m", "service_tier": null }).to_string();
            assert_eq!(
                Labels::of_answer(body.as_bytes()),
                labels("", "m", ""),
                "{id}"
            );
        }
        let written = |id: &str| Labels::of_values(id.as_bytes(), b"", b"null").id;
        assert_eq!(
            [
                written(r#""a\u002d\/b""#),
                written(r#""a\u0020b""#),
                written(r#""a\"#)
            ],
            [Some("a-/b".into()), None, None]
        );
        for body in [
            r#"{"id":1,"model":"m"}"#,
            r#"{"model":"m","id":"#,
            r#"{"model":"m","model":"n"}"#,
        ] {
            assert_eq!(
                Labels::of_answer(body.as_bytes()),
                labels("", "m", ""),
                "{body}"
            );
        }
    }

    #[test]
    fn a_label_with_a_secret_in_it_is_none() {
        let without = |secrets: &[&str]| {
            let mut labels = labels("my-s3cret-key", "m", "s3cret")?;
            labels.remove(secrets);
            Some(labels)
        };
        assert_eq!(without(&["", "s3cret"]), labels("", "m", ""));
        assert_eq!(without(&[""]), labels("my-s3cret-key", "m", "s3cret"));
    }

    #[test]
    fn a_stream_has_them_in_its_first_events() {
        let anthropic = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\
                         \"claude-x\"}}\n\nevent: ping\ndata: {}\n\n";
        let responses = ": hello\r\n\r\ndata:{\"response\":{\"id\":\"resp_1\",\"model\":\"gpt-x\",\"service_tier\":\
                         \"auto\"}}\r\n\r\n";
        let ollama =
            "{\"model\":\"llama\",\"message\":{\"content\":\"a\"}}\n{\"model\":\"other\"}\n";
        let expected = [
            labels("msg_1", "claude-x", ""),
            labels("resp_1", "gpt-x", "auto"),
            labels("", "llama", ""),
        ];
        for (stream, expected) in [anthropic, responses, ollama].into_iter().zip(expected) {
            for cut in [1, 7, stream.len()] {
                let mut start = Start::default();
                stream
                    .as_bytes()
                    .chunks(cut)
                    .for_each(|bytes| start.take(bytes));
                assert_eq!(start.labels(), expected, "{stream} in pieces of {cut}");
            }
        }
    }

    #[test]
    fn long_texts_hide_no_label() {
        let stream = |rest: &str| {
            let instructions = "say \\\"no\\\" \\\\".repeat(2 * MAX_START);
            let event = format!(
                ": it is 5\" long\n\ndata: {{\"response\":{{\"id\":\"resp_1\",\"instructions\":\"{instructions}\",\"model\":\"gpt-x\"{rest}"
            );
            [1, 7, event.len()].map(|cut| {
                let mut start = Start::default();
                event
                    .as_bytes()
                    .chunks(cut)
                    .for_each(|bytes| start.take(bytes));
                assert!(start.kept.len() <= MAX_START, "{} bytes", start.kept.len());
                start.labels()
            })
        };
        let whole = labels("resp_1", "gpt-x", "");
        assert_eq!(stream("}}\n\n"), [(); 3].map(|()| whole.clone()));
        // Tools make the event so long that its end is not kept.
        let tools = format!(
            ",\"tools\":[{}0]}}}}\n\n",
            "{\"name\":\"t\"},".repeat(MAX_START)
        );
        assert_eq!(stream(&tools), [(); 3].map(|()| whole.clone()));
    }

    #[test]
    fn only_the_start_of_a_stream_is_kept() {
        let mut start = Start::default();
        (0..10).for_each(|_| start.take(&vec![b'.'; MAX_START / 4]));
        start.take(b"\n{\"id\":\"1\"}\n");
        assert_eq!((start.kept.len(), start.labels()), (MAX_START, None));
    }
}

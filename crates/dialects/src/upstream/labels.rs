//! The labels of an answer are what its provider calls it: for traces. They are read beside the
//! answer, and only if somebody wants them.

use crate::wire::json::{Broken, Cursor, Span, slice};

/// The longest label that is taken for one.
const MAX_LABEL: usize = 128;
/// The start of a stream has its labels: so much of it is kept.
const MAX_START: usize = 16 * 1024;

/// What a provider calls its answer, as far as it says that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// The provider's own id for the answer.
    pub id: Option<String>,
    /// The name of the model that answered: often longer than the one that was asked for.
    pub model: Option<String>,
    /// The tier at which the answer was processed.
    pub tier: Option<String>,
}

impl Labels {
    /// Reads the labels of a whole answer, in whichever format. What is in `secrets` is no label.
    pub fn of_answer(body: &[u8], secrets: &[&str]) -> Option<Labels> {
        let mut labels = Labels::default();
        // What stands before a fault still counts.
        labels.object(&mut Cursor::new(body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body)), secrets, true).ok();
        Some(labels).filter(|labels| *labels != Labels::default())
    }

    /// Consumes an object. If it is `outer`, it may be an event that has the answer inside.
    fn object(&mut self, cursor: &mut Cursor<'_>, secrets: &[&str], outer: bool) -> Result<(), Broken> {
        let text = cursor.text();
        cursor.object(|cursor, key| {
            let place = match slice(text, &key) {
                br#""id""# | br#""responseId""# => &mut self.id,
                br#""model""# | br#""modelVersion""# => &mut self.model,
                br#""service_tier""# => &mut self.tier,
                // Events of Anthropic's and of OpenAI's Responses.
                br#""message""# | br#""response""# if outer => {
                    let inner = cursor.value()?;
                    let mut inner = Cursor::new(slice(text, &inner));
                    // It may be no object at all.
                    self.object(&mut inner, secrets, false).ok();
                    return Ok(());
                }
                _ => return cursor.value().map(drop),
            };
            let value = cursor.value()?;
            if place.is_none() {
                *place = label(text, &value, secrets);
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// Returns a label, if it looks like one.
fn label(text: &[u8], value: &Span, secrets: &[&str]) -> Option<String> {
    let label: String = serde_json::from_slice(slice(text, value)).ok()?;
    let is_label = (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_graphic());
    let is_secret = secrets.iter().any(|secret| !secret.is_empty() && label.contains(secret));
    (is_label && !is_secret).then_some(label)
}

/// The start of a stream, as it came.
#[derive(Debug, Default)]
pub struct Start(Vec<u8>);

impl Start {
    /// Takes the next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        let room = MAX_START.saturating_sub(self.0.len());
        self.0.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// Reads the labels: those of the first event that has some.
    pub fn labels(&self, secrets: &[&str]) -> Option<Labels> {
        let lines = self.0.split(|byte| matches!(byte, b'\n' | b'\r'));
        lines
            .map(|line| line.strip_prefix(b"data:").unwrap_or(line).trim_ascii())
            .filter(|line| line.starts_with(b"{"))
            .find_map(|line| Labels::of_answer(line, secrets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(id: &str, model: &str, tier: &str) -> Option<Labels> {
        let [id, model, tier] = [id, model, tier].map(|label| Some(label.to_owned()).filter(|label| !label.is_empty()));
        Some(Labels { id, model, tier })
    }

    #[test]
    fn each_format_has_its_own_words() {
        let check = |body: &str, expected| assert_eq!(Labels::of_answer(body.as_bytes(), &[]), expected, "{body}");
        let openai = r#"{"id":"chatcmpl-1","model":"gpt-4o-2024-08-06","choices":[{"id":"x"}],"service_tier":"flex"}"#;
        check(openai, labels("chatcmpl-1", "gpt-4o-2024-08-06", "flex"));
        let anthropic = r#"{"type":"message","id":"msg_1","model":"claude-x","usage":{"service_tier":"batch"}}"#;
        check(anthropic, labels("msg_1", "claude-x", ""));
        check(r#"{"candidates":[],"modelVersion":"gemini-x-001","responseId":"r1"}"#, labels("r1", "gemini-x-001", ""));
        check(r#"{"id":"c1","message":{"role":"assistant","content":[]}}"#, labels("c1", "", ""));
        check("\u{feff}{\"model\":\"llama\",\"message\":\"text\"}", labels("", "llama", ""));
        check(r#"{"output":{"message":{"role":"assistant"}},"usage":{}}"#, None);
        check("[]", None);
    }

    #[test]
    fn what_is_no_label_is_not_taken_for_one() {
        let long = "x".repeat(MAX_LABEL + 1);
        for id in ["", "two words", "line\nbreak", "ünïcode", "my-s3cret-key", &long] {
            let body = serde_json::json!({ "id": id, "model": "m", "service_tier": null }).to_string();
            assert_eq!(Labels::of_answer(body.as_bytes(), &["", "s3cret"]), labels("", "m", ""), "{id}");
        }
        for body in [r#"{"id":1,"model":"m"}"#, r#"{"model":"m","id":"#, r#"{"model":"m","model":"n"}"#] {
            assert_eq!(Labels::of_answer(body.as_bytes(), &[]), labels("", "m", ""), "{body}");
        }
    }

    #[test]
    fn a_stream_has_them_in_its_first_events_however_it_is_cut() {
        let anthropic = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\
                         \"claude-x\"}}\n\nevent: ping\ndata: {}\n\n";
        let responses = ": hello\r\n\r\ndata:{\"response\":{\"id\":\"resp_1\",\"model\":\"gpt-x\",\"service_tier\":\
                         \"auto\"}}\r\n\r\n";
        let ollama = "{\"model\":\"llama\",\"message\":{\"content\":\"a\"}}\n{\"model\":\"other\"}\n";
        let expected = [labels("msg_1", "claude-x", ""), labels("resp_1", "gpt-x", "auto"), labels("", "llama", "")];
        for (stream, expected) in [anthropic, responses, ollama].into_iter().zip(expected) {
            for cut in [1, 7, stream.len()] {
                let mut start = Start::default();
                stream.as_bytes().chunks(cut).for_each(|bytes| start.take(bytes));
                assert_eq!(start.labels(&[]), expected, "{stream} in pieces of {cut}");
            }
        }
    }

    #[test]
    fn only_the_start_of_a_stream_is_kept() {
        let mut start = Start::default();
        (0..10).for_each(|_| start.take(&vec![b'.'; MAX_START / 4]));
        start.take(b"\n{\"id\":\"1\"}\n");
        assert_eq!((start.0.len(), start.labels(&[])), (MAX_START, None));
    }
}

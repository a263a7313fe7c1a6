//! The usage of a whole answer that reaches no caller: the upstream may charge for it.

use super::{Dialect, Recipient};
use crate::neutral::Event;
use crate::neutral::answer::Tally;
use crate::neutral::usage::Usage;
use crate::neutral::vectors::Vectors;
use crate::upstream::openai;
use crate::wire::json::repaired_text;

impl Dialect {
    /// Returns the usage that a body of this model reports, though it is no answer for the caller:
    /// it is an error, is cut, cannot be read, or has parts that the caller's format cannot
    /// express. Returns an empty usage if it reports none.
    pub fn reported_usage(&self, model: &str, to: &Recipient<'_>, body: &[u8]) -> Usage {
        let read = |body: &[u8]| self.usage_in(model, to, body);
        read(body)
            .or_else(|| read(&repaired_text(body)?))
            .unwrap_or_default()
    }

    fn usage_in(&self, model: &str, to: &Recipient<'_>, body: &[u8]) -> Option<Usage> {
        let (protocol, _) = self.choose_way(to.front, model, to.options.hide_reasoning);
        let Some(translation) = &protocol.translation else {
            return openai::reported_usage(to.header, self.settings.quirks, body);
        };
        let mut tally = Tally::new(to.header);
        match translation.vectors {
            Some(form) => tally.count(Vectors::count(body, form.places)),
            None => (translation.count)(model, body, &mut |event| {
                if let Event::Usage(tokens) = event {
                    tally.count(tokens);
                }
            }),
        }
        tally.is_counted().then(|| tally.usage())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{CHAT, EMBEDDINGS, Front};
    use crate::neutral::AnswerHeader;
    use crate::neutral::answer::AnswerOptions;
    use crate::neutral::usage::Source;
    use crate::upstream::{Protocol, cohere, gemini};

    #[track_caller]
    fn check(
        front: &'static Front,
        protocol: &'static Protocol,
        body: &str,
        expected: Option<(u64, u64)>,
    ) {
        let header = AnswerHeader::default();
        let to = Recipient {
            front,
            header: &header,
            options: AnswerOptions::default(),
        };
        let usage = Dialect::from(protocol).reported_usage("m", &to, body.as_bytes());
        let found = (usage.source != Source::None).then_some((usage.prompt, usage.completion));
        assert_eq!(found, expected, "{body}");
    }

    #[test]
    fn what_is_reported_is_found_wherever_the_answer_breaks() {
        let chat = r#"{"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9},"choices":[{"mess"#;
        check(&CHAT, &openai::PROTOCOL, chat, Some((7, 2)));
        let half = r#"{"a":"\ud83d","usage":{"prompt_tokens":7,"total_tokens":9}}"#;
        check(&CHAT, &openai::PROTOCOL, half, Some((7, 2)));
        for body in [
            "",
            "<html>",
            "{}",
            r#"{"usage":null}"#,
            r#"{"usage":{"prompt_tokens":0}}"#,
        ] {
            check(&CHAT, &openai::PROTOCOL, body, None);
        }
        let last = r#"{"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2}}"#;
        check(
            &CHAT,
            &gemini::PROTOCOL,
            &format!("[{{}},{last}]"),
            Some((7, 2)),
        );
        check(&CHAT, &gemini::PROTOCOL, &format!("[{last},"), None);
    }

    #[test]
    fn what_is_reported_beside_conversations_is_found_too() {
        let vectors = r#"{"data":[],"usage":{"prompt_tokens":7,"total_tokens":7}}"#;
        check(
            &EMBEDDINGS,
            openai::PROTOCOL
                .for_endpoint(crate::Endpoint::Embeddings)
                .unwrap(),
            vectors,
            Some((7, 0)),
        );
        let ranked = r#"{"message":"no","meta":{"tokens":{"input_tokens":7}}}"#;
        check(
            Front::find("rerank").unwrap(),
            cohere::PROTOCOL
                .for_endpoint(crate::Endpoint::Rerank)
                .unwrap(),
            ranked,
            Some((7, 0)),
        );
    }
}

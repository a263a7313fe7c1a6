//! What a model can do: facts that decide how a request is written for it. Each dialect has a table
//! of them by name; the catalog overrides them, target by target, where a provider has changed its
//! mind or a name says nothing.
//!
//! Where the callers' own format passes through, a request is not written anew: `tools`, `images`
//! and `structured` decide whether it can be sent at all, and nothing else here applies.

use super::field::Field;
use super::refused::FieldRefused;
use super::request::{Effort, Format, Media, PartKind, Request};

/// The facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// The most tokens that an answer may have. Filled in where a dialect requires a number and the
    /// request is silent; a larger one is cut.
    pub max_output: Option<u64>,
    /// What of `temperature` and `top_p` may be said.
    pub sampling: Sampling,
    /// How it is told to think.
    pub thinking: Thinking,
    /// The words for the effort that it knows.
    pub efforts: Efforts,
    /// Whether thinking can be switched off.
    pub thinking_off: bool,
    /// Whether thoughts that come back are refused if anything before them has changed since.
    pub bound_thoughts: bool,
    /// Whether it knows tools.
    pub tools: bool,
    /// Whether it can be made to call one.
    pub forced_tools: bool,
    /// Whether it can be made to while it is told to think.
    pub forced_while_thinking: bool,
    /// Whether it answers in a JSON Schema natively.
    pub structured: bool,
    /// Whether structured answers and tools go together.
    pub structured_with_tools: bool,
    /// What the account's server reads.
    pub server: Server,
    /// Whether it sees pictures.
    pub images: bool,
    /// Whether the conversation may end with the assistant's own words.
    pub prefill: bool,
}

impl Traits {
    /// A model of which nothing is known: it is asked as the caller asks, and may answer for
    /// itself.
    pub const UNKNOWN: Traits = Traits {
        max_output: None,
        sampling: Sampling::Both,
        thinking: Thinking::Unknown,
        efforts: Efforts::ALL,
        thinking_off: true,
        bound_thoughts: false,
        tools: true,
        forced_tools: true,
        forced_while_thinking: true,
        structured: true,
        structured_with_tools: true,
        server: Server::OWN,
        images: true,
        prefill: true,
    };

    /// The same model at a server that reads no more than these.
    pub fn at(self, server: Server) -> Traits {
        Traits { structured: self.structured && server.output_config, server, ..self }
    }

    /// Whether there is anything that [`Traits::check`] could refuse.
    pub fn deny(&self) -> bool {
        !(self.tools && self.images && self.structured)
    }

    /// Refuses a request for what such a model cannot do, where nothing of it can be left out or
    /// said in another way.
    pub fn check(&self, request: &Request<'_>) -> Result<(), FieldRefused> {
        if !self.tools && !request.tools.is_empty() {
            return Err(FieldRefused::unsupported(Field::Tools, "This model knows no tools."));
        }
        if !self.structured && matches!(request.format, Some(Format::JsonSchema { .. })) {
            return Err(FieldRefused::unsupported(Field::Format, "This model cannot answer in a schema."));
        }
        for (index, message) in request.messages.iter().enumerate() {
            if !self.tools && !message.calls.is_empty() {
                return Err(FieldRefused::unsupported(Field::Calls(index), "This model knows no tools."));
            }
            if self.images {
                continue;
            }
            for (place, part) in message.content.iter().enumerate() {
                let is_image = match &part.kind {
                    PartKind::Image(..) => true,
                    PartKind::File(Media::Inline(kind, _), _) => kind.starts_with("image/"),
                    PartKind::Text(_) | PartKind::Audio(..) | PartKind::File(..) => false,
                };
                if is_image {
                    let place = Field::Part(index, place);
                    return Err(FieldRefused::unsupported(place, "This model does not see pictures."));
                }
            }
        }
        Ok(())
    }
}

/// What an account's server reads of its dialect's newer fields: one that only imitates the
/// dialect's inventor may ignore them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// Anthropic's `output_config`, Bedrock's `outputConfig`.
    pub output_config: bool,
    /// Gemini's `responseJsonSchema`; else `responseSchema`.
    pub response_json_schema: bool,
    /// Gemini's `parametersJsonSchema`; else `parameters`.
    pub parameters_json_schema: bool,
}

impl Server {
    /// The inventor's own.
    pub const OWN: Server = Server { output_config: true, response_json_schema: true, parameters_json_schema: true };
}

/// What of `temperature` and `top_p` may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// Either and both.
    Both,
    /// One of them: `temperature` where both are there.
    One,
    /// Neither.
    Neither,
}

/// How a model is told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// Nothing is known: it is not told.
    Unknown,
    /// It does not.
    None,
    /// So many tokens.
    Budget,
    /// A word for the effort.
    Effort,
}

/// Words for the effort, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Efforts(u8);

impl Efforts {
    /// Every word there is.
    pub const ALL: Self = Self(u8::MAX);
    /// None.
    pub const NO: Self = Self(0);

    /// These words.
    pub const fn of(words: &[Effort]) -> Self {
        let (mut set, mut rest) = (0, words);
        while let [first, after @ ..] = rest {
            set |= 1 << *first as u8;
            rest = after;
        }
        Self(set)
    }

    /// The word to say where this one is meant: it, else the next weaker one, else the weakest.
    pub fn nearest(self, meant: Effort) -> Option<Effort> {
        use Effort::{High, Low, Max, Medium, Minimal, Xhigh};
        let known =
            || [Minimal, Low, Medium, High, Xhigh, Max].into_iter().filter(|word| self.0 & 1 << *word as u8 != 0);
        known().rfind(|word| *word <= meant).or_else(|| known().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::chat::read::read;
    use crate::neutral::Refused;

    #[track_caller]
    fn check(traits: Traits, fields: &str, refused: Option<&str>) {
        let body = format!("{{{fields}}}");
        let (request, spelling) = read(body.as_bytes()).unwrap();
        let found = match traits.check(&request).map_err(|why| spelling.refused(&request, why)) {
            Ok(()) => None,
            Err(Refused::Unsupported(complaint)) => Some(complaint.param),
            Err(Refused::Invalid(complaint)) => panic!("{complaint:?}"),
        };
        assert_eq!(found.as_deref(), refused, "{fields}");
        assert!(traits.deny() || refused.is_none());
    }

    #[test]
    fn what_a_model_cannot_do_is_refused() {
        let deaf = Traits { tools: false, ..Traits::UNKNOWN };
        let blind = Traits { images: false, ..Traits::UNKNOWN };
        let loose = Traits { structured: false, ..Traits::UNKNOWN };
        let tools = r#""tools":[{"type":"function","function":{"name":"f"}}]"#;
        let functions = r#""functions":[{"name":"f"}]"#;
        let called = r#""messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f"}}]}]"#;
        let seen = r#""messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://x/y"}}]}]"#;
        let file = r#""messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"data:image/png;base64,AA"}}]}]"#;
        let paper = r#""messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,AA"}}]}]"#;
        let schema = r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}}"#;
        let object = r#""response_format":{"type":"json_object"}"#;
        check(deaf, tools, Some("tools"));
        check(deaf, functions, Some("functions"));
        check(deaf, called, Some("messages[1].tool_calls"));
        check(blind, seen, Some("messages[0].content[1].image_url"));
        check(blind, file, Some("messages[0].content[0].file"));
        check(blind, paper, None);
        check(loose, schema, Some("response_format"));
        check(loose, object, None);
        for fields in [tools, functions, called, seen, file, paper, schema, object] {
            check(Traits::UNKNOWN, fields, None);
            check(Traits { max_output: Some(1), prefill: false, ..Traits::UNKNOWN }, fields, None);
        }
        check(deaf, seen, None);
        check(blind, tools, None);
    }

    #[test]
    fn the_nearest_word_is_no_stronger_unless_it_must_be() {
        use Effort::{High, Low, Max, Medium, Minimal, Xhigh};
        let some = Efforts::of(&[Low, High, Max]);
        for (meant, said) in [(Minimal, Low), (Low, Low), (Medium, Low), (High, High), (Xhigh, High), (Max, Max)] {
            assert_eq!(some.nearest(meant), Some(said));
            assert_eq!(Efforts::ALL.nearest(meant), Some(meant));
            assert_eq!(Efforts::NO.nearest(meant), None);
        }
    }
}

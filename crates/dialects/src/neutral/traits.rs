//! Traits are a model's abilities. They decide how a request is written for the model.
//!
//! Each dialect has a table of traits by the model's name. The catalog can override them for a
//! target, if a provider has changed a model or the name does not tell.
//!
//! If the caller's format passes through, a request is not written anew. Then `tools`, `images` and
//! `structured` decide if it can be sent at all, `input_type` is added to a request for vectors,
//! and the other traits have no effect.

use crate::named_enum;
use std::fmt;

use super::field::Field;
use super::purpose::Purpose;
use super::refused::FieldRefused;
use super::request::{Effort, Format, Media, PartKind, Request};

/// The abilities of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// The most tokens that a conversation may have. Lists of models show it.
    pub context: Option<u64>,
    /// The most tokens that an answer may have. If a dialect requires a maximum and the request has
    /// none, this is sent. A larger maximum is reduced to this.
    pub max_output: Option<u64>,
    /// The use of `temperature` and `top_p` that the model allows.
    pub sampling: Sampling,
    /// The way in which the model is asked to think.
    pub thinking: Thinking,
    /// The words for the effort that the model knows.
    pub efforts: Efforts,
    /// True if thinking can be switched off.
    pub thinking_off: bool,
    /// True if the model refuses thoughts that come back after anything before them has changed.
    pub bound_thoughts: bool,
    /// True if the model knows tools.
    pub tools: bool,
    /// True if the model can be made to call a tool.
    pub forced_tools: bool,
    /// True if the model can be made to call a tool while it thinks.
    pub forced_while_thinking: bool,
    /// True if the model natively answers in a JSON Schema.
    pub structured: bool,
    /// True if structured answers and tools can be used together.
    pub structured_with_tools: bool,
    /// The newer fields that the account's server reads.
    pub server: Server,
    /// True if the model sees pictures.
    pub images: bool,
    /// True if the conversation may end with the assistant's own words.
    pub prefill: bool,
    /// True if the model reads OpenAI's `prompt_cache_breakpoint`.
    pub cache_breakpoints: bool,
    /// The purpose of vectors if a request does not name one, and the word for it.
    pub input_type: Option<(Purpose, &'static str)>,
    /// True if the model's name is not known. It is asked like the newest models of its kind, and
    /// lists of models do not claim their abilities for it.
    pub guessed: bool,
}

impl Traits {
    /// The traits of an unknown model. The request is sent as the caller wrote it, and the model
    /// may refuse it.
    pub const UNKNOWN: Traits = Traits {
        context: None,
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
        cache_breakpoints: false,
        input_type: None,
        guessed: false,
    };

    /// Returns the traits of a model at a server that reads only these fields.
    pub fn for_server(self, server: Server) -> Traits {
        Traits {
            structured: self.structured && server.output_config,
            server,
            ..self
        }
    }

    /// Returns the traits of a model that sees pictures, and is like this one otherwise.
    pub(crate) const fn with_images(self) -> Traits {
        Traits {
            images: true,
            ..self
        }
    }

    /// Returns the traits of a model that knows no tools, and is like this one otherwise.
    pub(crate) const fn without_tools(self) -> Traits {
        Traits {
            tools: false,
            ..self
        }
    }

    /// Returns whether [`Traits::check`] could refuse a request.
    pub fn deny(&self) -> bool {
        !(self.tools && self.images && self.structured)
    }

    /// Refuses a request that needs an ability which the model lacks, if nothing can be left out or
    /// expressed in another way.
    pub fn check(&self, request: &Request<'_>) -> Result<(), FieldRefused> {
        if !self.tools && !request.tools.is_empty() {
            return Err(FieldRefused::unsupported(
                Field::Tools,
                "This model does not support tools.",
            ));
        }
        if !self.structured && matches!(request.format, Some(Format::JsonSchema { .. })) {
            return Err(FieldRefused::unsupported(
                Field::Format,
                "This model does not support a JSON Schema for its answer.",
            ));
        }
        for (index, message) in request.messages.iter().enumerate() {
            if !self.tools && !message.calls.is_empty() {
                return Err(FieldRefused::unsupported(
                    Field::Calls(index),
                    "This model does not support tools.",
                ));
            }
            if self.images {
                continue;
            }
            for (part_index, part) in message.content.iter().enumerate() {
                let is_image = match &part.kind {
                    PartKind::Image(..) => true,
                    PartKind::File(Media::Inline(kind, _), _) => kind.starts_with("image/"),
                    PartKind::Text(_) | PartKind::Audio(..) | PartKind::File(..) => false,
                };
                if is_image {
                    let field = Field::Part(index, part_index);
                    return Err(FieldRefused::unsupported(
                        field,
                        "This model does not accept pictures.",
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The newer fields of its dialect that an account's server reads. A server that only imitates the
/// dialect's inventor may ignore them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// True for Anthropic's `output_config`, or Bedrock's `outputConfig`.
    pub output_config: bool,
    /// True for Gemini's `responseJsonSchema`; false for `responseSchema`.
    pub response_json_schema: bool,
    /// True for Gemini's `parametersJsonSchema`; false for `parameters`.
    pub parameters_json_schema: bool,
}

impl Server {
    /// The server of the dialect's inventor.
    pub const OWN: Server = Server {
        output_config: true,
        response_json_schema: true,
        parameters_json_schema: true,
    };
}

named_enum! {
    /// Which of `temperature` and `top_p` a model takes.
    pub enum Sampling: serde::Deserialize, schemars::JsonSchema {
        /// Both together.
        Both = "both",
        // If the request has both, it is `temperature`.
        /// One of the two.
        One = "one",
        /// Neither.
        Neither = "neither",
    }
}

named_enum! {
    /// How a request sets a model's thinking.
    pub enum Thinking: serde::Deserialize, schemars::JsonSchema {
        /// It is not known, and nothing is set.
        #[serde(skip)]
        Unknown = "unknown",
        /// It does not think.
        None = "none",
        /// By a number of tokens.
        Budget = "budget",
        /// By a word for the effort.
        Effort = "effort",
    }
}

/// A set of words for the effort.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Efforts(u8);

impl Efforts {
    /// All words.
    pub const ALL: Self = Self(u8::MAX);
    /// No words.
    pub const NO: Self = Self(0);

    /// Returns the set of these words.
    pub const fn from_list(words: &[Effort]) -> Self {
        let mut set = 0;
        let mut rest = words;
        while let [first, after @ ..] = rest {
            set |= 1 << *first as u8;
            rest = after;
        }
        Self(set)
    }

    /// Returns the word to send for this one: the word itself if the model knows it, else the next
    /// weaker one, else the weakest one.
    pub fn nearest(self, meant: Effort) -> Option<Effort> {
        let weaker = self.words().rfind(|word| *word <= meant);
        weaker.or_else(|| self.words().next())
    }

    /// Returns the words, the weakest first.
    fn words(self) -> impl DoubleEndedIterator<Item = Effort> {
        use Effort::{High, Low, Max, Medium, Minimal, Xhigh};
        let words = [Minimal, Low, Medium, High, Xhigh, Max].into_iter();
        words.filter(move |word| self.has(*word))
    }

    fn has(self, word: Effort) -> bool {
        self.0 & 1 << word as u8 != 0
    }
}

/// Lists the words.
impl fmt::Debug for Efforts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Efforts::ALL => f.write_str("all"),
            Efforts::NO => f.write_str("none"),
            some => f.debug_list().entries(some.words()).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::chat::read::read_request;
    use crate::neutral::Refused;

    #[track_caller]
    fn check(traits: Traits, fields: &str, refused: Option<&str>) {
        let body = format!("{{{fields}}}");
        let (request, spelling) = read_request(body.as_bytes()).unwrap();
        let found = match traits
            .check(&request)
            .map_err(|why| spelling.refused(&request, why))
        {
            Ok(()) => None,
            Err(Refused::Unsupported(complaint)) => Some(complaint.param),
            Err(Refused::Invalid(complaint)) => panic!("{complaint:?}"),
        };
        assert_eq!(found.as_deref(), refused, "{fields}");
        assert!(traits.deny() || refused.is_none());
    }

    #[test]
    fn what_a_model_cannot_do_is_refused() {
        let deaf = Traits {
            tools: false,
            ..Traits::UNKNOWN
        };
        let blind = Traits {
            images: false,
            ..Traits::UNKNOWN
        };
        let loose = Traits {
            structured: false,
            ..Traits::UNKNOWN
        };
        let tools = r#""tools":[{"type":"function","function":{"name":"f"}}]"#;
        let functions = r#""functions":[{"name":"f"}]"#;
        let called = r#""messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f"}}]}]"#;
        let seen = r#""messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://x/y"}}]}]"#;
        let file = r#""messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"data:image/png;base64,AA"}}]}]"#;
        let paper = r#""messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,AA"}}]}]"#;
        let schema =
            r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}}"#;
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
            check(
                Traits {
                    max_output: Some(1),
                    prefill: false,
                    ..Traits::UNKNOWN
                },
                fields,
                None,
            );
        }
        check(deaf, seen, None);
        check(blind, tools, None);
    }

    #[test]
    fn the_nearest_word_is_weaker_if_possible() {
        use Effort::{High, Low, Max, Medium, Minimal, Xhigh};
        let some = Efforts::from_list(&[Low, High, Max]);
        for (meant, said) in [
            (Minimal, Low),
            (Low, Low),
            (Medium, Low),
            (High, High),
            (Xhigh, High),
            (Max, Max),
        ] {
            assert_eq!(some.nearest(meant), Some(said));
            assert_eq!(Efforts::ALL.nearest(meant), Some(meant));
            assert_eq!(Efforts::NO.nearest(meant), None);
        }
    }
}

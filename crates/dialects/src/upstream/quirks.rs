//! Quirks are the differences between OpenAI and a server that speaks its format. They are facts,
//! one table for each server, and no code.
//!
//! Two parts of `openai` use them. `rewrite` uses them on requests. The reader of answers uses the
//! few that the answers themselves do not show. Additions of a server, and other words in its
//! answers, are corrected for every server and are not here. A doubtful fact is left out, and then
//! the server decides.

use Rule::{Cannot, Format, List, Nearest, Omit, OneOf, Rename, ToolChoice};

/// The differences of one server.
#[derive(Debug, PartialEq, Eq)]
pub struct Quirks {
    /// The name in the catalog.
    pub name: &'static str,
    /// The name of its provider in OpenTelemetry's conventions, if it is another one.
    pub provider: Option<&'static str>,
    /// The rules for a request's top-level fields. A field without a rule passes unchanged.
    pub fields: &'static [FieldRule],
    /// True if the server takes `stream_options`.
    pub stream_options: bool,
    /// True if the server does not know the role `developer`. The role `system` stands for it.
    pub developer_is_system: bool,
    /// The fields that the server takes in messages; it refuses all others. `name` is not in the
    /// list: such a server takes it only in a tool's message.
    pub message_fields: Option<&'static [&'static str]>,
    /// True if the server takes only ids of tool calls with exactly nine letters and digits.
    pub short_call_ids: bool,
    /// True if the server fetches no pictures. They must be in the request.
    pub inline_images: bool,
    /// The server's own HTTP statuses, and the standard statuses with their meaning.
    pub statuses: &'static [(u16, u16)],
    /// True if `completion_tokens` does not include the reasoning.
    pub reasoning_outside: bool,
    /// True if the server may send one piece of reasoning twice in a row.
    pub repeats_reasoning: bool,
}

/// The names of fields, and the rule for each field.
pub type FieldRule = (&'static [&'static str], Rule);

/// The rule for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The server has another name for the field.
    Rename(&'static str),
    /// The server has no such field, but the answer is still useful. The field is left out, and is
    /// a loss unless its value has no effect.
    Omit,
    /// Without the field the answer would not be the requested one. The request is refused, unless
    /// the value has no effect.
    Cannot,
    /// Any word other than these is left out, and is a loss.
    OneOf(&'static [&'static str]),
    /// These words are replaced by the nearest ones that the server has. That is a loss.
    Nearest(&'static [(&'static str, &'static str)]),
    /// A single string becomes a list.
    List,
    /// `tool_choice`.
    ToolChoice(Choices),
    /// `response_format`.
    Format(Formats),
}

/// The orders about calling tools that a server takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choices {
    /// All orders, but `required` is called `any`.
    Any,
    /// The words, but no tool by its name.
    Words,
    /// None. The server does as the model likes. Without tools it calls none.
    Auto,
}

/// The formats in which a server can be made to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formats {
    /// JSON, but not JSON of a schema.
    NoSchema,
    /// Only JSON of a schema.
    SchemaOnly,
    /// JSON of a schema, in the form `{"type":"json","value":…}`.
    Grammar,
}

impl Quirks {
    /// The quirks of a server without differences.
    pub const NONE: Quirks = Quirks {
        name: "none",
        provider: None,
        fields: &[],
        stream_options: true,
        developer_is_system: false,
        message_fields: None,
        short_call_ids: false,
        inline_images: false,
        statuses: &[],
        reasoning_outside: false,
        repeats_reasoning: false,
    };

    /// Returns the quirks of this name.
    pub fn find(name: &str) -> Option<&'static Quirks> {
        ALL.iter().copied().find(|quirks| quirks.name == name)
    }

    /// Returns the rule for a top-level field, with the field's name.
    pub(crate) fn rule(&self, name: &str) -> Option<(&'static str, Rule)> {
        let named = |names: &'static [&'static str]| names.iter().find(|known| **known == name);
        self.fields
            .iter()
            .find_map(|(names, rule)| Some((*named(names)?, *rule)))
    }

    /// Returns whether a request cannot be written without reading the messages.
    pub(crate) fn touches_messages(&self) -> bool {
        self.developer_is_system
            || self.message_fields.is_some()
            || self.short_call_ids
            || self.inline_images
    }

    /// Returns whether a request may need any change.
    pub(crate) fn touches_requests(&self) -> bool {
        !self.fields.is_empty() || !self.stream_options || self.touches_messages()
    }

    /// Returns the standard status for this server's status.
    pub fn status(&self, status: u16) -> u16 {
        self.statuses
            .iter()
            .find(|(own, _)| *own == status)
            .map_or(status, |(_, standard)| *standard)
    }
}

/// All servers that have a name here.
pub const ALL: &[&Quirks] = &[
    &Quirks::NONE,
    &MISTRAL,
    &XAI,
    &GROQ,
    &DEEPSEEK,
    &OPENROUTER,
    &PERPLEXITY,
    &TOGETHER,
    &FIREWORKS,
    &CEREBRAS,
    &VLLM,
    &LLAMA_CPP,
    &SGLANG,
    &TGI,
    &OLLAMA,
];

/// Renames the maximum of tokens to `max_tokens`. Most servers began with that name, and their
/// older versions know no other.
pub(super) const MAX_TOKENS: FieldRule = (&["max_completion_tokens"], Rename("max_tokens"));
/// Maps the efforts for servers that know three.
const THREE_EFFORTS: FieldRule = (
    &["reasoning_effort"],
    Nearest(&[("minimal", "low"), ("xhigh", "high"), ("max", "high")]),
);

/// api.mistral.ai. It answers 422 to unknown fields, in messages too. It counts tokens without
/// being asked.
pub const MISTRAL: Quirks = Quirks {
    name: "mistral",
    provider: Some("mistral_ai"),
    fields: &[
        MAX_TOKENS,
        (&["seed"], Rename("random_seed")),
        (&["tool_choice"], ToolChoice(Choices::Any)),
        (&["service_tier"], OneOf(&["auto", "standard_only"])),
        (
            &[
                "logit_bias",
                "moderation",
                "prompt_cache_options",
                "prompt_cache_retention",
                "safety_identifier",
            ],
            Omit,
        ),
        (&["store", "user", "verbosity"], Omit),
        (
            &[
                "audio",
                "function_call",
                "functions",
                "modalities",
                "web_search_options",
            ],
            Cannot,
        ),
    ],
    stream_options: false,
    developer_is_system: true,
    message_fields: Some(&["role", "content", "tool_calls", "tool_call_id", "prefix"]),
    // Other ids get a 400 with the code 3280.
    short_call_ids: true,
    ..Quirks::NONE
};

/// api.x.ai.
pub const XAI: Quirks = Quirks {
    name: "xai",
    provider: Some("x_ai"),
    reasoning_outside: true,
    repeats_reasoning: true,
    ..Quirks::NONE
};

/// api.groq.com. It answers 400 to unknown fields, in messages too.
pub const GROQ: Quirks = Quirks {
    name: "groq",
    fields: &[
        (&["logprobs", "n", "top_logprobs"], Cannot),
        (
            &["service_tier"],
            OneOf(&["auto", "on_demand", "flex", "performance"]),
        ),
        THREE_EFFORTS,
        (
            &[
                "frequency_penalty",
                "logit_bias",
                "metadata",
                "moderation",
                "prediction",
                "presence_penalty",
            ],
            Omit,
        ),
        (
            &[
                "prompt_cache_key",
                "prompt_cache_options",
                "prompt_cache_retention",
                "safety_identifier",
                "store",
            ],
            Omit,
        ),
        (&["verbosity"], Omit),
        (&["audio", "modalities", "web_search_options"], Cannot),
    ],
    message_fields: Some(&[
        "role",
        "content",
        "tool_calls",
        "tool_call_id",
        "function_call",
        "reasoning",
    ]),
    // Its flex tier is full.
    statuses: &[(498, 503)],
    ..Quirks::NONE
};

/// api.deepseek.com.
pub const DEEPSEEK: Quirks = Quirks {
    name: "deepseek",
    fields: &[
        MAX_TOKENS,
        (&["n"], Cannot),
        (&["response_format"], Format(Formats::NoSchema)),
    ],
    developer_is_system: true,
    ..Quirks::NONE
};

/// openrouter.ai. It adapts requests to its providers itself, as this file does to ours.
pub const OPENROUTER: Quirks = Quirks {
    name: "openrouter",
    ..Quirks::NONE
};

/// api.perplexity.ai. It counts tokens without being asked.
pub const PERPLEXITY: Quirks = Quirks {
    name: "perplexity",
    fields: &[
        MAX_TOKENS,
        (
            &["reasoning_effort"],
            Nearest(&[("none", "minimal"), ("xhigh", "high"), ("max", "high")]),
        ),
        (&["response_format"], Format(Formats::SchemaOnly)),
        (&["function_call", "functions", "tools"], Cannot),
        (&["logit_bias", "seed", "tool_choice"], Omit),
    ],
    stream_options: false,
    developer_is_system: true,
    ..Quirks::NONE
};

/// api.together.xyz. `logprobs` is a number in its requests and in its answers.
pub const TOGETHER: Quirks = Quirks {
    name: "together",
    fields: &[
        MAX_TOKENS,
        THREE_EFFORTS,
        (&["stop"], List),
        (&["logprobs", "top_logprobs"], Cannot),
    ],
    developer_is_system: true,
    ..Quirks::NONE
};

/// api.fireworks.ai.
pub const FIREWORKS: Quirks = Quirks {
    name: "fireworks",
    fields: &[THREE_EFFORTS],
    developer_is_system: true,
    ..Quirks::NONE
};

/// api.cerebras.ai. It answers 400 to unknown fields.
pub const CEREBRAS: Quirks = Quirks {
    name: "cerebras",
    fields: &[
        THREE_EFFORTS,
        (
            &["service_tier"],
            OneOf(&["auto", "default", "flex", "priority"]),
        ),
        (
            &[
                "frequency_penalty",
                "logit_bias",
                "metadata",
                "presence_penalty",
                "safety_identifier",
                "store",
            ],
            Omit,
        ),
        (&["verbosity"], Omit),
    ],
    ..Quirks::NONE
};

/// vLLM.
pub const VLLM: Quirks = Quirks {
    name: "vllm",
    fields: &[MAX_TOKENS],
    developer_is_system: true,
    ..Quirks::NONE
};

/// llama.cpp's server. It treats a `tool_choice` that is no string as `auto`.
pub const LLAMA_CPP: Quirks = Quirks {
    name: "llama_cpp",
    fields: &[MAX_TOKENS, (&["tool_choice"], ToolChoice(Choices::Words))],
    developer_is_system: true,
    ..Quirks::NONE
};

/// SGLang.
pub const SGLANG: Quirks = Quirks {
    name: "sglang",
    fields: &[MAX_TOKENS],
    developer_is_system: true,
    ..Quirks::NONE
};

/// Hugging Face's Text Generation Inference. It answers 422 to fields of the wrong type.
pub const TGI: Quirks = Quirks {
    name: "tgi",
    fields: &[
        MAX_TOKENS,
        (&["stop"], List),
        (&["response_format"], Format(Formats::Grammar)),
        // It wants a list, and ignores it.
        (&["logit_bias"], Omit),
        // It reads the field, and ignores it.
        (&["n"], Cannot),
    ],
    developer_is_system: true,
    ..Quirks::NONE
};

/// Ollama's imitation of OpenAI. It silently ignores unknown fields.
pub const OLLAMA: Quirks = Quirks {
    name: "ollama",
    fields: &[
        MAX_TOKENS,
        (&["tool_choice"], ToolChoice(Choices::Auto)),
        (&["logit_bias", "parallel_tool_calls"], Omit),
        (&["function_call", "functions", "n"], Cannot),
    ],
    developer_is_system: true,
    inline_images: true,
    ..Quirks::NONE
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_fields_are_distinct() {
        for (at, quirks) in ALL.iter().enumerate() {
            assert!(
                ALL.iter()
                    .skip(at + 1)
                    .all(|other| other.name != quirks.name),
                "{}",
                quirks.name
            );
            assert_eq!(Quirks::find(quirks.name), Some(*quirks));
            let fields: Vec<&str> = quirks
                .fields
                .iter()
                .flat_map(|(names, _)| *names)
                .copied()
                .collect();
            for (at, field) in fields.iter().enumerate() {
                assert!(
                    fields.iter().skip(at + 1).all(|other| other != field),
                    "{}: {field}",
                    quirks.name
                );
            }
        }
        assert_eq!(Quirks::find("nobody"), None);
    }

    #[test]
    fn plain_servers_cost_nothing() {
        assert!(!Quirks::NONE.touches_requests());
        assert!(!OPENROUTER.touches_requests());
        assert!(MISTRAL.touches_requests());
    }

    #[test]
    fn statuses_of_its_own_mean_standard_ones() {
        assert_eq!(GROQ.status(498), 503);
        assert_eq!(GROQ.status(429), 429);
        assert_eq!(MISTRAL.status(498), 498);
    }
}

//! In what servers that speak OpenAI's format differ from OpenAI: facts, a table a server, and no
//! code.
//!
//! Two files of `openai` act on them: `rewrite` on requests, and the reading of answers on the few
//! that the answers alone do not tell. What a server merely adds, or says in its own words in an
//! answer, is put right for every server and is not here. A fact that is doubtful is left out: then
//! the server answers for itself.

use Rule::{Cannot, Format, List, Nearest, Omit, OneOf, Rename, ToolChoice};

/// What is different about a server.
#[derive(Debug, PartialEq, Eq)]
pub struct Quirks {
    /// The name in the catalog.
    pub name: &'static str,
    /// What becomes of a request's top-level fields; those that are not here pass as they are.
    pub fields: &'static [FieldRule],
    /// It takes `stream_options`.
    pub stream_options: bool,
    /// The role `developer` is strange to it; `system` means the same.
    pub developer_is_system: bool,
    /// It refuses messages with other fields than these, `name` aside, which it knows in a tool's
    /// message only.
    pub message_fields: Option<&'static [&'static str]>,
    /// It takes ids of tool calls of exactly nine letters and digits only.
    pub short_call_ids: bool,
    /// It fetches no pictures: they must be in the request.
    pub inline_images: bool,
    /// HTTP statuses of its own, and the standard ones that mean the same.
    pub statuses: &'static [(u16, u16)],
    /// `completion_tokens` leaves the reasoning out.
    pub reasoning_outside: bool,
    /// It may send the same piece of reasoning twice in a row.
    pub repeats_reasoning: bool,
}

/// Names of fields, and what becomes of each of them.
pub type FieldRule = (&'static [&'static str], Rule);

/// What becomes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The server's name for it is another.
    Rename(&'static str),
    /// The server has nothing like it, but the answer is of use without: a loss, unless the value
    /// says nothing.
    Omit,
    /// The answer would not be what was asked for: the server is not asked at all, unless the value
    /// says nothing.
    Cannot,
    /// Any other word than these is left out: a loss, too.
    OneOf(&'static [&'static str]),
    /// Instead of these words the nearest that the server has: a loss.
    Nearest(&'static [(&'static str, &'static str)]),
    /// A lone string becomes a list.
    List,
    /// `tool_choice`.
    ToolChoice(Choices),
    /// `response_format`.
    Format(Formats),
}

/// What a server can be told about calling tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choices {
    /// Everything, but `required` is called `any`.
    Any,
    /// The words, but no tool by its name.
    Words,
    /// Nothing: it does as the model likes. Without tools it calls none.
    Auto,
}

/// In which formats a server can be made to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formats {
    /// In some JSON, but in none of a schema.
    NoSchema,
    /// In JSON of a schema only.
    SchemaOnly,
    /// In JSON of a schema, which it wants as `{"type":"json","value":…}`.
    Grammar,
}

impl Quirks {
    /// A server like OpenAI's own.
    pub const NONE: Quirks = Quirks {
        name: "none",
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

    /// Returns what becomes of a top-level field, with the field's name.
    pub(crate) fn rule(&self, name: &str) -> Option<(&'static str, Rule)> {
        let named = |names: &'static [&'static str]| names.iter().find(|known| **known == name);
        self.fields.iter().find_map(|(names, rule)| Some((*named(names)?, *rule)))
    }

    /// Returns whether the messages must be read to write a request.
    pub(crate) fn touches_messages(&self) -> bool {
        self.developer_is_system || self.message_fields.is_some() || self.short_call_ids || self.inline_images
    }

    /// Returns whether a request may have to be changed at all.
    pub(crate) fn touches_requests(&self) -> bool {
        !self.fields.is_empty() || !self.stream_options || self.touches_messages()
    }

    /// Returns the standard status that this server's status stands for.
    pub fn status(&self, status: u16) -> u16 {
        self.statuses.iter().find(|(own, _)| *own == status).map_or(status, |(_, standard)| *standard)
    }
}

/// Every server that has a name here.
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

/// `max_tokens` is what most servers began with, and all that older versions of them know.
pub(super) const MAX_TOKENS: FieldRule = (&["max_completion_tokens"], Rename("max_tokens"));
/// For those who know three grades.
const THREE_EFFORTS: FieldRule =
    (&["reasoning_effort"], Nearest(&[("minimal", "low"), ("xhigh", "high"), ("max", "high")]));

/// api.mistral.ai. Unknown fields are answered with 422, in messages too. It counts tokens without
/// being asked.
pub const MISTRAL: Quirks = Quirks {
    name: "mistral",
    fields: &[
        MAX_TOKENS,
        (&["seed"], Rename("random_seed")),
        (&["tool_choice"], ToolChoice(Choices::Any)),
        (&["service_tier"], OneOf(&["auto", "standard_only"])),
        (&["logit_bias", "moderation", "prompt_cache_options", "prompt_cache_retention", "safety_identifier"], Omit),
        (&["store", "user", "verbosity"], Omit),
        (&["audio", "function_call", "functions", "modalities", "web_search_options"], Cannot),
    ],
    stream_options: false,
    developer_is_system: true,
    message_fields: Some(&["role", "content", "tool_calls", "tool_call_id", "prefix"]),
    // 400, code 3280
    short_call_ids: true,
    ..Quirks::NONE
};

/// api.x.ai.
pub const XAI: Quirks = Quirks { name: "xai", reasoning_outside: true, repeats_reasoning: true, ..Quirks::NONE };

/// api.groq.com. Unknown fields are answered with 400, in messages too.
pub const GROQ: Quirks = Quirks {
    name: "groq",
    fields: &[
        (&["logprobs", "n", "top_logprobs"], Cannot),
        (&["service_tier"], OneOf(&["auto", "on_demand", "flex", "performance"])),
        THREE_EFFORTS,
        (&["frequency_penalty", "logit_bias", "metadata", "moderation", "prediction", "presence_penalty"], Omit),
        (&["prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "store"], Omit),
        (&["verbosity"], Omit),
        (&["audio", "modalities", "web_search_options"], Cannot),
    ],
    message_fields: Some(&["role", "content", "tool_calls", "tool_call_id", "function_call", "reasoning"]),
    // Its flex tier is full.
    statuses: &[(498, 503)],
    ..Quirks::NONE
};

/// api.deepseek.com.
pub const DEEPSEEK: Quirks = Quirks {
    name: "deepseek",
    fields: &[MAX_TOKENS, (&["n"], Cannot), (&["response_format"], Format(Formats::NoSchema))],
    developer_is_system: true,
    ..Quirks::NONE
};

/// openrouter.ai: it does for its providers what this file does for ours.
pub const OPENROUTER: Quirks = Quirks { name: "openrouter", ..Quirks::NONE };

/// api.perplexity.ai. It counts tokens without being asked.
pub const PERPLEXITY: Quirks = Quirks {
    name: "perplexity",
    fields: &[
        MAX_TOKENS,
        (&["reasoning_effort"], Nearest(&[("none", "minimal"), ("xhigh", "high"), ("max", "high")])),
        (&["response_format"], Format(Formats::SchemaOnly)),
        (&["function_call", "functions", "tools"], Cannot),
        (&["logit_bias", "seed", "tool_choice"], Omit),
    ],
    stream_options: false,
    developer_is_system: true,
    ..Quirks::NONE
};

/// api.together.xyz. Its `logprobs` are a number, and so are the answer's.
pub const TOGETHER: Quirks = Quirks {
    name: "together",
    fields: &[MAX_TOKENS, THREE_EFFORTS, (&["stop"], List), (&["logprobs", "top_logprobs"], Cannot)],
    developer_is_system: true,
    ..Quirks::NONE
};

/// api.fireworks.ai.
pub const FIREWORKS: Quirks =
    Quirks { name: "fireworks", fields: &[THREE_EFFORTS], developer_is_system: true, ..Quirks::NONE };

/// api.cerebras.ai. What it does not know is answered with 400.
pub const CEREBRAS: Quirks = Quirks {
    name: "cerebras",
    fields: &[
        THREE_EFFORTS,
        (&["service_tier"], OneOf(&["auto", "default", "flex", "priority"])),
        (&["frequency_penalty", "logit_bias", "metadata", "presence_penalty", "safety_identifier", "store"], Omit),
        (&["verbosity"], Omit),
    ],
    ..Quirks::NONE
};

/// vLLM.
pub const VLLM: Quirks = Quirks { name: "vllm", fields: &[MAX_TOKENS], developer_is_system: true, ..Quirks::NONE };

/// llama.cpp's server. It takes a `tool_choice` that is no string for `auto`.
pub const LLAMA_CPP: Quirks = Quirks {
    name: "llama_cpp",
    fields: &[MAX_TOKENS, (&["tool_choice"], ToolChoice(Choices::Words))],
    developer_is_system: true,
    ..Quirks::NONE
};

/// SGLang.
pub const SGLANG: Quirks = Quirks { name: "sglang", fields: &[MAX_TOKENS], developer_is_system: true, ..Quirks::NONE };

/// Hugging Face's Text Generation Inference. Fields of another type than its own are answered with
/// 422.
pub const TGI: Quirks = Quirks {
    name: "tgi",
    fields: &[
        MAX_TOKENS,
        (&["stop"], List),
        (&["response_format"], Format(Formats::Grammar)),
        // Wants a list, and does nothing with it.
        (&["logit_bias"], Omit),
        // Reads it, and does nothing with it.
        (&["n"], Cannot),
    ],
    developer_is_system: true,
    ..Quirks::NONE
};

/// Ollama's imitation of OpenAI. What it does not know it passes over in silence.
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
            assert!(ALL.iter().skip(at + 1).all(|other| other.name != quirks.name), "{}", quirks.name);
            assert_eq!(Quirks::find(quirks.name), Some(*quirks));
            let fields: Vec<&str> = quirks.fields.iter().flat_map(|(names, _)| *names).copied().collect();
            for (at, field) in fields.iter().enumerate() {
                assert!(fields.iter().skip(at + 1).all(|other| other != field), "{}: {field}", quirks.name);
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

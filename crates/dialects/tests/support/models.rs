//! The dialects that the tests of this crate and its fuzz target write, and the models that they
//! ask for.

/// A dialect, and the models that it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    pub name: &'static str,
    /// The usual model of a case.
    pub model: &'static str,
    /// Models whose requests differ in form.
    pub other_models: &'static [&'static str],
    /// The path of its base URL.
    pub base: &'static str,
}

/// Every dialect but the demo, in the order of `upstream::ALL`.
pub const DIALECTS: [Dialect; 8] = [
    Dialect {
        name: "openai",
        model: "gpt-4o",
        other_models: &["gpt-5"],
        base: "/v1",
    },
    Dialect {
        name: "azure",
        model: "gpt-4o",
        other_models: &[],
        base: "",
    },
    Dialect {
        name: "anthropic",
        model: "claude-sonnet-4-5",
        other_models: &[],
        base: "/v1",
    },
    Dialect {
        name: "gemini",
        model: "gemini-2.5-flash",
        other_models: &["gemini-3-pro"],
        base: "/v1beta",
    },
    Dialect {
        name: "vertex",
        model: "gemini-2.5-flash",
        other_models: &[],
        base: "",
    },
    Dialect {
        name: "bedrock",
        model: "anthropic.claude-sonnet-4-5-20250929-v1:0",
        other_models: &["amazon.nova-pro-v1:0"],
        base: "",
    },
    Dialect {
        name: "cohere",
        model: "command-a-03-2025",
        other_models: &["command-a-vision-07-2025"],
        base: "/v2",
    },
    Dialect {
        name: "ollama",
        model: "qwen3",
        other_models: &[],
        base: "",
    },
];

/// OpenAI's other kind of endpoint, at which bodies of Responses pass. The golden tables have no
/// column of it.
pub const RESPONSES: Dialect = Dialect {
    name: "responses",
    model: "gpt-5",
    other_models: &["gpt-4o"],
    base: "/v1",
};

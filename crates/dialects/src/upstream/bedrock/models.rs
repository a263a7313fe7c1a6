//! A table of the abilities of the models that Bedrock serves, by their ids.
//!
//! Claudes use Anthropic's own table. For other models the table has the published facts. A name
//! that is not in it, for example the ARN of an inference profile, is asked as the caller asks, in
//! the way that most models take.

use crate::neutral::Effort::{High, Low, Medium};
use crate::neutral::traits::{Efforts, Thinking, Traits};
use crate::upstream::anthropic;

/// Returns the abilities of a model. Examples of names:
/// `us.anthropic.claude-sonnet-4-5-20250929-v1:0`, an ARN that ends in it,
/// `meta.llama3-3-70b-instruct-v1:0`.
pub fn model_traits(model: &str) -> Traits {
    if is_claude(model) {
        let traits = anthropic::model_traits(model);
        // Bedrock has structured answers only since Claude 4.5.
        return Traits {
            structured: traits.structured && !model.contains("opus-4-1"),
            ..traits
        };
    }
    TABLE
        .iter()
        .find(|(name, _)| model.contains(name))
        .map_or(UNKNOWN, |(_, traits)| *traits)
}

/// The family of a model, if it makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Anthropic's models.
    Claude,
    /// Amazon's models since the second generation. They can be asked to think.
    Nova2,
    /// Amazon's models of the first generation.
    Nova,
    /// The models that take `reasoning_effort` as OpenAI does.
    OpenAi,
    /// Mistral's models. They can be made to call a tool, but not to call a certain one.
    Mistral,
    /// All other models, and unknown ones.
    Other,
}

impl Family {
    /// Returns the family by the name. If the name does not show it, the traits do: only Claudes
    /// have a budget of thinking.
    pub(super) fn for_model(model: &str, traits: &Traits) -> Self {
        let has = |name: &str| model.contains(name);
        match () {
            () if is_claude(model) => Self::Claude,
            () if has("amazon.nova-2") => Self::Nova2,
            () if has("amazon.nova") => Self::Nova,
            () if has("openai.") || has("moonshot") => Self::OpenAi,
            () if has("mistral.") => Self::Mistral,
            () if traits.thinking == Thinking::Budget => Self::Claude,
            () => Self::Other,
        }
    }

    /// Returns whether prompts are cached up to the cache points.
    pub(super) fn caches(self) -> bool {
        matches!(self, Self::Claude | Self::Nova2 | Self::Nova)
    }

    /// Returns whether `outputConfig` has the effort. For the other families the effort has a field
    /// of its own.
    pub(super) fn has_output_effort(self) -> bool {
        matches!(self, Self::Claude | Self::Mistral | Self::Other)
    }

    /// Returns whether signed thoughts may come back. The other families were never seen to sign
    /// thoughts, and they refuse thoughts that come back.
    pub(super) fn signs(self) -> bool {
        matches!(self, Self::Claude | Self::Other)
    }
}

pub(super) fn is_claude(model: &str) -> bool {
    model.contains("anthropic.") || model.contains("claude")
}

/// The abilities by a part of the id. The first name that fits counts.
const TABLE: &[(&str, Traits)] = &[
    (
        "amazon.nova-2",
        Traits {
            thinking: Thinking::Effort,
            efforts: EFFORTS,
            ..SERVED.with_images()
        },
    ),
    ("amazon.nova-micro", SERVED),
    ("amazon.nova", SERVED.with_images()),
    ("amazon.titan", SERVED.without_tools()),
    ("meta.llama4", LLAMA.with_images()),
    ("meta.llama3-3", LLAMA),
    ("meta.llama3-2-90b", LLAMA.with_images()),
    ("meta.llama3-2-11b", LLAMA.with_images()),
    ("meta.llama3-1", LLAMA),
    ("meta.llama", LLAMA.without_tools()),
    ("mistral.mistral-7b", SERVED.without_tools()),
    ("mistral.mixtral", SERVED.without_tools()),
    ("mistral.pixtral", SERVED.with_images()),
    ("mistral.mistral-large-3", OPEN.with_images()),
    ("mistral.ministral", OPEN.with_images()),
    ("mistral.magistral", OPEN.with_images()),
    ("mistral.voxtral", OPEN),
    ("mistral.", SERVED),
    (
        "openai.gpt-oss",
        Traits {
            thinking: Thinking::Effort,
            efforts: EFFORTS,
            thinking_off: false,
            ..OPEN
        },
    ),
    ("moonshotai.kimi-k2.5", KIMI.with_images()),
    ("moonshot", KIMI),
    ("deepseek.r1", SERVED.without_tools()),
    ("deepseek.", OPEN),
    ("qwen3-vl", OPEN.with_images()),
    ("qwen.", OPEN),
    ("google.gemma", OPEN.with_images()),
    ("minimax.", OPEN),
    ("cohere.command-text", SERVED.without_tools()),
    ("cohere.command-light", SERVED.without_tools()),
    ("cohere.", SERVED),
    ("ai21.", SERVED),
];

const EFFORTS: Efforts = Efforts::from_list(&[Low, Medium, High]);

/// The abilities of unknown models. Most models answer in a format only through a tool that they
/// must call; few do it natively.
const UNKNOWN: Traits = Traits {
    structured: false,
    ..Traits::UNKNOWN
};
const SERVED: Traits = Traits {
    thinking: Thinking::None,
    images: false,
    ..UNKNOWN
};
const OPEN: Traits = Traits {
    structured: true,
    ..SERVED
};
/// Models that call tools as they like, and cannot be made to.
const LLAMA: Traits = Traits {
    forced_tools: false,
    ..SERVED
};
const KIMI: Traits = Traits {
    thinking: Thinking::Effort,
    efforts: EFFORTS,
    thinking_off: false,
    ..OPEN
};

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(model: &str, family: Family, expected: Traits) {
        assert_eq!(model_traits(model), expected);
        assert_eq!(Family::for_model(model, &expected), family);
    }

    #[test]
    fn claudes_are_anthropics() {
        for model in [
            "anthropic.claude-3-haiku-20240307-v1:0",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/global.anthropic.claude-opus-4-6-v1",
        ] {
            check(model, Family::Claude, anthropic::model_traits(model));
        }
        let opus = "us.anthropic.claude-opus-4-1-20250805-v1:0";
        check(
            opus,
            Family::Claude,
            Traits {
                structured: false,
                ..anthropic::model_traits(opus)
            },
        );
    }

    #[test]
    fn others_have_a_table() {
        check(
            "us.amazon.nova-2-lite-v1:0",
            Family::Nova2,
            Traits {
                thinking: Thinking::Effort,
                efforts: EFFORTS,
                images: true,
                ..SERVED
            },
        );
        check(
            "amazon.nova-pro-v1:0",
            Family::Nova,
            Traits {
                images: true,
                ..SERVED
            },
        );
        check("us.amazon.nova-micro-v1:0", Family::Nova, SERVED);
        check("us.meta.llama3-3-70b-instruct-v1:0", Family::Other, LLAMA);
        check(
            "meta.llama3-2-1b-instruct-v1:0",
            Family::Other,
            Traits {
                tools: false,
                ..LLAMA
            },
        );
        check(
            "us.meta.llama4-maverick-17b-instruct-v1:0",
            Family::Other,
            Traits {
                images: true,
                ..LLAMA
            },
        );
        check("mistral.mistral-large-2407-v1:0", Family::Mistral, SERVED);
        check(
            "openai.gpt-oss-120b-1:0",
            Family::OpenAi,
            Traits {
                images: false,
                ..KIMI
            },
        );
        check("deepseek.v3-v1:0", Family::Other, OPEN);
        check(
            "us.deepseek.r1-v1:0",
            Family::Other,
            Traits {
                tools: false,
                ..SERVED
            },
        );
        check("qwen.qwen3-coder-480b-a35b-v1:0", Family::Other, OPEN);
    }

    #[test]
    fn of_a_profile_only_the_catalog_knows() {
        let arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3";
        check(arn, Family::Other, UNKNOWN);
        let told = Traits {
            thinking: Thinking::Budget,
            ..UNKNOWN
        };
        assert_eq!(Family::for_model(arn, &told), Family::Claude);
    }
}

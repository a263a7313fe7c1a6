//! A table of the abilities of each Claude by its name, for every provider that serves it.
//!
//! The table comes from Anthropic's documentation, and from refusals of its API. A Claude that is
//! not in the table counts as newer than all others, because each generation so far accepted less
//! than the one before. Any other name belongs to a server that imitates the API.

use crate::neutral::Effort::{High, Low, Max, Medium, Xhigh};
use crate::neutral::traits::{Efforts, Sampling, Server, Thinking, Traits};

/// Returns the abilities of a model. `us.anthropic.claude-opus-4-1-20250805-v1:0`,
/// `claude-opus-4-1@20250805` and `anthropic/claude-4.1-opus` are one model.
pub fn model_traits(model: &str) -> Traits {
    match family_and_version(model) {
        Some((family, version)) => {
            let row = TABLE.iter().find(|(families, versions, _)| {
                families.contains(&family) && versions.contains(&version)
            });
            row.map_or(UNLISTED, |(.., traits)| *traits)
        }
        None if contains_name(model, "claude")
            && LEGACY.iter().any(|name| contains_name(model, name)) =>
        {
            CLAUDE_2
        }
        None if contains_name(model, "claude") => UNLISTED,
        None => Traits {
            structured: false,
            ..Traits::UNKNOWN
        },
    }
}

type Row = (&'static [&'static str], &'static [(u8, u8)], Traits);

const TABLE: &[Row] = &[
    (&["opus", "sonnet", "haiku"], &[(3, 0)], CLAUDE_3),
    (
        &["sonnet", "haiku"],
        &[(3, 5)],
        Traits {
            max_output: Some(8192),
            ..CLAUDE_3
        },
    ),
    (
        &["sonnet"],
        &[(3, 7)],
        Traits {
            max_output: Some(64_000),
            thinking: Thinking::Budget,
            ..CLAUDE_3
        },
    ),
    (&["opus"], &[(4, 0)], CLAUDE_4),
    (
        &["sonnet"],
        &[(4, 0)],
        Traits {
            max_output: Some(64_000),
            ..CLAUDE_4
        },
    ),
    (
        &["opus"],
        &[(4, 1)],
        Traits {
            max_output: Some(32_000),
            ..CLAUDE_4_5
        },
    ),
    (&["opus", "sonnet", "haiku"], &[(4, 5)], CLAUDE_4_5),
    (&["opus", "sonnet"], &[(4, 6)], CLAUDE_4_6),
    (&["opus"], &[(4, 7), (4, 8)], CLAUDE_4_7),
    (&["opus", "sonnet"], &[(5, 0)], CLAUDE_5),
    (
        &["fable", "mythos"],
        &[(5, 0)],
        Traits {
            thinking_off: false,
            ..CLAUDE_5
        },
    ),
    // A name without a version: the preview of Mythos 5.
    (
        &["mythos"],
        &[(0, 0)],
        Traits {
            thinking_off: false,
            ..CLAUDE_5
        },
    ),
    (
        &["haiku"],
        &[(5, 5)],
        Traits {
            bound_thoughts: true,
            ..CLAUDE_5
        },
    ),
    (&["opus", "sonnet"], &[(5, 5)], NEWEST),
    (&["fable", "mythos"], &[(5, 1), (5, 2)], NEWEST),
];

const FAMILIES: [&str; 5] = ["opus", "sonnet", "haiku", "fable", "mythos"];
const LEGACY: [&str; 3] = ["claude-2", "claude-v2", "claude-instant"];

const CLAUDE_2: Traits = Traits {
    tools: false,
    forced_tools: false,
    images: false,
    ..CLAUDE_3
};

const CLAUDE_3: Traits = Traits {
    server: Server::OWN,
    context: None,
    max_output: Some(4096),
    sampling: Sampling::Both,
    thinking: Thinking::None,
    efforts: Efforts::NO,
    thinking_off: true,
    bound_thoughts: false,
    tools: true,
    forced_tools: true,
    forced_while_thinking: false,
    structured: false,
    structured_with_tools: false,
    images: true,
    prefill: true,
    cache_breakpoints: false,
    input_type: None,
    guessed: false,
};

const CLAUDE_4: Traits = Traits {
    max_output: Some(32_000),
    thinking: Thinking::Budget,
    ..CLAUDE_3
};

/// Since 4.1, `temperature` and `top_p` are refused together.
const CLAUDE_4_5: Traits = Traits {
    max_output: Some(64_000),
    sampling: Sampling::One,
    structured: true,
    structured_with_tools: true,
    ..CLAUDE_4
};

/// Since 4.6, a conversation may not end with the assistant's words, and the effort of thinking is
/// a word.
const CLAUDE_4_6: Traits = Traits {
    max_output: Some(128_000),
    thinking: Thinking::Effort,
    efforts: Efforts::from_list(&[Low, Medium, High, Max]),
    prefill: false,
    ..CLAUDE_4_5
};

/// Since 4.7, budgets and all fields of sampling are refused.
const CLAUDE_4_7: Traits = Traits {
    sampling: Sampling::Neither,
    efforts: Efforts::from_list(&[Low, Medium, High, Xhigh, Max]),
    ..CLAUDE_4_6
};

/// Since 5, the model thinks without a setting for it, and still accepts a forced call.
const CLAUDE_5: Traits = Traits {
    forced_while_thinking: true,
    ..CLAUDE_4_7
};

/// The newest models. They always think, and cannot be made to call a tool. They check that the
/// conversation before a thought is the one in which it was thought.
const NEWEST: Traits = Traits {
    thinking_off: false,
    forced_tools: false,
    forced_while_thinking: false,
    bound_thoughts: true,
    ..CLAUDE_5
};

/// The traits of models that the table does not have.
const UNLISTED: Traits = Traits {
    guessed: true,
    ..NEWEST
};

/// Returns the family and the version in a name. The version is the number after the family
/// (`opus-4-1`), else the one before it (`3-5-sonnet`), else 0.0.
fn family_and_version(model: &str) -> Option<(&'static str, (u8, u8))> {
    let words = || model.split(|c: char| !c.is_ascii_alphanumeric());
    let (word_index, family) = words().enumerate().find_map(|(word_index, word)| {
        let family = FAMILIES
            .iter()
            .find(|family| word.eq_ignore_ascii_case(family))?;
        Some((word_index, *family))
    })?;
    let mut after = words().skip(word_index + 1);
    if let Some(major) = after.next().and_then(version_number) {
        return Some((
            family,
            (major, after.next().and_then(version_number).unwrap_or(0)),
        ));
    }
    let mut before = words()
        .take(word_index)
        .skip(word_index.saturating_sub(2))
        .map(version_number);
    let version = match (before.next().flatten(), before.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor),
        (Some(major), None) if word_index < 2 => (major, 0),
        (None, Some(major)) => (major, 0),
        (Some(_) | None, None) => (0, 0),
    };
    Some((family, version))
}

/// Reads a part of a version. Longer numbers are dates.
fn version_number(word: &str) -> Option<u8> {
    word.parse().ok().filter(|_| word.len() <= 2)
}

fn contains_name(model: &str, name: &str) -> bool {
    model
        .as_bytes()
        .windows(name.len())
        .any(|window| window.eq_ignore_ascii_case(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(models: &[&str], expected: Traits) {
        for model in models {
            assert_eq!(model_traits(model), expected, "{model}");
        }
    }

    #[test]
    fn a_model_is_known_under_all_its_names() {
        check(
            &[
                "claude-3-opus-20240229",
                "anthropic.claude-3-haiku-20240307-v1:0",
                "claude-3-sonnet",
            ],
            CLAUDE_3,
        );
        let claude_3_5 = Traits {
            max_output: Some(8192),
            ..CLAUDE_3
        };
        check(
            &[
                "claude-3-5-sonnet-20241022",
                "claude-3-5-sonnet-v2@20241022",
                "anthropic/claude-3.5-haiku",
            ],
            claude_3_5,
        );
        let claude_3_7 = Traits {
            max_output: Some(64_000),
            thinking: Thinking::Budget,
            ..CLAUDE_3
        };
        check(
            &[
                "claude-3-7-sonnet-latest",
                "anthropic/claude-3.7-sonnet:thinking",
            ],
            claude_3_7,
        );
        check(
            &[
                "claude-opus-4-20250514",
                "claude-opus-4-0",
                "claude-4-opus",
                "us.anthropic.claude-opus-4-20250514-v1:0",
            ],
            CLAUDE_4,
        );
        let sonnet_4 = Traits {
            max_output: Some(64_000),
            ..CLAUDE_4
        };
        check(
            &[
                "claude-sonnet-4-20250514",
                "claude-sonnet-4@20250514",
                "databricks-claude-sonnet-4",
                "Claude-Sonnet-4",
            ],
            sonnet_4,
        );
        let opus_4_1 = Traits {
            max_output: Some(32_000),
            ..CLAUDE_4_5
        };
        check(
            &[
                "claude-opus-4-1",
                "us.anthropic.claude-opus-4-1-v1:0",
                "claude-opus-4-1@20250805",
                "anthropic/claude-opus-4.1",
            ],
            opus_4_1,
        );
        check(
            &[
                "claude-sonnet-4-5-20250929",
                "claude-haiku-4-5@20251001",
                "claude-opus-4-5",
                "claude-4-5-sonnet",
            ],
            CLAUDE_4_5,
        );
        check(
            &[
                "claude-opus-4-6",
                "anthropic.claude-opus-4-6-v1",
                "claude-sonnet-4-6",
            ],
            CLAUDE_4_6,
        );
        check(
            &[
                "claude-opus-4-7",
                "claude-opus-4-8",
                "anthropic/claude-opus-4.8",
            ],
            CLAUDE_4_7,
        );
        check(
            &["claude-opus-5", "claude-opus-5-20260724", "claude-sonnet-5"],
            CLAUDE_5,
        );
        check(
            &["claude-fable-5", "claude-mythos-5", "claude-mythos-preview"],
            Traits {
                thinking_off: false,
                ..CLAUDE_5
            },
        );
        check(
            &["claude-haiku-5-5"],
            Traits {
                bound_thoughts: true,
                ..CLAUDE_5
            },
        );
        check(
            &[
                "claude-opus-5-5",
                "global.anthropic.claude-sonnet-5-5",
                "claude-fable-5-1",
                "claude-fable-5-2",
            ],
            NEWEST,
        );
        check(
            &["claude-2.1", "anthropic.claude-v2:1", "claude-instant-1.2"],
            CLAUDE_2,
        );
    }

    #[test]
    fn unknown_claudes_are_new_ones_and_others_imitators() {
        check(
            &[
                "claude-opus-6",
                "claude-sonnet-4-7",
                "claude-next",
                "claude-haiku-latest",
                "claude-opus",
                "opus-9",
            ],
            UNLISTED,
        );
        check(
            &["", "glm-4.6", "kimi-k2", "x", "é-3"],
            Traits {
                structured: false,
                ..Traits::UNKNOWN
            },
        );
    }
}

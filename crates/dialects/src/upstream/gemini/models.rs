//! This module knows the models by their names. A model with an unknown kind of name is asked as
//! the caller asks.

use super::Service;
use crate::neutral::Effort;
use crate::neutral::traits::{Thinking, Traits};

/// Returns the abilities of a model.
pub fn model_traits(model: &str) -> Traits {
    let model = Model::read(model);
    let traits = match (model.maker, model.generation) {
        (Maker::Gemma, Some((4.., _))) => return Traits::UNKNOWN,
        (Maker::Gemma, _) => Traits {
            thinking: Thinking::None,
            tools: false,
            forced_tools: false,
            structured: false,
            ..Traits::UNKNOWN
        },
        (Maker::Other, _) | (Maker::Gemini, None) => return Traits::UNKNOWN,
        (Maker::Gemini, Some((0..=1, _) | (2, 0..=4))) => Traits {
            max_output: Some(8_192),
            thinking: Thinking::None,
            structured_with_tools: false,
            ..Traits::UNKNOWN
        },
        (Maker::Gemini, Some((2, _))) => Traits {
            max_output: Some(65_536),
            thinking: Thinking::Budget,
            thinking_off: model.family != Family::Pro,
            structured_with_tools: false,
            ..Traits::UNKNOWN
        },
        (Maker::Gemini, Some((major, minor))) => Traits {
            // Later models may have more.
            max_output: (major == 3 && minor <= 1).then_some(65_536),
            thinking: Thinking::Effort,
            thinking_off: false,
            guessed: (major, minor) > (3, 1),
            ..Traits::UNKNOWN
        },
    };
    if model.draws_or_speaks {
        // Of the models that draw or speak, those with levels think as they like. Older ones do not
        // think.
        let thinking = if traits.thinking == Thinking::Effort {
            Thinking::Unknown
        } else {
            Thinking::None
        };
        return Traits {
            max_output: None,
            thinking,
            tools: false,
            forced_tools: false,
            ..traits
        };
    }
    traits
}

/// The facts in a model's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Model {
    maker: Maker,
    generation: Option<(u8, u8)>,
    family: Family,
    /// True if the model draws pictures or speaks, and does not write.
    draws_or_speaks: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    Gemini,
    Gemma,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Pro,
    Flash,
    Lite,
    Other,
}

/// The lowest generation that `gemini-flash-latest` and similar names stand for.
const LATEST: (u8, u8) = (3, 5);

impl Model {
    /// Reads a name such as `gemini-2.5-flash-lite-preview-06-17`, with any path before it.
    pub(super) fn read(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name);
        let (maker, rest) = match (name.strip_prefix("gemini-"), name.strip_prefix("gemma-")) {
            (Some(rest), _) => (Maker::Gemini, rest),
            (None, Some(rest)) => (Maker::Gemma, rest),
            (None, None) => (Maker::Other, name),
        };
        let first = rest.split('-').next().unwrap_or_default();
        let (major, minor) = first.split_once('.').unwrap_or((first, "0"));
        let numbered = read_number(major)
            .zip(read_number(minor))
            .filter(|_| maker != Maker::Other);
        let has = |word| rest.split('-').any(|part| part == word);
        let is_latest = maker == Maker::Gemini && has("latest");
        Self {
            maker,
            generation: numbered.or(is_latest.then_some(LATEST)),
            family: match () {
                () if has("lite") => Family::Lite,
                () if has("flash") => Family::Flash,
                () if has("pro") => Family::Pro,
                () => Family::Other,
            },
            draws_or_speaks: has("image") || has("tts"),
        }
    }

    /// Returns the number of tokens of thinking, and whether it differs from the requested one. Pro
    /// models cannot stop thinking.
    pub(super) fn budget(&self, effort: Effort, can_stop: bool) -> (u64, bool) {
        let max_budget = if self.family == Family::Pro {
            32_768
        } else {
            24_576
        };
        match effort {
            Effort::None if can_stop => (0, false),
            Effort::None => (128, true),
            // The smallest budget that Flash-Lite takes.
            Effort::Minimal => (512, false),
            // The number in Google's own OpenAI-compatible API.
            Effort::Low => (1_024, false),
            Effort::Medium => (8_192, false),
            Effort::High => (24_576, false),
            // Only Pro has a larger budget than that for `High`.
            Effort::Xhigh | Effort::Max => (max_budget, max_budget == 24_576),
        }
    }

    /// Returns the smallest budget of thinking except 0.
    pub(super) fn least_budget(&self) -> u64 {
        match self.family {
            Family::Pro => 128,
            Family::Lite => 512,
            Family::Flash | Family::Other => 1,
        }
    }

    /// Returns the level of thinking, and whether it differs from the requested one. No model is
    /// known to take a level above `HIGH`.
    pub(super) fn level(&self, effort: Effort, can_stop: bool) -> (&'static str, bool) {
        let is_flash = matches!(self.family, Family::Flash | Family::Lite);
        match effort {
            Effort::None if is_flash => ("MINIMAL", !can_stop),
            Effort::None => ("LOW", true),
            Effort::Minimal if is_flash => ("MINIMAL", false),
            Effort::Minimal => ("LOW", true),
            Effort::Low => ("LOW", false),
            // The first Pro model of this generation knew two levels.
            Effort::Medium if !is_flash && self.generation == Some((3, 0)) => ("HIGH", true),
            Effort::Medium => ("MEDIUM", false),
            Effort::High => ("HIGH", false),
            Effort::Xhigh | Effort::Max => ("HIGH", true),
        }
    }

    /// Returns whether the model reads public URLs. Every Gemini but 2.0 does.
    pub(super) fn reads_urls(&self) -> bool {
        self.maker == Maker::Gemini && self.generation != Some((2, 0))
    }

    /// Returns whether the model takes system messages. Gemma does so since its fourth generation.
    pub(super) fn hears_system(&self) -> bool {
        self.maker != Maker::Gemma || matches!(self.generation, Some((4.., _)))
    }

    /// Returns whether the model takes penalties. The Gemini API refuses them since 2.5 ("Penalty
    /// is not enabled"), and Vertex AI since 3.
    pub(super) fn takes_penalties(&self, service: Service) -> bool {
        match service {
            Service::Gemini => !self.is_gemini_since(2, 5),
            Service::Vertex => !self.is_gemini_since(3, 0),
        }
    }

    /// Returns whether the model is a Gemini of this generation or a later one.
    pub(super) fn is_gemini_since(&self, major: u8, minor: u8) -> bool {
        self.maker == Maker::Gemini
            && self
                .generation
                .is_some_and(|generation| generation >= (major, minor))
    }
}

/// Reads a number of a generation. Letters after it do not count: `gemma-3n`.
fn read_number(digits: &str) -> Option<u8> {
    let digits = digits.trim_end_matches(|c: char| !c.is_ascii_digit());
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        let check = |name, maker, generation, family| {
            let model = Model::read(name);
            assert_eq!(
                (model.maker, model.generation, model.family),
                (maker, generation, family),
                "{name}"
            );
        };
        check(
            "gemini-2.5-flash-lite-preview-06-17",
            Maker::Gemini,
            Some((2, 5)),
            Family::Lite,
        );
        check(
            "models/gemini-2.0-flash-001",
            Maker::Gemini,
            Some((2, 0)),
            Family::Flash,
        );
        check(
            "publishers/google/models/gemini-3-pro-preview",
            Maker::Gemini,
            Some((3, 0)),
            Family::Pro,
        );
        check(
            "gemini-3.8-flash",
            Maker::Gemini,
            Some((3, 8)),
            Family::Flash,
        );
        check("gemini-4-argon", Maker::Gemini, Some((4, 0)), Family::Other);
        check(
            "gemini-pro-latest",
            Maker::Gemini,
            Some(LATEST),
            Family::Pro,
        );
        check("gemini-pro", Maker::Gemini, None, Family::Pro);
        check(
            "gemini-omni-flash-preview",
            Maker::Gemini,
            None,
            Family::Flash,
        );
        check(
            "gemini-2.5-computer-use-preview-10-2025",
            Maker::Gemini,
            Some((2, 5)),
            Family::Other,
        );
        check("gemma-3n-e4b-it", Maker::Gemma, Some((3, 0)), Family::Other);
        check("gemma-4-31b-it", Maker::Gemma, Some((4, 0)), Family::Other);
        check("llama-3-pro", Maker::Other, None, Family::Pro);
        check("gemini-999.999-pro", Maker::Gemini, None, Family::Pro);
        check("", Maker::Other, None, Family::Other);
    }

    #[test]
    fn traits_by_name() {
        assert_eq!(model_traits("my-tuned-model"), Traits::UNKNOWN);
        assert_eq!(model_traits("gemma-4-31b-it"), Traits::UNKNOWN);
        let guessed = ["gemini-3.1-pro", "gemini-3.8-flash", "gemini-flash-latest"]
            .map(|name| model_traits(name).guessed);
        assert_eq!(guessed, [false, true, true]);
        let check = |name, max_output, thinking, thinking_off, tools, with_tools| {
            let it = model_traits(name);
            let found = (
                it.max_output,
                it.thinking,
                it.thinking_off,
                it.tools,
                it.structured_with_tools,
            );
            assert_eq!(
                found,
                (max_output, thinking, thinking_off, tools, with_tools),
                "{name}"
            );
        };
        check(
            "gemini-1.5-pro",
            Some(8_192),
            Thinking::None,
            true,
            true,
            false,
        );
        check(
            "gemini-2.0-flash",
            Some(8_192),
            Thinking::None,
            true,
            true,
            false,
        );
        check(
            "gemini-2.5-pro",
            Some(65_536),
            Thinking::Budget,
            false,
            true,
            false,
        );
        check(
            "gemini-2.5-flash",
            Some(65_536),
            Thinking::Budget,
            true,
            true,
            false,
        );
        check(
            "gemini-2.5-flash-image",
            None,
            Thinking::None,
            true,
            false,
            false,
        );
        check(
            "gemini-3-pro-preview",
            Some(65_536),
            Thinking::Effort,
            false,
            true,
            true,
        );
        check(
            "gemini-3-pro-image-preview",
            None,
            Thinking::Unknown,
            false,
            false,
            true,
        );
        check(
            "gemini-3.8-flash",
            None,
            Thinking::Effort,
            false,
            true,
            true,
        );
        check(
            "gemini-flash-latest",
            None,
            Thinking::Effort,
            false,
            true,
            true,
        );
        check("gemma-3-27b-it", None, Thinking::None, true, false, true);
    }

    #[test]
    fn efforts() {
        use Effort::{High, Low, Max, Medium, Minimal, None, Xhigh};
        let all = [None, Minimal, Low, Medium, High, Xhigh, Max];
        let budgets =
            |model, can_stop| all.map(|effort| Model::read(model).budget(effort, can_stop));
        let (same, other) = (false, true);
        assert_eq!(
            budgets("gemini-2.5-flash", true),
            [
                (0, same),
                (512, same),
                (1024, same),
                (8192, same),
                (24576, same),
                (24576, other),
                (24576, other)
            ]
        );
        assert_eq!(
            budgets("gemini-2.5-pro", false),
            [
                (128, other),
                (512, same),
                (1024, same),
                (8192, same),
                (24576, same),
                (32768, same),
                (32768, same)
            ]
        );
        let levels = |model| all.map(|effort| Model::read(model).level(effort, false));
        assert_eq!(
            levels("gemini-3-flash-preview"),
            [
                ("MINIMAL", other),
                ("MINIMAL", same),
                ("LOW", same),
                ("MEDIUM", same),
                ("HIGH", same),
                ("HIGH", other),
                ("HIGH", other)
            ]
        );
        assert_eq!(
            levels("gemini-3.1-pro-preview"),
            [
                ("LOW", other),
                ("LOW", other),
                ("LOW", same),
                ("MEDIUM", same),
                ("HIGH", same),
                ("HIGH", other),
                ("HIGH", other)
            ]
        );
        assert_eq!(
            Model::read("gemini-3-pro-preview").level(Medium, false),
            ("HIGH", other)
        );
        assert_eq!(
            Model::read("gemini-3.8-flash").level(None, true),
            ("MINIMAL", same)
        );
    }

    #[test]
    fn habits() {
        let check = |name, signatures, urls, system, penalties| {
            let model = Model::read(name);
            let penalties_taken = (
                model.takes_penalties(Service::Gemini),
                model.takes_penalties(Service::Vertex),
            );
            let found = (
                model.is_gemini_since(3, 0),
                model.reads_urls(),
                model.hears_system(),
                penalties_taken,
            );
            assert_eq!(found, (signatures, urls, system, penalties), "{name}");
        };
        check("gemini-2.0-flash", false, false, true, (true, true));
        check("gemini-2.5-flash", false, true, true, (false, true));
        check("gemini-3.8-flash", true, true, true, (false, false));
        check("gemma-3-27b-it", false, false, false, (true, true));
        check("gemma-4-31b-it", false, false, true, (true, true));
        check("my-tuned-model", false, false, true, (true, true));
    }
}

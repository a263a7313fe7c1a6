//! How long the answer may be, and how much of it may be thinking.

use crate::neutral::schema::{members, string};
use crate::neutral::traits::{Efforts, Thinking as Kind, Traits};
use crate::neutral::{Effort, Field, FieldRefused, LostFields, Raw, Request, Target};
use crate::wire::json::Writer;
use std::time::Duration;

/// What is said of thinking, and the most tokens of the answer, which thinking is part of.
#[derive(Debug)]
pub(crate) struct Thinking<'a> {
    mode: Mode<'a>,
    /// `output_config.effort`.
    pub(crate) effort: Option<&'static str>,
    /// The most tokens of an answer without thinking.
    plain: u64,
    /// The most tokens of the answer.
    pub(crate) max_tokens: u64,
    /// Nobody said how long it may be, and it is less than the model can, so that it comes in time.
    pub(crate) is_bounded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode<'a> {
    /// Nothing is said.
    Unsaid,
    /// Not to think.
    Off,
    /// As much as the model finds right.
    Adaptive,
    /// So many tokens.
    Budget(u64),
    /// The caller said it in Anthropic's own words.
    Own(&'a str, Own),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Own {
    Off,
    Adaptive,
    Budget,
}

/// The header that `block_binding` needs.
const BINDING: (&str, &str) = ("anthropic-beta", "thinking-binding-controls-2026-08-01");
/// Where nobody says how long an answer may be.
const MAX_TOKENS: u64 = 8192;
/// The API's own least.
const MIN_BUDGET: u64 = 1024;

impl<'a> Thinking<'a> {
    /// Decides by what the request says and what the model takes.
    pub(crate) fn of(
        request: &Request<'a>,
        target: &Target<'_>,
        losses: &mut LostFields,
    ) -> Result<Self, FieldRefused> {
        let traits = &target.traits;
        let cap = traits.max_output.unwrap_or(u64::MAX);
        let silent = traits.max_output.unwrap_or(MAX_TOKENS);
        let said = request.max_tokens.or(target.default_max_tokens);
        let in_time = target.within.map_or(u64::MAX, in_time);
        let is_bounded = said.is_none() && in_time < silent;
        let plain = said.unwrap_or(silent.min(in_time)).clamp(1, cap.max(1));
        losses.add_if(request.max_tokens.is_some_and(|said| said != plain), Field::MaxTokens);
        let mut thinking = Self { mode: Mode::Unsaid, effort: None, plain, max_tokens: plain, is_bounded };
        // What the caller did not bound may grow by what is thought.
        let room =
            |budget: u64| if request.max_tokens.is_some() { plain } else { plain.saturating_add(budget).min(cap) };
        let said = own(request);
        let own = if traits.thinking == Kind::None { None } else { said.map(read).transpose()?.flatten() };
        losses.add_if(said.is_some() && own.is_none(), Field::Thinking);
        if let Some((raw, (own, budget))) = said.zip(own) {
            thinking.mode = Mode::Own(raw, own);
            thinking.max_tokens = room(whole(budget));
            if budget > 0.0 && whole(budget) >= thinking.max_tokens {
                let message = "`thinking.budget_tokens` must be less than the most tokens of the answer";
                return Err(FieldRefused::invalid(Field::ThinkingBudget, message));
            }
            match request.effort {
                // A model may think as it likes, and at this effort.
                Some(effort) if own == Own::Adaptive && effort != Effort::None => {
                    thinking.say(effort, traits.efforts, losses)
                }
                Some(_) => losses.add(Field::Effort),
                None => {}
            }
            return Ok(thinking);
        }
        if said.is_some() && traits.thinking != Kind::None {
            return Ok(thinking);
        }
        match (request.effort, traits.thinking) {
            (None, _) | (Some(Effort::None), Kind::Unknown | Kind::None | Kind::Budget) => {}
            (Some(_), Kind::Unknown | Kind::None) => losses.add(Field::Effort),
            (Some(Effort::None), Kind::Effort) if traits.thinking_off => thinking.mode = Mode::Off,
            (Some(effort), Kind::Effort) => {
                if effort != Effort::None {
                    thinking.mode = Mode::Adaptive;
                }
                thinking.say(effort, traits.efforts, losses);
            }
            (Some(effort), Kind::Budget) => {
                let wanted = tokens(effort);
                let max_tokens = if is_bounded { room(wanted).min(in_time) } else { room(wanted) };
                // An answer needs tokens too: a quarter, or what it would have had without
                // thinking.
                let budget = wanted.min((max_tokens - plain).max(max_tokens / 4 * 3));
                if budget < MIN_BUDGET {
                    losses.add(Field::Effort);
                } else {
                    (thinking.mode, thinking.max_tokens) = (Mode::Budget(budget), max_tokens);
                }
            }
        }
        Ok(thinking)
    }

    /// Returns whether the model is told to think.
    pub(crate) fn is_on(&self) -> bool {
        matches!(self.mode, Mode::Adaptive | Mode::Budget(_) | Mode::Own(_, Own::Adaptive | Own::Budget))
    }

    /// Returns whether it is told not to.
    pub(crate) fn is_off(&self) -> bool {
        matches!(self.mode, Mode::Off | Mode::Own(_, Own::Off))
    }

    /// Returns whether the model may think, be it that nobody told it to.
    pub(crate) fn may_be_on(&self, traits: &Traits) -> bool {
        self.is_on() || (!self.is_off() && matches!(traits.thinking, Kind::Effort | Kind::Unknown))
    }

    /// Returns whether the API wants the thoughts that led to the calls at hand.
    pub(crate) fn needs_thoughts(&self) -> bool {
        matches!(self.mode, Mode::Budget(_) | Mode::Own(_, Own::Budget))
    }

    /// Leaves out that the model shall think, for something else that it is told would not go with
    /// it.
    pub(crate) fn leave_out(&mut self, losses: &mut LostFields) {
        losses.add(if matches!(self.mode, Mode::Own(..)) { Field::Thinking } else { Field::Effort });
        (self.mode, self.max_tokens) = (Mode::Unsaid, self.plain);
    }

    /// Writes what is said. `binds`: thoughts go with the request to a model that would refuse it
    /// if they do not fit the conversation.
    pub(crate) fn write(&self, w: &mut Writer, binds: bool, headers: &mut Vec<(&'static str, &'static str)>) {
        let mut kind = |name: &str, binds: bool, more: &dyn Fn(&mut Writer)| {
            w.key("thinking").object(|w| {
                w.key("type").text(name);
                more(w);
                if binds {
                    // A caller may well shorten a conversation, or change a tool: the thought is
                    // dropped then, not the request.
                    w.key("block_binding").object(|w| w.key("prefix_mismatch_behavior").text("drop_block"));
                }
            });
            binds
        };
        let needs_header = match self.mode {
            Mode::Unsaid if binds => kind("adaptive", true, &|_| ()),
            Mode::Unsaid => false,
            Mode::Off => kind("disabled", false, &|_| ()),
            // Newer models show nothing of what they think unless they are asked to.
            Mode::Adaptive => kind("adaptive", binds, &|w| w.key("display").text("summarized")),
            Mode::Budget(tokens) => kind("enabled", binds, &|w| w.key("budget_tokens").number(tokens)),
            Mode::Own(raw, _) => {
                w.key("thinking").raw(raw);
                raw.contains("\"block_binding\"")
            }
        };
        if needs_header {
            headers.push(BINDING);
        }
    }

    /// Leaves the effort out, since the server would not read it.
    pub(crate) fn leave_out_effort(&mut self, losses: &mut LostFields) {
        losses.add_if(self.effort.take().is_some(), Field::Effort);
    }

    fn say(&mut self, meant: Effort, known: Efforts, losses: &mut LostFields) {
        let word = known.nearest(meant);
        self.effort = word.map(|word| match word {
            Effort::None | Effort::Minimal | Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
            Effort::Xhigh => "xhigh",
            Effort::Max => "max",
        });
        losses.add_if(word != Some(meant), Field::Effort);
    }
}

/// Returns the length of the longest buffered answer that surely comes in this time. Anthropic's
/// own clients reckon with 128,000 tokens an hour, and refuse to ask for more than fits into ten
/// minutes: what is cut off by a deadline is paid for, read by nobody, and asked for again.
fn in_time(within: Duration) -> u64 {
    (within.as_secs().saturating_mul(128_000) / 3600).max(MAX_TOKENS)
}

/// Returns how much an effort is in tokens. A convention, not a fact.
fn tokens(effort: Effort) -> u64 {
    match effort {
        Effort::None | Effort::Minimal | Effort::Low => MIN_BUDGET,
        Effort::Medium => 8192,
        Effort::High => 24_576,
        Effort::Xhigh => 32_768,
        Effort::Max => 65_536,
    }
}

/// Returns the field `thinking`, which is Anthropic's own.
fn own<'a>(request: &Request<'a>) -> Option<&'a str> {
    request.others.iter().find_map(|(name, Raw(raw))| (name == "thinking").then_some(*raw))
}

/// Reads Anthropic's own object: what it says, and its budget, or 0; `None` if it is no object.
/// What is not known is not let through: it could cost more than what was reckoned with.
fn read(raw: &str) -> Result<Option<(Own, f64)>, FieldRefused> {
    let Some(members) = members(raw) else { return Ok(None) };
    // Of a name that comes twice the last one counts, as elsewhere.
    let find = |wanted: &str| members.iter().rev().find_map(|(name, value)| (name == wanted).then_some(*value));
    let own = match find("type").and_then(string).as_deref() {
        Some("disabled") => Own::Off,
        Some("enabled") => Own::Budget,
        Some("adaptive" | "between_tools") => Own::Adaptive,
        Some(_) | None => {
            let message = "`thinking.type` must be one of `enabled`, `adaptive`, `disabled` and `between_tools`";
            return Err(FieldRefused::invalid(Field::ThinkingType, message));
        }
    };
    let budget = find("budget_tokens").filter(|_| own == Own::Budget).and_then(|number| number.parse().ok());
    Ok(Some((own, budget.unwrap_or(0.0))))
}

/// Returns a budget as a number of tokens; what is no such number is for the API to refuse.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn whole(budget: f64) -> u64 {
    budget as u64
}

#[cfg(test)]
mod tests;

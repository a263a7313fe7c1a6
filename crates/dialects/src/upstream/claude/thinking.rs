//! This module decides how long the answer may be, and how much of it may be thinking.

use crate::neutral::schema::{find_last, read_members, string_value};
use crate::neutral::traits::{Efforts, Thinking as Kind, Traits};
use crate::neutral::{Effort, Field, FieldRefused, LostFields, Raw, Request, Target};
use crate::wire::json::Writer;
use std::time::Duration;

/// The settings of thinking, and the most tokens of the answer. Thinking is part of the answer.
#[derive(Debug)]
pub(crate) struct Thinking<'a> {
    mode: Mode<'a>,
    /// `output_config.effort`.
    pub(crate) effort: Option<&'static str>,
    /// The most tokens of an answer without thinking.
    plain: u64,
    /// The most tokens of the answer.
    pub(crate) max_tokens: u64,
    /// True if neither the caller nor the catalog sets a maximum, and this one is below the
    /// model's, so that the answer comes in time.
    pub(crate) is_bounded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode<'a> {
    /// The request does not mention thinking.
    Unset,
    /// The model must not think.
    Off,
    /// The model thinks as much as it finds right.
    Adaptive,
    /// The model thinks with this number of tokens.
    Budget(u64),
    /// The caller used Anthropic's own field.
    Own(&'a str, OwnMode),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum OwnMode {
    Off,
    Adaptive,
    Budget,
}

/// The header that `block_binding` requires.
const BINDING: (&str, &str) = ("anthropic-beta", "thinking-binding-controls-2026-08-01");
/// The most tokens of an answer if no maximum is set, and the model's is unknown.
const MAX_TOKENS: u64 = 8192;
/// The smallest budget that the API takes.
const MIN_BUDGET: u64 = 1024;

impl<'a> Thinking<'a> {
    /// Decides by the request and by the model's abilities.
    pub(crate) fn decide(
        request: &Request<'a>,
        target: &Target<'_>,
        losses: &mut LostFields,
    ) -> Result<Self, FieldRefused> {
        Self::decide_by(
            request,
            target,
            own_settings(request),
            request.thinking.effort,
            losses,
        )
    }

    /// Decides for a model that does not know Anthropic's own settings: by the effort that they
    /// come to.
    pub(crate) fn of_effort(
        request: &Request<'a>,
        target: &Target<'_>,
        losses: &mut LostFields,
    ) -> Result<Self, FieldRefused> {
        Self::decide_by(request, target, None, request.effort(), losses)
    }

    fn decide_by(
        request: &Request<'a>,
        target: &Target<'_>,
        settings: Option<&'a str>,
        effort: Option<Effort>,
        losses: &mut LostFields,
    ) -> Result<Self, FieldRefused> {
        let traits = &target.traits;
        let cap = traits.max_output.unwrap_or(u64::MAX);
        let silent = traits.max_output.unwrap_or(MAX_TOKENS);
        let asked_tokens = request.max_tokens.or(target.default_max_tokens);
        let in_time = target.within.map_or(u64::MAX, in_time);
        let is_bounded = asked_tokens.is_none() && in_time < silent;
        let plain = asked_tokens
            .unwrap_or(silent.min(in_time))
            .clamp(1, cap.max(1));
        losses.add_if(
            request.max_tokens.is_some_and(|asked| asked != plain),
            Field::MaxTokens,
        );
        let mut thinking = Self {
            mode: Mode::Unset,
            effort: None,
            plain,
            max_tokens: plain,
            is_bounded,
        };
        // If the caller sets no maximum, the answer may grow by the tokens of thinking.
        let limit = request.max_tokens.map_or(cap, |_| plain);
        let room = |budget: u64| plain.saturating_add(budget).min(limit);
        let own = if traits.thinking == Kind::None {
            None
        } else {
            settings.map(read_settings).transpose()?.flatten()
        };
        losses.add_if(settings.is_some() && own.is_none(), Field::Thinking);
        let (settings, own) = match own {
            // A model that thinks by a budget refuses to think as it likes. An effort sets the
            // budget.
            Some((OwnMode::Adaptive, _)) if traits.thinking == Kind::Budget => {
                losses.add_if(effort.is_none(), Field::Thinking);
                (None, None)
            }
            own => (settings, own),
        };
        if let Some((raw, (own, budget))) = settings.zip(own) {
            thinking.mode = Mode::Own(raw, own);
            thinking.max_tokens = room(whole_tokens(budget));
            if budget > 0.0 && whole_tokens(budget) >= thinking.max_tokens {
                let message = "`thinking.budget_tokens` must be less than the answer's largest number of tokens";
                return Err(FieldRefused::invalid(Field::ThinkingBudget, message));
            }
            match effort {
                // A model may think as it likes, and with this effort.
                Some(effort) if own == OwnMode::Adaptive && effort != Effort::None => {
                    thinking.set_effort(effort, traits.efforts, losses)
                }
                Some(_) => losses.add(Field::Effort),
                None => {}
            }
            return Ok(thinking);
        }
        if settings.is_some() && traits.thinking != Kind::None {
            return Ok(thinking);
        }
        match (effort, traits.thinking) {
            (None, _) | (Some(Effort::None), Kind::Unknown | Kind::None | Kind::Budget) => {}
            (Some(_), Kind::Unknown | Kind::None) => losses.add(Field::Effort),
            (Some(Effort::None), Kind::Effort) if traits.thinking_off => thinking.mode = Mode::Off,
            (Some(effort), Kind::Effort) => {
                if effort != Effort::None {
                    thinking.mode = Mode::Adaptive;
                }
                thinking.set_effort(effort, traits.efforts, losses);
            }
            (Some(effort), Kind::Budget) => {
                let wanted = effort.budget();
                let max_tokens = if is_bounded {
                    room(wanted).min(in_time)
                } else {
                    room(wanted)
                };
                // The answer needs tokens too. It gets a quarter, or the number that it would have
                // without thinking.
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

    /// Returns whether the request orders the model to think.
    pub(crate) fn is_on(&self) -> bool {
        matches!(
            self.mode,
            Mode::Adaptive | Mode::Budget(_) | Mode::Own(_, OwnMode::Adaptive | OwnMode::Budget)
        )
    }

    /// Returns whether the request orders the model not to think.
    pub(crate) fn is_off(&self) -> bool {
        matches!(self.mode, Mode::Off | Mode::Own(_, OwnMode::Off))
    }

    /// Returns whether the model may think, even without an order.
    pub(crate) fn may_be_on(&self, traits: &Traits) -> bool {
        self.is_on() || (!self.is_off() && matches!(traits.thinking, Kind::Effort | Kind::Unknown))
    }

    /// Returns whether the API requires the thoughts that led to the current calls.
    pub(crate) fn needs_thoughts(&self) -> bool {
        matches!(self.mode, Mode::Budget(_) | Mode::Own(_, OwnMode::Budget))
    }

    /// Leaves thinking out, because it does not work with something else in the request.
    pub(crate) fn leave_out(&mut self, losses: &mut LostFields) {
        losses.add(if matches!(self.mode, Mode::Own(..)) {
            Field::Thinking
        } else {
            Field::Effort
        });
        (self.mode, self.max_tokens) = (Mode::Unset, self.plain);
    }

    /// Writes the settings. `binds` is true if the request has thoughts, and the model would refuse
    /// the request if a thought does not fit the conversation.
    pub(crate) fn write(
        &self,
        w: &mut Writer,
        binds: bool,
        headers: &mut Vec<(&'static str, &'static str)>,
    ) {
        let (kind, binds) = match self.mode {
            Mode::Unset if !binds => return,
            Mode::Unset | Mode::Adaptive => ("adaptive", binds),
            Mode::Budget(_) => ("enabled", binds),
            Mode::Off => ("disabled", false),
            Mode::Own(raw, _) => {
                w.key("thinking").raw(raw);
                headers.extend(raw.contains("\"block_binding\"").then_some(BINDING));
                return;
            }
        };
        w.key("thinking").object(|w| {
            w.key("type").text(kind);
            match self.mode {
                // Newer models show their thoughts only if they are asked to.
                Mode::Adaptive => w.key("display").text("summarized"),
                Mode::Budget(tokens) => w.key("budget_tokens").number(tokens),
                Mode::Unset | Mode::Off | Mode::Own(..) => {}
            }
            if binds {
                // A caller may shorten a conversation, or change a tool. Then the thought is
                // dropped, not the request.
                w.key("block_binding")
                    .object(|w| w.key("prefix_mismatch_behavior").text("drop_block"));
            }
        });
        headers.extend(binds.then_some(BINDING));
    }

    /// Leaves the effort out, because the server would not read it.
    pub(crate) fn leave_out_effort(&mut self, losses: &mut LostFields) {
        losses.add_if(self.effort.take().is_some(), Field::Effort);
    }

    fn set_effort(&mut self, meant: Effort, known: Efforts, losses: &mut LostFields) {
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

/// Returns the most tokens of a buffered answer that surely comes in this time. Anthropic's own
/// clients assume 128,000 tokens an hour, and refuse to ask for more than fits into ten minutes. An
/// answer that a deadline cuts off is paid for, not read, and asked for again.
fn in_time(within: Duration) -> u64 {
    (within.as_secs().saturating_mul(128_000) / 3600).max(MAX_TOKENS)
}

/// Returns the field `thinking`, which is Anthropic's own.
fn own_settings<'a>(request: &Request<'a>) -> Option<&'a str> {
    let mut others = request.others.iter();
    let other = others.find(|(name, _)| name == "thinking");
    let settings = request.thinking.settings.or(other.map(|(_, raw)| *raw));
    settings.map(|Raw(raw)| raw)
}

/// Reads Anthropic's own object. Returns its type and its budget, which is 0 if it has none.
/// Returns `None` if it is no object. An unknown type is refused, because it could cost more than
/// was reserved.
fn read_settings(raw: &str) -> Result<Option<(OwnMode, f64)>, FieldRefused> {
    let Some(members) = read_members(raw) else {
        return Ok(None);
    };
    // If a name comes twice, the last one counts, as elsewhere.
    let kind = find_last(&members, "type").and_then(string_value);
    let own = match kind.as_deref() {
        Some("disabled") => OwnMode::Off,
        Some("enabled") => OwnMode::Budget,
        Some("adaptive" | "between_tools") => OwnMode::Adaptive,
        Some(_) | None => {
            let message = "`thinking.type` must be one of `enabled`, `adaptive`, `disabled` and `between_tools`";
            return Err(FieldRefused::invalid(Field::ThinkingType, message));
        }
    };
    let budget = find_last(&members, "budget_tokens")
        .filter(|_| own == OwnMode::Budget)
        .and_then(|number| number.parse().ok());
    Ok(Some((own, budget.unwrap_or(0.0))))
}

/// Returns a budget as a number of tokens. The API must refuse a budget that is no such number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates"
)]
fn whole_tokens(budget: f64) -> u64 {
    budget as u64
}

#[cfg(test)]
mod tests;

//! This module has the options that both APIs treat alike: those that both take, and those that
//! neither takes.

use super::alternation::is_blank;
use crate::neutral::traits::Sampling;
use crate::neutral::{Field, LostFields, Request};
use crate::upstream::shared::options::Rule::{Lost, Refused};
use crate::upstream::shared::options::{ONE_CHOICE, Options, Row, differs_from_default};
use crate::wire::json::Writer;

/// The options that are refused.
pub(crate) const REFUSED: &[Row] = &[
    (Field::Choices, Refused(ONE_CHOICE)),
    (
        Field::Logprobs,
        Refused("This model's provider does not report log probabilities."),
    ),
    (
        Field::Audio,
        Refused("This model cannot answer with audio."),
    ),
];

/// The numbers that no Claude takes.
pub(crate) const LOST_NUMBERS: &[Row] = &[
    (Field::FrequencyPenalty, Lost),
    (Field::PresencePenalty, Lost),
    (Field::Seed, Lost),
];

/// The bounds of `temperature` and `top_p`.
pub(crate) const BOUNDS: [&str; 2] = ["0", "1"];

/// Writes the stop sequences, without blank ones.
pub(crate) fn write_stops(
    options: &Options<'_>,
    key: &'static str,
    w: &mut Writer,
    losses: &mut LostFields,
) {
    let stops = &options.request.stop;
    losses.add_if(stops.iter().any(|stop| is_blank(stop)), Field::Stop);
    let stops = stops.iter().filter(|stop| !is_blank(stop));
    w.list(key, stops, |w, stop| w.text(stop));
}

impl Options<'_> {
    /// Leaves out the temperature if the model thinks, or takes no temperature: it would refuse it.
    /// A default value is no loss.
    pub(crate) fn restrict_temperature(&mut self, losses: &mut LostFields) {
        if self.target.traits.sampling == Sampling::Neither || self.thinks {
            let temperature = self.temperature.take();
            losses.add_if(
                temperature.is_some_and(differs_from_default),
                Field::Temperature,
            );
        }
    }

    /// Leaves out a `top_p` that the model refuses together with this temperature.
    pub(crate) fn restrict_top_p(&mut self, losses: &mut LostFields) {
        let is_excluded = match self.target.traits.sampling {
            Sampling::Neither => true,
            Sampling::One if self.temperature.is_some() => true,
            Sampling::One | Sampling::Both => {
                self.thinks && self.top_p.is_some_and(|top_p| top_p.value < 0.95)
            }
        };
        if is_excluded {
            let top_p = self.top_p.take();
            losses.add_if(top_p.is_some_and(differs_from_default), Field::TopP);
        }
    }

    /// Leaves out `top_k` if the model thinks, or takes no sampling: it would refuse it.
    pub(crate) fn restrict_top_k(&mut self, losses: &mut LostFields) {
        if self.target.traits.sampling == Sampling::Neither || self.thinks {
            losses.add_if(self.top_k.take().is_some(), Field::TopK);
        }
    }
}

/// Notes the other fields of a request, except `thinking`. The code that reads `thinking` decides
/// about it.
pub(crate) fn note_lost_others(request: &Request<'_>, losses: &mut LostFields) {
    let others = request.others.iter().filter(|(name, _)| name != "thinking");
    others.for_each(|(name, _)| losses.add(Field::other(name)));
}

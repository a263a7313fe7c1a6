//! This module has the fields beside the conversation that both APIs treat alike: those that both
//! take, and those that neither takes.

use std::borrow::Cow;

use super::alternation::is_blank;
use crate::neutral::traits::Sampling;
use crate::neutral::{Field, LostFields, Number, Request};
use crate::upstream::shared::options::Range;
use crate::wire::json::Writer;

/// Writes the stop sequences, without blank ones.
pub(crate) fn write_stops(
    w: &mut Writer,
    key: &'static str,
    stops: &[Cow<'_, str>],
    losses: &mut LostFields,
) {
    losses.add_if(stops.iter().any(|stop| is_blank(stop)), Field::Stop);
    w.list(
        key,
        stops.iter().filter(|stop| !is_blank(stop)),
        |w, stop| w.text(stop),
    );
}

/// `temperature`, `top_p` and `top_k`, as far as the model allows them.
pub(crate) struct Dials<'r> {
    pub(crate) temperature: Option<Number<'r>>,
    pub(crate) top_p: Option<Number<'r>>,
    pub(crate) top_k: Option<u64>,
}

impl Dials<'_> {
    /// Leaves out a temperature that the model refuses. A default value is no loss.
    pub(crate) fn restrict_temperature(
        &mut self,
        sampling: Sampling,
        thinks: bool,
        losses: &mut LostFields,
    ) {
        if sampling == Sampling::Neither || thinks {
            losses.add_if(
                self.temperature.take().is_some_and(is_meant),
                Field::Temperature,
            );
        }
    }

    /// Leaves out a `top_p` that the model refuses beside this temperature.
    pub(crate) fn restrict_top_p(
        &mut self,
        sampling: Sampling,
        thinks: bool,
        losses: &mut LostFields,
    ) {
        let is_excluded = match sampling {
            Sampling::Neither => true,
            Sampling::One if self.temperature.is_some() => true,
            Sampling::One | Sampling::Both => {
                thinks && self.top_p.is_some_and(|top_p| top_p.value < 0.95)
            }
        };
        if is_excluded {
            losses.add_if(self.top_p.take().is_some_and(is_meant), Field::TopP);
        }
    }

    /// Leaves out a `top_k` that the model refuses.
    pub(crate) fn restrict_top_k(
        &mut self,
        sampling: Sampling,
        thinks: bool,
        losses: &mut LostFields,
    ) {
        if sampling == Sampling::Neither || thinks {
            losses.add_if(self.top_k.take().is_some(), Field::TopK);
        }
    }

    /// Writes `temperature` and `top_p`, under the API's names `keys`.
    pub(crate) fn write(&self, w: &mut Writer, keys: [&'static str; 2], losses: &mut LostFields) {
        let numbers = [
            (Field::Temperature, self.temperature),
            (Field::TopP, self.top_p),
        ];
        for (key, (field, number)) in keys.into_iter().zip(numbers) {
            Range {
                field,
                key,
                minimum: "0",
                maximum: "1",
            }
            .write(w, number, losses);
        }
    }
}

/// Returns whether a number differs from the default, 1.
pub(crate) fn is_meant(number: Number<'_>) -> bool {
    number.value != 1.0
}

/// Notes the numbers that no Claude takes.
pub(crate) fn lose_numbers(request: &Request<'_>, losses: &mut LostFields) {
    let is_set = |number: Option<Number<'_>>| number.is_some_and(|number| number.value != 0.0);
    losses.add_if(is_set(request.penalties.frequency), Field::FrequencyPenalty);
    losses.add_if(is_set(request.penalties.presence), Field::PresencePenalty);
    losses.add_if(request.seed.is_some(), Field::Seed);
}

/// Notes the other fields of a request, except `thinking`. The code that reads `thinking` decides
/// about it.
pub(crate) fn lose_others(request: &Request<'_>, losses: &mut LostFields) {
    let others = request.others.iter().filter(|(name, _)| name != "thinking");
    others.for_each(|(name, _)| losses.add(Field::other(name)));
}

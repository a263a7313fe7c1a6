//! Fields beside the conversation that both APIs take alike, and those that neither takes.

use std::borrow::Cow;

use super::alternation::is_blank;
use crate::neutral::{Losses, Number, Request};
use crate::wire::json::Writer;

/// Writes the stop sequences, without those in which there is nothing to read.
pub(crate) fn write_stops(w: &mut Writer, key: &'static str, stops: &[Cow<'_, str>], losses: &mut Losses) {
    let (blank, stops): (Vec<_>, Vec<_>) = stops.iter().partition(|stop| is_blank(stop));
    if !blank.is_empty() {
        losses.add("stop");
    }
    if !stops.is_empty() {
        w.key(key).array(|w| stops.into_iter().for_each(|stop| w.text(stop)));
    }
}

/// Writes a number between 0 and 1, or the bound that it is beyond. `name` is the caller's.
pub(crate) fn write_share(
    w: &mut Writer,
    key: &'static str,
    number: Number<'_>,
    name: &'static str,
    losses: &mut Losses,
) {
    match number.value {
        ..0.0 => w.key(key).number(0),
        0.0..=1.0 => w.key(key).raw(number.text),
        _ => w.key(key).number(1),
    }
    if !(0.0..=1.0).contains(&number.value) {
        losses.add(name);
    }
}

/// Names what no Claude takes. `own`: a field that only one of the APIs does not take, and whether
/// it is there. `thinking` may be a field that is read.
pub(crate) fn lose_others(request: &Request<'_>, own: (&'static str, bool), reads_thinking: bool, losses: &mut Losses) {
    let says = |number: &Option<Number<'_>>| number.is_some_and(|number| number.value != 0.0);
    let lost = [
        ("frequency_penalty", says(&request.frequency_penalty)),
        ("presence_penalty", says(&request.presence_penalty)),
        ("seed", request.seed.is_some()),
        own,
    ];
    lost.into_iter().filter(|(_, is_lost)| *is_lost).for_each(|(name, _)| losses.add(name));
    for (name, _) in &request.others {
        if name != "thinking" || !reads_thinking {
            losses.add_written("", name);
        }
    }
}

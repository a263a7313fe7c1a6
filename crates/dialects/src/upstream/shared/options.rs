//! Options are the fields of a request beside the conversation, the tools and the format. Each
//! dialect has tables of the options that its provider takes. The functions that read these tables
//! are here.

use crate::neutral::traits::{Sampling, Traits};
use crate::neutral::{Field, LostFields, Number, Request};
use crate::wire::json::Writer;

/// The range of a number that a provider takes.
pub(crate) struct Range {
    /// The field.
    pub(crate) field: Field,
    /// The provider's name for the field.
    pub(crate) key: &'static str,
    /// The smallest number.
    pub(crate) minimum: &'static str,
    /// The largest number; empty if there is none.
    pub(crate) maximum: &'static str,
}

impl Range {
    /// Writes a number, if there is one. A number outside the range becomes the nearest bound.
    pub(crate) fn write(
        &self,
        w: &mut Writer,
        number: Option<Number<'_>>,
        losses: &mut LostFields,
    ) {
        let Some(number) = number else { return };
        let bound = |text: &str| text.parse().unwrap_or(number.value);
        let text = match () {
            () if number.value < bound(self.minimum) => self.minimum,
            () if number.value > bound(self.maximum) => self.maximum,
            () => number.text,
        };
        losses.add_if(text != number.text, self.field.clone());
        w.key(self.key).raw(text);
    }
}

/// Returns the tier to ask for. The table has the caller's words, and the provider's word for each.
/// It has `None` if the provider needs no word for it. A word that is not in the table is lost.
pub(crate) fn service_tier(
    request: &Request<'_>,
    table: &[(&str, Option<&'static str>)],
    losses: &mut LostFields,
) -> Option<&'static str> {
    let tier = request.service_tier.as_deref()?;
    let known = table.iter().find(|(word, _)| *word == tier);
    losses.add_if(known.is_none(), Field::ServiceTier);
    known.and_then(|(_, word)| *word)
}

/// Returns the seed, if it fits the provider's type.
pub(crate) fn fitting_seed<N: TryFrom<i64>>(
    request: &Request<'_>,
    losses: &mut LostFields,
) -> Option<N> {
    let seed = N::try_from(request.seed?).ok();
    losses.add_if(seed.is_none(), Field::Seed);
    seed
}

/// Returns the maximum of tokens to ask for.
pub(crate) fn max_tokens(
    request: &Request<'_>,
    default: Option<u64>,
    traits: &Traits,
    losses: &mut LostFields,
) -> Option<u64> {
    let asked = request.max_tokens.or(default)?;
    let allowed = traits.max_output.map_or(asked, |limit| asked.min(limit));
    losses.add_if(
        allowed < asked && request.max_tokens.is_some(),
        Field::MaxTokens,
    );
    Some(allowed)
}

/// Returns `temperature` and `top_p`, as far as the model allows them.
pub(crate) fn allowed_sampling<'a>(
    request: &Request<'a>,
    traits: &Traits,
    losses: &mut LostFields,
) -> (Option<Number<'a>>, Option<Number<'a>>) {
    let (temperature, top_p) = match traits.sampling {
        Sampling::Both => (request.temperature, request.top_p),
        Sampling::One => (
            request.temperature,
            request.top_p.filter(|_| request.temperature.is_none()),
        ),
        Sampling::Neither => (None, None),
    };
    losses.add_if(temperature != request.temperature, Field::Temperature);
    losses.add_if(top_p != request.top_p, Field::TopP);
    (temperature, top_p)
}

/// Notes the other fields of a request as lost, because no provider takes them.
pub(crate) fn lose_others(request: &Request<'_>, losses: &mut LostFields) {
    losses.add_if(request.has_budget(), Field::ThinkingBudget);
    // Only a word for the effort says anything of the settings of thinking.
    losses.add_if(
        request.thinking.settings.is_some() && request.effort().is_none(),
        Field::Thinking,
    );
    request
        .others
        .iter()
        .for_each(|(name, _)| losses.add(Field::other(name)));
}

/// Notes the hints where a prompt cache may end as lost.
pub(crate) fn lose_cache_hints(request: &Request<'_>, losses: &mut LostFields) {
    let is_there = request.tools.iter().any(|tool| tool.cache.is_some())
        || request.messages.iter().any(|message| {
            message.cache.is_some() || message.content.iter().any(|part| part.cache.is_some())
        });
    losses.add_if(is_there, Field::CacheHint);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::chat::fields::tests::in_words;
    use crate::front::chat::read::read_request;

    #[test]
    fn what_the_model_cannot_say_is_cut() {
        let (request, _) =
            read_request(br#"{"model":"m","temperature":0.5,"top_p":0.9,"max_tokens":100}"#)
                .unwrap();
        let said = |traits: Traits| {
            let mut losses = LostFields::default();
            let (temperature, top_p) = allowed_sampling(&request, &traits, &mut losses);
            let most = max_tokens(&request, Some(7), &traits, &mut losses);
            (
                temperature.is_some(),
                top_p.is_some(),
                most,
                in_words(losses).names().join(" "),
            )
        };
        let all = Traits::UNKNOWN;
        assert_eq!(said(all), (true, true, Some(100), String::new()));
        assert_eq!(
            said(Traits {
                sampling: Sampling::One,
                ..all
            }),
            (true, false, Some(100), "top_p".into())
        );
        assert_eq!(
            said(Traits {
                sampling: Sampling::Neither,
                ..all
            }),
            (false, false, Some(100), "temperature top_p".into())
        );
        assert_eq!(
            said(Traits {
                max_output: Some(50),
                ..all
            }),
            (true, true, Some(50), "max_tokens".into())
        );

        let (silent, mut losses) = (Request::default(), LostFields::default());
        assert_eq!(max_tokens(&silent, Some(7), &all, &mut losses), Some(7));
        assert_eq!(
            max_tokens(
                &silent,
                Some(7),
                &Traits {
                    max_output: Some(5),
                    ..all
                },
                &mut losses
            ),
            Some(5)
        );
        assert_eq!(
            max_tokens(
                &silent,
                None,
                &Traits {
                    max_output: Some(5),
                    ..all
                },
                &mut losses
            ),
            None
        );
        assert_eq!(losses.names().len(), 0);
    }
}

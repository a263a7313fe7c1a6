//! Options are the fields of a request that are one value for all of it: the most tokens, the
//! randomness, the end user. Each dialect has a table with a rule for each option, in the order in
//! which the options are written. A table that forgets an option does not compile.

use std::borrow::Cow;

use crate::neutral::traits::{Sampling, Thinking};
use crate::neutral::{Field, FieldRefused, LostFields, Number, Request, Target};
use crate::wire::json::Writer;

/// An option, and the rule of a dialect for it.
pub(crate) type Row = (Field, Rule);

/// The rule of a dialect for an option.
pub(crate) enum Rule {
    /// The option is written under this key, as it is.
    UnderKey(&'static str),
    /// A number is written under this key. A number outside of these bounds becomes the nearest
    /// bound. An empty text is no bound.
    Within(&'static str, [&'static str; 2]),
    /// A whole number is written under this key. Outside of these bounds it is lost.
    WithinOrLost(&'static str, [i64; 2]),
    /// A number or a list is written under this key. A larger number or a longer list is refused,
    /// for this reason.
    AtMost(&'static str, u8, &'static str),
    /// The provider's word is written under this key. A word that is not in the table is lost.
    Translated(&'static str, Words),
    /// This function writes the option. It is called even if the request does not have the option.
    WrittenBy(fn(&Options<'_>, &mut Writer, &mut LostFields)),
    /// Other code of the dialect writes the option.
    Elsewhere,
    /// The option is lost. A penalty of zero, its default, is no loss; no other option that may be
    /// a fraction has this rule.
    Lost,
    /// The request is refused, for this reason.
    Refused(&'static str),
}

/// The callers' words, and the provider's word for each. `None` means that the provider does by
/// default what the word asks for: nothing is written, and nothing is lost.
pub(crate) type Words = &'static [(&'static str, Option<&'static str>)];

/// Returns the table of a dialect. If an option is missing or there twice, the program does not
/// compile. The rows of one section are written together.
pub(crate) const fn table<const N: usize>(sections: [&'static [Row]; N]) -> [&'static [Row]; N] {
    let mut found = 0;
    let mut rest = sections.as_slice();
    while let [rows, later @ ..] = rest {
        let mut rows = *rows;
        while let [(field, _), more @ ..] = rows {
            let bit = field.option_bit();
            assert!(bit != 0, "a table has options only");
            assert!(found & bit == 0, "a table has each option once");
            found |= bit;
            rows = more;
        }
        rest = later;
    }
    assert!(
        found == Field::OPTION_BITS,
        "a table has a rule for each option"
    );
    sections
}

/// The options of a request, some of them only as far as the model allows them.
pub(crate) struct Options<'r> {
    /// The request.
    pub(crate) request: &'r Request<'r>,
    /// The target for which it is written.
    pub(crate) target: &'r Target<'r>,
    /// True if the model will think. [`Options::new`] goes by the model's traits; a dialect that
    /// knows better sets it.
    pub(crate) thinks: bool,
    /// The most tokens of the answer, or the catalog's default.
    pub(crate) max_tokens: Option<u64>,
    /// The randomness.
    pub(crate) temperature: Option<Number<'r>>,
    /// The share of the likeliest tokens.
    pub(crate) top_p: Option<Number<'r>>,
    /// The number of the likeliest tokens.
    pub(crate) top_k: Option<u64>,
}

/// The value of an option.
enum Value<'r> {
    Number(Number<'r>),
    Whole(i128),
    Texts(&'r [Cow<'r, str>]),
    Text(&'r str),
    Json(&'r str),
    /// The option is asked for; it has no other value.
    Flag,
}

impl<'r> Options<'r> {
    /// Returns the options as the request has them.
    pub(crate) fn new(request: &'r Request<'r>, target: &'r Target<'r>) -> Self {
        Self {
            request,
            target,
            thinks: matches!(target.traits.thinking, Thinking::Budget | Thinking::Effort),
            max_tokens: request.max_tokens.or(target.default_max_tokens),
            temperature: request.temperature,
            top_p: request.top_p,
            top_k: request.top_k,
        }
    }

    /// Refuses the request if it has an option that these rows refuse.
    pub(crate) fn check(&self, rows: &[Row]) -> Result<(), FieldRefused> {
        for (field, rule) in rows {
            let (Rule::Refused(why) | Rule::AtMost(_, _, why)) = rule else {
                continue;
            };
            let is_refused = match (rule, self.value(field)) {
                (Rule::AtMost(_, limit, _), Some(Value::Whole(number))) => number > (*limit).into(),
                (Rule::AtMost(_, limit, _), Some(Value::Texts(texts))) => {
                    texts.len() > usize::from(*limit)
                }
                (_, value) => value.is_some(),
            };
            if is_refused {
                return Err(FieldRefused::unsupported(field.clone(), *why));
            }
        }
        Ok(())
    }

    /// Lowers the maximum of tokens to this maximum of the model. Returns whether the caller's own
    /// maximum was lowered: then it is lost. A default of the catalog may be lowered without a
    /// loss.
    pub(crate) fn limit_tokens(&mut self, max_output: Option<u64>) -> bool {
        let both = self.max_tokens.zip(max_output);
        let Some((asked, limit)) = both.filter(|(asked, limit)| asked > limit) else {
            return false;
        };
        self.max_tokens = Some(limit);
        self.request.max_tokens == Some(asked)
    }

    /// Leaves out `temperature` and `top_p`, as far as the model refuses them.
    pub(crate) fn limit_sampling(&mut self, losses: &mut LostFields) {
        let sampling = self.target.traits.sampling;
        if sampling == Sampling::Neither {
            losses.add_if(self.temperature.take().is_some(), Field::Temperature);
        }
        if sampling == Sampling::Neither
            || (sampling == Sampling::One && self.temperature.is_some())
        {
            losses.add_if(self.top_p.take().is_some(), Field::TopP);
        }
    }

    /// Writes the options of these rows, and notes those that are lost.
    pub(crate) fn write(&self, rows: &[Row], w: &mut Writer, losses: &mut LostFields) {
        for (field, rule) in rows {
            if let Rule::WrittenBy(write) = rule {
                write(self, w, losses);
            } else if let Some(value) = self.value(field)
                && !value.write_by(rule, w)
            {
                losses.add(field.clone());
            }
        }
    }

    /// Notes which options of these rows are lost. Only for rows whose rules write nothing.
    pub(crate) fn note_lost(&self, rows: &[Row], losses: &mut LostFields) {
        self.write(rows, &mut Writer::default(), losses);
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "other fields are no options"
    )]
    fn value(&self, field: &Field) -> Option<Value<'r>> {
        let request = self.request;
        Some(match field {
            Field::MaxTokens => Value::Whole(self.max_tokens?.into()),
            Field::Temperature => Value::Number(self.temperature?),
            Field::TopP => Value::Number(self.top_p?),
            Field::TopK => Value::Whole(self.top_k?.into()),
            Field::FrequencyPenalty => Value::Number(request.penalties.frequency?),
            Field::PresencePenalty => Value::Number(request.penalties.presence?),
            Field::Stop if !request.stop.is_empty() => Value::Texts(&request.stop),
            Field::Seed => Value::Whole(request.seed?.into()),
            Field::Choices => Value::Whole(request.n?.into()),
            Field::Logprobs if request.logprobs => Value::Flag,
            Field::Audio if request.wants_audio => Value::Flag,
            Field::User => Value::Text(request.user.as_deref()?),
            Field::Metadata => Value::Json(request.metadata?.0),
            Field::ServiceTier => Value::Text(request.service_tier.as_deref()?),
            _ => return None,
        })
    }
}

impl Value<'_> {
    /// Writes the value by a rule. Returns whether nothing of it is lost.
    fn write_by(&self, rule: &Rule, w: &mut Writer) -> bool {
        match (rule, self) {
            (Rule::UnderKey(key) | Rule::AtMost(key, ..), value) => value.write(w.key(key)),
            (Rule::Within(key, bounds), Value::Number(number)) => {
                return write_within(w, key, *bounds, *number);
            }
            (Rule::WithinOrLost(key, [least, greatest]), Value::Whole(number)) => {
                if *number < i128::from(*least) || *number > i128::from(*greatest) {
                    return false;
                }
                self.write(w.key(key));
            }
            (Rule::Translated(key, words), Value::Text(asked)) => {
                let Some((_, word)) = words.iter().find(|(word, _)| word == asked) else {
                    return false;
                };
                w.optional(key, *word, Writer::text);
            }
            (Rule::Lost, value) => {
                return matches!(value, Value::Number(number) if number.value == 0.0);
            }
            (Rule::WrittenBy(_) | Rule::Elsewhere | Rule::Refused(_), _) => {}
            // The rule has no form for this kind of value, so nothing is written.
            (Rule::Within(..) | Rule::WithinOrLost(..) | Rule::Translated(..), _) => return false,
        }
        true
    }

    fn write(&self, w: &mut Writer) {
        match *self {
            Value::Number(number) => w.raw(number.text),
            Value::Whole(number) => match u64::try_from(number) {
                Ok(number) => w.number(number),
                Err(_) => w.raw(&number.to_string()),
            },
            Value::Texts(texts) => w.each(texts, |w, text| w.text(text)),
            Value::Text(text) => w.text(text),
            Value::Json(json) => w.raw(json),
            Value::Flag => w.bool(true),
        }
    }
}

/// The reason to refuse several choices.
pub(crate) const ONE_CHOICE: &str =
    "This model gives one choice for each request. Send several requests instead.";

/// Returns whether `temperature` or `top_p` differs from its default, 1.
pub(crate) fn differs_from_default(number: Number<'_>) -> bool {
    number.value != 1.0
}

/// Writes a number under this key. A number outside of the bounds becomes the nearest one. Returns
/// whether the number is written as it is.
pub(crate) fn write_within(
    w: &mut Writer,
    key: &'static str,
    bounds: [&'static str; 2],
    number: Number<'_>,
) -> bool {
    let [minimum, maximum] = bounds.map(|bound| bound.parse().unwrap_or(number.value));
    let text = match bounds {
        [bound, _] if number.value < minimum => bound,
        [_, bound] if number.value > maximum => bound,
        [..] => number.text,
    };
    w.key(key).raw(text);
    text == number.text
}

/// Notes as lost the fields of a request that no provider takes.
pub(crate) fn note_lost_others(request: &Request<'_>, losses: &mut LostFields) {
    losses.add_if(request.has_budget(), Field::ThinkingBudget);
    // Of the settings of thinking, only the effort that they come to can be written.
    losses.add_if(
        request.thinking.settings.is_some() && request.effort().is_none(),
        Field::Thinking,
    );
    request
        .others
        .iter()
        .for_each(|(name, _)| losses.add(Field::other(name)));
}

/// Notes as lost the hints where a prompt cache may end.
pub(crate) fn note_lost_cache_hints(request: &Request<'_>, losses: &mut LostFields) {
    let has_hint = request.tools.iter().any(|tool| tool.cache.is_some())
        || request.messages.iter().any(|message| {
            message.cache.is_some() || message.content.iter().any(|part| part.cache.is_some())
        });
    losses.add_if(has_hint, Field::CacheHint);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::front::chat::read::read_request;
    use crate::front::fields::tests::in_words;
    use crate::neutral::traits::Traits;

    /// Compares the table of a dialect with the one of the book, which is made from requests.
    #[track_caller]
    pub(crate) fn check_book(dialect: &str, sections: &[&[Row]]) {
        let chapter = include_str!("../../../../../docs/src/providers.md");
        let table = chapter.split("<!-- dialect table -->").nth(1).unwrap();
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split('|').map(str::trim).collect())
            .collect();
        let column = rows[1].iter().position(|name| *name == dialect).unwrap();
        for (field, rule) in sections.iter().copied().flatten() {
            let mut names = NAMES_IN_BOOK.iter();
            let (_, name) = names.find(|(named, _)| named == field).unwrap();
            let row = rows.iter().find(|row| row.get(1) == Some(name));
            let mark = row.unwrap_or_else(|| panic!("no row {name}"))[column];
            let expected: &[&str] = match rule {
                Rule::UnderKey(_)
                | Rule::Within(..)
                | Rule::WithinOrLost(..)
                | Rule::AtMost(..) => &["✓"],
                Rule::Lost => &["○"],
                Rule::Refused(_) => &["—"],
                Rule::Translated(..) | Rule::WrittenBy(_) | Rule::Elsewhere => &["✓", "○"],
            };
            assert!(expected.contains(&mark), "{dialect}, {name}: {mark}");
        }
    }

    /// The rows of the book that show the options.
    static NAMES_IN_BOOK: [(Field, &str); 15] = [
        (Field::MaxTokens, "`max_completion_tokens`"),
        (Field::Temperature, "`temperature`"),
        (Field::TopP, "`top_p`"),
        (Field::TopK, "`top_k`"),
        (Field::FrequencyPenalty, "penalties"),
        (Field::PresencePenalty, "penalties"),
        (Field::Stop, "`stop`"),
        (Field::Seed, "`seed`"),
        (Field::Choices, "`n` above 1"),
        (Field::Logprobs, "`logprobs`"),
        (Field::Audio, "sound in the answer"),
        (Field::Effort, "`reasoning_effort`"),
        (Field::User, "`user`"),
        (Field::Metadata, "`metadata`"),
        (Field::ServiceTier, "`service_tier: priority`"),
    ];

    /// Returns a target whose model has these traits.
    pub(crate) fn target_of(traits: Traits) -> Target<'static> {
        Target {
            model: "m",
            traits,
            default_max_tokens: None,
            stream: false,
            within: None,
            kept: &|_| None,
        }
    }

    #[test]
    fn options_beyond_the_model_are_left_out_or_cut() {
        let body = br#"{"model":"m","temperature":0.5,"top_p":0.9,"max_tokens":100}"#;
        let (both, _) = read_request(body).unwrap();
        let silent = Request::default();
        let all = Traits::UNKNOWN;
        let one = Traits {
            sampling: Sampling::One,
            ..all
        };
        let neither = Traits {
            sampling: Sampling::Neither,
            ..all
        };
        let short = |max_output| Traits {
            max_output: Some(max_output),
            ..all
        };
        for (request, traits, default_max_tokens, expected) in [
            (&both, all, Some(7), (true, true, Some(100), "")),
            (&both, one, Some(7), (true, false, Some(100), "top_p")),
            (
                &both,
                neither,
                None,
                (false, false, Some(100), "temperature top_p"),
            ),
            (&both, short(50), None, (true, true, Some(50), "max_tokens")),
            (&silent, all, Some(7), (false, false, Some(7), "")),
            (&silent, short(5), Some(7), (false, false, Some(5), "")),
            (&silent, short(5), None, (false, false, None, "")),
        ] {
            let target = Target {
                default_max_tokens,
                ..target_of(traits)
            };
            let mut losses = LostFields::default();
            let mut options = Options::new(request, &target);
            losses.add_if(options.limit_tokens(traits.max_output), Field::MaxTokens);
            options.limit_sampling(&mut losses);
            let (temperature, top_p, max_tokens, lost) = expected;
            assert_eq!(options.temperature.is_some(), temperature);
            assert_eq!(options.top_p.is_some(), top_p);
            assert_eq!(options.max_tokens, max_tokens);
            assert_eq!(in_words(losses).names().join(" "), lost);
        }
    }
}

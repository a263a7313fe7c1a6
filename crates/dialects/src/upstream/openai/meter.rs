//! A meter reads an upstream's usage object into correct numbers, and writes the object back.
//!
//! Only the numbers that a usage must have are changed; everything else stays as it came. A usage
//! in which every number is zero or null counts nothing, and is treated as missing.

use std::borrow::Cow;

use crate::neutral::price::ShowCost;
use crate::neutral::usage::{MAX_TOKENS, Source, Units, Usage, estimate_tokens};
use crate::upstream::quirks::Quirks;
use crate::upstream::shared::lenient::Count;
use crate::wire::json::{Cursor, ScanResult, Span, integer_of, span_bytes};
use crate::wire::splice::Edits;

/// The numbers of a usage object. A missing number is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    prompt: Option<u64>,
    completion: Option<u64>,
    total: Option<u64>,
    cached: Option<u64>,
    cache_write: Option<u64>,
    reasoning: Option<u64>,
    /// The name of a number that no answer can have. Then none of the others is kept.
    doubted: Option<&'static str>,
    /// True if each of the first three numbers is there once, and is written as one.
    is_plain: bool,
    /// True if the cached tokens stand where the standard has them, once and as a number.
    tells_cached: bool,
}

impl Counts {
    /// Returns whether the object with these numbers may be passed on.
    pub(super) fn are_believed(&self) -> bool {
        self.doubted.is_none()
    }

    /// Returns whether the object with these numbers reports exactly this usage, so that it may
    /// pass as it is.
    pub(super) fn match_usage(&self, usage: &Usage) -> bool {
        let numbers = [self.prompt, self.completion, self.total];
        let is_right =
            self.is_plain && numbers == [usage.prompt, usage.completion, usage.total()].map(Some);
        is_right && (usage.cached == 0 || self.tells_cached)
    }

    /// Reads a usage object. Returns `None` if it is no object, or counts nothing.
    pub(super) fn read(text: &[u8], usage: &Span) -> Option<Self> {
        Self::next(&mut Cursor::new(span_bytes(text, usage))).ok()?
    }

    /// Reads the usage object that comes next. Returns `None` if it counts nothing.
    pub(super) fn next(cursor: &mut Cursor<'_>) -> ScanResult<Option<Self>> {
        let object = cursor.text();
        let mut counts = Self::default();
        let mut reader = CountReader::new(object);
        // The number of objects with details, and of cached tokens in them that are numbers.
        let mut details = 0;
        let mut cached = 0;
        let mut is_cached_odd = false;
        cursor.object(|cursor, key| {
            match span_bytes(object, &key) {
                br#""prompt_tokens""# => {
                    counts.prompt = reader.main_count("prompt_tokens", cursor.value()?)
                }
                br#""completion_tokens""# => {
                    counts.completion = reader.main_count("completion_tokens", cursor.value()?)
                }
                br#""total_tokens""# => {
                    counts.total = reader.main_count("total_tokens", cursor.value()?)
                }
                // DeepSeek; Mistral; Moonshot
                br#""prompt_cache_hit_tokens""#
                | br#""num_cached_tokens""#
                | br#""cached_tokens""# => {
                    let own = reader.count("cached_tokens", cursor.value()?);
                    counts.cached = counts.cached.or(own);
                }
                br#""prompt_tokens_details""# => {
                    details += 1;
                    cursor.maybe_members(|key, value| match span_bytes(object, &key) {
                        br#""cached_tokens""# => {
                            cached += 1;
                            is_cached_odd |= integer_of(object, &value).is_none();
                            counts.cached = reader.count("cached_tokens", value).or(counts.cached);
                        }
                        br#""cache_write_tokens""# => {
                            counts.cache_write = reader.count("cache_write_tokens", value)
                        }
                        _ => {}
                    })?;
                }
                br#""completion_tokens_details""# => {
                    cursor.maybe_members(|key, value| {
                        if span_bytes(object, &key) == br#""reasoning_tokens""# {
                            counts.reasoning = reader.count("reasoning_tokens", value);
                        }
                    })?;
                }
                _ => return cursor.skip(),
            }
            Ok(())
        })?;
        counts.is_plain = reader.main_counts == 3 && !reader.is_odd;
        counts.tells_cached = details == 1 && cached == 1 && !is_cached_odd;
        let mut doubted = reader.doubted;
        // Some servers do not include a part in its whole, and then the sum of both is the count.
        for (whole, part, name) in [
            (counts.prompt, counts.cached, "cached_tokens"),
            (counts.completion, counts.reasoning, "reasoning_tokens"),
        ] {
            if whole.unwrap_or(0).saturating_add(part.unwrap_or(0)) > MAX_TOKENS {
                doubted = doubted.or(Some(name));
            }
        }
        if doubted.is_some() {
            return Ok(Some(Self {
                doubted,
                ..Self::default()
            }));
        }
        let is_any = [counts.prompt, counts.completion, counts.total]
            .iter()
            .any(|count| count.unwrap_or(0) > 0);
        Ok(is_any.then_some(counts))
    }

    /// Returns the usage for these numbers. A missing number comes from the total, or is
    /// estimated.
    pub(super) fn settle(self, quirks: &Quirks, prompt_bytes: u64, completion_bytes: u64) -> Usage {
        let mut source = Source::Reported;
        let (mut prompt, completion) = match (self.prompt, self.completion, self.total) {
            (Some(prompt), Some(completion), total) => (
                prompt,
                completion
                    .saturating_add(self.reasoning_outside(quirks, prompt, completion, total)),
            ),
            (Some(prompt), None, Some(total)) if total >= prompt => (prompt, total - prompt),
            (None, Some(completion), Some(total)) if total >= completion => {
                (total - completion, completion)
            }
            (prompt, completion, total) => {
                source = Source::Estimated;
                let total = if prompt.or(completion).is_none() {
                    total
                } else {
                    None
                };
                let completion = completion.unwrap_or_else(|| {
                    estimate_tokens(completion_bytes).min(total.unwrap_or(u64::MAX))
                });
                let prompt = prompt.unwrap_or_else(|| {
                    total.map_or_else(|| estimate_tokens(prompt_bytes), |total| total - completion)
                });
                (prompt, completion)
            }
        };
        let cached = self.cached.unwrap_or(0);
        if cached > prompt {
            // Seen at xAI: the prompt does not include cached tokens.
            prompt = prompt.saturating_add(cached);
        }
        Usage {
            prompt,
            completion,
            cached,
            cache_write: self.cache_write.unwrap_or(0),
            reasoning: self.reasoning.unwrap_or(0).min(completion),
            source,
            units: Units::NONE,
            doubted: self.doubted,
        }
    }

    /// Returns the number of reasoning tokens that the completion does not include. Seen at xAI:
    /// only the total includes them.
    fn reasoning_outside(
        self,
        quirks: &Quirks,
        prompt: u64,
        completion: u64,
        total: Option<u64>,
    ) -> u64 {
        let reasoning = self.reasoning.unwrap_or(0);
        let without = prompt.saturating_add(completion);
        let is_outside = match total {
            Some(total) if total == without => false,
            Some(total) if total == without.saturating_add(reasoning) => true,
            Some(_) | None => quirks.reasoning_outside,
        };
        if is_outside { reasoning } else { 0 }
    }
}

/// Reads the counts of a usage object.
struct CountReader<'t> {
    object: &'t [u8],
    /// How many of the three main counts came, each as often as it came.
    main_counts: usize,
    /// True if a main count is not written as a number.
    is_odd: bool,
    /// The name of the first count that no answer can have.
    doubted: Option<&'static str>,
}

impl<'t> CountReader<'t> {
    fn new(object: &'t [u8]) -> Self {
        Self {
            object,
            main_counts: 0,
            is_odd: false,
            doubted: None,
        }
    }

    /// Reads one of the counts that every usage has.
    fn main_count(&mut self, name: &'static str, value: Span) -> Option<u64> {
        self.main_counts += 1;
        self.is_odd |= !span_bytes(self.object, &value)
            .iter()
            .all(u8::is_ascii_digit);
        self.count(name, value)
    }

    fn count(&mut self, name: &'static str, value: Span) -> Option<u64> {
        let odd = || Count::read(str::from_utf8(span_bytes(self.object, &value)).ok()?).0;
        let count = integer_of(self.object, &value).or_else(odd);
        if count.is_some_and(|count| count > MAX_TOKENS) {
            self.doubted = self.doubted.or(Some(name));
        }
        count
    }
}

/// Writes the usage object with correct numbers, and with the cost if it is shown. Writes a new
/// object if there was none.
pub(super) fn write_usage<'a>(
    object: Option<&'a [u8]>,
    usage: &Usage,
    shown: ShowCost,
) -> Cow<'a, [u8]> {
    let numbers = [
        (&br#""prompt_tokens""#[..], usage.prompt),
        (br#""completion_tokens""#, usage.completion),
        (br#""total_tokens""#, usage.total()),
    ];
    let object = object.unwrap_or(b"{}");
    let mut edits = Edits::new(object);
    let mut missing = [true; 3];
    let mut has_details = false;
    let cost = shown
        .shown_cost(usage)
        .map(|cost| cost.to_string().into_bytes());
    let mut has_cost = false;
    let read = Cursor::new(object).members(|key, value| {
        let name = span_bytes(object, &key);
        for (missing, (field, number)) in missing.iter_mut().zip(numbers) {
            if name == field {
                *missing = false;
                // A number may be right, and yet not be written as one: `9.0`.
                let is_plain = span_bytes(object, &value).iter().all(u8::is_ascii_digit);
                if !is_plain || integer_of(object, &value) != Some(number) {
                    edits.replace(value.clone(), number.to_string().into_bytes());
                }
            }
        }
        if name == br#""cost""# && shown != ShowCost::No {
            match &cost {
                Some(cost) if !has_cost => edits.replace(value.clone(), cost.clone()),
                Some(_) | None => edits.remove_member(&key, &value),
            }
            has_cost = true;
        }
        if name == br#""prompt_tokens_details""# {
            has_details = span_bytes(object, &value) != b"null";
            if has_details && usage.cached > 0 {
                tell_cached(&value, usage.cached, &mut edits);
            } else if usage.cached > 0 {
                edits.remove_member(&key, &value);
            }
        }
    });
    let Ok(span) = read else {
        return write_usage(None, usage, shown);
    };
    for (_, (field, number)) in missing.iter().zip(numbers).filter(|(missing, _)| **missing) {
        edits.insert_member(
            span.start,
            [field, b":", number.to_string().as_bytes()].concat(),
        );
    }
    if !has_details && usage.cached > 0 {
        let details = format!(
            r#""prompt_tokens_details":{{"cached_tokens":{}}}"#,
            usage.cached
        );
        edits.insert_member(span.start, details.into_bytes());
    }
    if let Some(cost) = cost.filter(|_| !has_cost) {
        edits.insert_member(span.start, [br#""cost":"#, &*cost].concat());
    }
    edits.applied()
}

/// Sets the cached tokens in the details of the prompt.
fn tell_cached(details: &Span, cached: u64, edits: &mut Edits<'_>) {
    let text = edits.text();
    let mut is_told = false;
    let read = Cursor::starting_at(text, details.start).members(|key, value| {
        if span_bytes(text, &key) == br#""cached_tokens""# {
            is_told = true;
            if integer_of(text, &value) != Some(cached) {
                edits.replace(value, cached.to_string().into_bytes());
            }
        }
    });
    // Details that are no object stay as they are.
    if let (Ok(span), false) = (read, is_told) {
        edits.insert_member(
            span.start,
            format!(r#""cached_tokens":{cached}"#).into_bytes(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neutral::price::{Price, Rates};
    use crate::upstream::quirks;

    const NOBODY: Option<(u64, u64, u64, Source)> = None;

    /// 400 bytes of prompt and 40 of completion were passed on.
    #[track_caller]
    fn check(json: &str, expected: Option<(u64, u64, u64, Source)>) {
        check_with(&Quirks::NONE, json, expected);
    }

    #[track_caller]
    fn check_with(quirks: &Quirks, json: &str, expected: Option<(u64, u64, u64, Source)>) {
        let usage = Counts::read(json.as_bytes(), &(0..json.len()))
            .map(|counts| counts.settle(quirks, 400, 40));
        let usage = usage.map(|usage| (usage.prompt, usage.completion, usage.cached, usage.source));
        assert_eq!(usage, expected, "{json}");
    }

    #[test]
    fn numbers_are_read_and_what_is_missing_is_derived() {
        use Source::{Estimated, Reported};
        check(
            r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}"#,
            Some((9, 3, 0, Reported)),
        );
        check(
            r#"{"prompt_tokens":9.0,"completion_tokens":3,"total_tokens":99}"#,
            Some((9, 3, 0, Reported)),
        );
        check(
            r#"{"prompt_tokens":9,"total_tokens":12}"#,
            Some((9, 3, 0, Reported)),
        );
        check(
            r#"{"completion_tokens":3,"total_tokens":12}"#,
            Some((9, 3, 0, Reported)),
        );
        check(
            r#"{"prompt_tokens":9,"completion_tokens":null,"total_tokens":12}"#,
            Some((9, 3, 0, Reported)),
        );
        check(
            r#"{"prompt_tokens":9,"completion_tokens":null}"#,
            Some((9, 10, 0, Estimated)),
        );
        check(r#"{"completion_tokens":3}"#, Some((100, 3, 0, Estimated)));
        check(r#"{"total_tokens":50}"#, Some((40, 10, 0, Estimated)));
        check(r#"{"total_tokens":5}"#, Some((0, 5, 0, Estimated)));
        check(
            r#"{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}"#,
            Some((9, 3, 4, Reported)),
        );
        check(
            r#"{"prompt_tokens":9,"completion_tokens":3,"prompt_cache_hit_tokens":4}"#,
            Some((9, 3, 4, Reported)),
        );
        check("null", NOBODY);
        check("{}", NOBODY);
        check("[]", NOBODY);
        check("7", NOBODY);
        check(
            r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#,
            NOBODY,
        );
        check(
            r#"{"prompt_tokens":null,"completion_tokens":null,"total_tokens":null}"#,
            NOBODY,
        );
        check(r#"{"prompt_tokens":"nine","completion_tokens":[]}"#, NOBODY);
        check(
            r#"{"prompt_tokens":"9","completion_tokens":"3.0"}"#,
            Some((9, 3, 0, Reported)),
        );
    }

    #[test]
    fn impossible_counts_are_dropped_with_the_others_beside_them() {
        let check = |json: &str, doubted| {
            let usage = Counts::read(json.as_bytes(), &(0..json.len()))
                .map(|counts| counts.settle(&Quirks::NONE, 400, 40));
            assert_eq!(
                usage,
                Some(Usage {
                    doubted,
                    ..Usage::estimated(400, 40)
                }),
                "{json}"
            );
        };
        for absurd in [
            "1073741825",
            "9223372036854775808",
            "1e18",
            "1e400",
            "-1",
            "-1.0",
            "7.5",
            "\"1e18\"",
            "\"-3\"",
            "18446744073709551616",
        ] {
            let of = |name: &str| {
                format!(
                    r#"{{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"{name}":{absurd}}}"#
                )
            };
            for name in [
                "prompt_tokens",
                "completion_tokens",
                "total_tokens",
                "cached_tokens",
            ] {
                check(&of(name), Some(name));
            }
            check(&of("num_cached_tokens"), Some("cached_tokens"));
            check(
                &format!(
                    r#"{{"prompt_tokens":9,"prompt_tokens_details":{{"cached_tokens":{absurd}}}}}"#
                ),
                Some("cached_tokens"),
            );
            check(
                &format!(
                    r#"{{"prompt_tokens":9,"prompt_tokens_details":{{"cache_write_tokens":{absurd}}}}}"#
                ),
                Some("cache_write_tokens"),
            );
            check(
                &format!(r#"{{"completion_tokens_details":{{"reasoning_tokens":{absurd}}}}}"#),
                Some("reasoning_tokens"),
            );
        }
        check(
            r#"{"prompt_tokens":5,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":1073741824}}"#,
            Some("cached_tokens"),
        );
        check(
            r#"{"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":1073741824}}"#,
            Some("reasoning_tokens"),
        );
        let most = r#"{"prompt_tokens":1073741824,"completion_tokens":1073741824}"#;
        let usage = Counts::read(most.as_bytes(), &(0..most.len()))
            .unwrap()
            .settle(&Quirks::NONE, 400, 40);
        assert_eq!(
            (usage.total(), usage.source, usage.doubted),
            (1 << 31, Source::Reported, None)
        );
    }

    #[test]
    fn xai_leaves_reasoning_and_cache_out() {
        let reasoning = r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":32,"completion_tokens_details":{"reasoning_tokens":20}}"#;
        check(reasoning, Some((9, 23, 0, Source::Reported)));
        let inside = r#"{"prompt_tokens":9,"completion_tokens":30,"total_tokens":39,"completion_tokens_details":{"reasoning_tokens":20}}"#;
        check(inside, Some((9, 30, 0, Source::Reported)));
        let cached = r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":100}}"#;
        check(cached, Some((109, 3, 100, Source::Reported)));
        // Where the total does not decide, the server's table does.
        for total in ["", r#","total_tokens":0"#, r#","total_tokens":99"#] {
            let unclear = format!(
                r#"{{"prompt_tokens":9,"completion_tokens":3{total},"completion_tokens_details":{{"reasoning_tokens":20}}}}"#
            );
            check(&unclear, Some((9, 3, 0, Source::Reported)));
            check_with(&quirks::XAI, &unclear, Some((9, 23, 0, Source::Reported)));
        }
        check_with(&quirks::XAI, reasoning, Some((9, 23, 0, Source::Reported)));
        check_with(&quirks::XAI, inside, Some((9, 30, 0, Source::Reported)));
    }

    proptest::proptest! {
    #[test]
    fn what_says_the_usage_is_written_as_it_came(
    members in proptest::collection::vec((
    proptest::sample::select(vec![
    "prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "prompt_tokens_details", "cost",
    ]),
    proptest::sample::select(vec![
    "0", "3", "9", "12", "9.0", "12.0", "\"9\"", "null", "-1", r#"{"cached_tokens":0}"#, r#"{"cached_tokens":4}"#,
    "{}", r#"{"cached_tokens":null}"#, r#"{"cached_tokens":"4"}"#, r#"{"cached_tokens":4,"cached_tokens":4}"#,
    ]),
    ), 0..6),
    is_whole: bool,
    ) {
    let mut members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    if is_whole {
    members.insert(0, r#""prompt_tokens":9,"completion_tokens":3,"total_tokens":12"#.to_owned());
    }
    let object = format!("{{{}}}", members.join(","));
    if let Some(counts) = Counts::read(object.as_bytes(), &(0..object.len())) {
    let usage = counts.settle(&Quirks::NONE, 400, 40);
    if counts.match_usage(&usage) {
    let written = write_usage(Some(object.as_bytes()), &usage, ShowCost::No);
    proptest::prop_assert_eq!(&*written, object.as_bytes());
    }
    proptest::prop_assert!(counts.match_usage(&usage) || !is_whole || members.len() > 1, "{} is not plain", object);
    }
    }
    }

    #[test]
    fn the_object_is_made_true_and_keeps_the_rest() {
        let usage = Usage {
            prompt: 9,
            completion: 3,
            source: Source::Reported,
            ..Usage::default()
        };
        for (object, expected) in [
            (
                None,
                r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}"#,
            ),
            (
                Some(
                    r#"{ "prompt_tokens": 9, "cost": 0.1, "completion_tokens": 3, "total_tokens": 12 }"#,
                ),
                r#"{ "prompt_tokens": 9, "cost": 0.1, "completion_tokens": 3, "total_tokens": 12 }"#,
            ),
            (
                Some(r#"{"prompt_tokens":9.0,"total_tokens":10}"#),
                r#"{"completion_tokens":3,"prompt_tokens":9,"total_tokens":12}"#,
            ),
            (
                Some(r#"{"total_tokens":null,"x":{"prompt_tokens":1}}"#),
                r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"x":{"prompt_tokens":1}}"#,
            ),
        ] {
            let written = write_usage(object.map(str::as_bytes), &usage, ShowCost::No);
            assert_eq!(str::from_utf8(&written).unwrap(), expected);
        }
    }

    #[test]
    fn cached_tokens_show_where_the_standard_has_them() {
        let usage = Usage {
            prompt: 9,
            completion: 3,
            cached: 4,
            source: Source::Reported,
            ..Usage::default()
        };
        let object =
br#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_cache_hit_tokens":4,"prompt_tokens_details":null}"#;
        let written =
            String::from_utf8(write_usage(Some(object), &usage, ShowCost::No).into_owned())
                .unwrap();
        assert_eq!(
            written,
            r#"{"prompt_tokens_details":{"cached_tokens":4},"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_cache_hit_tokens":4}"#
        );
        for (details, shown) in [
            ("{}", r#"{"cached_tokens":4}"#),
            (
                r#"{"audio_tokens":0}"#,
                r#"{"cached_tokens":4,"audio_tokens":0}"#,
            ),
            (r#"{"cached_tokens":null}"#, r#"{"cached_tokens":4}"#),
            (r#"{"cached_tokens":"4"}"#, r#"{"cached_tokens":4}"#),
            (r#"{"cached_tokens":4}"#, r#"{"cached_tokens":4}"#),
            ("[]", "[]"),
        ] {
            let object = |details| {
                format!(
                    r#"{{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"cached_tokens":4,"prompt_tokens_details":{details}}}"#
                )
            };
            let (came, right) = (object(details), object(shown));
            let counts = Counts::read(came.as_bytes(), &(0..came.len())).unwrap();
            assert_eq!(counts.settle(&Quirks::NONE, 400, 40), usage);
            assert_eq!(
                counts.match_usage(&usage),
                details == r#"{"cached_tokens":4}"#,
                "{details}"
            );
            assert_eq!(
                write_usage(Some(came.as_bytes()), &usage, ShowCost::No),
                right.as_bytes(),
                "{details}"
            );
        }
    }

    #[test]
    fn a_shown_cost_is_ours_or_none() {
        let usage = Usage {
            prompt: 900,
            completion: 300,
            cached: 400,
            reasoning: 100,
            source: Source::Reported,
            ..Usage::default()
        };
        let rates = Rates {
            input: 150_000,
            output: 600_000,
            cached_input: 20_000,
            thinking: 700_000,
            ..Rates::default()
        };
        let price = Price {
            rates: Some(rates),
            ..Price::default()
        };
        let numbers = r#""prompt_tokens":900,"completion_tokens":300,"total_tokens":1200,"prompt_tokens_details":{"cached_tokens":400}"#;
        let check = |object: String, shown, expected: String| {
            assert_eq!(
                String::from_utf8(write_usage(Some(object.as_bytes()), &usage, shown).into_owned())
                    .unwrap(),
                expected
            );
        };
        let known = ShowCost::AtPrice(Some(price));
        // 500 x 0.15 + 400 x 0.02 + 200 x 0.6 + 100 x 0.7 millionths.
        check(
            format!("{{{numbers}}}"),
            known,
            format!(r#"{{"cost":0.000273,{numbers}}}"#),
        );
        for theirs in ["0.5", "null", r#"{"total_cost":0.5}"#, r#""0.5""#] {
            let object = format!(r#"{{{numbers},"cost":{theirs},"x":1}}"#);
            check(
                object.clone(),
                known,
                format!(r#"{{{numbers},"cost":0.000273,"x":1}}"#),
            );
            check(
                object.clone(),
                ShowCost::AtPrice(None),
                format!(r#"{{{numbers},"x":1}}"#),
            );
            check(object.clone(), ShowCost::No, object);
        }
        check(
            format!(r#"{{{numbers},"cost":1,"cost":2}}"#),
            known,
            format!(r#"{{{numbers},"cost":0.000273}}"#),
        );
        check(
            format!(r#"{{"cost":1,{numbers},"cost":2}}"#),
            ShowCost::AtPrice(None),
            format!("{{{numbers}}}"),
        );
        let zero = write_usage(None, &usage, ShowCost::AtPrice(Some(Price::default())));
        assert!(str::from_utf8(&zero).unwrap().ends_with(r#","cost":0}"#));
    }
}

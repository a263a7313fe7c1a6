//! Writes the arguments of the store's scripts and reads their answers.
//!
//! Numbers are sent as JSON and come back as integers. Both are exact up to 2⁵³, as the scripts'
//! own numbers are: that is nine million dollars. A larger number is sent as 2⁵³. If a sum gets
//! there, the script refuses; each gateway then sees that its limit is larger, and uses its share
//! of the limit.

use crate::base::calendar::day_start;
use crate::conf::price::Usd;
use crate::limits::tally::Tally;
use crate::limits::{Ask, Counts, Kind, Level, Limits, Moment, OwnPart, Used, WHOLE_LIMIT};
use redis::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// The largest number that is exact.
const MAX_EXACT: u64 = 1 << 53;
/// The number that stands for a request for more than [`MAX_EXACT`]. It is over any limit that can
/// be sent.
const TOO_MUCH: u64 = 1 << 54;

// The codes with which the answers of `admit.lua` begin.
/// A scope does not know the epoch.
const UNKNOWN: u64 = 0;
/// The script did what it was asked for.
const DONE: u64 = 1;
/// Own counts were taken, but those that were there before could not be read.
const DONE_UNREADABLE: u64 = 2;
/// A request was admitted.
const GRANTED: u64 = 1;
/// A request was refused.
const REFUSED: u64 = 2;

/// Returns the name of a scope's hash. In a cluster all hashes of a caller are in one place, so
/// that one script can use them.
pub(super) fn scope_key(prefix: &str, level: Level, name: &str) -> String {
    let caller = name.split(['/', ' ']).next().unwrap_or(name);
    format!("{{{prefix}:{caller}}}:{}:{name}", level.name())
}

/// Writes an instance's own part.
pub(super) fn own_json(part: &OwnPart) -> String {
    let counts = &part.counts;
    let mut numbers = vec![
        counts.moment.day,
        counts.day.requests,
        counts.day.tokens,
        counts.day.usd.0,
        counts.moment.month,
        counts.month_usd.0,
        counts.places,
        counts.reserved.day_tokens,
        counts.reserved.day_usd.0,
        counts.reserved.month_usd.0,
        u64::from(part.has_all_seconds),
    ];
    numbers.extend(
        counts
            .minute
            .iter()
            .flat_map(|(second, used)| [*second, used.requests, used.tokens]),
    );
    numbers
        .iter_mut()
        .for_each(|number| *number = MAX_EXACT.min(*number));
    // Numbers always serialise.
    serde_json::to_string(&numbers).unwrap_or_default()
}

/// The store's answer if it does not know a scope as this gateway does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnknownScope {
    /// The scope's place among those that were named.
    pub index: usize,
    /// True if the store knows the instance, but from another epoch.
    pub has_part: bool,
    /// True if what was there could not be read, and was removed.
    pub was_unreadable: bool,
}

/// Reads the answer to an own part. Returns whether what was there before could not be read.
pub(super) fn read_own_answer(value: &Value) -> Option<Result<bool, UnknownScope>> {
    let (code, rest) = read_code(value)?;
    match code {
        UNKNOWN => read_unknown(rest).map(Err),
        DONE => Some(Ok(false)),
        DONE_UNREADABLE => Some(Ok(true)),
        _ => None,
    }
}

/// Writes what requests ask for of the same scopes. `own` has the instance's own part of each
/// scope, if it has changed.
pub(super) fn admissions_json(
    live: &[String],
    own: &[Option<OwnPart>],
    requests: &[String],
) -> String {
    let own: Vec<String> = own
        .iter()
        .map(|part| part.as_ref().map_or_else(|| "[]".to_owned(), own_json))
        .collect();
    let (live, own) = (serde_json::json!(live), own.join(","));
    format!("[{live},[{own}],{}]", requests.join(","))
}

/// Writes what a request asks for of its scopes.
pub(super) fn request_json<'s>(
    ask: Ask,
    scopes: impl Iterator<Item = (&'s Limits, Moment)>,
) -> String {
    let asked = |number: u64| if number > MAX_EXACT { TOO_MUCH } else { number };
    let mut json = format!("[{}", asked(ask.tokens));
    // Writing to a `String` cannot fail.
    for number in [ask.usd.0, ask.sure.tokens, ask.sure.usd.0] {
        write!(json, ",{}", asked(number)).ok();
    }
    for (limits, Moment { second, day, month }) in scopes {
        write!(json, ",[{second},{day},{month}").ok();
        for kind in Kind::ALL {
            match kind.limit(limits, WHOLE_LIMIT) {
                Some(limit) => write!(json, ",{}", limit.min(MAX_EXACT)).ok(),
                None => write!(json, ",-1").ok(),
            };
        }
        json.push(']');
    }
    json.push(']');
    json
}

/// Writes a request for a scope's totals at a moment.
pub(super) fn totals_json(live: &[String], Moment { second, day, month }: Moment) -> String {
    format!("[{},{second},{day},{month}]", serde_json::json!(live))
}

/// Reads the answer to [`totals_json`]. The inner `None` means that the store's counts lack our
/// part.
pub(super) fn read_totals(value: &Value, moment: Moment, now_ms: u64) -> Option<Option<Counts>> {
    let (code, rest) = read_code(value)?;
    match code {
        UNKNOWN => Some(None),
        DONE => Some(Some(Counts {
            time_ms: now_ms,
            moment,
            ..read_counts(rest.first()?)?
        })),
        _ => None,
    }
}

/// Reads the answer to `was`: an instance's part at the end of its process, without what was only
/// reserved. Returns empty counts if no other process has sent a part under this name.
pub(super) fn read_earlier_part(value: &Value) -> Option<Counts> {
    match read_numbers(value)?.as_slice() {
        [DONE] => Some(Counts::default()),
        [DONE, day, requests, tokens, usd, month, month_usd] => Some(Counts {
            moment: Moment {
                second: 0,
                day: *day,
                month: *month,
            },
            day: Used::new(*requests, *tokens, Usd(*usd)),
            month_usd: Usd(*month_usd),
            ..Counts::default()
        }),
        _ => None,
    }
}

/// Lists the part of earlier counts that still counts and is missing in the counts with which the
/// next process began: the ledger of a process that was killed may lack the last rows. Each entry
/// has a time and an amount.
pub(super) fn missing_parts(earlier: &Counts, began: &Counts, now: Moment) -> Vec<(u64, Used)> {
    let mut missing = Vec::new();
    let mut today = Used::default();
    if earlier.moment.day == now.day {
        let known = match began.moment.day == now.day {
            true => began.day,
            false => Used::default(),
        };
        today = Used::new(
            earlier.day.requests.saturating_sub(known.requests),
            earlier.day.tokens.saturating_sub(known.tokens),
            Usd(earlier.day.usd.0.saturating_sub(known.usd.0)),
        );
        missing.push((day_start(now.day), today));
    }
    // On the first day of a month, the month's sum is that day's sum.
    if earlier.moment.month == now.month && now.month != now.day {
        let known = match began.moment.month == now.month {
            true => began.month_usd.0,
            false => 0,
        };
        let usd = earlier.month_usd.0.saturating_sub(known);
        let before_today = Used::new(0, 0, Usd(usd.saturating_sub(today.usd.0)));
        missing.push((day_start(now.month), before_today));
    }
    missing.retain(|(_, used)| *used != Used::default());
    missing
}

/// Returns whether nothing is counted.
pub(super) fn is_nothing(counts: &Counts) -> bool {
    counts.day == Used::default()
        && counts.month_usd == Usd(0)
        && counts.places == 0
        && counts.minute.is_empty()
}

/// The script's answer to a request of [`admissions_json`], with what all gateways together had
/// used of each scope before. These counts have no time, and no reserved part: the script does not
/// send them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AdmissionAnswer {
    /// The script took what was asked for from all scopes.
    Granted(Vec<Counts>),
    /// The script took nothing.
    Refused(Vec<Counts>),
}

/// Returns the tally of what all gateways together had used of a scope.
pub(super) fn total_tally(used: Counts, moment: Moment, now_ms: u64) -> Tally {
    Tally::from_counts(&Counts {
        time_ms: now_ms,
        moment,
        ..used
    })
}

/// Reads the answer to an [`admissions_json`].
pub(super) fn read_admissions(value: &Value) -> Option<Result<Vec<AdmissionAnswer>, UnknownScope>> {
    let (code, rest) = read_code(value)?;
    match code {
        UNKNOWN => read_unknown(rest).map(Err),
        DONE => rest
            .iter()
            .map(read_admission)
            .collect::<Option<_>>()
            .map(Ok),
        _ => None,
    }
}

fn read_admission(value: &Value) -> Option<AdmissionAnswer> {
    let (code, used) = read_code(value)?;
    let used = used.iter().map(read_counts).collect::<Option<_>>()?;
    match code {
        GRANTED => Some(AdmissionAnswer::Granted(used)),
        REFUSED => Some(AdmissionAnswer::Refused(used)),
        _ => None,
    }
}

fn read_unknown(rest: &[Value]) -> Option<UnknownScope> {
    Some(UnknownScope {
        index: usize::try_from(read_number(rest.first()?)?).ok()?,
        has_part: read_number(rest.get(1)?)? > 0,
        was_unreadable: rest.get(2).is_some(),
    })
}

/// Reads the code with which an answer begins, and returns the rest beside it.
fn read_code(value: &Value) -> Option<(u64, &[Value])> {
    let Value::Array(parts) = value else {
        return None;
    };
    let (code, rest) = parts.split_first()?;
    Some((read_number(code)?, rest))
}

fn read_counts(value: &Value) -> Option<Counts> {
    let numbers = read_numbers(value)?;
    let [places, requests, tokens, usd, month_usd, minute @ ..] = numbers.as_slice() else {
        return None;
    };
    let (minute, _) = minute.as_chunks();
    let minute = minute
        .iter()
        .map(|[second, requests, tokens]| (*second, Used::new(*requests, *tokens, Usd(0))));
    Some(Counts {
        places: *places,
        day: Used::new(*requests, *tokens, Usd(*usd)),
        month_usd: Usd(*month_usd),
        minute: minute.collect(),
        ..Counts::default()
    })
}

/// The store's answer to an instance that says that it lives.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BeatAnswer {
    /// The name of the time since the store was last empty. Another word means that the store was
    /// emptied meanwhile.
    pub word: String,
    /// The time since the store was last empty.
    pub age: Duration,
    /// The store's clock.
    pub clock_ms: u64,
    /// The number of live instances that have sent all that they count.
    pub complete: u64,
    /// The instances that live.
    pub live_instances: Vec<String>,
    /// The broken targets, each with the time for which it is broken.
    pub hints: Vec<(String, Duration)>,
    /// The process that last called itself this instance.
    pub process: String,
}

/// Reads the answer to a beat.
pub(super) fn read_beat(value: &Value) -> Option<BeatAnswer> {
    let Value::Array(parts) = value else {
        return None;
    };
    let [word, age, clock, complete, live, hints, process] = parts.as_slice() else {
        return None;
    };
    let (Value::Array(live), Value::Array(hints)) = (live, hints) else {
        return None;
    };
    let hints = hints.chunks_exact(2).map(|pair| match pair {
        [name, left] => Some((read_text(name)?, Duration::from_millis(read_number(left)?))),
        _ => None,
    });
    Some(BeatAnswer {
        word: read_text(word)?,
        age: Duration::from_millis(read_number(age)?),
        clock_ms: read_number(clock)?,
        complete: read_number(complete)?,
        live_instances: live.iter().map(read_text).collect::<Option<_>>()?,
        hints: hints.collect::<Option<_>>()?,
        process: read_text(process)?,
    })
}

fn read_numbers(value: &Value) -> Option<Vec<u64>> {
    if let Value::Array(numbers) = value {
        numbers.iter().map(read_number).collect()
    } else {
        None
    }
}

fn read_number(value: &Value) -> Option<u64> {
    if let Value::Int(number) = value {
        u64::try_from(*number).ok()
    } else {
        None
    }
}

fn read_text(value: &Value) -> Option<String> {
    if let Value::BulkString(bytes) = value {
        String::from_utf8(bytes.clone()).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Reserved;

    const NOW: u64 = 1_795_262_400_000;

    fn ints(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().map(|number| Value::Int(*number)).collect())
    }

    #[test]
    fn names_of_one_caller_are_in_one_slot() {
        assert_eq!(
            scope_key("p", Level::Caller, "acme"),
            "{p:acme}:caller:acme"
        );
        assert_eq!(
            scope_key("p", Level::Key, "acme/prod"),
            "{p:acme}:key:acme/prod"
        );
        assert_eq!(
            scope_key("p", Level::KeyModel, "acme/prod a/b"),
            "{p:acme}:key_model:acme/prod a/b"
        );
    }

    #[test]
    fn told_counts_are_exact_within_scripts_range() {
        let moment = Moment {
            second: 9,
            day: 2,
            month: 1,
        };
        let counts = Counts {
            time_ms: 9_000,
            moment,
            minute: vec![
                (8, Used::new(1, 7, Usd(0))),
                (9, Used::new(0, u64::MAX, Usd(0))),
            ],
            day: Used::new(3, u64::MAX, Usd(5)),
            month_usd: Usd(6),
            places: 1,
            entering: 0,
            reserved: Reserved {
                day_tokens: u64::MAX,
                day_usd: Usd(3),
                month_usd: Usd(4),
            },
        };
        let part = OwnPart {
            counts,
            has_all_seconds: true,
        };
        let own =
            "[2,3,9007199254740992,5,1,6,1,9007199254740992,3,4,1,8,1,7,9,0,9007199254740992]";
        assert_eq!(own_json(&part), own);
        let limits = Limits::default()
            .with(Kind::TokensPerDay, Some(70))
            .with(Kind::UsdPerMonth, Some(80));
        let ask = Ask::exact(11, Usd(12));
        let request = request_json(ask, [(&limits, moment)].into_iter());
        assert_eq!(request, "[11,12,11,12,[9,2,1,-1,-1,-1,70,-1,-1,80]]");
        assert_eq!(
            admissions_json(
                &["a".to_owned(), "b".to_owned()],
                &[None, Some(part)],
                &[request.clone(), request.clone()]
            ),
            format!(r#"[["a","b"],[[],{own}],{request},{request}]"#)
        );
    }

    #[test]
    fn a_former_part_is_at_most_the_rest() {
        let now = Moment {
            second: 0,
            day: 20_770,
            month: 20_758,
        };
        let began = Counts {
            moment: now,
            day: Used::new(7, 700, Usd(70)),
            month_usd: Usd(170),
            ..Counts::default()
        };
        let check = |numbers: [i64; 6], expected: &[(u64, u64, u64, u64)]| {
            let answer = ints(&[&[1], &numbers[..]].concat());
            let missing =
                missing_parts(&read_earlier_part(&answer).expect("an answer"), &began, now);
            let missing: Vec<_> = missing
                .into_iter()
                .map(|(at, used)| (at / 86_400_000, used.requests, used.tokens, used.usd.0))
                .collect();
            assert_eq!(missing, expected, "{numbers:?}");
        };
        check([20_770, 7, 700, 70, 20_758, 170], &[]);
        check([20_770, 9, 800, 71, 20_758, 171], &[(20_770, 2, 100, 1)]);
        // The ledger has more of one and less of another: rows of its last seconds, and what was
        // cut.
        check(
            [20_770, 5, 800, 60, 20_758, 180],
            &[(20_770, 0, 100, 0), (20_758, 0, 0, 10)],
        );
        // Yesterday's part, and last month's.
        check([20_769, 50, 8_000, 600, 20_758, 190], &[(20_758, 0, 0, 20)]);
        check([20_757, 50, 8_000, 600, 20_728, 1_900], &[]);
        // What began with yesterday's rows only has nothing of today.
        let yesterday = Counts {
            moment: Moment { day: 20_769, ..now },
            ..began.clone()
        };
        let was_today =
            read_earlier_part(&ints(&[1, 20_770, 2, 3, 4, 20_758, 174])).expect("an answer");
        assert_eq!(
            missing_parts(&was_today, &yesterday, now),
            [(20_770 * 86_400_000, Used::new(2, 3, Usd(4)))]
        );
        assert_eq!(read_earlier_part(&ints(&[1])), Some(Counts::default()));
        assert!(missing_parts(&Counts::default(), &began, now).is_empty());
        for nonsense in [ints(&[]), ints(&[0]), ints(&[1, 2]), Value::Nil] {
            assert_eq!(read_earlier_part(&nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn an_answer_says_which_limit_and_what_is_left() {
        let (second, moment) = (
            NOW / 1_000,
            Moment {
                second: NOW / 1_000,
                day: NOW / 86_400_000,
                month: 20_758,
            },
        );
        let at = i64::try_from(second).unwrap();
        let used = ints(&[1, 4, 50, 0, 0, at - 30, 2, 20, at - 1, 2, 30]);
        let limits = Limits::default()
            .with(Kind::RequestsPerMinute, Some(4))
            .with(Kind::TokensPerDay, Some(100));
        let answer =
            |code: i64| read_admission(&Value::Array(vec![Value::Int(code), used.clone()]));
        let both = [1, 2].map(|code| Value::Array(vec![Value::Int(code), used.clone()]));
        let [granted, refused] = both;
        let answers = read_admissions(&Value::Array(vec![Value::Int(1), granted, refused]));
        let answers = answers.and_then(Result::ok).expect("two answers");
        assert_eq!(
            answers.into_iter().map(Some).collect::<Vec<_>>(),
            [1, 2].map(answer)
        );
        let Some(AdmissionAnswer::Refused(mut refused)) = answer(2) else {
            panic!("refused")
        };
        let used_before = total_tally(refused.remove(0), moment, NOW);
        let over = used_before
            .exceeded_limit(&limits, 1, Ask::exact(10, Usd(0)), NOW)
            .expect("a limit");
        let left = used_before.limits_left(&limits, 1, NOW);
        assert_eq!(
            (over.kind, over.used, over.wait),
            (Kind::RequestsPerMinute, 4, Some(Duration::from_secs(30)))
        );
        assert_eq!(left.tokens.map(|room| room.remaining), Some(50));
        let Some(AdmissionAnswer::Granted(mut granted)) = answer(1) else {
            panic!("granted")
        };
        let left = total_tally(granted.remove(0), moment, NOW).limits_left_after(
            &limits,
            Ask::exact(10, Usd(0)),
            NOW,
        );
        assert_eq!(
            (
                left.requests.map(|room| room.remaining),
                left.tokens.map(|room| room.remaining)
            ),
            (Some(0), Some(40))
        );
        let unknown = |index, has_part, was_unreadable| {
            Some(UnknownScope {
                index,
                has_part,
                was_unreadable,
            })
        };
        for (numbers, expected) in [
            (&[0, 2, 1][..], unknown(2, true, false)),
            (&[0, 0, 0], unknown(0, false, false)),
            (&[0, 1, 0, 1], unknown(1, false, true)),
        ] {
            let answer = ints(numbers);
            assert_eq!(read_admissions(&answer).and_then(Result::err), expected);
            assert_eq!(read_own_answer(&answer).and_then(Result::err), expected);
        }
        let own = |code: i64| read_own_answer(&ints(&[code]));
        assert_eq!(
            [own(1), own(2), own(3)],
            [Some(Ok(false)), Some(Ok(true)), None]
        );
        assert_eq!(read_totals(&ints(&[0, 0, 0]), moment, NOW), Some(None));
        let counts = read_totals(
            &Value::Array(vec![Value::Int(1), used.clone()]),
            moment,
            NOW,
        )
        .flatten()
        .expect("counts");
        assert_eq!(
            (
                counts.day.requests,
                is_nothing(&counts),
                is_nothing(&Counts::default())
            ),
            (4, false, true)
        );
        for nonsense in [
            ints(&[]),
            ints(&[7]),
            ints(&[0, 2]),
            ints(&[1, 2]),
            Value::Nil,
            Value::Array(vec![Value::Int(1), ints(&[-1, 0, 0, 0, 0])]),
        ] {
            assert_eq!(read_admission(&nonsense), None, "{nonsense:?}");
            assert_eq!(read_beat(&nonsense), None);
        }
    }
}

use super::super::Row;
use super::super::tests::{Folder, row};
use super::query::parse_moment;
use super::*;
use crate::base::calendar::{self, DAY};
use crate::conf::price::Usd;
use dialects::usage::{Units, Usage};
use proptest::prelude::*;
use std::collections::HashSet;

/// Noon of 2026-11-21.
const NOW: u64 = 1_795_262_400_000;

#[test]
fn moments() {
    for (text, expected) in [
        ("30m", NOW - 1_800_000),
        ("24h", NOW - DAY),
        ("7d", NOW - 7 * DAY),
        ("0h", NOW),
        ("2026-11-01", 1_793_491_200_000),
        ("2026-11-01T08:00:00Z", 1_793_520_000_000),
        ("2026-11-01T08:00:00+02:00", 1_793_512_800_000),
    ] {
        assert_eq!(parse_moment("since", text, NOW), Ok(expected), "{text}");
    }
    for wrong in [
        "",
        "d",
        "7",
        "7w",
        "-7d",
        "1.5d",
        "7 d",
        "2026-11",
        "yesterday",
        "７d",
        "2026-13-01",
    ] {
        let why = parse_moment("since", wrong, NOW).unwrap_err();
        assert!(
            why.starts_with("since: must be a time ago such as 30m, 24h or 7d"),
            "{wrong}: {why}"
        );
    }
    // Where nobody can mean it, a wrong digit is likelier.
    for wrong in [
        "99999999999999999999d",
        "999999999999h",
        "18446744073709551615m",
        "20779d",
    ] {
        let why =
            format!("since: {wrong} is too long, because it begins before 1970; write a date");
        assert_eq!(parse_moment("since", wrong, NOW), Err(why), "{wrong}");
    }
    assert_eq!(parse_moment("since", "20778d", NOW), Ok(NOW - 20_778 * DAY));
}

#[test]
fn questions_in_a_url() {
    let read = |query: &str| Query::from_url(query, NOW);
    let query = read("by=key,day&since=7d&until=1d&caller=a%2Fb&model=x+y").unwrap();
    assert_eq!(
        (query.by, query.since, query.until),
        (vec![Group::Key, Group::Day], NOW - 7 * DAY, Some(NOW - DAY))
    );
    assert_eq!(
        (query.caller.as_deref(), query.key, query.model.as_deref()),
        (Some("a/b"), None, Some("x y"))
    );
    let query = read("").unwrap();
    assert_eq!(
        (query.by, query.since, query.until),
        (vec![Group::Caller, Group::Model], NOW - DAY, None)
    );
    assert_eq!(
        read("until=2027-01-01").unwrap().until,
        None,
        "what is to come is not there yet"
    );
    assert_eq!(
        ["", "format=json", "format=csv"].map(|query| read(query).unwrap().csv),
        [false, false, true]
    );
    for (wrong, why) in [
        ("format=xml", "format: must be json or csv"),
        (
            "by=",
            "by: holds a name that is not known; allowed, with commas between them: day, caller,",
        ),
        ("by=who", "by: holds a name that is not known"),
        ("by=key,key", "by: key is written twice"),
        ("by=key&by=day", "by: is written twice"),
        ("since=soon", "since: must be"),
        (
            "since=99999999999999999999d",
            "since: 99999999999999999999d is too long",
        ),
        (
            "until=99999999999999999999d",
            "until: 99999999999999999999d is too long",
        ),
        (
            "since=2999-01-01",
            "since: must not be in the future; in UTC it is 2026-11-21T12:00:00.000Z now",
        ),
        ("since=1h&until=2h", "until: must be later than since"),
        ("group=key", "group: is not known; allowed: by, since"),
        (
            &format!("since={}d", "9".repeat(9_000)),
            &format!("since: {}… is too long", "9".repeat(40)),
        ),
        (
            &format!("{}=1", "ä".repeat(9_000)),
            &format!("{}…: is not known; allowed: by, since", "ä".repeat(40)),
        ),
        (
            "caller=%zz",
            "the query holds a % without two hexadecimal digits after it",
        ),
        (
            "caller=%f",
            "the query holds a % without two hexadecimal digits after it",
        ),
        ("caller=%ff", "the query is not UTF-8"),
    ] {
        let told = read(wrong).unwrap_err();
        assert!(told.starts_with(why), "{wrong}: {told}");
    }
}

#[test]
fn the_answer_in_its_three_forms() {
    let folder = Folder::new();
    let ledger = folder.open();
    ledger.write(row(NOW - 1_000));
    ledger.write(Row {
        cost: None,
        model: "n,1".into(),
        outcome: "upstream_error",
        account: None,
        unused_tokens: 7,
        ..row(NOW - 2_000)
    });
    ledger.write(Row {
        cost: Some(Usd(1_234_567_890)),
        ..row(NOW - 3_000)
    });
    ledger.write(Row {
        cost: None,
        ..row(NOW - 4_000)
    });
    ledger.flush();
    let ask = |by| {
        let query = Query::new(
            &RawQuery {
                by: Some(by),
                ..RawQuery::default()
            },
            NOW,
        )
        .unwrap();
        answer_query(&folder.file(), &query, None).unwrap().unwrap()
    };
    assert_eq!(
        ask("caller,model").table(),
        "usage from 2026-11-20T12:00:00.000Z to 2026-11-21T12:00:00.000Z\n\n\
         caller  model  requests  failed  prompt  completion  cached  reasoning  total  images  audio_ms  characters  estimated           USD  unpriced  unused\n\
         acme    m             3       0      30          15      12          9     45       9     13500          15          0  >=1.23456889         1       0\n\
         acme    n,1           1       1      10           5       4          3     15       3      4500           5          0       unknown         1       7\n\
         total                 4       1      40          20      16         12     60      12     18000          20          0  >=1.23456889         2       7\n"
    );
    assert_eq!(
        ask("model,account").csv(),
        "model,account,requests,failed,prompt_tokens,completion_tokens,cached_tokens,cache_write_tokens,reasoning_tokens,total_tokens,images,audio_ms,characters,\
         estimated_requests,cost_usd,cost_known,unpriced_requests,unused_tokens,unused_cost_usd,unused_cost_known,unused_unpriced_requests\n\
         m,a,3,0,30,15,12,6,9,45,9,13500,15,0,1.23456889,part,1,0,0,all,0\n\
         \"n,1\",,1,1,10,5,4,2,3,15,3,4500,5,0,,none,1,7,,none,1\n"
    );
    let json: serde_json::Value = serde_json::from_str(&ask("account,model").json()).unwrap();
    assert_eq!(
        (&json["by"], &json["since"]),
        (
            &serde_json::json!(["account", "model"]),
            &"2026-11-20T12:00:00.000Z".into()
        )
    );
    assert_eq!(json["usage"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&json["usage"][0]["account"], &json["usage"][0]["cost_usd"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(
        (&json["usage"][1]["model"], &json["usage"][1]["cost_usd"]),
        (&"m".into(), &"1.23456889".into())
    );
    assert_eq!(
        (
            &json["total"]["requests"],
            &json["total"]["unpriced_requests"]
        ),
        (&4.into(), &2.into())
    );
    let nobody = Query::new(
        &RawQuery {
            caller: Some("nobody"),
            ..RawQuery::default()
        },
        NOW,
    )
    .unwrap();
    let table = answer_query(&folder.file(), &nobody, None)
        .unwrap()
        .unwrap()
        .table();
    assert!(
        table.contains("note: requests of the last second are not there yet"),
        "{table}"
    );
    assert!(table.ends_with("\n\nno requests\n"), "{table}");
    // What was asked about the past is whole.
    let past = RawQuery {
        caller: Some("nobody"),
        until: Some("1h"),
        ..RawQuery::default()
    };
    let past = Query::new(&past, NOW).unwrap();
    assert!(
        !answer_query(&folder.file(), &past, None)
            .unwrap()
            .unwrap()
            .table()
            .contains("note:")
    );
}

/// As a request that failed before it cost anything, beside one whose price nobody knows.
#[test]
fn what_is_unknown_stays_unknown_beside_what_costs_nothing() {
    let folder = Folder::new();
    // Then the table has no columns for pictures, sound and characters.
    let row = |at| Row {
        usage: Usage {
            units: Units::NONE,
            ..row(at).usage
        },
        ..row(at)
    };
    let ledger = folder.open();
    let nothing = Row {
        usage: Usage::default(),
        cost: Some(Usd::ZERO),
        outcome: "upstream_error",
        ..row(NOW - 1_000)
    };
    ledger.write(Row {
        model: "free".into(),
        cost: Some(Usd::ZERO),
        ..row(NOW - 1_000)
    });
    ledger.write(Row {
        model: "unpriced".into(),
        cost: None,
        ..row(NOW - 1_000)
    });
    ledger.write(Row {
        model: "unpriced".into(),
        ..nothing.clone()
    });
    ledger.write(Row {
        model: "both".into(),
        cost: None,
        ..row(NOW - 1_000)
    });
    ledger.write(Row {
        model: "both".into(),
        ..row(NOW - 1_000)
    });
    ledger.write(Row {
        model: "both".into(),
        ..nothing
    });
    ledger.flush();
    let ask = |by| {
        let query = Query::new(
            &RawQuery {
                by: Some(by),
                ..RawQuery::default()
            },
            NOW,
        )
        .unwrap();
        answer_query(&folder.file(), &query, None).unwrap().unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&ask("model").json()).unwrap();
    let told = |line: &serde_json::Value| {
        [
            &line["cost_usd"],
            &line["cost_known"],
            &line["unpriced_requests"],
        ]
        .map(ToString::to_string)
    };
    let of = |model: &str| {
        json["usage"]
            .as_array()
            .unwrap()
            .iter()
            .find(|line| line["model"] == model)
            .map(told)
            .unwrap()
    };
    assert_eq!(of("unpriced"), ["null", "\"none\"", "1"]);
    assert_eq!(of("free"), ["\"0\"", "\"all\"", "0"]);
    assert_eq!(of("both"), ["\"0.000001\"", "\"part\"", "1"]);
    assert_eq!(told(&json["total"]), ["\"0.000001\"", "\"part\"", "2"]);
    let table = ask("model").table();
    let usd = |name: &str| {
        table
            .lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split_whitespace().nth(9))
            .unwrap()
    };
    assert_eq!(
        [usd("unpriced"), usd("free"), usd("both"), usd("total")],
        ["unknown", "0", ">=0.000001", ">=0.000001"]
    );
}

/// What a row is grouped by, without a file.
fn names(row: &Row, by: &[Group]) -> Vec<String> {
    let name = |group: &Group| match group {
        Group::Day => format_date(day_of(row.admitted_at)),
        Group::Caller => row.caller.to_string(),
        Group::Key => row.key.to_string(),
        Group::Model => row.model.to_string(),
        Group::Account => row.account.as_deref().unwrap_or("").to_owned(),
        Group::UpstreamModel => row.upstream_model.as_deref().unwrap_or("").to_owned(),
        Group::Outcome => row.outcome.to_owned(),
        Group::Door => row.door.to_string(),
    };
    by.iter().map(name).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever part of the answer comes from rows and whatever from sums of days: it is what a
    /// loop over all rows finds.
    #[test]
    fn an_answer_is_the_sum_of_its_rows(
        rows in prop::collection::vec((0..4 * DAY, 0..3_usize, 0..2_usize, prop::option::of(0..1_000_u64), any::<bool>()), 0..60),
        ask in (0..4 * DAY, prop::option::of(1..4 * DAY), prop::sample::subsequence(Group::ALL.to_vec(), 1..4), any::<bool>(), any::<bool>()),
    ) {
        let (since, length, by, whole, filtered) = ask;
        let rows: Vec<Row> = rows.into_iter().map(|(ago, caller, model, cost, ok)| Row {
            caller: ["a", "b", "c"][caller].into(),
            model: ["m", "n"][model].into(),
            door: ["embeddings", "speech"][caller % 2].into(),
            cost: cost.map(Usd),
            outcome: if ok { "ok" } else { "client_left" },
            ..row(NOW - ago)
        }).collect();
        let folder = Folder::new();
        let ledger = folder.open();
        rows.iter().for_each(|row| ledger.write(row.clone()));
        ledger.flush();
        let since = if whole { day_start(day_of(NOW - since)) } else { NOW - since };
        let until = length.map(|length| since + length).filter(|until| *until <= NOW);
        let query = Query { by: by.clone(), now: NOW, since, until, caller: filtered.then(|| "b".to_owned()), key: None, model: None, csv: false };
        let told = answer_query(&folder.file(), &query, None).unwrap().unwrap();

        let mut expected: BTreeMap<Vec<String>, Used> = BTreeMap::new();
        let mut total = Used::default();
        for row in &rows {
            if row.admitted_at >= since && until.is_none_or(|until| row.admitted_at < until) && (!filtered || &*row.caller == "b") {
                for used in [expected.entry(names(row, &by)).or_default(), &mut total] {
                    used.add(&Sums::from_row(row), row.outcome == "ok");
                }
            }
        }
        // Of nothing it is said that the newest rows may be missing.
        let notes = usize::from(expected.is_empty() && until.is_none());
        prop_assert_eq!(told.lines.into_iter().collect::<BTreeMap<_, _>>(), expected);
        prop_assert_eq!(told.total, total);
        prop_assert_eq!(told.notes.len(), notes, "{:?}", told.notes);
    }
}

#[test]
fn beyond_the_rows_whole_days_are_told() {
    let folder = Folder::new();
    let now = calendar::now_millis();
    let today = day_of(now);
    let at = |days: u64, hour: u64| day_start(today - days) + hour * 3_600_000;
    let ledger = folder.open();
    for days in [10, 5, 3] {
        ledger.write(row(at(days, 1)));
        ledger.write(row(at(days, 20)));
    }
    drop(ledger);
    let short = super::super::Ledger::open(&crate::conf::config::Ledger {
        retention: std::time::Duration::from_secs(4 * 86_400),
        ..folder.config()
    });
    let ask_by = |by: Group, since: u64, until: Option<u64>| {
        let query = Query {
            by: vec![by],
            now,
            since,
            until,
            caller: None,
            key: None,
            model: None,
            csv: false,
        };
        answer_query(&folder.file(), &query, None).unwrap().unwrap()
    };
    let ask = |since, until| ask_by(Group::Day, since, until);
    super::super::tests::eventually("what is old is deleted", || {
        !ask(at(10, 12), None).notes.is_empty()
    });
    let told = ask(at(10, 12), None);
    assert_eq!(
        (told.total.sums[Column::Requests], told.since),
        (6, at(10, 0)),
        "the whole of the first day"
    );
    assert_eq!(
        told.notes,
        [format!(
            "single requests are kept from {} on; older requests are shown in whole days",
            format_date(today - 4)
        )]
    );
    assert_eq!(
        ask(at(10, 12), Some(at(5, 12))).total.sums[Column::Requests],
        4,
        "and of the last"
    );
    let kept = ask(at(3, 12), None);
    assert_eq!(
        (kept.total.sums[Column::Requests], kept.notes.len()),
        (1, 0)
    );
    let days: HashSet<Vec<String>> = ask(at(5, 0), None)
        .lines
        .into_iter()
        .map(|(names, _)| names)
        .collect();
    assert_eq!(
        days,
        HashSet::from([vec![format_date(today - 5)], vec![format_date(today - 3)]])
    );
    // The sums of days do not have the doors.
    let doors = |since| {
        let told = ask_by(Group::Door, since, None);
        let lines = told
            .lines
            .into_iter()
            .map(|(names, used)| (names.concat(), used.sums[Column::Requests]));
        (lines.collect::<Vec<_>>(), told.notes)
    };
    let unknown = format!(
        "the doors of requests from before {} are not known",
        format_date(today - 4)
    );
    assert_eq!(
        doors(at(5, 0)),
        (
            vec![(String::new(), 2), ("chat".to_owned(), 2)],
            vec![unknown]
        )
    );
    assert_eq!(doors(at(3, 12)), (vec![("chat".to_owned(), 1)], vec![]));
    drop(short);
}

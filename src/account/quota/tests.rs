use super::*;
use proptest::prelude::*;

/// 2026-11-01T12:00:00Z.
const NOW: u64 = 1_793_534_400;

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)
}

/// Headers as lines.
fn lookup<'h>(head: &'h str) -> impl Fn(&str) -> Option<&'h str> {
    move |name| {
        head.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(known, _)| known.trim() == name)
            .map(|(_, value)| value.trim())
    }
}

/// The share left, and for how many milliseconds that is believed.
#[track_caller]
fn check(head: &str, expected: Option<(f64, u64)>) {
    let told = tightest_headroom(lookup(head), now()).map(|headroom| {
        assert_eq!(headroom.reported_at, now());
        (
            headroom.share,
            u64::try_from(
                headroom
                    .known_until
                    .duration_since(now())
                    .unwrap()
                    .as_millis(),
            )
            .unwrap(),
        )
    });
    assert_eq!(told, expected, "{head}");
}

#[test]
fn openai() {
    check("", None);
    check("content-type: application/json", None);
    check(
        "x-ratelimit-limit-requests: 1000\nx-ratelimit-remaining-requests: 250\nx-ratelimit-reset-requests: 6m0s",
        Some((0.25, 300_000)),
    );
    check(
        "x-ratelimit-limit-requests: 1000\nx-ratelimit-remaining-requests: 250\nx-ratelimit-reset-requests: 1m30s",
        Some((0.25, 90_000)),
    );
    check(
        "x-ratelimit-limit-requests: 1000\nx-ratelimit-remaining-requests: 999\nx-ratelimit-reset-requests: 120ms",
        Some((0.999, 1000)),
    );
    // The tightest counts.
    check(
        "x-ratelimit-limit-requests: 10000\nx-ratelimit-remaining-requests: 9999\nx-ratelimit-reset-requests: 8.64s\n\
         x-ratelimit-limit-tokens: 200000\nx-ratelimit-remaining-tokens: 50000\nx-ratelimit-reset-tokens: 45s",
        Some((0.25, 45_000)),
    );
    check(
        "x-ratelimit-limit-tokens: 100\nx-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 2h",
        Some((0.0, 300_000)),
    );
    check(
        "x-ratelimit-limit-tokens: 100\nx-ratelimit-remaining-tokens: 50",
        Some((0.5, 10_000)),
    );
}

#[test]
fn azure_tells_no_limit() {
    check(
        "x-ratelimit-remaining-requests: 99\nx-ratelimit-remaining-tokens: 99000",
        Some((0.99, 10_000)),
    );
    check(
        "x-ratelimit-remaining-requests: 3\nx-ratelimit-remaining-tokens: 99000",
        Some((0.03, 10_000)),
    );
    check(
        "x-ratelimit-remaining-requests: 900\nx-ratelimit-remaining-tokens: 240000",
        Some((1.0, 10_000)),
    );
    check("x-ratelimit-remaining-requests: 0", Some((0.0, 10_000)));
    check(
        "x-ratelimit-remaining-requests: -1\nx-ratelimit-remaining-tokens: -1",
        None,
    );
}

#[test]
fn groq_and_cerebras() {
    check(
        "x-ratelimit-limit-requests: 14400\nx-ratelimit-limit-tokens: 18000\nx-ratelimit-remaining-requests: 14370\n\
         x-ratelimit-remaining-tokens: 17997\nx-ratelimit-reset-requests: 2m59.56s\nx-ratelimit-reset-tokens: 7.66s",
        Some((14370.0 / 14400.0, 179_560)),
    );
    check(
        "x-ratelimit-limit-tokens-minute: 60000\nx-ratelimit-remaining-tokens-minute: 600\nx-ratelimit-reset-tokens-minute: 11.5",
        Some((0.01, 11_500)),
    );
}

#[test]
fn anthropic() {
    check(
        "anthropic-ratelimit-requests-limit: 50\nanthropic-ratelimit-requests-remaining: 49\nanthropic-ratelimit-requests-reset: 2026-11-01T12:00:02Z\n\
         anthropic-ratelimit-input-tokens-limit: 40000\nanthropic-ratelimit-input-tokens-remaining: 4000\n\
         anthropic-ratelimit-input-tokens-reset: 2026-11-01T12:00:54Z\n\
         anthropic-ratelimit-output-tokens-limit: 8000\nanthropic-ratelimit-output-tokens-remaining: 7000\n\
         anthropic-ratelimit-output-tokens-reset: 2026-11-01T12:00:08Z\n\
         anthropic-ratelimit-tokens-limit: 48000\nanthropic-ratelimit-tokens-remaining: 11000\nanthropic-ratelimit-tokens-reset: 2026-11-01T12:00:54Z",
        Some((0.1, 54_000)),
    );
    check(
        "anthropic-ratelimit-tokens-limit: 10\nanthropic-ratelimit-tokens-remaining: 1\nanthropic-ratelimit-tokens-reset: 2026-11-01T14:00:20.5+02:00",
        Some((0.1, 20_000)),
    );
}

#[test]
fn ietf() {
    check(
        "ratelimit-limit: 100\nratelimit-remaining: 40\nratelimit-reset: 30",
        Some((0.4, 30_000)),
    );
    check(
        "ratelimit-limit: 100, 100;w=60, 1000;w=3600\nratelimit-remaining: 40\nratelimit-reset: 30",
        Some((0.4, 30_000)),
    );
    check(
        "ratelimit: limit=100, remaining=40, reset=30",
        Some((0.4, 30_000)),
    );
    check(
        "ratelimit: \"default\";r=40;t=30\nratelimit-policy: \"default\";q=100;w=60",
        Some((0.4, 30_000)),
    );
    check(
        "ratelimit: \"burst\";r=90;t=1, \"daily\";r=10;t=99\nratelimit-policy: \"burst\";q=100;w=1, \"daily\";q=1000;w=86400",
        Some((0.01, 99_000)),
    );
    check("ratelimit: \"default\";r=40;t=30", None);
    check("ratelimit: nonsense", None);
    check(
        "x-ratelimit-limit: 20\nx-ratelimit-remaining: 5\nx-ratelimit-reset: 1793534460000",
        Some((0.25, 60_000)),
    );
    check(
        "x-ratelimit-limit: 20\nx-ratelimit-remaining: 5\nx-ratelimit-reset: 1793534460",
        Some((0.25, 60_000)),
    );
}

#[test]
fn absurd_values_are_clamped_or_pass_unheard() {
    let limited = |remaining: &str, limit: &str, reset: &str| {
        format!(
            "x-ratelimit-remaining-tokens: {remaining}\nx-ratelimit-limit-tokens: {limit}\nx-ratelimit-reset-tokens: {reset}"
        )
    };
    check(&limited("500", "100", "1s"), Some((1.0, 1000)));
    check(&limited("-5", "100", "1s"), Some((0.0, 1000)));
    check(&limited("-1", "100", "1s"), None);
    check(&limited("50", "100", "0"), Some((0.5, 1000)));
    check(&limited("50", "100", "-7"), Some((0.5, 1000)));
    check(&limited("50", "100", "99999h"), Some((0.5, 300_000)));
    check(&limited("50", "100", "1e300"), Some((0.5, 300_000)));
    check(
        &limited("50", "100", "2020-01-01T00:00:00Z"),
        Some((0.5, 1000)),
    );
    check(
        &limited("50", "100", "9999-12-31T23:59:59Z"),
        Some((0.5, 300_000)),
    );
    check(&limited("50", "100", "tomorrow"), Some((0.5, 10_000)));
    check(&limited("50", "100", ""), Some((0.5, 10_000)));
    check(&limited("50", "0", "1s"), None);
    check(&limited("0", "0", "1s"), None);
    check(&limited("50", "-1", "1s"), None);
    check(&limited("NaN", "100", "1s"), None);
    check(&limited("inf", "100", "1s"), None);
    check(&limited("", "100", "1s"), None);
    check(&limited("1e308", "1e-308", "1s"), Some((1.0, 1000)));
    check(&limited("50", "many", "1s"), Some((50.0 / TOKENS, 1000)));
}

#[test]
fn it_fills_up_and_is_forgotten() {
    let check = |reset: &str, after: i64, left: Option<f64>| {
        let head =
            format!("ratelimit-remaining: 25\nratelimit-limit: 100\nratelimit-reset: {reset}");
        let then = Duration::from_secs(after.unsigned_abs());
        let then = if after < 0 {
            now() - then
        } else {
            now() + then
        };
        assert_eq!(
            tightest_headroom(lookup(&head), now())
                .unwrap()
                .current_share(then),
            left,
            "{reset} after {after} s"
        );
    };
    check("10s", 0, Some(0.25));
    check("10s", 5, Some(0.625));
    check("10s", 10, None);
    check("10s", 11, None);
    check("10s", -1, None);
    // A long one fills slowly, and is not believed to the end.
    check("40m", 240, Some(0.325));
    check("40m", 300, None);
    check("", 5, Some(0.3125));
    check("", 10, None);
}

#[test]
fn spans() {
    let check = |text: &str, expected: Option<u64>| {
        assert_eq!(
            parse_duration(text).map(|span| u64::try_from(span.as_micros()).unwrap()),
            expected,
            "{text}"
        );
    };
    check("1s", Some(1_000_000));
    check("6m0s", Some(360_000_000));
    check("120ms", Some(120_000));
    check("1h2m3s", Some(3_723_000_000));
    check("2m59.56s", Some(179_560_000));
    check("1.5s", Some(1_500_000));
    check("500µs", Some(500));
    check("500us", Some(500));
    check("3000ns", Some(3));
    check("1d2h", Some(93_600_000_000));
    check("0s", Some(0));
    for wrong in [
        "", "s", "1", "1x", "1s2", "1 s", "-1s", "+1s", ".s", "1..2s", "1sm", "１s", "1S", "µ",
    ] {
        check(wrong, None);
    }
}

#[test]
fn waits_after_a_429() {
    #[track_caller]
    fn check(head: &str, milliseconds: Option<u64>) {
        assert_eq!(
            retry_after(lookup(head), now()),
            milliseconds.map(Duration::from_millis),
            "{head}"
        );
    }
    check("", None);
    check("retry-after: 7", Some(7000));
    check("retry-after: 0.25", Some(250));
    check("retry-after: 20s", Some(20_000));
    check("retry-after: Sun, 01 Nov 2026 12:00:30 GMT", Some(30_000));
    check("retry-after: Sun, 01 Nov 2026 11:00:00 GMT", Some(0));
    check("retry-after: 2026-11-01T12:00:30Z", Some(30_000));
    check("retry-after: 1793534430", Some(30_000));
    check("retry-after: 1000000000", Some(3_600_000));
    check("retry-after: -3", Some(0));
    check("retry-after: soon", None);
    check("retry-after: nan", None);
    check("retry-after-ms: 1234", Some(1234));
    check("retry-after-ms: -5\nretry-after: 9", Some(0));
    check("retry-after-ms: 1500\nretry-after: 9", Some(1500));
    check("retry-after-ms: x\nretry-after: 9", Some(9000));
    check("x-ratelimit-reset-requests: 12s", Some(12_000));
    check(
        "x-ratelimit-reset-requests: 12s\nx-ratelimit-reset-tokens: 3s",
        Some(3000),
    );
    check(
        "x-ratelimit-reset-requests: 12s\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-tokens: 3s",
        Some(12_000),
    );
    check(
        "x-ratelimit-reset-requests: 12s\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-tokens: 30s\nx-ratelimit-remaining-tokens: 0",
        Some(30_000),
    );
    check(
        "retry-after: soon\nx-ratelimit-reset-tokens: 3s",
        Some(3000),
    );
    check("x-ratelimit-reset: 1793534460000", Some(60_000));
    check(
        "anthropic-ratelimit-requests-reset: 2026-11-01T12:00:05Z",
        Some(5000),
    );
}

proptest! {
    #[test]
    fn nothing_panics_and_all_is_in_range(
        values in prop::collection::vec(prop_oneof![
            "[-+0-9.eE:TZ,;=hmsµ\" ]{0,24}",
            any::<f64>().prop_map(|n| n.to_string()),
            any::<i64>().prop_map(|n| n.to_string()),
            "\\PC{0,16}",
        ], 5),
        seconds in 0u64..10_000_000_000,
    ) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for names in QUOTAS.iter().map(|&(remaining, limit, reset, _)| [remaining, limit, reset]).chain([["ratelimit", "ratelimit-policy", ""]]) {
            let known = |name: &str| names.iter().chain(&["retry-after", "retry-after-ms"]).position(|n| *n == name).and_then(|n| Some(values.get(n)?.as_str()));
            if let Some(told) = tightest_headroom(known, now) {
                prop_assert!((0.0..=1.0).contains(&told.share));
                prop_assert!(told.known_until >= now + AT_LEAST && told.known_until <= now + BELIEVED);
                prop_assert!(told.current_share(now).is_some() && told.current_share(told.known_until).is_none());
            }
            prop_assert!(retry_after(known, now).is_none_or(|wait| wait <= Duration::from_secs(3600)));
        }
    }

    #[test]
    fn go_durations_are_read_back(h in 0u64..100, m in 0u64..60, s in 0u64..60, ms in 0u64..1000) {
        let expected = Duration::from_millis(((h * 60 + m) * 60 + s) * 1000 + ms);
        let read = parse_duration(&format!("{h}h{m}m{s}.{ms:03}s")).unwrap();
        prop_assert!(read.abs_diff(expected) < Duration::from_micros(1));
    }
}

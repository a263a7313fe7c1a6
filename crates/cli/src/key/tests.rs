use super::*;

#[test]
fn times_on_the_command_line() {
    let day = Duration::from_secs(86_400);
    assert_eq!(
        (
            parse_span("0s"),
            parse_span("90m"),
            parse_span("24h"),
            parse_span("90d")
        ),
        (Ok(Duration::ZERO), Ok(day / 16), Ok(day), Ok(day * 90))
    );
    for wrong in [
        "",
        "d",
        "5",
        "-1d",
        "+1d",
        "1.5d",
        "36501d",
        "99999999999999999999999d",
        "169h",
        "1w",
    ] {
        assert!(parse_span(wrong).is_err(), "{wrong}");
    }
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
    assert_eq!(catalog_time(time_after(now, day)), "1970-01-02T00:00:02Z");
    assert_eq!(
        catalog_time(time_after(SystemTime::UNIX_EPOCH, day)),
        "1970-01-02T00:00:00Z"
    );
}

#[test]
fn ids_are_names_and_no_secrets() {
    assert!(Id::parse("acme/prod").is_ok_and(|id| (id.caller, id.name) == ("acme", "prod")));
    for wrong in [
        "",
        "acme",
        "acme/",
        "/prod",
        "a/b/c",
        "sk-CaNaRy-secret",
        "a b/c",
    ] {
        assert!(
            Id::parse(wrong).is_err_and(|why| !why.contains("CaNaRy")),
            "{wrong}"
        );
    }
}

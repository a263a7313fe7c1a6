use super::*;
use crate::base::problem::Problems;
use crate::conf::config::{Server, parse_server};

/// Reads a file with these environment variables.
fn with(text: &str, variables: &[(&str, &str)]) -> Result<Server, Problems> {
    parse_server("server.yaml", text, &mut |reference| match reference {
        Reference::Env(name) => {
            let found = variables.iter().find(|(known, _)| *known == name);
            found
                .map(|(_, value)| (*value).to_owned())
                .ok_or_else(|| "is not set".to_owned())
        }
        Reference::File("token") => Ok("Bearer s3cret\n".to_owned()),
        Reference::Ca("ca.pem") => Ok("-----BEGIN CERTIFICATE-----".to_owned()),
        Reference::Optional(_) | Reference::File(_) | Reference::Ca(_) | Reference::Keys(_) => {
            Err("is not there".to_owned())
        }
    })
}

fn traces(text: &str, variables: &[(&str, &str)]) -> Traces {
    let server = with(text, variables).unwrap_or_else(|problems| panic!("{text}: {problems}"));
    server.traces.unwrap_or_else(|| panic!("{text}: no traces"))
}

fn url(traces: &Traces) -> String {
    let Webhook {
        tls,
        authority,
        target,
        ..
    } = &traces.endpoint;
    format!(
        "{}://{authority}{}",
        if *tls { "https" } else { "http" },
        target.expose()
    )
}

#[track_caller]
fn check(text: &str, variables: &[(&str, &str)], expected: &[&str]) {
    let told: Vec<String> = match with(text, variables) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(told.len(), expected.len(), "{text}: {told:#?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(
            told.contains(expected),
            "{text}: {told:?} is not {expected:?}"
        );
        assert!(!told.contains("s3cret"), "{told}");
    }
}

const BASE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

#[test]
fn variables_never_switch_traces_on() {
    let all = [
        BASE,
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_SAMPLER", "nonsense"),
    ];
    assert!(with("workers: 1", &all).is_ok_and(|server| server.traces.is_none()));
}

#[test]
fn an_address_gets_the_standards_path() {
    let url_of = |text: &str, variables: &[(&str, &str)]| url(&traces(text, variables));
    for (written, expected) in [
        ("http://Collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        (
            "http://collector:4318?x=1",
            "http://collector:4318/v1/traces?x=1",
        ),
        (
            "http://collector:4318/?x=/",
            "http://collector:4318/v1/traces?x=/",
        ),
        ("https://c.test/own?x=1", "https://c.test/own?x=1"),
        (
            "https://c.test/api/public/otel/v1/traces",
            "https://c.test/api/public/otel/v1/traces",
        ),
        (
            "https://[::1]:6006/x?tenant=1",
            "https://[::1]:6006/x?tenant=1",
        ),
    ] {
        assert_eq!(
            url_of(&format!("traces: {{ endpoint: '{written}' }}"), &[]),
            expected
        );
    }
    let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:9/own");
    for (variables, expected) in [
        (&[BASE][..], "http://collector:4318/v1/traces"),
        (
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.test/otel/")],
            "https://c.test/otel/v1/traces",
        ),
        (
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.test/otel/?x=1")],
            "https://c.test/otel/v1/traces?x=1",
        ),
        (&[BASE, own], "http://traces:9/own"),
        (
            &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:9")],
            "http://traces:9/",
        ),
        (
            &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""), BASE],
            "http://collector:4318/v1/traces",
        ),
    ] {
        assert_eq!(url_of("traces: {}", variables), expected);
    }
    // What is written counts, and then the variables' protocol is of no interest.
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    assert_eq!(
        url_of("traces: { endpoint: 'http://a:1' }", &[BASE, grpc]),
        "http://a:1/v1/traces"
    );
}

#[test]
fn another_protocol_is_an_error_with_what_to_write() {
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    check(
        "traces: {}",
        &[BASE, grpc],
        &["OTEL_EXPORTER_OTLP_PROTOCOL, which is grpc, which Portcullis does not speak"],
    );
    check(
        "traces: {}",
        &[
            BASE,
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            grpc,
        ],
        &[
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, which is http/json, which Portcullis does not write: write http/protobuf",
        ],
    );
    check(
        "traces: {}",
        &[
            BASE,
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            grpc,
        ],
        &[],
    );
    check(
        "traces: {}",
        &[BASE, ("OTEL_EXPORTER_OTLP_PROTOCOL", "s3cret")],
        &["which is no protocol that is known"],
    );
    check(
        "traces: { endpoint: 'http://c:4317' }",
        &[],
        &["1 traces.endpoint: is 4317, the port for gRPC"],
    );
    check(
        "traces: {}",
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317")],
        &["take OTEL_EXPORTER_OTLP_ENDPOINT, whose port is 4317, the port for gRPC"],
    );
    check(
        "traces: { protocol: grpc }",
        &[BASE],
        &["traces are sent as protobuf over HTTP only"],
    );
}

#[test]
fn what_is_wrong_is_told_without_the_secrets() {
    check(
        "traces: {}",
        &[],
        &["traces.endpoint: is missing, and OTEL_EXPORTER_OTLP_ENDPOINT is not set"],
    );
    for wrong in [
        "s3cret",
        "ftp://s3cret",
        "http://u:s3cret@h",
        "grpc://s3cret:4317",
    ] {
        check(
            &format!("traces: {{ endpoint: '{wrong}' }}"),
            &[],
            &["traces.endpoint: must"],
        );
        check(
            "traces: {}",
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", wrong)],
            &["take OTEL_EXPORTER_OTLP_ENDPOINT, which must"],
        );
    }
    for (wrong, why) in [
        (
            "http://169.254.169.254/latest",
            "is a link-local, metadata or other special address",
        ),
        (
            "https://metadata.google.internal",
            "is a link-local, metadata or other special address",
        ),
        ("http://8.8.8.8:4318", "is http: to a public address"),
        ("http://0x08080808:4318", "must have a host"),
    ] {
        check(&format!("traces: {{ endpoint: '{wrong}' }}"), &[], &[why]);
        check(
            "traces: {}",
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", wrong)],
            &[why],
        );
    }
    let with = |more: &str| format!("traces: {{ endpoint: 'http://c:4318', {more} }}");
    check(
        &with("headers: { 'a b': s3cret }"),
        &[],
        &["is not the name of a header"],
    );
    check(
        &with("headers: { Content-Type: s3cret }"),
        &[],
        &["cannot be set here"],
    );
    check(
        &with("headers: { x-a: s3cret, X-A: b }"),
        &[],
        &["is written twice"],
    );
    check(
        &with("headers: { x-a: \"s3cret\\n\" }"),
        &[],
        &["may only hold printable ASCII"],
    );
    check(
        &with("headers: { x-a: { env: NOT_SET } }"),
        &[],
        &["is not set"],
    );
    check(
        &with("slow: 0s"),
        &[],
        &["traces.slow: must be more than 0s"],
    );
    check(
        &with("sample: 0.1"),
        &[],
        &["traces.sample: must be a share in percent"],
    );
    check(
        &with("tls: { ca: ca.pem }"),
        &[],
        &["traces.tls.ca: does not apply to http:"],
    );
    let name = "OTEL_TRACES_SAMPLER";
    check(
        &with(""),
        &[(name, "s3cret")],
        &["take OTEL_TRACES_SAMPLER, which must be always_on"],
    );
    let arg = ("OTEL_TRACES_SAMPLER_ARG", "2");
    check(
        &with(""),
        &[(name, "traceidratio"), arg],
        &["take OTEL_TRACES_SAMPLER_ARG, which must be a number"],
    );
    check(
        "traces: {}",
        &[BASE, ("OTEL_EXPORTER_OTLP_HEADERS", "s3cret")],
        &["take OTEL_EXPORTER_OTLP_HEADERS, which must be"],
    );
    check(
        &with(""),
        &[("OTEL_RESOURCE_ATTRIBUTES", "s3cret")],
        &["take OTEL_RESOURCE_ATTRIBUTES, which must be"],
    );
}

#[test]
fn headers_are_secrets_from_where_written() {
    let shown = |traces: &Traces| {
        assert!(
            traces.headers.iter().all(|(_, value)| value.is_sensitive())
                && !format!("{traces:?}").contains("s3cret")
        );
        traces
            .headers
            .iter()
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect::<Vec<_>>()
    };
    let text = "traces: { endpoint: 'http://c', headers: { Authorization: { file: token }, x-scope-orgid: one } }";
    let variables = [(
        "OTEL_EXPORTER_OTLP_HEADERS",
        "x-b=2, Authorization=Basic%20s3cret%3D ,",
    )];
    assert_eq!(
        shown(&traces(text, &variables)),
        ["authorization=Bearer s3cret", "x-scope-orgid=one"]
    );
    let of_variables = [
        BASE,
        variables[0],
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-own=1"),
    ];
    assert_eq!(
        shown(&traces("traces: {}", &of_variables[..2])),
        ["x-b=2", "authorization=Basic s3cret="]
    );
    assert_eq!(shown(&traces("traces: {}", &of_variables)), ["x-own=1"]);
    // Another receiver does not get them.
    assert!(shown(&traces("traces: { endpoint: 'http://c' }", &variables)).is_empty());
    let server = with("traces: { endpoint: 'http://c' }", &variables).unwrap();
    assert_eq!(server.warnings.len(), 1, "{:?}", server.warnings);
    let warned = |text: &str| {
        with(text, &[])
            .map(|server| server.warnings.len())
            .unwrap_or_default()
    };
    assert_eq!(
        warned("traces: { endpoint: 'http://c', headers: { x-api-key: abc } }"),
        1
    );
    assert_eq!(
        warned("traces: { endpoint: 'http://c', headers: { x-scope-orgid: abc } }"),
        0
    );
}

#[test]
fn the_sampler_comes_from_file_or_variables() {
    let sampling = |more: &str, variables: &[(&str, &str)]| {
        let Sampling {
            share,
            follows_parent,
            ..
        } = traces(
            &format!("traces: {{ {more} }}"),
            &[variables, &[BASE]].concat(),
        )
        .sampling;
        (share, follows_parent)
    };
    let name = |name: &'static str| ("OTEL_TRACES_SAMPLER", name);
    let arg = ("OTEL_TRACES_SAMPLER_ARG", "0.25");
    assert_eq!(sampling("", &[]), (1.0, true));
    assert_eq!(sampling("sample: 5%", &[name("always_on")]), (0.05, true));
    assert_eq!(sampling("", &[name("always_on"), arg]), (1.0, false));
    assert_eq!(sampling("", &[name("parentbased_always_off")]), (0.0, true));
    assert_eq!(
        sampling("", &[name("parentbased_traceidratio"), arg]),
        (0.25, true)
    );
    assert_eq!(sampling("", &[name("traceidratio"), arg]), (0.25, false));
    assert_eq!(sampling("", &[name("traceidratio")]), (1.0, false));
}

#[test]
fn the_resource_has_the_name_of_the_service() {
    let resource = |more: &str, variables: &[(&str, &str)]| {
        let traces = traces(
            &format!("traces: {{ {more} }}"),
            &[variables, &[BASE]].concat(),
        );
        traces
            .resource
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(resource("", &[]), ["service.name=portcullis"]);
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,k=a%2Cb");
    assert_eq!(resource("", &[attributes]), ["k=a,b", "service.name=a"]);
    let encoded = ("OTEL_RESOURCE_ATTRIBUTES", " a%3Db = %20x%2C+ , %6b = ");
    assert_eq!(
        resource("", &[encoded]),
        ["a=b= x,+", "k=", "service.name=portcullis"]
    );
    let named = [attributes, ("OTEL_SERVICE_NAME", "b")];
    assert_eq!(resource("", &named), ["k=a,b", "service.name=b"]);
    assert_eq!(
        resource("resource: { service.name: c, k: d }", &named),
        ["k=d", "service.name=c"]
    );
}

#[test]
fn what_is_switched_off_is_off_and_says_so() {
    let off = |value| {
        let server = with("traces: {}", &[BASE, ("OTEL_SDK_DISABLED", value)]).unwrap();
        (server.traces.is_none(), server.warnings.len())
    };
    assert_eq!(
        [off("true"), off("TRUE"), off("false"), off("1")],
        [(true, 1), (true, 1), (false, 0), (false, 0)]
    );
    // Then nothing is missing, and no other variable is looked at. What is written is.
    let disabled = ("OTEL_SDK_DISABLED", "true");
    let others = [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_SAMPLER", "s3cret"),
        disabled,
    ];
    check("traces: {}", &others, &[]);
    check("traces: {}", &[BASE, others[0], others[1], disabled], &[]);
    check(
        "traces: { endpoint: 'http://c:4317', slow: 0s }",
        &others,
        &["is 4317", "traces.slow"],
    );
}

#[test]
fn where_variables_are_not_read_an_address_is_assumed() {
    let read = |text: &str| parse_server("server.yaml", text, &mut |_| Ok(STAND_IN.to_owned()));
    assert!(read("traces: {}").is_ok_and(|server| {
        server
            .traces
            .is_some_and(|traces| traces.headers.is_empty())
    }));
    assert!(read("traces: { headers: { authorization: { env: A } } }").is_ok());
}

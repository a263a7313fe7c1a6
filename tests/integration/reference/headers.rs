//! Headers, from the tables that every test compares with real heads of answers, and that are
//! compared here with the names in the source.

use std::collections::BTreeSet;

use super::{check, code, table};
use crate::support::client::{Connection, request};
use crate::support::documented::{
    ADMIN, ANSWERED, HEARD, Header, PROXY, QUOTAS, READ, SENT, TOKEN_SERVERS, check_head,
};
use crate::support::{Catalog, Gateway, Mock, Script, chat, run};
use dialects::upstream::{self, AccountField, Protocol};

#[test]
fn the_chapter_of_headers_is_current() {
    let list = |headers: &[Header]| {
        table(
            ["Header", "Meaning"],
            headers
                .iter()
                .map(|(name, meaning)| [code(name), (*meaning).to_owned()]),
        )
    };
    let quotas = QUOTAS.iter().map(|([left, limit, reset], meaning)| {
        [code(left), code(limit), code(reset), (*meaning).to_owned()]
    });
    let sections = [
        (
            "What is read of a caller's request",
            "No header of the caller's is sent to the upstream but the request id, and `anthropic-beta` to Anthropic.",
            list(READ),
        ),
        (
            "What an answer carries",
            "No header of the upstream's is passed on.",
            list(ANSWERED),
        ),
        (
            "What is sent to an upstream",
            "Besides these, the `headers` of the account. One that the account names itself takes the place of ours.",
            list(SENT),
        ),
        (
            "What is read of an upstream's answer",
            "Besides these, what frames the body.",
            list(HEARD),
        ),
        (
            "Quotas",
            "A provider's limits, in the head of an answer. A target with less than a twentieth left comes after the others.",
            table(
                [
                    "What is left",
                    "The quota",
                    "When it is whole again",
                    "Of what",
                ],
                quotas,
            ),
        ),
        (
            "The servers that give credentials",
            "Besides these, `authorization`, and the signature of AWS. An external account may name more in its file.",
            list(TOKEN_SERVERS),
        ),
        (
            "An account's proxy",
            "What is sent with CONNECT, and read of its answer. A proxy gets no header of a request or of an account.",
            list(PROXY),
        ),
        (
            "The admin listener",
            "What it reads, and what its answers carry.",
            list(ADMIN),
        ),
    ];
    let text: Vec<String> = sections
        .iter()
        .map(|(heading, about, table)| format!("## {heading}\n\n{about}\n\n{table}"))
        .collect();
    check("headers.md", "Headers", &text.join("\n"));
}

/// All names of the tables.
fn documented() -> BTreeSet<&'static str> {
    let quotas = QUOTAS.iter().flat_map(|(names, _)| names.iter().copied());
    [READ, ANSWERED, SENT, HEARD, TOKEN_SERVERS, PROXY, ADMIN]
        .into_iter()
        .flatten()
        .map(|(name, _)| *name)
        .chain(quotas)
        .collect()
}

/// Written by Pingora or by AWS's signer, and not by name in the source: what is on the wire shows
/// them.
const BY_OTHERS: [&str; 4] = ["connection", "date", "x-amz-date", "x-amz-security-token"];

/// Names in the source that are no headers of the gateway's own: those that the catalog's checks
/// know, the beginning of a schema's extensions, a coding, and the tests' switch.
const NO_HEADERS: [&str; 4] = ["x-", "x-goog-user-project", "x-gzip", "x-test-panic"];

#[test]
fn the_headers_of_source_and_book_agree() {
    let (source, documented) = (super::source(), documented());
    let used = headers_of(&source);
    assert!(used.len() > 60, "{used:?}");
    for name in &used {
        assert!(
            documented.contains(name.as_str()),
            "the book does not name the header {name}"
        );
    }
    for name in documented.iter().filter(|name| !BY_OTHERS.contains(name)) {
        let quoted = source.contains(&format!("\"{name}\""));
        assert!(
            quoted || used.contains(*name),
            "the book names the header {name}, and no code does"
        );
    }
}

/// The headers that the source names, in quotation marks or by a constant of the crate `http`.
fn headers_of(source: &str) -> BTreeSet<String> {
    const BEGINNINGS: [&str; 3] = ["x-", "access-control-", "anthropic-"];
    const PARTS: [&str; 4] = ["ratelimit", "retry-after", "request-id", "-timing"];
    const ENDS: [&str; 3] = ["-policy", "-authenticate", "api-key"];
    let quoted = source.split('"').filter(|text| {
        let is_name =
            text.contains('-') && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        is_name
            && (BEGINNINGS.iter().any(|part| text.starts_with(part))
                || PARTS.iter().any(|part| text.contains(part))
                || ENDS.iter().any(|part| text.ends_with(part)))
            && !NO_HEADERS.contains(text)
    });
    let constants = source.split("header::").skip(1).filter_map(|rest| {
        let name: String = rest
            .chars()
            .take_while(|c| c.is_ascii_uppercase() || *c == '_')
            .collect();
        (name.len() > 1).then(|| name.to_lowercase().replace('_', "-"))
    });
    quoted.map(str::to_owned).chain(constants).collect()
}

/// Returns the YAML of an account of this dialect.
fn account(protocol: &Protocol) -> String {
    let more = if protocol.has(AccountField::Region) {
        ", region: us-east-1, aws: { access_key_id: CaNaRy-account-1, secret_access_key: CaNaRy-account-2, session_token: CaNaRy-account-3 }"
    } else if protocol.has(AccountField::Project) {
        ", project: acme-1, location: eu, key: CaNaRy-token"
    } else {
        ""
    };
    format!("dialect: {}{more}", protocol.name)
}

/// What each dialect sends is what an upstream sees: no other header, and every one of the table
/// but what only some requests need.
#[test]
fn the_book_names_the_headers_that_upstreams_get() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::error(500, "seen"));
        let base = format!("http://{}", mock.address());
        let dialects: Vec<(&str, String)> = upstream::ALL
            .into_iter()
            .filter(|protocol| !protocol.calls_nobody())
            .map(|protocol| (protocol.name, account(protocol)))
            .collect();
        let catalog = dialects
            .iter()
            .fold(Catalog::new(), |catalog, (name, more)| {
                catalog
                    .account_at(name, &base, more)
                    .model(name, &[&format!("{name}=anthropic.claude-sonnet-4-5-v1:0")])
            });
        let gateway = Gateway::start(catalog).await;
        let mut sent = BTreeSet::new();
        for (number, (name, _)) in dialects.iter().enumerate() {
            assert_eq!(gateway.post(&chat(name)).await.status, 502);
            sent.extend(
                mock.request(number)
                    .await
                    .fields
                    .into_iter()
                    .map(|(name, _)| name.to_lowercase()),
            );
        }
        let named = SENT
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .filter(|name| name != "anthropic-beta");
        assert_eq!(sent, named.collect());
    });
}

#[test]
fn the_book_names_all_headers_that_people_get() {
    run(async {
        let gateway = Gateway::over(&Mock::start().await).await;
        let answer = gateway.get("/v1/models").await;
        for name in [
            "connection",
            "date",
            "x-request-id",
            "content-type",
            "content-length",
        ] {
            assert!(answer.field(name).is_some(), "{name}: {:?}", answer.fields);
        }
        let mut connection = Connection::plain(gateway.admin, None).await;
        connection.send(request("GET", "/status", &[], b"")).await;
        let head = connection.head().await.expect("a head");
        for (name, _) in head
            .fields
            .iter()
            .filter(|(name, _)| !BY_OTHERS.contains(&name.to_lowercase().as_str()))
        {
            assert!(
                ADMIN
                    .iter()
                    .any(|(known, _)| known.eq_ignore_ascii_case(name)),
                "the book does not name {name}"
            );
        }
        connection.rest(&mut { head }).await;
        drop(connection);
        let field = |name: &str| [(name.to_owned(), "a".to_owned())];
        assert_eq!(check_head(&field("X-Request-Id")), Ok(()));
        assert!(check_head(&field("x-mood")).is_err_and(|why| why.contains("x-mood")));
    });
}

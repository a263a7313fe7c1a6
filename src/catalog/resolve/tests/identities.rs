//! Identities: issuers of tokens, and the callers to whom tokens belong.

use super::*;
use crate::catalog::identity::KeySource;

const HEAD: &str = "accounts: { a: { dialect: demo } }\nmodels: { m: { targets: [{ account: a }] } }\n\
     callers: { research: {}, everyone: { models: [m] } }\nidentities:\n";
const GOOD: &str = "issuer: \"https://acme.okta.com/oauth2/default\", audience: portcullis";

/// Checks the errors of the identities, each by how it begins after `identities.`.
#[track_caller]
fn check(identities: &str, expected: &[&str]) {
    let text = format!("{HEAD}  {identities}\n");
    let expected: Vec<String> = expected
        .iter()
        .map(|one| format!("catalog.yaml:5 identities.{one}"))
        .collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_all(&[&text], &expected);
}

#[test]
fn what_is_wrong_with_an_identity() {
    check(
        "o: { caller: research }",
        &[
            "o.issuer: is missing",
            "o.audience: is missing: what tokens for this gateway have in `aud`",
        ],
    );
    check(&format!("o: {{ {GOOD} }}"), &["o.callers: is missing"]);
    check(
        &format!(
            "o: {{ {GOOD}, caller: research, callers: {{ claim: groups, map: {{ x: everyone }} }} }}"
        ),
        &["o.caller: cannot be used together with `callers`"],
    );
    check(
        &format!("o: {{ {GOOD}, caller: reserch }}"),
        &["o.caller: no caller \"reserch\"; did you mean \"research\"?"],
    );
    check(
        &format!("o: {{ {GOOD}, callers: {{ claim: groups, map: {{ x: nobody }} }} }}"),
        &["o.callers.map: no"],
    );
    check(
        &format!("o: {{ {GOOD}, callers: {{ map: {{ x: everyone }} }} }}"),
        &["o.callers.claim: is missing"],
    );
    check(
        &format!("o: {{ {GOOD}, callers: {{ claim: groups }} }}"),
        &["o.callers.map: is missing"],
    );
    check(
        &format!("o: {{ {GOOD}, callers: {{ claim: [], map: {{ x: everyone }} }} }}"),
        &["o.callers.claim: must be the name of a claim"],
    );
    check(
        &format!("o: {{ {GOOD}, caller: research, jwks: \"http://keys.example.com/k\" }}"),
        &["o.jwks: is http:"],
    );
    check(
        &format!("o: {{ {GOOD}, caller: research, jwks: {{ file: /none }} }}"),
        &["o.jwks.file: there is no file /none"],
    );
    check(
        &format!(
            "o: {{ {GOOD}, caller: research, jwks: {{ file: /keys }}, bearer: {{ env: KEY }} }}"
        ),
        &["o.bearer: has no effect"],
    );
    check(
        "o: { issuer: \"https://login.microsoftonline.com/{tenantid}/v2.0\", audience: p, caller: research, \
         jwks: \"https://login.microsoftonline.com/common/discovery/v2.0/keys\" }",
        &["o.issuer: stands for the tokens of every tenant"],
    );
    check(
        &format!("{{ o: {{ {GOOD}, caller: research }}, p: {{ {GOOD}, caller: everyone }} }}"),
        &["p.issuer: is also the issuer of \"o\""],
    );
    check(
        &format!("o: {{ {GOOD}, caller: research, allow_ips: [] }}"),
        &["o.allow_ips: must list at least one"],
    );
}

#[test]
fn subjects_are_keys_of_their_callers() {
    let text = format!(
        "{HEAD}  okta: {{ {GOOD}, limits: {{ requests_per_day: 5 }}, allow_ips: [10.0.0.0/8], \
         callers: {{ claim: [realm_access, roles], map: {{ ml: research, \"*\": everyone }} }} }}\n"
    );
    let catalog = read_one(&text);
    let identity = catalog.identity("okta").expect("the identity");
    let ids: Vec<&str> = identity.templates.values().map(|key| &*key.id).collect();
    assert_eq!(ids, ["everyone/okta:", "research/okta:"]);
    let everyone = &identity.templates["everyone"];
    assert!(everyone.permissions.allow("m") && !everyone.permissions.allow("n"));
    assert!(!everyone.limits.is_none() && everyone.allow_ips.len() == 1);
    let KeySource::Server(server) = &identity.key_source else {
        panic!("the keys are at a server")
    };
    let path = "/oauth2/default/.well-known/openid-configuration";
    assert_eq!(&*server.address.base.path, path);
    assert!(server.is_discovery);
    // Keys of the catalog cannot look like those of subjects.
    let text = format!(
        "accounts: {{}}\nmodels: {{}}\ncallers: {{ a: {{ keys: {{ \"okta:x\": {{ hash: \"{A}\" }} }} }} }}\n"
    );
    check_all(
        &[&text],
        &["catalog.yaml:3 callers.a.keys.…: a name has 1 to 64"],
    );
}

#[test]
fn what_decides_over_tokens_changes_the_fingerprint() {
    let fingerprint = |more: &str| {
        let text = format!("{HEAD}  okta: {{ {GOOD}, caller: research{more} }}\n");
        read_one(&text).identity("okta").expect("it").fingerprint
    };
    let first = fingerprint("");
    assert_eq!(first, fingerprint(", limits: { requests_per_day: 5 }"));
    for more in [
        ", deny: [mallory]",
        ", max_age: 1h",
        ", subject: email",
        ", typ: at+jwt",
    ] {
        assert_ne!(first, fingerprint(more), "{more}");
    }
}

use serde_json::json;

use super::*;

const MADE: u64 = 1_767_225_600;
const NOW: u64 = MADE + 600;
const END: u64 = MADE + 3600;

fn rules() -> Rules {
    Rules {
        issuer: "https://issuer.example".into(),
        audience: "portcullis".into(),
        declared_type: None,
        subject: ClaimPath::name("sub"),
        callers: CallerRule::One("research".into()),
        require: Vec::new(),
        deny: Vec::new(),
        max_age: Duration::from_secs(24 * 3600),
    }
}

/// Rules whose callers go by the groups: `ml` and `ai` belong to research, `ops` to operators.
fn by_groups(others: bool, several: Several) -> Rules {
    let map = [("ml", "research"), ("ops", "operators"), ("ai", "research")];
    let map = map.map(|pair| (pair.0.to_owned(), pair.1.into())).to_vec();
    Rules {
        callers: CallerRule::ByClaim(ClaimRule {
            claim: ClaimPath::name("groups"),
            splits_at_spaces: false,
            map,
            others: others.then(|| "everyone".into()),
            several,
        }),
        ..rules()
    }
}

fn split(mut rules: Rules) -> Rules {
    if let CallerRule::ByClaim(rule) = &mut rules.callers {
        rule.splits_at_spaces = true;
    }
    rules
}

fn at_path(mut rules: Rules, steps: &[&str]) -> Rules {
    if let CallerRule::ByClaim(rule) = &mut rules.callers {
        rule.claim = ClaimPath::from_steps(steps.iter().map(|step| (*step).to_owned())).unwrap();
    }
    rules
}

/// Rules whose only caller is research, if the claim at this path has this value.
fn by_claim(steps: &[&str], value: &str) -> Rules {
    let mut rules = at_path(by_groups(false, Several::Refuse), steps);
    if let CallerRule::ByClaim(rule) = &mut rules.callers {
        rule.map = vec![(value.to_owned(), "research".into())];
    }
    rules
}

/// Genuine claims with these changes; `null` takes a claim away.
fn claims(changes: &Value) -> Claims {
    let mut members = json!({
        "iss": "https://issuer.example", "aud": "portcullis", "sub": "alice", "iat": MADE, "exp": END,
    });
    for (name, value) in changes.as_object().unwrap() {
        members[name] = value.clone();
        if value.is_null() {
            members.as_object_mut().unwrap().remove(name);
        }
    }
    let Value::Object(members) = members else {
        unreachable!("it is an object");
    };
    Claims {
        declared_type: Some("JWT".to_owned()),
        members,
    }
}

/// Returns the caller, or the word for the refusal.
fn judge(rules: &Rules, changes: &Value) -> String {
    match rules.accept(&claims(changes), NOW) {
        Ok(accepted) => accepted.caller.to_string(),
        Err(refused) => refused.reason().to_owned(),
    }
}

#[test]
fn a_genuine_token_has_subject_caller_and_end() {
    let accepted = rules().accept(&claims(&json!({})), NOW).unwrap();
    assert_eq!(accepted.subject.text(), "alice");
    assert_eq!(&*accepted.caller, "research");
    assert_eq!(accepted.expires_at, END + LEEWAY);
}

#[test]
fn issuer_and_audience_must_be_exact() {
    for (changes, expected) in [
        (json!({}), "research"),
        (json!({"iss": null}), "issuer"),
        (json!({"iss": "https://issuer.example/"}), "issuer"),
        (json!({"iss": "https://ISSUER.example"}), "issuer"),
        (
            json!({"iss": "https://issuer.example.attacker.example"}),
            "issuer",
        ),
        (json!({"iss": ["https://issuer.example"]}), "issuer"),
        (json!({"iss": 1}), "issuer"),
        (json!({"aud": ["portcullis"]}), "research"),
        (json!({"aud": ["other", "portcullis"]}), "research"),
        (json!({"aud": [1, {"a": 1}, "portcullis"]}), "research"),
        (json!({"aud": null}), "audience"),
        (json!({"aud": ""}), "audience"),
        (json!({"aud": []}), "audience"),
        (json!({"aud": "Portcullis"}), "audience"),
        (json!({"aud": "portcullis2"}), "audience"),
        (json!({"aud": "other portcullis"}), "audience"),
        (json!({"aud": ["other"]}), "audience"),
        (json!({"aud": [["portcullis"]]}), "audience"),
        (json!({"aud": {"portcullis": true}}), "audience"),
        (json!({"aud": true}), "audience"),
    ] {
        assert_eq!(judge(&rules(), &changes), expected, "{changes}");
    }
}

#[test]
fn the_type_counts_if_it_is_written() {
    let rules = Rules {
        declared_type: Some("at+jwt".to_owned()),
        ..rules()
    };
    for (declared, is_taken) in [
        (Some("at+jwt"), true),
        (Some("AT+JWT"), true),
        (Some("application/at+jwt"), true),
        (Some("JWT"), false),
        (Some(""), false),
        (None, false),
    ] {
        let mut claims = claims(&json!({}));
        claims.declared_type = declared.map(str::to_owned);
        let is_accepted = rules.accept(&claims, NOW).is_ok();
        assert_eq!(is_accepted, is_taken, "{declared:?}");
    }
}

#[test]
fn times_must_be_times_and_hold() {
    for (changes, expected) in [
        (json!({"exp": null}), "time"),
        (json!({"exp": END.to_string()}), "time"),
        (json!({"exp": true}), "time"),
        (json!({"exp": [END]}), "time"),
        (json!({"exp": {}}), "time"),
        (json!({"exp": -1}), "time"),
        (json!({"exp": -1.5}), "time"),
        (json!({"exp": -0.0}), "time"),
        (json!({"exp": 1e300}), "time"),
        (json!({"exp": 1e18}), "time"),
        (json!({"exp": u64::MAX}), "time"),
        (json!({"exp": MAX_TIME + 1}), "time"),
        (json!({"exp": MAX_TIME}), "max_age"),
        (json!({"exp": END as f64}), "research"),
        (json!({"exp": END as f64 + 0.75}), "research"),
        (json!({"exp": 0}), "expired"),
        (json!({"exp": 1e-300}), "expired"),
        (json!({"exp": NOW}), "research"),
        (json!({"exp": NOW - 59}), "research"),
        (json!({"exp": NOW - 60}), "expired"),
        (json!({"exp": (NOW - 60) as f64 + 0.9}), "expired"),
        (json!({"nbf": NOW + 60}), "research"),
        (json!({"nbf": NOW + 61}), "not_yet"),
        (json!({"nbf": "now"}), "time"),
        (json!({"nbf": -5}), "time"),
        (json!({"nbf": false}), "time"),
        (json!({"iat": NOW + 60}), "research"),
        (json!({"iat": NOW + 61}), "not_yet"),
        (json!({"iat": "now"}), "time"),
        (json!({"iat": 1e300}), "time"),
        (json!({"iat": MADE as f64 + 0.5}), "research"),
    ] {
        assert_eq!(judge(&rules(), &changes), expected, "{changes}");
    }
}

#[test]
fn a_token_lives_no_longer_than_allowed() {
    let rules = Rules {
        max_age: Duration::from_secs(3600),
        ..rules()
    };
    for (changes, expected) in [
        (json!({}), "research"),
        (json!({"exp": END + 1}), "max_age"),
        (json!({"iat": MADE - 1}), "max_age"),
        (json!({"iat": null, "exp": NOW + 3600}), "research"),
        (json!({"iat": null, "exp": NOW + 3601}), "max_age"),
        (json!({"iat": NOW + 60, "exp": NOW + 3660}), "research"),
        (json!({"iat": NOW + 60, "exp": NOW}), "research"),
    ] {
        assert_eq!(judge(&rules, &changes), expected, "{changes}");
    }
}

#[test]
fn a_subject_is_a_text_that_can_be_shown() {
    let long = "x".repeat(255);
    let longer = "é".repeat(128);
    for (subject, expected) in [
        (json!("a"), "research"),
        (json!("Zoë <zoe@acme.com>: \u{1f980}"), "research"),
        (json!(long), "research"),
        (json!(longer), "subject"),
        (json!(""), "subject"),
        (json!("a\nb"), "subject"),
        (json!("a\u{0}"), "subject"),
        (json!("a\u{7f}"), "subject"),
        (json!("a\u{85}b"), "subject"),
        (json!(1234), "subject"),
        (json!(true), "subject"),
        (json!(["alice"]), "subject"),
        (json!({"sub": "alice"}), "subject"),
        (json!(null), "subject"),
    ] {
        assert_eq!(
            judge(&rules(), &json!({"sub": subject})),
            expected,
            "{subject}"
        );
    }
    let rules = Rules {
        subject: ClaimPath::from_steps(["user".to_owned(), "mail".to_owned()]).unwrap(),
        ..rules()
    };
    for (user, expected) in [
        (json!({"mail": "alice@acme.com"}), "research"),
        (json!({"mail": {"mail": "alice"}}), "subject"),
        (json!({}), "subject"),
        (json!("alice"), "subject"),
        (json!(["mail"]), "subject"),
    ] {
        assert_eq!(judge(&rules, &json!({"user": user})), expected, "{user}");
    }
    assert_eq!(judge(&rules, &json!({"user.mail": "alice"})), "subject");
}

#[test]
fn a_denied_subject_does_not_come_back_in_capitals() {
    let rules = Rules {
        deny: vec!["mallory@acme.com".to_owned(), "Zoë".to_owned()],
        ..rules()
    };
    for (subject, expected) in [
        ("alice@acme.com", "research"),
        ("mallory@acme.com.example", "research"),
        ("mallory@acme.com", "denied"),
        ("Mallory@ACME.com", "denied"),
        ("zoË", "denied"),
    ] {
        assert_eq!(
            judge(&rules, &json!({"sub": subject})),
            expected,
            "{subject}"
        );
    }
}

fn required(value: &str) -> RequiredValue {
    RequiredValue(value.to_owned())
}

#[test]
fn required_claims_must_be_equal() {
    for (wanted, seen, is_taken) in [
        ("true", json!(true), true),
        ("true", json!("true"), true),
        ("true", json!(false), false),
        ("true", json!(1), false),
        ("true", json!(null), false),
        ("null", json!(null), false),
        ("acme/app", json!("acme/app"), true),
        ("acme/app", json!("Acme/app"), false),
        ("acme/app", json!(["acme/app"]), false),
        ("1", json!(1), true),
        ("1", json!("1"), true),
        ("1", json!(1.0), false),
        ("{}", json!({}), false),
    ] {
        let rules = Rules {
            require: vec![
                (ClaimPath::name("iss"), required("https://issuer.example")),
                (ClaimPath::name("x"), required(wanted)),
            ],
            ..rules()
        };
        let expected = if is_taken {
            "research"
        } else {
            "required_claim"
        };
        assert_eq!(
            judge(&rules, &json!({"x": seen})),
            expected,
            "{wanted} {seen}"
        );
    }
}

#[test]
fn callers_go_by_what_the_claim_says() {
    let first = by_groups(true, Several::First);
    let refuse = by_groups(true, Several::Refuse);
    let none = by_groups(false, Several::First);
    for (groups, expected) in [
        // The first caller; or all must have the same; or without `"*"`.
        (json!("ml"), ["research", "research", "research"]),
        (json!(["ops"]), ["operators", "operators", "operators"]),
        (
            json!(["ops", "ml"]),
            ["research", "several_callers", "research"],
        ),
        (
            json!(["other", "ops"]),
            ["operators", "operators", "operators"],
        ),
        (json!(["ai", "ml"]), ["research", "research", "research"]),
        (
            json!(["ai", "ops"]),
            ["operators", "several_callers", "operators"],
        ),
        (json!(["other"]), ["everyone", "everyone", "no_caller"]),
        (json!([]), ["everyone", "everyone", "no_caller"]),
        (json!(null), ["everyone", "everyone", "no_caller"]),
        (json!(""), ["everyone", "everyone", "no_caller"]),
        (json!("*"), ["everyone", "everyone", "no_caller"]),
        (json!("ML"), ["everyone", "everyone", "no_caller"]),
        (json!("ml ops"), ["everyone", "everyone", "no_caller"]),
        (json!(["ml ops"]), ["everyone", "everyone", "no_caller"]),
        (json!(["ml", 1]), ["no_caller"; 3]),
        (json!([["ml"]]), ["no_caller"; 3]),
        (json!({"ml": true}), ["no_caller"; 3]),
        (json!(true), ["no_caller"; 3]),
        (json!(1), ["no_caller"; 3]),
    ] {
        let changes = json!({"groups": groups});
        let verdicts = [&first, &refuse, &none].map(|rules| judge(rules, &changes));
        assert_eq!(verdicts, expected, "{groups}");
    }
}

#[test]
fn words_of_a_text_count_if_it_is_split() {
    let rules = split(by_groups(true, Several::Refuse));
    for (groups, expected) in [
        (json!("ml"), "research"),
        (json!("openid  ml "), "research"),
        (json!("ml ops"), "several_callers"),
        (json!("openid"), "everyone"),
        (json!("ml,ops"), "everyone"),
        (json!("ml\tops"), "everyone"),
        (json!(["ops"]), "operators"),
        (json!(["ml ops"]), "everyone"),
    ] {
        assert_eq!(
            judge(&rules, &json!({"groups": groups})),
            expected,
            "{groups}"
        );
    }
}

#[test]
fn the_claim_may_be_inside_another() {
    let rules = at_path(by_groups(true, Several::First), &["realm_access", "roles"]);
    for (changes, expected) in [
        (
            json!({"realm_access": {"roles": ["x", "ops"]}}),
            "operators",
        ),
        (json!({"realm_access": {"roles": []}}), "everyone"),
        (json!({"realm_access": {}}), "everyone"),
        (json!({"realm_access": ["roles"]}), "everyone"),
        (json!({"realm_access.roles": ["ops"]}), "everyone"),
        (json!({"roles": ["ops"]}), "everyone"),
        (
            json!({"_claim_names": {"realm_access": "src1"}}),
            "groups_left_out",
        ),
    ] {
        assert_eq!(judge(&rules, &changes), expected, "{changes}");
    }
    assert_eq!(ClaimPath::from_steps([]), None);
}

#[test]
fn groups_that_are_left_out_are_never_everyone() {
    let rules = by_groups(true, Several::First);
    let roles = at_path(by_groups(true, Several::First), &["roles"]);
    for (changes, expected, expected_by_role) in [
        (json!({"hasgroups": true}), "groups_left_out", "everyone"),
        (json!({"hasgroups": "true"}), "groups_left_out", "everyone"),
        (
            json!({"hasgroups": true, "groups": ["ml"]}),
            "groups_left_out",
            "everyone",
        ),
        (
            json!({"hasgroups": true, "roles": ["ops"]}),
            "groups_left_out",
            "operators",
        ),
        (json!({"hasgroups": false}), "everyone", "everyone"),
        (
            json!({"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://graph.example"}}}),
            "groups_left_out",
            "everyone",
        ),
        (
            json!({"_claim_names": {"groups": "src1"}, "groups": ["ml"]}),
            "groups_left_out",
            "everyone",
        ),
        (
            json!({"_claim_names": {"roles": "src1"}}),
            "everyone",
            "groups_left_out",
        ),
        (json!({"_claim_names": {}}), "everyone", "everyone"),
        (
            json!({"_claim_names": ["groups"]}),
            "groups_left_out",
            "groups_left_out",
        ),
        (
            json!({"_claim_names": "groups"}),
            "groups_left_out",
            "groups_left_out",
        ),
    ] {
        assert_eq!(judge(&rules, &changes), expected, "{changes}");
        assert_eq!(judge(&roles, &changes), expected_by_role, "{changes}");
    }
}

/// Claims as their issuers document them, and the subject and the caller that come of them.
#[test]
fn tokens_of_machines_and_companies_have_callers() {
    for (rules, issued, subject) in [
        // GitHub Actions.
        (
            by_claim(&["repository"], "acme/app"),
            json!({
                "sub": "repo:acme/app:ref:refs/heads/main", "repository": "acme/app", "repository_id": "74",
                "ref": "refs/heads/main", "runner_environment": "github-hosted", "run_attempt": "2",
                "jti": "example-id", "nbf": NOW - 600, "iat": NOW - 300, "exp": NOW + 300,
            }),
            "repo:acme/app:ref:refs/heads/main",
        ),
        // GitLab.
        (
            by_claim(&["project_path"], "acme/app"),
            json!({
                "sub": "project_path:acme/app:ref_type:branch:ref:main", "project_path": "acme/app",
                "ref_protected": "true", "user_identities": [{"provider": "github", "extern_uid": "2435223452345"}],
                "nbf": NOW - 5, "iat": NOW, "exp": NOW + 3600,
            }),
            "project_path:acme/app:ref_type:branch:ref:main",
        ),
        // A service account of Kubernetes.
        (
            by_claim(&["kubernetes.io", "namespace"], "ml"),
            json!({
                "aud": ["portcullis"], "sub": "system:serviceaccount:ml:trainer", "nbf": NOW,
                "kubernetes.io": {
                    "namespace": "ml", "pod": {"name": "trainer-0", "uid": "49ad1af3"},
                    "serviceaccount": {"name": "trainer", "uid": "14ee3fa4"}, "warnafter": NOW + 3607,
                },
            }),
            "system:serviceaccount:ml:trainer",
        ),
        // Entra, version 2.
        (
            Rules {
                subject: ClaimPath::name("oid"),
                require: vec![(ClaimPath::name("ver"), required("2.0"))],
                ..by_claim(&["roles"], "Research.Use")
            },
            json!({
                "oid": "690222be-ff1a-4d56-abd1-7e4f7d38e474", "sub": "HKZpfaHyWadeOouYlitjrI-KffTm222X5rrV3xDqfKQ",
                "roles": ["Research.Use"], "ver": "2.0", "tid": "fa15d692", "hasgroups": true, "aio": "Df2U",
            }),
            "690222be-ff1a-4d56-abd1-7e4f7d38e474",
        ),
        // Keycloak.
        (
            Rules {
                subject: ClaimPath::name("preferred_username"),
                ..by_claim(&["realm_access", "roles"], "ml-team")
            },
            json!({
                "aud": ["portcullis", "account"], "sub": "f:1", "typ": "Bearer", "azp": "cli", "acr": "1",
                "realm_access": {"roles": ["offline_access", "ml-team"]}, "preferred_username": "alice",
            }),
            "alice",
        ),
        // Okta, with scopes.
        (
            split(by_claim(&["scp"], "llm.use")),
            json!({"sub": "alice@acme.com", "scp": ["openid", "llm.use"], "cid": "0oa", "uid": "00u", "ver": 1}),
            "alice@acme.com",
        ),
        // Auth0, with a namespaced claim and scopes as a text.
        (
            split(by_claim(&["scope"], "llm:use")),
            json!({"sub": "auth0|5f7c8ec7", "scope": "openid llm:use", "https://acme.com/groups": ["x"]}),
            "auth0|5f7c8ec7",
        ),
    ] {
        let accepted = rules.accept(&claims(&issued), NOW).unwrap();
        assert_eq!(accepted.subject.text(), subject);
        assert_eq!(&*accepted.caller, "research");
    }
}

#[test]
fn a_refusal_names_the_claim_and_no_value() {
    let groups = by_groups(false, Several::First);
    let with_repository = Rules {
        require: vec![(ClaimPath::name("repository"), required("acme/app"))],
        ..rules()
    };
    let spoofed = "a\u{1b}[2J\u{202e}b\n".to_owned() + &"x".repeat(200);
    let shown = format!("it is \"a\\u001b[2J\u{fffd}b\\n{}…", "x".repeat(85));
    for (rules, changes, text, operator_text) in [
        (
            &rules(),
            json!({"iss": "https://other.example"}),
            "the claim `iss` is not accepted here",
            "it is \"https://other.example\", wanted: https://issuer.example",
        ),
        (
            &rules(),
            json!({"aud": ["a", "b"]}),
            "the claim `aud` does not name this gateway",
            "it is [\"a\",\"b\"], wanted: portcullis",
        ),
        (
            &rules(),
            json!({"exp": MADE}),
            "the token has ended (claim `exp`)",
            "it is 1767225600, wanted: now it is 1767226200",
        ),
        (
            &rules(),
            json!({"sub": null}),
            "the claim `sub` is no text of 1 to 255 bytes without control characters",
            "",
        ),
        (
            &with_repository,
            json!({"repository": "evil/app"}),
            "the claim `repository` is not what is required here",
            "it is \"evil/app\", wanted: \"acme/app\"",
        ),
        (
            &with_repository,
            json!({}),
            "the claim `repository` is not what is required here",
            "it is not there, wanted: \"acme/app\"",
        ),
        (
            &groups,
            json!({"groups": ["x"]}),
            "the claim `groups` gives no access here",
            "it is [\"x\"], wanted: one of ml, ops, ai",
        ),
        (
            &rules(),
            json!({"aud": spoofed}),
            "the claim `aud` does not name this gateway",
            &*shown,
        ),
    ] {
        let refused = rules.accept(&claims(&changes), NOW).unwrap_err();
        assert_eq!(refused.to_string(), text);
        let written = refused.operator_text();
        assert!(
            written.starts_with(text) && written.contains(operator_text),
            "{written}"
        );
        assert!(!written.contains(char::is_control) && written.len() < 600);
        for accepted in ["issuer.example", "portcullis", "acme/app", "ml"] {
            assert!(!refused.to_string().contains(accepted), "{refused}");
        }
    }
}

//! Accounts, and their secrets.

use std::collections::HashSet;

use super::*;
use crate::catalog::{OnBrokenCall, OnLoss, Reasoning};
use dialects::Endpoint;

/// Fields that only one dialect has, and what each dialect must have.
#[test]
fn each_dialect_has_its_own_fields() {
    check_account(
        "{dialect: anthropic, key: k, region: us-east-1}",
        &[".region: only applies to the dialect bedrock"],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, api_version: x, auth: bearer}",
        &[
            ".api_version: only applies to the dialect azure",
            ".auth: only applies",
        ],
    );
    check_account(
        "{dialect: azure, key: k}",
        &[".base_url: is missing: the resource's address"],
    );
    check_account(
        "{dialect: azure, base_url: 'https://a.b', key: k, api_version: '../x?'}",
        &[".api_version: may only hold letters"],
    );
    check_account("{dialect: vertex, key: k}", &[".project: is missing"]);
    check_account(
        "{dialect: vertex, project: p}",
        &[".service_account: is missing"],
    );
    check_account(
        "{dialect: vertex, project: p, service_account: '{}'}",
        &[".service_account: cannot be used: the key file has no `private_key`"],
    );
    check_account(
        "{dialect: vertex, project: p, key: k, service_account: x}",
        &[
            ".service_account: cannot be used together with `key`",
            ".service_account: cannot be used",
        ],
    );
    check_account("{dialect: bedrock, key: k}", &[".region: is missing"]);
    check_account(
        "{dialect: bedrock, region: us-east-1}",
        &[".aws: is missing"],
    );
    check_account(
        "{dialect: bedrock, region: us-east-1, aws: {access_key_id: a}}",
        &[".aws.secret_access_key: is missing"],
    );
    check_account(
        "{dialect: openai, preset: groqq}",
        &[".preset: no preset \"groqq\"; did you mean \"groq\"?"],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, quirks: mistal}",
        &[".quirks: no quirks \"mistal\"; did you mean \"mistral\"?"],
    );
    check_account(
        "{dialect: anthropic, key: k, headers: {x-api-key: y}}",
        &[".headers.x-api-key: is also made from `key`"],
    );
}

#[test]
fn dialects_know_their_place_and_payment() {
    let catalog = read_all(&["accounts:
  azure: {dialect: azure, base_url: 'https://a.openai.azure.com', key: k}
  bedrock: {dialect: bedrock, region: eu-west-1, aws: {access_key_id: a, secret_access_key: s}}
  claude: {dialect: anthropic, key: k}
  gemini: {dialect: gemini, key: k}
  groq: {dialect: openai, preset: groq, key: k}
  ollama: {dialect: ollama}
  vertex: {dialect: vertex, project: p, location: eu, key: k}
models:
  m: {targets: [{account: claude, model: claude-sonnet-4-5, traits: {max_output: 5, tools: false, efforts: [low, high]}}, {account: groq}], on_loss: refuse, reasoning: hide}
callers: {}
"])
    .unwrap();
    let shown = catalog.accounts().iter().map(|a| {
        format!(
            "{} {}{} {:?}",
            a.dialect.protocol.name, a.base.authority, a.base.path, a.key_header
        )
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "azure a.openai.azure.com Named(\"api-key\")",
            "bedrock bedrock-runtime.eu-west-1.amazonaws.com Bearer",
            "anthropic api.anthropic.com/v1 Named(\"x-api-key\")",
            "gemini generativelanguage.googleapis.com/v1beta Named(\"x-goog-api-key\")",
            "openai api.groq.com/openai/v1 Bearer",
            "ollama 127.0.0.1:11434 Bearer",
            "vertex aiplatform.eu.rep.googleapis.com Bearer",
        ]
    );
    let model = catalog.model("m").unwrap();
    let traits = model.targets[0].traits;
    assert_eq!(
        (traits.max_output, traits.tools, traits.images),
        (Some(5), false, true)
    );
    assert_eq!(
        traits.efforts.nearest(dialects::neutral::Effort::Medium),
        Some(dialects::neutral::Effort::Low)
    );
    assert_eq!(
        (model.on_loss, model.reasoning),
        (OnLoss::Refuse, Reasoning::Hide)
    );
    // A new secret is a new credential: no connection of the old one is used for it.
    let print = |secret: &str| {
        let text = format!(
            "accounts:\n  b: {{dialect: bedrock, region: r, aws: {{access_key_id: a, secret_access_key: {secret}}}}}\nmodels: {{}}\ncallers: {{}}\n"
        );
        read_all(&[&text]).unwrap().accounts()[0].fingerprint
    };
    assert!(print("one") == print("one") && print("one") != print("two"));
}

#[test]
fn accounts_as_written_and_by_default() {
    let catalog = read_one(
        "accounts:\n  b: {dialect: openai, base_url: https://a.b}\n  a:\n    dialect: openai\n    base_url: http://127.0.0.1:8000/v1/\n    key: {env: KEY}\n    concurrency: 200\n    \
         timeouts: {connect: 1s, first_byte: 2s, idle: 3s, total: 4s}\n    headers: {OpenAI-Organization: org-1}\n    stream_usage: false\n  \
         c: {dialect: openai, key: {file: /key}, tls: {ca: /ca}}\n  d: {dialect: openai, enabled: false, key: {env: ABSENT}, tls: {ca: /absent}}\n  \
         e: {dialect: demo, concurrency: 5}\nmodels: {}\ncallers: {someone: {}}\n",
    );
    let [a, b, c, d, e] = catalog.accounts() else {
        panic!()
    };
    assert_eq!((&*a.id, a.index, &*e.id, e.index), ("a", 0, "e", 4));
    assert_eq!(
        (
            a.base.tls,
            &*a.base.host,
            a.base.port,
            &*a.base.path,
            a.base.authority.as_str()
        ),
        (false, "127.0.0.1", 8000, "/v1", "127.0.0.1:8000")
    );
    assert_eq!(a.key.as_ref().unwrap().expose(), "sk-canary-env");
    assert_eq!(
        (a.concurrency, a.added_fields.stream_usage),
        (Some(200), false)
    );
    let seconds = |account: &Account| {
        let t = account.timeouts;
        [t.connect, t.first_byte, t.idle, t.total, t.total_stream].map(|span| span.as_secs())
    };
    assert_eq!(seconds(a), [1, 2, 3, 4, 4]);
    assert_eq!(seconds(b), [5, 120, 60, 600, 3600]);
    assert_eq!(
        (
            &a.headers[0].0.as_str(),
            a.headers[0].1.as_bytes(),
            a.headers[0].1.is_sensitive()
        ),
        (&"openai-organization", &b"org-1"[..], true)
    );
    assert_eq!(
        (c.base.authority.as_str(), &*c.base.path, c.base.port),
        ("api.openai.com", "/v1", 443)
    );
    assert!(b.key.is_none() && b.enabled && b.added_fields.stream_usage && b.concurrency.is_none());
    assert_eq!(c.key.as_ref().unwrap().expose(), "sk-canary-file");
    assert_eq!(
        c.network.ca.as_deref(),
        Some(&b"-----BEGIN CERTIFICATE-----\n"[..])
    );
    assert!(!d.enabled && d.key.is_none() && d.network.ca.is_none());
    assert!(e.dialect.protocol.calls_nobody());
    assert_eq!(e.concurrency, Some(5));
    assert!(b.fingerprint != c.fingerprint && c.fingerprint != a.fingerprint);
    assert_eq!(catalog.warnings, []);
}

#[test]
fn what_is_wrong_with_an_account() {
    check_account(
        "{}",
        &[".dialect: is missing, and there is no `preset` that sets it; allowed: openai, azure"],
    );
    check_account(
        "5",
        &[": must be a map of dialect, preset, quirks, base_url"],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, concurrency: 0}",
        &[".concurrency: must be at least 1"],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, timeouts: {idle: 0s, total: 5}}",
        &[
            ".timeouts.total: must be a length of time",
            ".timeouts.idle: must be more than 0s",
        ],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, headers: {Host: x}}",
        &[".headers.Host: cannot be set here"],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, headers: {x-a: b, X-A: c}}",
        &[".headers.…: is written twice, with other upper and lower case: keep only one (column "],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, headers: {x a: b}}",
        &[".headers.…: is not the name of a header (column "],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, headers: {x-a: \"can\\nary\"}}",
        &[".headers.…: may only hold printable ASCII characters"],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, headers: {x-a: 5}}",
        &[".headers.…: must be text"],
    );
    check_account(
        "{dialect: openai, key: {env: KEY}, headers: {Authorization: x}}",
        &[".headers.Authorization: is also made from `key`"],
    );
    check_account(
        "{dialect: openai, headers: {Authorization: Basic canary}}",
        &[],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, trace: true, headers: {Traceparent: canary, tracestate: canary}}",
        &[
            ".headers.…: is also made by `trace: true`",
            ".headers.…: is also made by `trace: true`",
        ],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, headers: {traceparent: canary}}",
        &[],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, tls: {}}",
        &[".tls.ca: is missing"],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, tls: {verify: false}}",
        &[
            ".tls.verify: unknown field: certificates are always checked",
            ".tls.ca: is missing",
        ],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, tls: {ca: /absent}}",
        &[".tls.ca: there is no file"],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, tls: {ca: /other}}",
        &[".tls.ca: the file holds no certificate"],
    );
    check_account(
        "{dialect: openai, base_url: http://127.0.0.1, tls: {ca: /ca}}",
        &[".tls.ca: does not apply to http:"],
    );
    check_account(
        "{dialect: demo, base_url: https://a.b, key: {env: KEY}, stream_usage: true}",
        &[
            ".base_url: does not apply to a demo account",
            ".key: does not apply",
            ".stream_usage: does not apply",
        ],
    );
    check_all(
        &["accounts: {a/b: {dialect: demo}}\nmodels: {}\ncallers: {}"],
        &["catalog.yaml:1 accounts.…: a name has 1 to 64"],
    );
}

#[test]
fn an_account_says_what_its_server_reads() {
    let catalog = read_all(&["accounts:
  claude: {dialect: anthropic, key: k, traits: {output_config: false}}
  gemini: {dialect: gemini, key: k, traits: {response_json_schema: false, parameters_json_schema: false}}
  whole: {dialect: anthropic, key: k, traits: {}}
models:
  m: {targets: [{account: claude, model: claude-sonnet-4-5, traits: {structured: true}}, {account: gemini, model: gemini-2.5-pro}, {account: whole, model: claude-sonnet-4-5}], on_broken_call: error}
callers: {}
"])
    .unwrap();
    let model = catalog.model("m").unwrap();
    let traits: Vec<_> = model.targets.iter().map(|target| target.traits).collect();
    assert!(
        !traits[0].structured && !traits[0].server.output_config,
        "what the server does not read, no model of it is told"
    );
    assert!(
        traits[1].structured
            && !traits[1].server.response_json_schema
            && !traits[1].server.parameters_json_schema
    );
    assert!(traits[2].structured && traits[2].server == dialects::traits::Server::OWN);
    assert_eq!(model.on_broken_call, OnBrokenCall::Error);
    check_account(
        "{dialect: openai, key: {env: KEY}, traits: {output_config: false}}",
        &[".traits.output_config: only applies to the dialects anthropic and bedrock"],
    );
    check_account(
        "{dialect: bedrock, region: r, key: {env: KEY}, traits: {parameters_json_schema: false}}",
        &[".traits.parameters_json_schema: only applies to the dialects gemini and vertex"],
    );
    check_account(
        "{dialect: gemini, key: {env: KEY}, traits: {response_json_schema: maybe}}",
        &[".traits.response_json_schema: must be"],
    );
}

#[test]
fn s06_a_wrong_secret_shows_nothing() {
    check_account("{dialect: openai, key: ''}", &[".key: is empty"]);
    check_account(
        "{dialect: openai, key: \"sk-canary\\n\"}",
        &[".key: holds a control character"],
    );
    check_account(
        "{dialect: openai, key: [sk-canary-1]}",
        &[".key: must be { env: NAME } or { file: /path }"],
    );
    check_account("{dialect: openai, key: 5}", &[".key: must be text"]);
    check_account("{dialect: openai, key: {}}", &[".key: must have one field"]);
    check_account(
        "{dialect: openai, key: {env: KEY, file: /key}}",
        &[".key: must have one field"],
    );
    check_account(
        "{dialect: openai, key: {vault: x}}",
        &[
            ".key.…: unknown field; allowed: env, file (column 30)",
            ".key: must have one field",
        ],
    );
    check_account(
        "{dialect: openai, key: {env: ABSENT}}",
        &[".key.env: the environment variable is not set"],
    );
    check_account(
        "{dialect: openai, key: {env: EMPTY}}",
        &[".key.env: the environment variable is empty"],
    );
    check_account(
        "{dialect: openai, key: {env: sk-canary-12345678}}",
        &[".key.env: must be the name of an environment variable"],
    );
    check_account(
        "{dialect: openai, key: {file: /absent}}",
        &[".key.file: there is no file"],
    );
    check_account(
        "{dialect: openai, key: {file: /two-lines}}",
        &[".key.file: the file holds a control character or more than one line"],
    );
    check_account(
        "{dialect: openai, key: {file: /two-ends}}",
        &[".key.file: the file holds a control character"],
    );
    check_account(
        "{dialect: openai, key: {file: /nul}}",
        &[".key.file: the file holds a control character"],
    );
    check_account(
        "{dialect: openai, key: {file: /space}}",
        &[".key.file: the file begins or ends with a space"],
    );
    check_account(
        "{dialect: openai, key: {file: /umlaut}}",
        &[".key.file: the file holds a character that cannot be sent in a header"],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, kye: sk-canary-12345678}",
        &[".kye: unknown field; did you mean `key`?"],
    );
    check_account(
        "{dialect: sk-canary-12345678}",
        &[".dialect: is not known; allowed: openai"],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, enabled: sk-canary-12345678}",
        &[".enabled: must be true or false (column"],
    );
    check_account(
        "{dialect: openai, base_url: 'https://user:canary@a.b'}",
        &[".base_url: must not hold a user name or a password"],
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, sk-canary-12345678: x}",
        &[".…: unknown field"],
    );
}

#[test]
fn s05_nothing_that_holds_a_secret_prints_it() {
    let catalog = read_one(
        "accounts:\n  a: {dialect: openai, key: sk-canary-1, headers: {x: sk-canary-2}}\nmodels: {m: {targets: [{account: a}]}}\ncallers: {}\n",
    );
    let printed = format!(
        "{catalog:?} {:?} {:?} {:?}",
        catalog.accounts(),
        catalog.models(),
        catalog.warnings
    );
    assert!(
        printed.contains("[secret]") && !printed.contains("canary"),
        "{printed}"
    );
}

#[test]
fn proxies_of_accounts() {
    let with = |proxy: &str| format!("{{dialect: openai, base_url: https://a.b, proxy: {proxy}}}");
    for (proxy, why) in [
        ("socks5://u:canary@p:1080", ".proxy: is a SOCKS proxy"),
        (
            "p:3128",
            ".proxy: must be a URL such as http://proxy.example.com:3128, or `none`",
        ),
        ("environment", ".proxy: must be a URL"),
        (
            "http://u:canary@169.254.169.254",
            ".proxy: is a link-local, metadata",
        ),
        ("'${PROXY_URL}'", ".proxy: "),
        (
            "{env: EMPTY}",
            ".proxy.env: the environment variable must be a URL",
        ),
        (
            "{env: ABSENT}",
            ".proxy.env: the environment variable is not set",
        ),
        ("{file: /key}", ".proxy.file: the file must be a URL"),
        ("{file: /absent}", ".proxy.file: there is no file"),
    ] {
        check_account(&with(proxy), &[why]);
    }
    check_account(
        "{dialect: demo, proxy: none}",
        &[".proxy: does not apply to a demo account"],
    );
    for (proxy, warnings) in [
        ("http://p:1", 0),
        ("none", 0),
        ("http://u@p:1", 1),
        ("http://u:canary@p:1", 1),
    ] {
        let text = format!(
            "accounts: {{a: {}}}\nmodels: {{}}\ncallers: {{someone: {{}}}}\n",
            with(proxy)
        );
        let catalog = read_one(&text);
        assert_eq!(
            catalog.warnings.len(),
            warnings,
            "{proxy}: {:?}",
            catalog.warnings
        );
        let told: String = catalog.warnings.iter().map(ToString::to_string).collect();
        assert!(
            warnings == 0 || told.contains("accounts.a.proxy: holds a credential in clear text"),
            "{told}"
        );
        assert!(
            !format!("{told}{:?}", catalog.accounts()).contains("canary"),
            "{told}"
        );
    }
    let off = "accounts: {a: {dialect: openai, enabled: false, proxy: {env: ABSENT}}}\nmodels: {}\ncallers: {someone: {}}\n";
    assert!(
        read_one(off).accounts()[0]
            .network
            .proxy
            .account_proxy()
            .is_none(),
        "its secrets are not read"
    );
    // Another proxy, another user or another password is another connection.
    let print = |proxy: &str| {
        let account = format!("{{dialect: openai, base_url: https://a.b, enabled: true{proxy}}}");
        read_one(&format!(
            "accounts: {{a: {account}}}\nmodels: {{}}\ncallers: {{someone: {{}}}}\n"
        ))
        .accounts()[0]
            .fingerprint
    };
    let all = [
        "",
        ", proxy: none",
        ", proxy: http://p:1",
        ", proxy: https://p:1",
        ", proxy: http://u:a@p:1",
        ", proxy: http://u:b@p:1",
        // Plain HTTP that may not go through the environment's proxy is another one, too.
        ", insecure: true",
    ];
    let prints: HashSet<u64> = all.into_iter().map(print).collect();
    assert_eq!(prints.len(), all.len());
}

#[test]
fn http_through_a_proxy_needs_a_word_for_it() {
    let http = |url: &str, more: &str| format!("{{dialect: openai, base_url: \"{url}\"{more}}}");
    let own = ", proxy: https://10.0.0.9:3128";
    for url in [
        "http://10.0.0.5:8000/v1",
        "http://127.0.0.1:8000",
        "http://[fd00::1]/v1",
        "http://localhost",
    ] {
        let why = ".proxy: is a proxy to an http: address (`base_url`), so it and others on the network path could read";
        check_account(&http(url, own), &[why]);
        for more in [
            "",
            ", proxy: none",
            ", insecure: true, proxy: https://10.0.0.9:3128",
        ] {
            check_account(&http(url, more), &[]);
        }
    }
    check_account(
        "{dialect: ollama, proxy: http://10.0.0.9:3128}",
        &[".proxy: is a proxy to an http: address (`base_url`)"],
    );
    let mut key: serde_json::Value = serde_json::from_str(include_str!(
        "../../../../tests/support/service_account.json"
    ))
    .expect("JSON");
    key["token_uri"] = "http://10.0.0.6/token".into();
    let vertex = format!(
        "{{dialect: vertex, project: p, service_account: '{key}', proxy: http://10.0.0.9:3128"
    );
    let why = ".proxy: is a proxy to an http: address (`token_uri` of `service_account`), so it and others";
    check_account(&format!("{vertex}}}"), &[why]);
    check_account(&format!("{vertex}, insecure: true}}"), &[]);
    // Behind a proxy this machine is another one, unless the proxy is on it.
    for (url, proxy, warned) in [
        ("https://localhost:8000", "http://10.0.0.9:1", true),
        ("https://127.0.0.1", "http://proxy.test:1", true),
        ("https://[::1]", "http://10.0.0.9:1", true),
        ("https://[::1]", "http://127.0.0.1:1", false),
        ("https://10.0.0.5", "http://10.0.0.9:1", false),
        ("https://a.b", "http://10.0.0.9:1", false),
    ] {
        let account = http(url, &format!(", proxy: \"{proxy}\""));
        let catalog = read_one(&format!(
            "accounts: {{a: {account}}}\nmodels: {{}}\ncallers: {{someone: {{}}}}\n"
        ));
        let told: String = catalog.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            told.contains("in `base_url` the proxy's own machine"),
            warned,
            "{url} {proxy}: {told:?}"
        );
    }
}

#[test]
fn s10_destinations() {
    check_account(
        "{dialect: openai, base_url: https://169.254.169.254}",
        &[".base_url: is a link-local, metadata or other special address"],
    );
    check_account(
        "{dialect: openai, base_url: http://metadata.google.internal, insecure: true}",
        &[".base_url: is a link-local, metadata"],
    );
    check_account(
        "{dialect: openai, base_url: file:///etc/passwd}",
        &[".base_url: must begin with https://"],
    );
    check_account(
        "{dialect: openai, base_url: http://example.com/v1}",
        &[".base_url: is http: to an address that may be public"],
    );
    check_account(
        "{dialect: openai, base_url: http://example.com/v1, insecure: true}",
        &[],
    );
    let catalog = read_one(
        "accounts: {a: {dialect: openai, base_url: http://example.com, insecure: true}}\nmodels: {}\ncallers: {someone: {}}\n",
    );
    assert_eq!(catalog.warnings.len(), 1);
    assert!(
        catalog.warnings[0]
            .to_string()
            .starts_with("catalog.yaml:1 accounts.a.base_url: is http: to a public address")
    );
}

#[test]
fn a_template_for_a_secret_is_no_secret() {
    let instead = |name: &str| {
        format!(
            ": is a template, which Portcullis does not fill in: write `key: {{ env: {name} }}`"
        )
    };
    for key in [
        "'${OPENAI_API_KEY}'",
        "$OPENAI_API_KEY",
        "os.environ/OPENAI_API_KEY",
        "\"${OPENAI_API_KEY:-}\"",
    ] {
        check_account(
            &format!("{{dialect: openai, key: {key}}}"),
            &[&format!(".key{}", instead("OPENAI_API_KEY"))],
        );
        // Wherever it is.
        check_account(
            &format!("{{dialect: openai, base_url: http://127.0.0.1, key: {key}, enabled: false}}"),
            &[&format!(".key{}", instead("OPENAI_API_KEY"))],
        );
    }
    for (account, name) in [
        ("dialect: openai", "OPENAI_API_KEY"),
        ("dialect: anthropic", "ANTHROPIC_API_KEY"),
        ("preset: groq", "GROQ_API_KEY"),
    ] {
        for key in ["sk-...", "<key>", "your-api-key", "sk-xxxxxxxx"] {
            check_account(
                &format!("{{{account}, key: {key}}}"),
                &[&format!(
                    ".key: is a placeholder, not a secret: write `key: {{ env: {name} }}`, or `{{ file: /path }}` (column "
                )],
            );
        }
    }
    check_account(
        "{dialect: bedrock, region: us-east-1, aws: {access_key_id: $AWS_ACCESS_KEY_ID, secret_access_key: your-secret}}",
        &[
            ".aws.access_key_id: is a template, which Portcullis does not fill in: write `access_key_id: { env: AWS_ACCESS_KEY_ID }`",
            ".aws.secret_access_key: is a placeholder, not a secret: write `secret_access_key: { env: AWS_SECRET_ACCESS_KEY }`",
        ],
    );
    check_account(
        "{dialect: vertex, project: p, service_account: '{{ .Values.sa }}'}",
        &[
            ".service_account: is a template, which Portcullis does not fill in: write `service_account: { env: ",
        ],
    );
    check_account(
        "{dialect: openai, headers: {Authorization: 'Bearer ${OPENAI_API_KEY}'}}",
        &[".headers.Authorization: is a template or a placeholder"],
    );
    check_account(
        "{dialect: openai, key: k, base_url: '${AZURE_API_BASE}'}",
        &[
            ".base_url: names the environment variable AZURE_API_BASE, which Portcullis does not fill in",
        ],
    );
    check_account(
        "{dialect: openai, key: k, base_url: '${hunter2}'}",
        &[".base_url: is a template or a placeholder"],
    );
    check_account(
        "{dialect: openai, key: {env: $OPENAI_API_KEY}}",
        &[".key.env: must be the name of an environment variable"],
    );
    check_account(
        "{dialect: openai, key: {file: ~/key}}",
        &[".key.file: holds `~` or `$NAME`, which are not filled in"],
    );
    check_account(
        "{dialect: openai, key: {env: TEMPLATE}}",
        &[".key.env: the environment variable holds a template or a placeholder, not a secret"],
    );
    for (key, wrong) in [
        (
            "OPENAI_API_KEY",
            "is the name of an environment variable, not its value: write `key: { env: OPENAI_API_KEY }`",
        ),
        // It is set.
        (
            "KEY",
            "is the name of an environment variable, not its value: write `key: { env: KEY }`",
        ),
        (
            "changeme",
            "is a placeholder, not a secret: write `key: { env: OPENAI_API_KEY }`",
        ),
        ("'\"sk-...\"'", "is a placeholder, not a secret"),
        (
            "'\"sk-canary\"'",
            "has quotes around it, and they would be sent as part of it: remove them",
        ),
        (
            "{env: QUOTED}",
            ".env: the environment variable has quotes around its value, and they would be sent as part of it",
        ),
    ] {
        let at = if wrong.starts_with('.') {
            ".key"
        } else {
            ".key: "
        };
        check_account(
            &format!("{{dialect: openai, key: {key}}}"),
            &[&format!("{at}{wrong}")],
        );
    }
    check_account(
        "{dialect: openai, base_url: '\"https://a.b\"', key: k}",
        &[".base_url: must begin with https://"],
    );
    check_account(
        "{dialect: openai, key: k, headers: {If-Match: '\"a\"'}}",
        &[],
    );
    // What servers of one's own are given.
    for key in ["EMPTY", "none", "p$ssword", "'$ecret'"] {
        check_account(
            &format!("{{dialect: openai, base_url: http://127.0.0.1, key: {key}}}"),
            &[],
        );
    }
}

#[test]
fn no_key_where_none_is_answered() {
    let missing = |host: &str, name: &str| {
        format!(
            ".key: is missing: {host} refuses requests without a key. Write `key: {{ env: {name} }}`"
        )
    };
    for (account, host, name) in [
        ("dialect: openai", "api.openai.com", "OPENAI_API_KEY"),
        (
            "dialect: openai, base_url: https://api.openai.com/v1",
            "api.openai.com",
            "OPENAI_API_KEY",
        ),
        ("preset: groq", "api.groq.com", "GROQ_API_KEY"),
        (
            "dialect: anthropic",
            "api.anthropic.com",
            "ANTHROPIC_API_KEY",
        ),
        (
            "dialect: gemini",
            "generativelanguage.googleapis.com",
            "GEMINI_API_KEY",
        ),
        ("dialect: cohere", "api.cohere.com", "COHERE_API_KEY"),
        (
            "dialect: azure, base_url: https://acme.openai.azure.com",
            "acme.openai.azure.com",
            "AZURE_OPENAI_API_KEY",
        ),
        (
            "dialect: openai, headers: {x-team: blue}",
            "api.openai.com",
            "OPENAI_API_KEY",
        ),
    ] {
        check_account(&format!("{{{account}}}"), &[&missing(host, name)]);
        check_account(&format!("{{{account}, enabled: false}}"), &[]);
        check_account(&format!("{{{account}, key: {{env: KEY}}}}"), &[]);
    }
    check_account(
        "{dialect: openai, headers: {Authorization: Bearer canary}}",
        &[],
    );
    check_account(
        "{dialect: openai, base_url: https://llm.example.com/v1}",
        &[],
    );
    check_account(
        "{dialect: openai, api_key: canary}",
        &[".api_key: unknown field: write `key: { env: OPENAI_API_KEY }`"],
    );
    check_account("{dialect: ollama}", &[]);
    check_account("{preset: vllm}", &[]);
}

#[test]
fn an_address_without_its_version_is_warned_of() {
    let warned = |account: &str| {
        let catalog = read_one(&format!(
            "accounts:\n  a: {{{account}}}\nmodels: {{}}\ncallers: {{someone: {{}}}}\n"
        ));
        catalog
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    for (account, meant) in [
        (
            "dialect: openai, key: {env: KEY}, base_url: https://api.openai.com",
            "https://api.openai.com/v1",
        ),
        (
            "dialect: anthropic, key: {env: KEY}, base_url: https://api.anthropic.com/",
            "https://api.anthropic.com/v1",
        ),
        (
            "dialect: ollama, base_url: http://127.0.0.1:11434/v1",
            "http://127.0.0.1:11434",
        ),
    ] {
        let told = warned(account);
        assert!(
            told.len() == 1
                && told[0].starts_with("catalog.yaml:2 accounts.a.base_url: ")
                && told[0].contains(&format!("did you mean {meant}?")),
            "{told:?}"
        );
    }
    for account in [
        "dialect: openai, key: {env: KEY}, base_url: https://api.openai.com/v1/",
        "dialect: openai, base_url: https://gateway.example.com",
        "dialect: ollama, base_url: https://ollama.example.com/v1",
    ] {
        assert_eq!(warned(account), [""; 0], "{account}");
    }
}

#[test]
fn a_preset_says_what_it_speaks() {
    let catalog = read_one(
        "accounts:\n  a: {preset: mistral, key: {env: KEY}}\n  b: {preset: vllm}\nmodels: {}\ncallers: {}\n",
    );
    let shown: Vec<_> = catalog
        .accounts()
        .iter()
        .map(|a| {
            format!(
                "{} {}{}",
                a.dialect.protocol.name, a.base.authority, a.base.path
            )
        })
        .collect();
    assert_eq!(
        shown,
        ["openai api.mistral.ai/v1", "openai 127.0.0.1:8000/v1"]
    );
    check_account(
        "{preset: groqq, key: {env: KEY}}",
        &[".preset: no preset \"groqq\"; did you mean \"groq\"?"],
    );
    check_account(
        "{preset: hunter2, key: {env: KEY}}",
        &[".preset: no such preset; allowed: openai, mistral"],
    );
    check_account(
        "{preset: groq, dialect: anthropic, key: {env: KEY}}",
        &[".preset: only applies to the dialect openai"],
    );
}

#[test]
fn words_that_people_bring_are_answered_with_ours() {
    for (field, instead) in [
        ("api_key: x", "write `key: { env: OPENAI_API_KEY }`"),
        (
            "api_base: x",
            "write `base_url: https://api.example.com/v1`",
        ),
        ("provider: x", "write `dialect: openai`"),
        ("rpm: 5", "`limits: { requests_per_minute: 600"),
        ("tpm: 5", "tokens_per_minute: 200000 }`"),
        ("timeout: 30", "write `timeouts: { total: 30s }`"),
        ("max_parallel_requests: 3", "write `concurrency: 200`"),
    ] {
        let name = field.split(':').next().unwrap();
        let problems = read_all(&[&format!(
            "accounts:\n  a: {{dialect: demo, {field}}}\nmodels: {{}}\ncallers: {{}}\n"
        )])
        .unwrap_err()
        .0;
        let told = problems[0].to_string();
        assert!(
            problems.len() == 1
                && told.starts_with(&format!(
                    "catalog.yaml:2 accounts.a.{name}: unknown field: "
                ))
                && told.contains(instead),
            "{told}"
        );
    }
    check_account(
        "{dialect: demo, timeouts: {total: 30}}",
        &[
            ".timeouts.total: must be a length of time with its unit (ms, s, m or h), such as 250ms, 30s, 10m or 1h (column 40)",
        ],
    );
    check_callers(
        "  acme: {rpm: 5}",
        &["5 callers.acme.rpm: unknown field: write `limits: { requests_per_minute: 600 }`"],
    );
    check_callers(
        "  acme: {limits: {tpm: 5}}",
        &["5 callers.acme.limits.tpm: unknown field: write `tokens_per_minute: 200000`"],
    );
    check_all(
        &["model_list: []\naccounts: {}\nmodels: {}\ncallers: {}\n"],
        &[
            "catalog.yaml:1 model_list: unknown field: write `models: { NAME: { targets: [{ account: NAME }] } }`",
        ],
    );
}

#[test]
fn an_account_serves_what_its_address_has() {
    let served = |account: &str| {
        let catalog = read_one(&format!(
            "accounts:\n  a: {{{account}}}\nmodels: {{}}\ncallers: {{}}\n"
        ));
        let account = &catalog.accounts()[0];
        let conversations = account
            .serves
            .iter()
            .filter(|(kind, _)| kind.is_conversation());
        conversations
            .map(|(kind, dialect)| format!("{kind} {}", dialect.protocol.name))
            .collect::<Vec<_>>()
    };
    let (chat, responses) = ("chat openai", "responses responses");
    let (azure, newer) = (
        "base_url: https://x.openai.azure.com, key: {env: KEY}",
        responses,
    );
    for (account, expected) in [
        ("dialect: openai, key: {env: KEY}", &[chat, responses][..]),
        (
            "dialect: openai, base_url: http://127.0.0.1:8000/v1",
            &[chat],
        ),
        (
            "dialect: openai, base_url: http://127.0.0.1:8000/v1, serves: [responses, chat]",
            &[chat, responses],
        ),
        (
            "dialect: openai, key: {env: KEY}, serves: [responses]",
            &[responses],
        ),
        (
            "dialect: openai, base_url: http://127.0.0.1/v1, serves: [messages, chat]",
            &[chat, "messages messages"],
        ),
        ("preset: groq, key: {env: KEY}", &[chat]),
        (&format!("dialect: azure, {azure}"), &["chat azure", newer]),
        (
            &format!("dialect: azure, {azure}, api_version: 2024-10-21"),
            &["chat azure"],
        ),
        ("dialect: anthropic, key: {env: KEY}", &["chat anthropic"]),
        ("dialect: demo", &["chat demo"]),
    ] {
        assert_eq!(served(account), expected, "{account}");
    }
    let kinds = |account: &str| {
        let catalog = read_one(&format!(
            "accounts:\n  a: {{{account}}}\nmodels: {{}}\ncallers: {{}}\n"
        ));
        let others = catalog.accounts()[0]
            .serves
            .iter()
            .filter(|(kind, _)| !kind.is_conversation());
        others
            .map(|(kind, dialect)| (*kind, dialect.protocol.name))
            .collect::<Vec<_>>()
    };
    let own = kinds("dialect: openai, key: {env: KEY}");
    assert!(
        own.contains(&(Endpoint::Moderations, "moderations"))
            && !own.contains(&(Endpoint::Rerank, "rerank"))
    );
    assert!(
        kinds("dialect: openai, base_url: http://127.0.0.1:8000/v1")
            .contains(&(Endpoint::Rerank, "rerank"))
    );
    assert_eq!(
        kinds("dialect: openai, base_url: http://127.0.0.1:8000/v1, serves: [chat]"),
        []
    );
    let with = |serves: &str| format!("{{dialect: openai, key: {{env: KEY}}, serves: {serves}}}");
    check_account(
        &with("[]"),
        &[".serves: must list at least one kind of endpoint, such as `chat`"],
    );
    check_account(
        &with("[chat, chat]"),
        &[".serves[1]: is written twice: keep only one"],
    );
    check_account(
        &with("[chat, response]"),
        &[".serves[1]: no kind of endpoint \"response\"; did you mean \"responses\"?"],
    );
    check_account(
        &format!("{{dialect: azure, {azure}, serves: [messages]}}"),
        &[
            ".serves[0]: no such kind of endpoint; allowed: chat, responses, completions, embeddings, images, image_edits, speech, transcriptions, 1 more (column 87)",
        ],
    );
    check_account(
        "{dialect: anthropic, key: {env: KEY}, serves: [chat]}",
        &[".serves: only applies to dialects that have several kinds of endpoint: remove it"],
    );
}

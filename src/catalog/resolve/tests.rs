use std::time::{Duration, SystemTime};

use super::*;
use crate::catalog::{KeyRefused, Strategy};

mod limits;
mod prices;
mod routing;

const A: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// An outside world in which these things are found.
fn look_up(reference: Reference<'_>) -> Result<String, String> {
    match reference {
        Reference::Env("KEY") => Ok("sk-canary-env".to_owned()),
        Reference::Env("EMPTY") => Ok(String::new()),
        Reference::Env(_) => Err("the environment variable is not set".to_owned()),
        Reference::File("/key") => Ok("sk-canary-file\r\n".to_owned()),
        Reference::File("/two-lines") => Ok("sk-canary\nsk-canary\n".to_owned()),
        Reference::File("/two-ends") => Ok("sk-canary\n\n".to_owned()),
        Reference::File("/space") => Ok("sk-canary \n".to_owned()),
        Reference::File("/umlaut") => Ok("sk-cänary\n".to_owned()),
        Reference::File("/nul") => Ok("sk-canary\0".to_owned()),
        Reference::Ca("/ca") => Ok("-----BEGIN CERTIFICATE-----\n".to_owned()),
        Reference::Ca("/other") => Ok("-----BEGIN CANARY-----\n".to_owned()),
        Reference::File(path) | Reference::Ca(path) => Err(format!("there is no file {path}")),
    }
}

/// Files as `catalog.yaml`, `catalog.d/1.yaml`, …
fn files(texts: &[&str]) -> Vec<(String, String)> {
    let name = |index: usize| if index == 0 { "catalog.yaml".to_owned() } else { format!("catalog.d/{index}.yaml") };
    texts.iter().enumerate().map(|(index, text)| (name(index), (*text).to_owned())).collect()
}

fn read_all(texts: &[&str]) -> Result<Catalog, Problems> {
    resolve(&files(texts), &mut look_up)
}

#[track_caller]
fn read_one(text: &str) -> Catalog {
    read_all(&[text]).unwrap_or_else(|problems| panic!("{text}:\n{problems}"))
}

/// The errors of several files, each by how it begins.
#[track_caller]
fn check_all(texts: &[&str], expected: &[&str]) {
    let told: Vec<String> = match read_all(texts) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    };
    assert!(!told.concat().contains("canary"), "{told:#?}");
    let right = told.len() == expected.len() && told.iter().zip(expected).all(|(told, expected)| told.starts_with(expected));
    assert!(right, "{texts:?}\ntold: {told:#?}\nexpected: {expected:#?}");
}

/// The errors of one account, named `a`, beginning in line 2.
#[track_caller]
fn check_account(account: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|expected| format!("catalog.yaml:2 accounts.a{expected}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_all(&[&format!("accounts:\n  a: {account}\nmodels: {{}}\ncallers: {{}}\n")], &expected);
}

/// The errors of models, beginning in line 4, beside the accounts `openai` and `off`.
#[track_caller]
fn check_models(models: &str, expected: &[&str]) {
    let text =
        format!("accounts:\n  openai: {{dialect: demo}}\n  off: {{dialect: demo, enabled: false}}\nmodels:\n{models}\ncallers: {{}}\n");
    let expected: Vec<String> = expected.iter().map(|expected| format!("catalog.yaml:{expected}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_all(&[&text], &expected);
}

/// The errors of callers, beginning in line 5, beside the model `m` with the alias `n`.
#[track_caller]
fn check_callers(callers: &str, expected: &[&str]) {
    let text = served(callers);
    let expected: Vec<String> = expected.iter().map(|expected| format!("catalog.yaml:{expected}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_all(&[&text], &expected);
}

fn served(callers: &str) -> String {
    format!("accounts: {{a: {{dialect: demo}}}}\nmodels:\n  m: {{aliases: [n], targets: [{{account: a}}]}}\ncallers:\n{callers}\n")
}

#[test]
fn f01_what_is_no_catalog() {
    check_all(&[""], &["catalog.yaml:1: is empty"]);
    check_all(&["# nothing\n"], &["catalog.yaml:1: is empty"]);
    check_all(&["\u{feff}accounts: {}"], &["catalog.yaml:1: begins with a byte-order mark"]);
    check_all(&["[]"], &["catalog.yaml:1: must be a map of accounts, models, callers, not a list"]);
    check_all(&["accounts: {}\nmodels: {\n"], &["catalog.yaml:2: is not YAML"]);
    check_all(
        &["{}"],
        &[
            "catalog.yaml accounts: is missing: write it, `{}` for none",
            "catalog.yaml models: is missing",
            "catalog.yaml callers: is missing",
        ],
    );
    check_all(&["accounts: {}\nmodels: {}\n"], &["catalog.yaml callers: is missing"]);
    check_all(&["accounts:\nmodels: {}\ncallers: {}"], &["catalog.yaml:1 accounts: has no value"]);
    check_all(&["accounts: {}\nmodels: []\ncallers: {}"], &["catalog.yaml:2 models: must be a map, not a list"]);
    check_all(
        &["accounts: {}\nmodel: {}\ncallers: {}"],
        &[
            "catalog.yaml models: is missing",
            "catalog.yaml:2 model: unknown field; did you mean `models`? Allowed: accounts, models, callers",
        ],
    );
    check_all(
        &["accounts: {}\nmodels: {}\ncallers: {}\nmodels: {}"],
        &["catalog.yaml:4 models: stands here a second time, first in line 2"],
    );
    assert!(read_one("accounts: {}\r\nmodels: {}\r\ncallers: {}\r\n").models().is_empty());
}

#[test]
fn the_example_of_the_design_in_its_words() {
    check_all(
        &[
            "accounts:\n  claude: {dialect: demo}\nmodels:\n  fast:\n    targets:\n      - {account: claude}\n      - account: claud\ncallers: {}\n",
        ],
        &["catalog.yaml:7 models.fast.targets[1].account: no account \"claud\"; did you mean \"claude\"?"],
    );
}

#[test]
fn all_errors_of_all_files_at_once() {
    check_all(
        &[
            "accounts:\n  a: {dialect: opneai, enabled: yes}\n  b: {dialect: demo, concurrency: 0, weights: 1}\nmodels:\n  m:\n    targets: [{account: a}, {account: c}]\n    strategy: \
             random\n    fallbacks: [x]\n  n: {}\ncallers: {}\n",
            "callers:\n  acme:\n    limit: {}\n    expires: soon\n    keys:\n      k:\n        hash: sk-canary-0123456789\n      l: {}\n",
            "models:\n  m: {targets: [{account: b}]}\n  o: {targets: [{account: b, weight: 0}]}\n",
        ],
        &[
            "catalog.yaml:2 accounts.a.dialect: \"opneai\" is not known; did you mean `openai`? Allowed: openai, azure, anthropic, gemini, vertex, bedrock, cohere, ollama, demo",
            "catalog.yaml:2 accounts.a.enabled: must be true or false, not \"yes\"",
            "catalog.yaml:3 accounts.b.weights: unknown field; allowed: dialect, preset, quirks, base_url",
            "catalog.yaml:3 accounts.b.concurrency: must be at least 1",
            "catalog.yaml:6 models.m.targets[1].account: no account \"c\"; allowed: a, b",
            "catalog.yaml:7 models.m.strategy: \"random\" is not known; allowed: priority, weighted, least_busy, fastest",
            "catalog.yaml:8 models.m.fallbacks[0]: no model \"x\"; allowed: m, n, o",
            "catalog.yaml:9 models.n.targets: must list at least one target",
            "catalog.d/1.yaml:3 callers.acme.limit: unknown field; did you mean `limits`?",
            "catalog.d/1.yaml:4 callers.acme.expires: must be a time",
            "catalog.d/1.yaml:7 callers.acme.keys.k.hash: must be `sha256:` and 64 hex digits. If it is the key itself",
            "catalog.d/1.yaml:8 callers.acme.keys.l.hash: is missing: `portcullis key new --print`",
            "catalog.d/2.yaml:2 models.m: stands also in catalog.yaml:5: keep one",
            "catalog.d/2.yaml:3 models.o.targets[0].weight: must be at least 1",
        ],
    );
}

#[test]
fn a_file_that_is_no_yaml_makes_no_errors_in_others() {
    check_all(
        &["accounts: {}\nmodels: {m: {targets: [{account: a}], colour: 1}}\ncallers: {}\n", "accounts:\n  a: {dialect: demo\n"],
        &["catalog.yaml:2 models.m.colour: unknown field", "catalog.d/1.yaml:2: is not YAML"],
    );
}

/// Fields that only one dialect has, and what each dialect must have.
#[test]
fn each_dialect_has_its_own_fields() {
    check_account("{dialect: anthropic, region: us-east-1}", &[".region: has a meaning for the dialect bedrock only"]);
    check_account("{dialect: openai, api_version: x, auth: bearer}", &[".api_version: has a meaning for the dialect azure", ".auth: has"]);
    check_account("{dialect: azure, key: k}", &[".base_url: is missing: the resource's address"]);
    check_account("{dialect: azure, base_url: 'https://a.b', key: k, api_version: '../x?'}", &[".api_version: may hold letters"]);
    check_account("{dialect: vertex, key: k}", &[".project: is missing"]);
    check_account("{dialect: vertex, project: p}", &[".service_account: is missing"]);
    check_account(
        "{dialect: vertex, project: p, service_account: '{}'}",
        &[".service_account: cannot be used: the key file has no `private_key`"],
    );
    check_account(
        "{dialect: vertex, project: p, key: k, service_account: x}",
        &[".service_account: stands beside `key`", ".service_account: cannot be used"],
    );
    check_account("{dialect: bedrock, key: k}", &[".region: is missing"]);
    check_account("{dialect: bedrock, region: us-east-1}", &[".aws: is missing"]);
    check_account("{dialect: bedrock, region: us-east-1, aws: {access_key_id: a}}", &[".aws.secret_access_key: is missing"]);
    check_account("{dialect: openai, preset: groqq}", &[".preset: no preset \"groqq\"; did you mean \"groq\"?"]);
    check_account("{dialect: openai, quirks: mistal}", &[".quirks: no quirks \"mistal\"; did you mean \"mistral\"?"]);
    check_account("{dialect: anthropic, key: k, headers: {x-api-key: y}}", &[".headers.x-api-key: is made of `key`"]);
}

#[test]
fn dialects_know_where_they_are_and_how_they_are_paid_for() {
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
    let shown = catalog.accounts().iter().map(|a| format!("{} {}{} {:?}", a.dialect.name(), a.base.authority, a.base.path, a.key_header));
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
    assert_eq!((traits.max_output, traits.tools, traits.images), (Some(5), false, true));
    assert_eq!(traits.efforts.nearest(crate::dialect::chat::Effort::Medium), Some(crate::dialect::chat::Effort::Low));
    assert!(model.refuse_loss && !model.show_reasoning);
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
fn a_field_of_later_days_is_unknown() {
    for (text, path) in [
        ("accounts: {a: {dialect: demo, weights: {}}}\nmodels: {}\ncallers: {}", "accounts.a.weights: unknown field"),
        ("accounts: {}\nmodels: {m: {colours: {}}}\ncallers: {}", "models.m.colours: unknown field; allowed: aliases, strategy, sticky"),
    ] {
        let problems = read_all(&[text]).expect_err(text).to_string();
        assert!(problems.contains(path), "{problems}");
    }
    check_account(
        "{dialect: smtp}",
        &[".dialect: \"smtp\" is not known; allowed: openai, azure, anthropic, gemini, vertex, bedrock, cohere, ollama, demo"],
    );
}

#[test]
fn accounts_as_written_and_by_default() {
    let catalog = read_one(
        "accounts:\n  b: {dialect: openai}\n  a:\n    dialect: openai\n    base_url: http://127.0.0.1:8000/v1/\n    key: {env: KEY}\n    concurrency: 200\n    \
         timeouts: {connect: 1s, first_byte: 2s, idle: 3s, total: 4s}\n    headers: {OpenAI-Organization: org-1}\n    stream_usage: false\n  \
         c: {dialect: openai, key: {file: /key}, tls: {ca: /ca}}\n  d: {dialect: openai, enabled: false, key: {env: ABSENT}, tls: {ca: /absent}}\n  \
         e: {dialect: demo, concurrency: 5}\nmodels: {}\ncallers: {}\n",
    );
    let [a, b, c, d, e] = catalog.accounts() else { panic!() };
    assert_eq!((&*a.id, a.index, &*e.id, e.index), ("a", 0, "e", 4));
    assert_eq!(
        (a.base.tls, &*a.base.host, a.base.port, &*a.base.path, a.base.authority.as_str()),
        (false, "127.0.0.1", 8000, "/v1", "127.0.0.1:8000")
    );
    assert_eq!(a.key.as_ref().unwrap().expose(), "sk-canary-env");
    assert_eq!((a.concurrency, a.stream_usage), (Some(200), false));
    let seconds = |account: &Account| {
        let t = account.timeouts;
        [t.connect, t.first_byte, t.idle, t.total, t.total_stream].map(|span| span.as_secs())
    };
    assert_eq!(seconds(a), [1, 2, 3, 4, 4]);
    assert_eq!(seconds(b), [5, 120, 60, 600, 3600]);
    assert_eq!(
        (&a.headers[0].0.as_str(), a.headers[0].1.as_bytes(), a.headers[0].1.is_sensitive()),
        (&"openai-organization", &b"org-1"[..], true)
    );
    assert_eq!((b.base.authority.as_str(), &*b.base.path, b.base.port), ("api.openai.com", "/v1", 443));
    assert!(b.key.is_none() && b.enabled && b.stream_usage && b.concurrency.is_none());
    assert_eq!(c.key.as_ref().unwrap().expose(), "sk-canary-file");
    assert_eq!(c.ca.as_deref(), Some(&b"-----BEGIN CERTIFICATE-----\n"[..]));
    assert!(!d.enabled && d.key.is_none() && d.ca.is_none());
    assert!(e.dialect.is_demo());
    assert_eq!(e.concurrency, Some(5));
    assert!(b.fingerprint != c.fingerprint && c.fingerprint != a.fingerprint);
    assert_eq!(catalog.warnings, []);
}

#[test]
fn what_is_wrong_with_an_account() {
    check_account("{}", &[".dialect: is missing; allowed: openai, azure, anthropic, gemini, vertex, bedrock, cohere, ollama, demo"]);
    check_account("5", &[": must be a map of dialect, preset, quirks, base_url"]);
    check_account("{dialect: openai, concurrency: 0}", &[".concurrency: must be at least 1"]);
    check_account(
        "{dialect: openai, timeouts: {idle: 0s, total: 5}}",
        &[".timeouts.total: must be text", ".timeouts.idle: must be more than 0s"],
    );
    check_account("{dialect: openai, headers: {Host: x}}", &[".headers.Host: is written by the gateway itself"]);
    check_account("{dialect: openai, headers: {x-a: b, X-A: c}}", &[".headers.X-A: stands here a second time in other letters"]);
    check_account("{dialect: openai, headers: {x a: b}}", &[".headers.\"x a\": is not the name of a header"]);
    check_account("{dialect: openai, headers: {x-a: \"can\\nary\"}}", &[".headers.x-a: may hold printable ASCII only"]);
    check_account("{dialect: openai, headers: {x-a: 5}}", &[".headers.x-a: must be text"]);
    check_account("{dialect: openai, key: {env: KEY}, headers: {Authorization: x}}", &[".headers.Authorization: is made of `key`"]);
    check_account("{dialect: openai, headers: {Authorization: Basic canary}}", &[]);
    check_account("{dialect: openai, tls: {}}", &[".tls.ca: is missing"]);
    check_account("{dialect: openai, tls: {verify: false}}", &[".tls.verify: unknown field; allowed: ca", ".tls.ca: is missing"]);
    check_account("{dialect: openai, tls: {ca: /absent}}", &[".tls.ca: there is no file /absent"]);
    check_account("{dialect: openai, tls: {ca: /other}}", &[".tls.ca: the file holds no certificate"]);
    check_account("{dialect: openai, base_url: http://127.0.0.1, tls: {ca: /ca}}", &[".tls.ca: has no meaning with http:"]);
    check_account(
        "{dialect: demo, base_url: https://a.b, key: {env: KEY}, stream_usage: true}",
        &[".base_url: has no meaning for a demo account", ".key: has no meaning", ".stream_usage: has no meaning"],
    );
    check_all(&["accounts: {a/b: {dialect: demo}}\nmodels: {}\ncallers: {}"], &["catalog.yaml:1 accounts.a/b: a name has 1 to 64"]);
}

#[test]
fn s06_what_is_wrong_with_a_secret_shows_nothing_of_it() {
    check_account("{dialect: openai, key: ''}", &[".key: is empty"]);
    check_account("{dialect: openai, key: \"sk-canary\\n\"}", &[".key: holds a control character"]);
    check_account("{dialect: openai, key: [sk-canary-1]}", &[".key: must be { env: NAME } or { file: /path }"]);
    check_account("{dialect: openai, key: 5}", &[".key: must be text"]);
    check_account("{dialect: openai, key: {}}", &[".key: must have one field"]);
    check_account("{dialect: openai, key: {env: KEY, file: /key}}", &[".key: must have one field"]);
    check_account("{dialect: openai, key: {vault: x}}", &[".key.vault: unknown field; allowed: env, file", ".key: must have one field"]);
    check_account("{dialect: openai, key: {env: ABSENT}}", &[".key.env: the environment variable is not set"]);
    check_account("{dialect: openai, key: {env: EMPTY}}", &[".key.env: the environment variable is empty"]);
    check_account("{dialect: openai, key: {env: sk-canary-12345678}}", &[".key.env: must be the name of an environment variable"]);
    check_account("{dialect: openai, key: {file: /absent}}", &[".key.file: there is no file /absent"]);
    check_account("{dialect: openai, key: {file: /two-lines}}", &[".key.file: the file holds a control character or more than one line"]);
    check_account("{dialect: openai, key: {file: /two-ends}}", &[".key.file: the file holds a control character"]);
    check_account("{dialect: openai, key: {file: /nul}}", &[".key.file: the file holds a control character"]);
    check_account("{dialect: openai, key: {file: /space}}", &[".key.file: the file begins or ends with a space"]);
    check_account("{dialect: openai, key: {file: /umlaut}}", &[".key.file: the file holds a character that no header can carry"]);
    check_account("{dialect: openai, kye: sk-canary-12345678}", &[".kye: unknown field; did you mean `key`?"]);
    check_account("{dialect: sk-canary-12345678}", &[".dialect: (a value that is not shown here) is not known"]);
    check_account("{dialect: openai, enabled: sk-canary-12345678}", &[".enabled: must be true or false, not (a value"]);
    check_account("{dialect: openai, base_url: 'https://user:canary@a.b'}", &[".base_url: must not hold a user name or password"]);
    check_account("{dialect: openai, sk-canary-12345678: x}", &[".…: unknown field"]);
}

#[test]
fn s05_nothing_that_holds_a_secret_prints_it() {
    let catalog = read_one(
        "accounts:\n  a: {dialect: openai, key: sk-canary-1, headers: {x: sk-canary-2}}\nmodels: {m: {targets: [{account: a}]}}\ncallers: {}\n",
    );
    let printed = format!("{catalog:?} {:?} {:?} {:?}", catalog.accounts(), catalog.models(), catalog.warnings);
    assert!(printed.contains("[secret]") && !printed.contains("canary"), "{printed}");
}

#[test]
fn s10_destinations() {
    check_account("{dialect: openai, base_url: https://169.254.169.254}", &[".base_url: is a link-local, metadata or otherwise unusable"]);
    check_account(
        "{dialect: openai, base_url: http://metadata.google.internal, insecure: true}",
        &[".base_url: is a link-local, metadata"],
    );
    check_account("{dialect: openai, base_url: file:///etc/passwd}", &[".base_url: must begin with https://"]);
    check_account("{dialect: openai, base_url: http://example.com/v1}", &[".base_url: is http: to an address that is neither"]);
    check_account("{dialect: openai, base_url: http://example.com/v1, insecure: true}", &[]);
    let catalog = read_one("accounts: {a: {dialect: openai, base_url: http://example.com, insecure: true}}\nmodels: {}\ncallers: {}\n");
    assert_eq!(catalog.warnings.len(), 1);
    assert!(catalog.warnings[0].to_string().starts_with("catalog.yaml:1 accounts.a.base_url: is http: to a public address"));
}

#[test]
fn models_as_written_and_by_default() {
    let catalog = read_one(
        "accounts: {a: {dialect: demo}, off: {dialect: demo, enabled: false}}\nmodels:\n  z: {targets: [{account: off}]}\n  fast:\n    aliases: [small, gpt-4o]\n    strategy: \
         weighted\n    targets: [{account: a, model: x/y, weight: 8}, {account: off}]\n    fallbacks: [z]\n    defaults: {max_tokens: 1024}\n    created: 2026-02-01\n    owned_by: \
         acme\ncallers: {}\n",
    );
    let [fast, z] = catalog.models() else { panic!() };
    assert_eq!((&*fast.id, fast.index, z.index, fast.strategy, z.strategy), ("fast", 0, 1, Strategy::Weighted, Strategy::Priority));
    assert_eq!(fast.aliases.iter().map(|alias| &**alias).collect::<Vec<_>>(), ["gpt-4o", "small"]);
    assert_eq!(
        fast.targets.iter().map(|t| (&*t.account.id, &*t.model, t.weight)).collect::<Vec<_>>(),
        [("a", "x/y", 8), ("off", "fast", 1)]
    );
    assert_eq!((fast.max_tokens, fast.created, &*fast.owned_by), (Some(1024), 1_769_904_000, "acme"));
    assert_eq!((z.max_tokens, z.created, &*z.owned_by), (None, 1_767_225_600, "portcullis"));
    assert!(fast.served() && !z.served());
    for name in ["fast", "gpt-4o", "small"] {
        assert!(Arc::ptr_eq(catalog.model(name).unwrap(), fast), "{name}");
    }
    assert!(catalog.model("Fast").is_none());
    assert_eq!(catalog.warnings.len(), 1);
    assert!(catalog.warnings[0].to_string().starts_with("catalog.yaml:3 models.z: is not served"));
}

#[test]
fn what_is_wrong_with_a_model() {
    check_models("  m: {}", &["5 models.m.targets: must list at least one target"]);
    check_models("  m: {targets: []}", &["5 models.m.targets: must list at least one target"]);
    check_models("  m: {targets: [{}]}", &["5 models.m.targets[0].account: is missing"]);
    check_models(
        "  m: {targets: [5, {account: x}]}",
        &["5 models.m.targets[0]: must be a map", "5 models.m.targets[1].account: no account \"x\"; allowed: off, openai"],
    );
    check_models(
        "  m: {targets: [{account: openai}, {account: openai, model: m}]}",
        &["5 models.m.targets[1]: is the same account and model"],
    );
    check_models("  m: {targets: [{account: openai}, {account: openai, model: n}]}", &[]);
    check_models("  m: {targets: [{account: openai, model: ''}]}", &["5 models.m.targets[0].model: must be 1 to 512 bytes"]);
    check_models("  m*: {targets: [{account: openai}]}", &["5 models.\"m*\": a model id has"]);
    check_models("  m: {targets: [{account: openai}], defaults: {max_tokens: 0}}", &["5 models.m.defaults.max_tokens: must be at least 1"]);
    check_models(
        "  m: {targets: [{account: openai}], defaults: {temperature: 1}}",
        &["5 models.m.defaults.temperature: unknown field; allowed: max_tokens"],
    );
    check_models(
        "  m: {targets: [{account: openai}], created: 2026-02-30, owned_by: ''}",
        &["5 models.m.created: must be a time", "5 models.m.owned_by: must be"],
    );
}

#[test]
fn aliases_and_fallbacks() {
    const T: &str = "targets: [{account: openai}]";
    check_models(&format!("  m: {{aliases: [n], {T}}}\n  n: {{{T}}}"), &["5 models.m.aliases[0]: \"n\" is a model's id"]);
    check_models(&format!("  m: {{aliases: [m], {T}}}"), &["5 models.m.aliases[0]: \"m\" is a model's id"]);
    check_models(&format!("  m: {{aliases: [x, x], {T}}}"), &["5 models.m.aliases[1]: \"x\" is already an alias of \"m\""]);
    check_models(
        &format!("  m: {{aliases: [x], {T}}}\n  n: {{aliases: [x], {T}}}"),
        &["6 models.n.aliases[0]: \"x\" is already an alias of \"m\""],
    );
    check_models(&format!("  m: {{aliases: ['a b'], {T}}}"), &["5 models.m.aliases[0]: a model id has"]);
    check_models(&format!("  m: {{fallbacks: [m], {T}}}"), &["5 models.m.fallbacks[0]: is the model itself"]);
    check_models(&format!("  m: {{fallbacks: [n, n], {T}}}\n  n: {{{T}}}"), &["5 models.m.fallbacks[1]: \"n\" stands here a second time"]);
    check_models(
        &format!("  m: {{fallbacks: [x], {T}}}\n  n: {{aliases: [x], {T}}}"),
        &["5 models.m.fallbacks[0]: \"x\" is an alias: write \"n\""],
    );
    check_models(
        &format!("  model: {{{T}}}\n  n: {{fallbacks: [modle], {T}}}"),
        &["6 models.n.fallbacks[0]: no model \"modle\"; did you mean \"model\"?"],
    );
    check_models(
        &format!("  a: {{fallbacks: [b], {T}}}\n  b: {{fallbacks: [d, c], {T}}}\n  c: {{fallbacks: [d, b], {T}}}\n  d: {{{T}}}"),
        &["7 models.c.fallbacks[1]: closes a circle of fallbacks: b → c → b"],
    );
    // A chain as long as the catalog is no circle, and costs no stack.
    let chain = (0..20_000).fold(String::new(), |text, i| text + &format!("  m{i}: {{fallbacks: [m{}], {T}}}\n", i + 1))
        + &format!("  m20000: {{{T}}}");
    check_models(&chain, &[]);
}

#[test]
fn what_is_wrong_with_a_caller() {
    check_callers("  acme: 5", &["5 callers.acme: must be a map of enabled, expires, models, limits, expose_cost, keys"]);
    check_callers("  acme: {models: ['']}", &["5 callers.acme.models[0]: must be a glob"]);
    check_callers("  acme: {models: m}", &["5 callers.acme.models: must be a list, not text"]);
    check_callers("  a/b: {}", &["5 callers.a/b: a name has 1 to 64"]);
    check_callers(
        "  acme: {keys: {a/b: {hash: 'x'}}}",
        &["5 callers.acme.keys.a/b.hash: must be `sha256:`", "5 callers.acme.keys.a/b: a name has 1 to 64"],
    );
    check_callers("  acme: {keys: []}", &["5 callers.acme.keys: must be a map, not a list"]);
    check_callers("  acme: {keys: {k: {}}}", &["5 callers.acme.keys.k.hash: is missing"]);
    check_callers("  acme: {keys: {k: {hashes: []}}}", &["5 callers.acme.keys.k.hash: is missing"]);
    check_callers("  acme: {keys: {k: {hashes: [{until: 2027-01-01}]}}}", &["5 callers.acme.keys.k.hashes[0].hash: is missing"]);
    check_callers(
        &format!("  acme: {{keys: {{k: {{hash: '{A}', hashes: [{{hash: '{B}'}}]}}}}}}"),
        &["5 callers.acme.keys.k.hashes: stands beside `hash`"],
    );
    check_callers(
        &format!("  acme: {{keys: {{k: {{hash: '{A}', allow_ips: []}}}}}}"),
        &["5 callers.acme.keys.k.allow_ips: must list at least one"],
    );
    check_callers(
        &format!("  acme: {{keys: {{k: {{hash: '{A}', allow_ips: [x]}}}}}}"),
        &["5 callers.acme.keys.k.allow_ips[0]: must be an address"],
    );
    check_callers(
        &format!("  acme:\n    keys:\n      k: {{hash: '{A}'}}\n  other: {{keys: {{l: {{hash: '{A}'}}}}}}"),
        &["8 callers.other.keys.l.hash: is the hash of acme/k too"],
    );
    check_callers(
        &format!("  acme: {{keys: {{k: {{hashes: [{{hash: '{A}'}}, {{hash: '{A}'}}]}}}}}}"),
        &["5 callers.acme.keys.k.hashes[1].hash: is the hash of acme/k too"],
    );
}

#[test]
fn s07_a_key_in_clear_text_is_refused_and_not_shown() {
    for (text, expected) in [
        ("sk-canary-0123456789", "must be `sha256:` and 64 hex digits. If it is the key itself: a key never stands here in clear text"),
        ("sha256:sk-canary", "must have exactly 64 hex digits after `sha256:`"),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "must begin with `sha256:`"),
        ("md5:canary", "must be `sha256:`"),
    ] {
        check_callers(&format!("  acme: {{keys: {{k: {{hash: '{text}'}}}}}}"), &[&format!("5 callers.acme.keys.k.hash: {expected}")]);
    }
    check_callers(
        "  acme: {keys: {k: {secret: sk-canary-1234}}}",
        &["5 callers.acme.keys.k.secret: unknown field; allowed: hash", "5 callers.acme.keys.k.hash: is missing"],
    );
    check_callers("  acme: {keys: {k: sk-canary-1234}}", &["5 callers.acme.keys.k: must be a map of hash"]);
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn byte(hex: u8) -> [u8; 32] {
    [hex; 32]
}

#[test]
fn of_several_secrets_those_are_replaced_that_end_before_the_newest() {
    for (ends, expected) in [
        (&[Some(10)][..], &[false][..]),
        (&[Some(10), Some(20)], &[true, false]),
        (&[Some(20), Some(10), Some(20)], &[false, true, false]),
        (&[None, Some(20), Some(10)], &[false, true, true]),
        (&[None, None], &[false, false]),
    ] {
        let item = |(n, end): (usize, &Option<u64>)| {
            let until = end.map(|seconds| format!(", until: '1970-01-01T00:00:{seconds}Z'")).unwrap_or_default();
            format!("{{hash: 'sha256:{}'{until}}}", format!("0{n}").repeat(32))
        };
        let hashes: Vec<String> = ends.iter().enumerate().map(item).collect();
        let catalog = read_one(&served(&format!("  acme: {{keys: {{k: {{hashes: [{}]}}}}}}", hashes.join(", "))));
        let replaced: Vec<bool> = (0..).zip(ends).map(|(n, _)| catalog.opened(&byte(n), at(0)).unwrap().1).collect();
        assert_eq!((&*replaced, catalog.rotating().len()), (expected, usize::from(expected.contains(&true))), "{ends:?}");
    }
}

#[test]
fn keys_as_written_and_by_default() {
    let upper = A.to_ascii_uppercase().replace("SHA256", "sha256");
    let catalog = read_one(&served(&format!(
        "  acme:\n    expires: 1970-01-01T00:01:40Z\n    models: [m, x-*]\n    keys:\n      prod: {{hash: '{upper}', models: ['*'], expires: 1970-01-01T00:00:50Z, allow_ips: [10.0.0.0/8], \
         debug: true}}\n      plain: {{hash: '{B}'}}\n  off: {{enabled: false, keys: {{k: {{hash: 'sha256:{}'}}}}}}\n  \
         rotating: {{keys: {{k: {{hashes: [{{hash: 'sha256:{}', until: 1970-01-01T00:00:10Z}}, {{hash: 'sha256:{}'}}]}}}}}}\n  none: {{models: []}}",
        "cc".repeat(32),
        "dd".repeat(32),
        "ee".repeat(32),
    )));
    let prod = catalog.key(&byte(0xaa), at(0)).unwrap();
    assert_eq!((&*prod.id, &*prod.caller.id, prod.debug), ("acme/prod", "acme", true));
    assert!(prod.allows("10.9.9.9".parse().unwrap()) && !prod.allows("11.0.0.1".parse().unwrap()));
    assert_eq!(catalog.key(&byte(0xaa), at(49)).map(|key| &*key.id), Ok("acme/prod"));
    assert_eq!(catalog.key(&byte(0xaa), at(50)).err(), Some(KeyRefused::Expired));
    let plain = catalog.key(&byte(0xbb), at(99)).unwrap();
    assert!(plain.allows("8.8.8.8".parse().unwrap()) && !plain.debug);
    assert_eq!(catalog.key(&byte(0xbb), at(100)).err(), Some(KeyRefused::Expired));
    assert_eq!(catalog.key(&byte(0xcc), at(0)).err(), Some(KeyRefused::Disabled));
    assert_eq!(catalog.key(&byte(0xdd), at(9)).map(|key| &*key.id), Ok("rotating/k"));
    assert_eq!(catalog.key(&byte(0xdd), at(10)).err(), Some(KeyRefused::Expired));
    let replaced = |digest: u8| catalog.opened(&byte(digest), at(9)).map(|(_, replaced)| replaced);
    assert_eq!([0xbb, 0xdd, 0xee].map(replaced), [Ok(false), Ok(true), Ok(false)]);
    assert!(Arc::ptr_eq(catalog.key(&byte(0xdd), at(9)).unwrap(), catalog.key(&byte(0xee), at(1000)).unwrap()));
    assert_eq!(catalog.key(&byte(0xff), at(0)).err(), Some(KeyRefused::Unknown));
    assert_eq!(catalog.callers().iter().map(|caller| &*caller.id).collect::<Vec<_>>(), ["acme", "none", "off", "rotating"]);
    assert_eq!(catalog.key_count(), 5);
}

#[test]
fn equal_permissions_are_one_object() {
    let catalog = read_one(&served(&format!(
        "  a: {{models: [m, 'x*'], keys: {{k: {{hash: '{A}'}}, l: {{hash: '{B}', models: [m]}}}}}}\n  b: {{models: ['x*', m, m], keys: {{k: {{hash: 'sha256:{}'}}}}}}",
        "cc".repeat(32)
    )));
    let of = |hex: u8| Arc::clone(&catalog.key(&byte(hex), at(0)).unwrap().permissions);
    assert!(Arc::ptr_eq(&of(0xaa), &of(0xcc)) && !Arc::ptr_eq(&of(0xaa), &of(0xbb)));
    assert_eq!((of(0xaa).index, of(0xbb).index, catalog.permission_count()), (0, 1, 2));
    assert!(of(0xaa).allow("m") && of(0xaa).allow("x1") && !of(0xaa).allow("y"));
    assert!(of(0xbb).allow("m") && !of(0xbb).allow("x1"));
}

#[test]
fn globs_that_name_nothing_are_warned_of() {
    let catalog = read_one(&served(&format!("  acme: {{models: [m, n, gone, 'y*'], keys: {{k: {{hash: '{A}', models: [nowhere]}}}}}}")));
    let told: Vec<String> = catalog.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "catalog.yaml:5 callers.acme.models[1]: \"n\" is an alias, and globs match ids: write \"m\"",
            "catalog.yaml:5 callers.acme.models[2]: there is no model \"gone\"",
            "catalog.yaml:5 callers.acme.keys.k.models[0]: there is no model \"nowhere\"",
        ]
    );
}

#[test]
fn files_are_merged() {
    let main = served("  acme: {models: [m]}");
    let catalog = read_all(&[
        &main,
        &format!("callers:\n  acme: {{keys: {{a: {{hash: '{A}'}}}}}}\n  new: {{}}\n"),
        &format!(
            "callers:\n  acme:\n    keys:\n      b: {{hash: '{B}'}}\nmodels:\n  other: {{targets: [{{account: a}}, {{account: z}}]}}\n"
        ),
        "accounts: {z: {dialect: demo}}\n",
        "{}",
    ])
    .unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(catalog.callers().len(), 2);
    for hex in [0xaa, 0xbb] {
        let key = catalog.key(&byte(hex), at(0)).unwrap();
        assert!(key.permissions.allow("m") && !key.permissions.allow("other"));
        assert!(Arc::ptr_eq(&key.caller, &catalog.callers()[0]));
    }
    assert_eq!(catalog.models().len(), 2);
    assert_eq!((catalog.accounts().len(), catalog.accounts()[1].index), (2, 1));

    check_all(
        &[
            &main,
            &format!("callers:\n  acme:\n    enabled: false\n    keys:\n      k: {{hash: '{A}'}}\n"),
            &format!("callers:\n  acme:\n    keys:\n      k: {{hash: '{B}'}}\naccounts:\n  a: {{dialect: demo}}\n"),
            "",
        ],
        &["catalog.d/3.yaml:1: is empty"],
    );
    check_all(
        &[
            &main,
            &format!("callers:\n  acme:\n    enabled: false\n    keys:\n      k: {{hash: '{A}'}}\n"),
            &format!("callers:\n  acme:\n    keys:\n      k: {{hash: '{B}'}}\naccounts:\n  a: {{dialect: demo}}\n"),
        ],
        &[
            "catalog.d/1.yaml:2 callers.acme: is described in catalog.yaml:5 too: only its `keys` may be spread over files",
            "catalog.d/2.yaml:4 callers.acme.keys.k: stands also in catalog.d/1.yaml:5: keep one",
            "catalog.d/2.yaml:6 accounts.a: stands also in catalog.yaml:1: keep one",
        ],
    );
}

#[test]
fn the_hash_changes_with_text_and_secrets() {
    let text = "accounts: {a: {dialect: openai, key: {env: KEY}}}\nmodels: {}\ncallers: {}\n";
    let with = |secret: &'static str, text: &str| {
        resolve(&files(&[text]), &mut |_| Ok(secret.to_owned())).map(|catalog| catalog.hash).unwrap_or_default()
    };
    let hash = with("one", text);
    assert_eq!(hash.len(), 16);
    assert_eq!(hash, with("one", text));
    assert_ne!(hash, with("two", text));
    assert_ne!(hash, with("one", &format!("{text}#")));
}

#[test]
fn errors_beyond_the_first_hundred_are_counted() {
    let many = (0..1_000).fold("accounts: {}\nmodels:\n".to_owned(), |text, i| text + &format!("  m{i}: {{targets: [{{account: x}}]}}\n"))
        + "callers: {}\n";
    let problems = read_all(&[&many]).unwrap_err().0;
    assert_eq!(problems.len(), 101);
    assert_eq!(problems.last().unwrap().to_string(), "catalog.yaml: and 900 more errors");
    let many =
        (0..1_000).fold("accounts: {}\nmodels:\n".to_owned(), |text, i| text + &format!("  m{i}: {{target: x}}\n")) + "callers: {}\n";
    let problems = read_all(&[&many]).unwrap_err().0;
    assert_eq!(problems.len(), 101);
    assert_eq!(problems.last().unwrap().to_string(), "catalog.yaml: and more errors: the reading stopped here");
}

#[test]
fn f02_a_file_cut_short_loses_no_model() {
    let text = format!(
        "# A comment\naccounts:\n  a: {{dialect: demo}}\n  b:\n    dialect: openai\n    key: {{env: KEY}}\nmodels:\n  m:\n    targets:\n      - account: a\n      - {{account: b, weight: 2}}\n  \
         n:\n    targets: [{{account: b}}]\ncallers:\n  acme:\n    models: [m]\n    keys:\n      k:\n        hash: {A}\n        expires: 2027-01-01T00:00:00Z\n"
    );
    let whole = read_one(&text);
    for end in 0..text.len() {
        if let Ok(part) = read_all(&[&text[..end]]) {
            assert_eq!((part.accounts().len(), part.models().len()), (whole.accounts().len(), whole.models().len()), "{}", &text[..end]);
            assert_eq!(part.models()[0].targets.len(), 2);
        }
    }
}

/// `cargo test --release -- --ignored --nocapture the_largest_catalog`
#[test]
#[ignore = "a figure, not a test"]
fn the_largest_catalog() {
    use std::fmt::Write as _;
    let mut text = "accounts:\n".to_owned();
    for i in 0..1_000 {
        writeln!(text, "  acc-{i}:\n    dialect: openai\n    base_url: https://api{i}.example.com/v1\n    key: {{ env: KEY }}").unwrap();
    }
    text.push_str("models:\n");
    for i in 0..10_000 {
        let (a, b) = (i % 1_000, (i + 7) % 1_000);
        writeln!(
            text,
            "  model-{i}:\n    targets:\n      - {{ account: acc-{a}, model: m{i} }}\n      - {{ account: acc-{b}, weight: 3 }}"
        )
        .unwrap();
    }
    text.push_str("callers:\n");
    for caller in 0..1_000 {
        writeln!(text, "  caller-{caller}:\n    models: [\"model-*\"]\n    keys:").unwrap();
        for key in 0..100 {
            let number = caller * 100 + key;
            writeln!(text, "      key-{key}:\n        hash: sha256:{number:064x}\n        models: [\"model-1*\", \"model-{key}\"]")
                .unwrap();
        }
    }
    let files = files(&[&text]);
    for _ in 0..5 {
        let start = std::time::Instant::now();
        let catalog = resolve(&files, &mut look_up).unwrap_or_else(|problems| panic!("{problems}"));
        let read = start.elapsed();
        let start = std::time::Instant::now();
        let mut digest = [0; 32];
        for number in 0..100_000_u32 {
            digest[28..].copy_from_slice(&number.to_be_bytes());
            assert!(catalog.key(&digest, at(0)).is_ok());
        }
        println!("{} bytes in {read:?}; look-up {:?} each; {catalog:?}", text.len(), start.elapsed() / 100_000);
    }
}

#[test]
fn every_caller_stands_twice() {
    use std::fmt::Write as _;
    let (mut text, mut more) = ("accounts: {}\nmodels: {}\ncallers:\n".to_owned(), "callers:\n".to_owned());
    for number in 0..2_000 {
        writeln!(text, "  c{number}: {{models: [], keys: {{a: {{hash: sha256:{number:064x}}}}}}}").unwrap();
        writeln!(more, "  c{number}: {{enabled: true, keys: {{a: {{hash: sha256:{:064x}}}}}}}", number + 2_000).unwrap();
    }
    assert_eq!(read_one(&text).callers().len(), 2_000);
    let problems = read_all(&[&text, &more]).unwrap_err().0;
    assert_eq!(problems.len(), 101);
    assert_eq!(problems.last().unwrap().to_string(), "catalog.d/1.yaml: and 3900 more errors");
}

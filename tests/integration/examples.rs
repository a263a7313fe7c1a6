//! The files of `examples/` work: the catalogs pass `check` and do what their comments promise, the
//! files of `compose/` fit together, and nginx and Caddy hold no stream back ([`proxies`]).

mod compose;
mod proxies;

use std::path::PathBuf;

use serde_json::json;

use crate::support::canary::{ACCOUNT_KEY, KEY, hash};
use crate::support::folder::Folder;
use crate::support::model_answers::ModelAnswer;
use crate::support::{Gateway, Mock, Script, chat, root, run};

/// What an example promises: if its first accounts fail, the next one answers.
struct Promise {
    file: &'static str,
    /// Texts of the file that name providers. In their place the test writes the addresses of its
    /// own servers, at `URL`, which ends in `/v1`, or at `HOST`.
    providers: &'static [(&'static str, &'static str)],
    caller: &'static str,
    model: &'static str,
    /// The status with which all servers but the last answer.
    failure: u16,
    /// The dialect that the last server speaks.
    dialect: &'static str,
    /// The accounts that one request asks, in this order. There is a server for each.
    asked: &'static [&'static str],
}

const PROMISES: &[Promise] = &[
    Promise {
        file: "two-providers.yaml",
        providers: &[
            ("dialect: openai,", "dialect: openai, base_url: \"URL\","),
            (
                "dialect: anthropic,",
                "dialect: anthropic, base_url: \"URL\",",
            ),
        ],
        caller: "team",
        model: "assistant",
        failure: 500,
        dialect: "anthropic",
        asked: &["openai", "anthropic"],
    },
    Promise {
        file: "vllm-fleet.yaml",
        providers: &[
            ("http://10.0.0.11:8000/v1", "URL"),
            ("http://10.0.0.12:8000/v1", "URL"),
            ("preset: groq,", "dialect: openai, base_url: \"URL\","),
        ],
        caller: "apps",
        model: "llama",
        failure: 503,
        dialect: "openai",
        asked: &["gpu-1", "gpu-2", "cloud"],
    },
    Promise {
        file: "azure-ptu.yaml",
        providers: &[
            ("https://acme-ptu.openai.azure.com", "http://HOST"),
            ("https://acme-payg.openai.azure.com", "http://HOST"),
        ],
        caller: "products",
        model: "gpt-4o",
        failure: 429,
        dialect: "azure",
        asked: &["ptu", "payg"],
    },
    Promise {
        file: "teams.yaml",
        providers: &[
            ("dialect: openai,", "dialect: openai, base_url: \"URL\","),
            (
                "dialect: anthropic,",
                "dialect: anthropic, base_url: \"URL\",",
            ),
        ],
        caller: "research",
        model: "large",
        failure: 500,
        dialect: "anthropic",
        asked: &["openai", "anthropic"],
    },
];

/// Models of providers without a price in the examples.
const PRICED: [&str; 4] = [
    "gpt-4o-mini",
    "gpt-4o",
    "claude-haiku-4-5",
    "claude-sonnet-4-5",
];
const PRICE: &str = "price: { input: 1, output: 1 }";

/// Variables that the examples name.
const VARIABLES: [&str; 6] = [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GROQ_API_KEY",
    "AZURE_PTU_KEY",
    "AZURE_PAYG_KEY",
    "AZURE_SWEDEN_KEY",
];

#[test]
fn catalogs_pass_check_without_a_warning() {
    let files = catalogs();
    let promised: Vec<PathBuf> = PROMISES
        .iter()
        .map(|promise| root().join("examples/catalogs").join(promise.file))
        .collect();
    assert!(
        files.iter().all(|file| promised.contains(file)) && files.len() == promised.len(),
        "each catalog has its row in PROMISES: {files:?}"
    );
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a catalog");
        let folder = Folder::new(&[("catalog.yaml", &text)]);
        let ran = folder.run(&["check", "--no-secrets"]);
        assert!(
            ran.status.success() && ran.stdout.contains("0 warnings"),
            "{}: {}{}",
            file.display(),
            ran.stdout,
            ran.stderr
        );
    }
}

#[test]
fn catalogs_fail_over_as_their_comments_promise() {
    for promise in PROMISES {
        run(keeps_its_promise(promise));
    }
}

/// Serves an example in front of servers of the test, all of which fail but the last.
async fn keeps_its_promise(promise: &Promise) {
    let path = root().join("examples/catalogs").join(promise.file);
    let mut catalog = std::fs::read_to_string(path).expect("a catalog");
    let mut mocks = Vec::new();
    for (written, in_the_test) in promise.providers {
        assert!(catalog.contains(written), "{}: {written}", promise.file);
        let mock = Mock::start().await;
        let in_the_test = in_the_test
            .replace("URL", &mock.base_url())
            .replace("HOST", &mock.address().to_string());
        catalog = catalog.replace(written, &in_the_test);
        mocks.push(mock);
    }
    // The prices that Portcullis knows are those at the providers' own addresses.
    for model in PRICED {
        let (target, priced) = (
            format!("model: {model} }}"),
            format!("model: {model}, {PRICE} }}"),
        );
        catalog = catalog.replace(&target, &priced);
    }
    let (last, failing) = mocks.split_last().expect("a server");
    for mock in failing {
        mock.always(Script::error(promise.failure, "not now"));
    }
    last.always(ModelAnswer::text("Hello.").whole(promise.dialect));
    let key = hash(KEY);
    let caller = promise.caller;
    let keys = format!("callers: {{ {caller}: {{ keys: {{ prod: {{ hash: \"{key}\" }} }} }} }}\n");
    let gateway = VARIABLES
        .iter()
        .fold(Gateway::with(catalog), |setup, name| {
            setup.env(name, ACCOUNT_KEY)
        })
        .file("catalog.d/keys.yaml", keys)
        .start()
        .await;
    let answer = gateway.post(&chat(promise.model)).await;
    assert_eq!(answer.status, 200, "{}: {}", promise.file, answer.text());
    assert_eq!(
        answer.json()["choices"][0]["message"]["content"],
        "Hello.",
        "{}",
        promise.file
    );
    let line = gateway.line_of(&answer).await;
    let asked: Vec<_> = line["attempts"]
        .as_array()
        .expect("attempts")
        .iter()
        .map(|attempt| attempt["account"].clone())
        .collect();
    let mut expected: Vec<_> = promise.asked.iter().map(|account| json!(account)).collect();
    // The least busy of several is any of them.
    if promise.file == "vllm-fleet.yaml" && asked.first() == Some(&json!("gpu-2")) {
        expected.swap(0, 1);
    }
    assert_eq!(asked, expected, "{}: {line}", promise.file);
}

/// The example catalogs.
fn catalogs() -> Vec<PathBuf> {
    let folder = root().join("examples/catalogs");
    std::fs::read_dir(folder)
        .expect("examples/catalogs")
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

//! The dependency rule: pure modules stay pure, and few files know the framework.

use std::path::PathBuf;

use crate::support::root;

/// They take values, `now` included, and return values.
const PURE: &[&str] = &[
    "crates/dialects/src",
    "src/signers",
    "src/base/memory.rs",
    "src/account/breaker.rs",
    "src/account/budget.rs",
    "src/account/condition.rs",
    "src/account/failure.rs",
    "src/account/given_up.rs",
    "src/account/latency.rs",
    "src/account/quota.rs",
    "src/account/strategy.rs",
    "src/account/window.rs",
    "src/desk/connection/framing.rs",
    "src/desk/connection/head.rs",
    "src/exchange/choose.rs",
    "src/exchange/http1/chunks.rs",
    "src/exchange/http1/head.rs",
    "src/conf/price",
    "src/conf/price.rs",
    "src/limits/tally.rs",
    "src/limits/tally",
    "src/ledger/sums.rs",
    "src/ledger/report/shown.rs",
    "src/store/circuit.rs",
    "src/store/protocol.rs",
    "src/settled.rs",
    "src/base/table.rs",
    "src/conf/scribe.rs",
    "src/conf/scribe",
    "src/conf/secret_ref.rs",
    "src/conf/secret_ref",
    "src/catalog/globs.rs",
    "src/catalog/listing.rs",
    "src/catalog/wildcard.rs",
    "src/catalog/account.rs",
    "src/catalog/mod.rs",
    "src/catalog/model.rs",
    "src/catalog/risk.rs",
    "src/catalog/raw.rs",
    "src/catalog/raw",
    "src/catalog/resolve.rs",
    "src/catalog/resolve",
    "src/catalog/settle.rs",
    "src/catalog/settle",
    "src/catalog/texts.rs",
    "src/operator/admin/host.rs",
    "src/operator/notify/pending.rs",
    "src/operator/problems.rs",
    "src/operator/problems",
    "src/conf/yaml.rs",
    "src/conf/yaml",
    "src/base/units.rs",
    "src/base/address.rs",
    "src/base/host.rs",
    "src/conf/proxy.rs",
    "src/conf/proxy",
    "src/base/problem.rs",
    "crates/import/src",
    "src/inventory.rs",
    "src/inventory",
    "src/identity",
];
const IMPURE: &[&str] = &[
    "pingora",
    "pingora_core",
    "pingora_http",
    "pingora_proxy",
    "pingora_timeout",
    "tokio",
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "Instant::now",
    "SystemTime::now",
    "getrandom",
    "TcpStream",
    "UdpSocket",
    "ToSocketAddrs",
];

/// Who may name Pingora.
const FRAMEWORK: &[&str] = &[
    "src/account/http1_pool.rs",
    "src/account/http2_pool.rs",
    "src/operator/admin.rs",
    "src/operator/admin/relay.rs",
    "crates/cli/src",
    "src/desk",
    "src/exchange",
    "src/server.rs",
    "src/server/shutdown.rs",
    "src/tls.rs",
];

/// Who may name one dialect. All others ask the dialect's static, so that a new dialect is written
/// in its own folder.
const OF_ONE_DIALECT: &[&str] = &[
    // The fields of the catalog.
    "src/catalog/resolve/accounts.rs",
    // It plays the demo's server.
    "src/exchange/attempt.rs",
    // Who issues tokens is asked as any server.
    "src/live/ready_account.rs",
    "src/signers",
];

/// Who may name the front door chat. All others ask the front door's static, so that a new front
/// door is written in its own folder.
const OF_ONE_FRONT_DOOR: &[&str] = &[
    "crates/dialects/src/front/chat",
    "crates/dialects/src/front/chat.rs",
    "crates/dialects/src/front/messages",
    "crates/dialects/src/front/messages.rs",
    "crates/dialects/src/front/responses",
    "crates/dialects/src/front/responses.rs",
    "crates/dialects/src/front/gemini",
    "crates/dialects/src/front/gemini.rs",
    // It asks as a caller would.
    "src/exchange/producer/probe.rs",
];

/// Who writes to callers. What is written looks as the caller's front door says.
const CALLER_FACING: &[&str] = &["src/desk"];

/// What stands in the answers of one format only.
const CALLERS_FORMATS: &[&str] = &[
    "chatcmpl",
    "chat.completion",
    "data: ",
    "event: ",
    "[DONE]",
    ": keepalive",
    "text/event-stream",
    "\"error\"",
];

#[test]
fn pure_modules_know_no_framework_clock_or_files() {
    for path in PURE {
        for (file, code) in sources(path) {
            for word in IMPURE {
                assert!(
                    !names(&code, word),
                    "{} must not know {word}",
                    file.display()
                );
            }
        }
    }
}

#[test]
fn few_files_name_pingora() {
    let allowed: Vec<_> = FRAMEWORK
        .iter()
        .flat_map(|path| sources(path))
        .map(|(file, _)| file)
        .collect();
    for (file, code) in sources("src").into_iter().chain(sources("crates")) {
        let knows = IMPURE
            .iter()
            .filter(|word| word.starts_with("pingora"))
            .any(|word| names(&code, word));
        assert!(
            !knows || allowed.contains(&file),
            "{} must not know Pingora",
            file.display()
        );
    }
}

#[test]
fn few_files_name_a_dialect() {
    let dialects: Vec<_> = dialects::upstream::NAMES
        .iter()
        .map(|name| format!("upstream::{name}"))
        .collect();
    let allowed: Vec<_> = OF_ONE_DIALECT
        .iter()
        .flat_map(|path| sources(path))
        .map(|(file, _)| file)
        .collect();
    for (file, code) in sources("src")
        .into_iter()
        .chain(sources("crates/import"))
        .chain(sources("crates/cli"))
    {
        let named = dialects.iter().find(|path| names(&code, path));
        assert!(
            allowed.contains(&file) || named.is_none(),
            "{} must not name {named:?}",
            file.display()
        );
    }
}

#[test]
fn few_files_name_a_front_door() {
    let allowed: Vec<_> = OF_ONE_FRONT_DOOR
        .iter()
        .flat_map(|path| sources(path))
        .map(|(file, _)| file)
        .collect();
    for (file, code) in sources("src").into_iter().chain(sources("crates")) {
        let is_named = [
            "front::chat",
            "front::CHAT",
            "front::messages",
            "front::MESSAGES",
            "front::responses",
            "front::RESPONSES",
            "front::gemini",
            "front::GEMINI",
        ]
        .iter()
        .any(|path| names(&code, path));
        assert!(
            allowed.contains(&file) || !is_named,
            "{} must not name the front door chat",
            file.display()
        );
    }
    assert!(names(
        "use dialects::front::{CHAT, Envelope};",
        "front::CHAT"
    ));
}

#[test]
fn only_a_front_door_writes_in_its_callers_format() {
    let root = root();
    let files: Vec<_> = CALLER_FACING
        .iter()
        .flat_map(|path| sources(path))
        .map(|(file, _)| file)
        .collect();
    let words = |file: &PathBuf| {
        let source = std::fs::read_to_string(root.join(file)).unwrap();
        let source = source
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap()
            .to_owned();
        CALLERS_FORMATS
            .iter()
            .filter(|word| source.contains(*word))
            .copied()
            .collect::<Vec<_>>()
    };
    for file in files {
        assert_eq!(
            words(&file),
            [""; 0],
            "{} must not know what a caller's format looks like",
            file.display()
        );
    }
    let formats = sources("crates/dialects/src/front")
        .into_iter()
        .map(|(file, _)| file);
    let known: std::collections::BTreeSet<_> = formats.flat_map(|file| words(&file)).collect();
    assert!(
        known.len() > 3,
        "the words are those of front doors: {known:?}"
    );
}

#[test]
fn a_breach_would_be_seen() {
    let code = code_of(
        "//! Knows no tokio.\nuse tokio::time; // std::fs\nlet url = \"http://std::env\";\n#[cfg(test)]\nmod tests { use std::process; }",
    );
    let seen: Vec<_> = IMPURE.iter().filter(|word| names(&code, word)).collect();
    assert_eq!(seen, [&"tokio"]);
    let texts = "let a = \"b \\\"tokio\\\" \\\n tokio\"; let c = r#\"\"tokio\"#; let d = '\"'; let e: &'static str = br\"\\\";\ntime();";
    assert_eq!(
        code_of(texts),
        "let a = \n; let c = ; let d = ; let e: &'static str = b;\ntime();"
    );
    assert!(
        names("use std::{fs, io};", "std::fs")
            && names("use std::time::{Instant}; Instant :: now()", "Instant::now")
    );
    assert!(names(
        "use dialects::{Protocol, upstream::{NAMES, cohere}};",
        "upstream::cohere"
    ));
    assert!(!names("pingora_like::x(); my_tokio()", "pingora") && !names("my_tokio()", "tokio"));
}

/// Returns the code of all source files at a path; tests are left out.
pub(crate) fn sources(path: &str) -> Vec<(PathBuf, String)> {
    let files = rust_files(path).into_iter();
    let files = files.map(|file| file.strip_prefix(root()).unwrap().to_owned());
    let files = files
        .filter(|file| !file.ends_with("tests.rs") && !file.iter().any(|part| part == "tests"));
    files
        .map(|file| {
            (
                file.clone(),
                code_of(&std::fs::read_to_string(root().join(file)).unwrap()),
            )
        })
        .collect()
}

/// Lists all Rust files at a path, tests included.
pub(crate) fn rust_files(path: &str) -> Vec<PathBuf> {
    let (mut found, mut todo) = (Vec::new(), vec![root().join(path)]);
    while let Some(path) = todo.pop() {
        assert!(
            path.exists(),
            "{} does not exist: correct the list that names it",
            path.display()
        );
        if path.is_dir() {
            todo.extend(
                std::fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns the code of a source, line by line, without its comments, its texts and its tests. By
/// custom the tests are a file's last part.
pub(crate) fn code_of(source: &str) -> String {
    let mut code = String::new();
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = match c {
            '#' if is_test_module(rest) && (code.is_empty() || code.ends_with('\n')) => break,
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => text_length(rest),
            'r' if !code.ends_with(is_word) || code.ends_with('b') => match raw_text_length(rest) {
                Some(length) => length,
                None => {
                    code.push(c);
                    1
                }
            },
            '\'' => match character_length(rest) {
                Some(length) => length,
                None => {
                    code.push(c);
                    1
                }
            },
            c => {
                code.push(c);
                c.len_utf8()
            }
        };
        // A text of several lines still counts as so many lines.
        if length > 1 {
            code.extend(rest[..length].chars().filter(|c| *c == '\n'));
        }
        rest = &rest[length..];
    }
    code
}

fn is_test_module(rest: &str) -> bool {
    rest.strip_prefix("#[cfg(test)]\n").is_some_and(|next| {
        next.trim_start_matches("pub(crate) ")
            .starts_with("mod tests")
    })
}

/// Returns the length of a text in quotes.
fn text_length(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return at + 1,
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    rest.len()
}

/// Returns the length of a text such as `r#"…"#`, if one begins here.
fn raw_text_length(rest: &str) -> Option<usize> {
    let marks = rest[1..].chars().take_while(|c| *c == '#').count();
    let inside = rest[1 + marks..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(marks));
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(2 + marks + length)
}

/// Returns the length of a character in quotes, if this is one and no lifetime.
fn character_length(rest: &str) -> Option<usize> {
    let mut inside = rest[1..].char_indices();
    if let (_, '\\') = inside.next()? {
        inside.next()?;
        return inside.find(|(_, c)| *c == '\'').map(|(at, _)| at + 2);
    }
    inside
        .next()
        .filter(|(_, c)| *c == '\'')
        .map(|(at, _)| at + 2)
}

/// Whether the code names a path, as a whole word; `std::{fs, io}` names `std::fs` too.
fn names(code: &str, path: &str) -> bool {
    let code: String = code
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace(" :: ", "::");
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let whole = |text: &str, word: &str| {
        text.match_indices(word).any(|(at, _)| {
            !text[..at].ends_with(is_word) && !text[at + word.len()..].starts_with(is_word)
        })
    };
    if whole(&code, path) {
        return true;
    }
    let Some((parent, name)) = path.split_once("::") else {
        return false;
    };
    let group = format!("{parent}::{{");
    let groups = code.split(group.as_str()).skip(1);
    groups
        .map(|group| group.split(';').next().unwrap_or(group))
        .any(|group| whole(group, name))
}

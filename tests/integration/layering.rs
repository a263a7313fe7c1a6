//! The dependency rule: what is pure stays pure, and few files know the framework.

use std::path::{Path, PathBuf};

/// They take values, `now` included, and return values.
const PURE: &[&str] = &[
    "crates/dialects/src",
    "src/signers",
    "src/memory.rs",
    "src/account/breaker.rs",
    "src/account/latency.rs",
    "src/account/quota.rs",
    "src/account/strategy.rs",
    "src/account/window.rs",
    "src/exchange/budget.rs",
    "src/exchange/failover.rs",
    "src/price",
    "src/price.rs",
    "src/limits/tally.rs",
    "src/limits/tally",
    "src/ledger/sums.rs",
    "src/ledger/report/shown.rs",
    "src/store/circuit.rs",
    "src/store/talk.rs",
    "src/settled.rs",
    "src/catalog/globs.rs",
    "src/catalog/mod.rs",
    "src/catalog/raw.rs",
    "src/catalog/raw",
    "src/catalog/resolve.rs",
    "src/catalog/resolve",
    "src/catalog/settle.rs",
    "src/catalog/settle",
    "src/catalog/texts.rs",
    "src/admin/host.rs",
    "src/yaml.rs",
    "src/yaml",
    "src/units.rs",
    "src/address.rs",
    "src/problem.rs",
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
    "src/account/pool.rs",
    "src/account/shared.rs",
    "src/admin.rs",
    "src/cli",
    "src/connection.rs",
    "src/desk",
    "src/exchange",
    "src/gateway.rs",
    "src/server.rs",
    "src/tls.rs",
];

#[test]
fn pure_modules_know_no_framework_no_clock_and_no_files() {
    for path in PURE {
        for (file, code) in sources(path) {
            for word in IMPURE {
                assert!(!names(&code, word), "{} must not know {word}", file.display());
            }
        }
    }
}

#[test]
fn few_files_name_pingora() {
    let allowed: Vec<_> = FRAMEWORK.iter().flat_map(|path| sources(path)).map(|(file, _)| file).collect();
    for (file, code) in sources("src") {
        let knows = IMPURE.iter().filter(|word| word.starts_with("pingora")).any(|word| names(&code, word));
        assert!(!knows || allowed.contains(&file), "{} must not know Pingora", file.display());
    }
}

#[test]
fn a_breach_would_be_seen() {
    let code = code_of(
        "//! Knows no tokio.\nuse tokio::time; // std::fs\nlet url = \"http://std::env\";\n#[cfg(test)]\nmod tests { use std::process; }",
    );
    let seen: Vec<_> = IMPURE.iter().filter(|word| names(&code, word)).collect();
    assert_eq!(seen, [&"tokio"]);
    assert!(
        names("use std::{fs, io};", "std::fs") && names("use std::time::{Instant}; Instant :: now()", "Instant::now")
    );
    assert!(!names("pingora_like::x(); my_tokio()", "pingora") && !names("my_tokio()", "tokio"));
}

/// All source files at a path, without their comments, texts and tests.
fn sources(path: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut todo = vec![root.join(path)];
    while let Some(path) = todo.pop() {
        assert!(path.exists(), "{} does not exist: correct the list in {}", path.display(), file!());
        if path.is_dir() {
            todo.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            let code = code_of(&std::fs::read_to_string(&path).unwrap());
            found.push((path.strip_prefix(root).unwrap().to_owned(), code));
        }
    }
    found
}

fn code_of(source: &str) -> String {
    let mut code = String::new();
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        // By custom the tests are a file's last part.
        if line.trim() == "#[cfg(test)]" && lines.peek().is_some_and(|next| next.starts_with("mod tests")) {
            break;
        }
        let mut in_text = false;
        let mut before = ' ';
        for (at, c) in line.char_indices() {
            match c {
                '"' if before != '\\' && before != '\'' => in_text = !in_text,
                '/' if !in_text && line[at..].starts_with("//") => break,
                _ if !in_text => code.push(c),
                _ => {}
            }
            before = c;
        }
        code.push('\n');
    }
    code
}

/// Whether the code names a path, as a whole word; `std::{fs, io}` names `std::fs` too.
fn names(code: &str, path: &str) -> bool {
    let code: String = code.split_whitespace().collect::<Vec<_>>().join(" ").replace(" :: ", "::");
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let whole = |text: &str, word: &str| {
        text.match_indices(word)
            .any(|(at, _)| !text[..at].ends_with(is_word) && !text[at + word.len()..].starts_with(is_word))
    };
    if whole(&code, path) {
        return true;
    }
    let Some((parent, name)) = path.split_once("::") else { return false };
    let group = format!("{parent}::{{");
    let groups = code.split(group.as_str()).skip(1);
    groups.map(|group| group.split(';').next().unwrap_or(group)).any(|group| whole(group, name))
}

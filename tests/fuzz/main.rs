//! The fuzz targets without a fuzzer: each is given what fuzz/corpus keeps for it, whole and
//! mutated by dice that always fall the same.
//!
//! So the targets are compiled and their corpus is read with every `cargo test`. `make fuzz` looks
//! for what is new.

#![allow(
    unused_attributes,
    reason = "the targets are crates of their own for cargo-fuzz, and here modules"
)]
#![allow(
    clippy::indexing_slicing,
    reason = "a test may fail loudly; the lint guards what runs in production"
)]

// The targets name it so.
extern crate self as libfuzzer_sys;

#[path = "../../fuzz/fuzz_targets/answers.rs"]
mod answers;
mod cut_heads;
#[path = "../../fuzz/fuzz_targets/dialects.rs"]
mod dialects;
#[path = "../../fuzz/fuzz_targets/envelope.rs"]
mod envelope;
#[path = "../../fuzz/fuzz_targets/forms.rs"]
mod forms;
#[path = "../../fuzz/fuzz_targets/frames.rs"]
mod frames;
mod framings;
#[path = "../../fuzz/fuzz_targets/heads.rs"]
mod heads;
#[path = "../../fuzz/fuzz_targets/ledger.rs"]
mod ledger;
#[path = "../../fuzz/fuzz_targets/normaliser.rs"]
mod normaliser;
#[path = "../../fuzz/fuzz_targets/requests.rs"]
mod requests;
#[path = "../../fuzz/fuzz_targets/sse.rs"]
mod sse;
#[path = "../../fuzz/fuzz_targets/token.rs"]
mod token;
#[path = "../../fuzz/fuzz_targets/yaml.rs"]
mod yaml;

/// A target as a function. Behind the modules, since it is theirs by its path.
#[macro_export]
macro_rules! fuzz_target {
    (|$input:ident: &[u8]| $body:expr) => {
        pub(crate) fn run($input: &[u8]) {
            $body
        }
    };
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// How often each input is mutated; FUZZ_ROUNDS changes it.
const ROUNDS: u32 = 40;

/// What texts of these kinds are made of, so that more of what the dice make means something.
const WORDS: [&[u8]; 24] = [
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"\\u0000",
    b"\\ud800",
    b"\n",
    b"\r\n",
    b"\r",
    b"  ",
    b"- ",
    b"# ",
    b"data: ",
    b"\xef\xbb\xbf",
    b"\xff",
    b"|",
    b"&a *a",
];

#[track_caller]
fn check(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let mut inputs: Vec<_> = std::fs::read_dir(&folder)
        .expect("a corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{}", folder.display());
    let inputs: Vec<Vec<u8>> = inputs
        .iter()
        .map(|path| std::fs::read(path).expect("an input"))
        .collect();
    let rounds = std::env::var("FUZZ_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(ROUNDS);
    let mut dice = fastrand::Rng::with_seed(0x5eed);
    for input in &inputs {
        run(name, target, input);
        for _ in 0..rounds {
            run(name, target, &mutated(input, &inputs, &mut dice));
        }
    }
}

fn run(name: &str, target: fn(&[u8]), input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("fuzz-{name}-{:08x}", crc32fast::hash(input)));
        std::fs::write(&kept, input).expect("the input is kept");
        panic!(
            "{name}: the input is in {}: {}",
            kept.display(),
            String::from_utf8_lossy(input)
        );
    }
}

fn mutated(input: &[u8], others: &[Vec<u8>], dice: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..dice.usize(1..=4) {
        let at = dice.usize(0..=bytes.len());
        let end = (at + dice.usize(0..16)).min(bytes.len());
        match dice.u8(0..7) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let piece = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            2 => drop(bytes.splice(at..at, WORDS[dice.usize(0..WORDS.len())].iter().copied())),
            3 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.u8(0..8);
                }
            }
            4 => {
                let other = &others[dice.usize(0..others.len())];
                let from = dice.usize(0..=other.len());
                let to = (from + dice.usize(0..64)).min(other.len());
                drop(bytes.splice(at..end, other[from..to].iter().copied()));
            }
            5 => drop(bytes.splice(at..end, WORDS[dice.usize(0..WORDS.len())].iter().copied())),
            // The first bytes choose.
            _ => {
                if let Some(byte) = bytes.get_mut(dice.usize(0..4)) {
                    *byte = dice.u8(..);
                }
            }
        }
    }
    bytes
}

#[test]
fn answers_hold() {
    check("answers", answers::run);
}

#[test]
fn dialects_hold() {
    check("dialects", dialects::run);
}

#[test]
fn envelope_holds() {
    check("envelope", envelope::run);
}

#[test]
fn forms_hold() {
    check("forms", forms::run);
}

#[test]
fn frames_hold() {
    check("frames", frames::run);
}

#[test]
fn heads_hold() {
    check("heads", heads::run);
}

#[test]
fn ledger_holds() {
    check("ledger", ledger::run);
}

#[test]
fn normaliser_holds() {
    check("normaliser", normaliser::run);
}

#[test]
fn requests_hold() {
    check("requests", requests::run);
}

#[test]
fn sse_holds() {
    check("sse", sse::run);
}

#[test]
fn token_holds() {
    check("token", token::run);
}

#[test]
fn yaml_holds() {
    check("yaml", yaml::run);
}

/// What is run by hand and by `make fuzz` is what is listed here.
#[test]
fn every_target_is_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/fuzz_targets");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("the targets")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .collect();
    names.sort();
    let ours = [
        "answers",
        "dialects",
        "envelope",
        "forms",
        "frames",
        "heads",
        "ledger",
        "normaliser",
        "requests",
        "sse",
        "token",
        "yaml",
    ];
    assert_eq!(names, ours.map(|name| format!("{name}.rs")));
}

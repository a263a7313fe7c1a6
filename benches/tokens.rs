//! Measures what a caller's token costs: the first time, when it is read, verified and judged, and
//! each later time, when it is found among all that are remembered.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark may fail loudly, and criterion's macros make undocumented functions"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use portcullis::identity::jwk::{KeyId, KeySet};
use portcullis::identity::remembered::{Finding, MAX_TOKENS, Remembered, TokenDigest};
use portcullis::identity::rules::{CallerRule, ClaimPath, Rules};
use portcullis::identity::token::Unverified;
use serde_json::{Value, json};

const NOW: u64 = 1_767_226_200;

fn verify_first(criterion: &mut Criterion) {
    let made: Value = serde_json::from_str(include_str!("../tests/tokens/pyjwt.json")).unwrap();
    let keys = json!({ "keys": made["keys"] }).to_string();
    let keys = KeySet::parse(keys.as_bytes()).unwrap();
    let rules = Rules {
        issuer: "https://issuer.example".into(),
        audience: "portcullis".into(),
        declared_type: None,
        subject: ClaimPath::name("sub"),
        callers: CallerRule::One("research".into()),
        require: Vec::new(),
        deny: Vec::new(),
        // They end in the year 2100.
        max_age: Duration::from_secs(100 * 366 * 24 * 3600),
    };
    let mut group = criterion.benchmark_group("a token, the first time");
    for token in made["accepted"].as_array().unwrap() {
        let text = token["token"].as_str().unwrap().as_bytes();
        let name = format!(
            "{} {}",
            token["algorithm"].as_str().unwrap(),
            token["kid"].as_str().unwrap()
        );
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let token = Unverified::parse(black_box(text)).unwrap();
                let verified = token.verify(&keys).unwrap();
                rules.accept(verified.claims, NOW).unwrap()
            });
        });
    }
    group.finish();
}

fn find_again(criterion: &mut Criterion) {
    let (remembered, value) = (Remembered::default(), Arc::new(0_usize));
    let issuer = "https://issuer.example".into();
    let texts: Vec<_> = (0..MAX_TOKENS)
        .map(|number| format!("{number:01000}"))
        .collect();
    for text in &texts {
        let finding = Finding {
            value: value.clone(),
            issuer: &issuer,
            key: KeyId([1; 32]),
            expires_at: NOW + 60,
        };
        let begin = remembered.begin();
        remembered.keep(TokenDigest::new(text.as_bytes()), finding, begin, NOW);
    }
    let mut texts = texts.iter().cycle();
    criterion.bench_function(
        "a token of 1000 bytes, remembered among 100000",
        |bencher| {
            bencher.iter(|| {
                let text = texts.next().unwrap().as_bytes();
                remembered.find(&TokenDigest::new(black_box(text)), NOW)
            });
        },
    );
}

criterion_group!(benches, verify_first, find_again);
criterion_main!(benches);

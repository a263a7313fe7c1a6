//! Measures the work for each request and each streamed chunk: looking up key and model, reading
//! the envelope, splicing, decoding events. Measures also the cost of a list of models.

#![allow(
    missing_docs,
    reason = "criterion's macros make undocumented functions"
)]

use std::convert::Infallible;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::SystemTime;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dialects::front::CHAT;
use dialects::neutral::answer::AnswerOptions;
use dialects::upstream::openai;
use dialects::wire::json::{self, Cursor};
use dialects::wire::splice::Edits;
use dialects::wire::sse::Decoder;
use dialects::{AnswerHeader, Dialect, Recipient};
use portcullis::catalog::Catalog;
use portcullis::catalog::resolve::{resolve_catalog, sha256_of};
use portcullis::models::Lists;

/// A chunk as OpenAI sends it: some 250 bytes.
const CHUNK: &str = r#"{"id":"chatcmpl-CTv9XjE2mXHn1nTQy0sS8M1Uu3kPq","object":"chat.completion.chunk","created":1790000000,"model":"gpt-4o-mini-2024-07-18","system_fingerprint":"fp_560af6e559","choices":[{"index":0,"delta":{"content":" gateway"},"logprobs":null,"finish_reason":null}],"usage":null}"#;

/// Returns a chat of about `bytes` bytes, in prose with some escapes.
fn chat(bytes: usize, prose: &str) -> Vec<u8> {
    let mut body = String::from(
        r#"{"model":"gpt-4o-mini","messages":[{"role":"system","content":"You are a helpful assistant."}"#,
    );
    while body.len() + 100 < bytes {
        let room = (bytes - body.len() - 100).min(2000);
        let content: String = prose.chars().cycle().take(room).collect();
        body.push_str(&format!(
            r#",{{"role":"user","content":{}}}"#,
            json::quote_string(&content)
        ));
    }
    body.push_str(r#"],"temperature":0.7,"max_tokens":256,"stream":true}"#);
    body.into_bytes()
}

fn envelopes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("envelope");
    let prose = "The quick brown fox jumps over the lazy dog, and \"nobody\" minds.\n";
    let image = {
        let url = "iVBORw0KGgoAAAANSUhEUgAA".repeat((1 << 20) / 24);
        format!(
            r#"{{"model":"gpt-4o","messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{url}"}}}}]}}]}}"#
        )
    };
    for (name, body) in [
        ("300 B", chat(300, prose)),
        ("64 KiB", chat(64 << 10, prose)),
        ("1 MiB", chat(1 << 20, prose)),
        (
            "1 MiB of Greek",
            chat(590 << 10, "Πᾶσα τέχνη καὶ πᾶσα μέθοδος. "),
        ),
        ("1 MiB image", image.into_bytes()),
    ] {
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| CHAT.envelope(black_box(&body)))
        });
    }
    group.finish();
}

fn scans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("json");
    group.throughput(Throughput::Bytes(CHUNK.len() as u64));
    group.bench_function("scan a chunk", |bencher| {
        bencher.iter(|| Cursor::new(black_box(CHUNK.as_bytes())).value());
    });
    group.finish();
}

fn splices(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("splice");
    let body = chat(300, "Hello, world. ");
    let span = CHAT
        .envelope(&body)
        .map(|envelope| envelope.places.model)
        .unwrap_or(0..0);
    let mut out = Vec::new();
    group.bench_function("a request's model", |bencher| {
        bencher.iter(|| {
            out.clear();
            let mut edits = Edits::new(black_box(&body));
            edits.replace(span.clone(), &b"\"qwen3-4b\""[..]);
            edits.apply_into(&mut out);
            out.len()
        });
    });
    group.bench_function("a chunk: scan, model, usage", |bencher| {
        bencher.iter(|| {
            out.clear();
            let text = black_box(CHUNK.as_bytes());
            let mut edits = Edits::new(text);
            let scanned = Cursor::new(text).object(|cursor, key| {
                let value = cursor.value()?;
                match json::span_bytes(text, &key) {
                    b"\"model\"" => edits.replace(value, &b"\"fast\""[..]),
                    b"\"usage\"" => edits.remove_member(&key, &value),
                    _ => {}
                }
                Ok(())
            });
            edits.apply_into(&mut out);
            scanned.is_ok()
        });
    });
    group.finish();
}

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sse");
    let stream: Vec<u8> = format!("data: {CHUNK}\n\n").repeat(100).into_bytes();
    // Whole events in each read; reads that cut events; every event in two reads.
    for (name, read) in [
        ("100 events in one read", stream.len()),
        ("in reads of 1460", 1460),
        ("in reads of 100", 100),
    ] {
        group.throughput(Throughput::Elements(100));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut decoder = Decoder::new(8 << 20);
                let mut bytes = 0;
                for read in stream.chunks(read) {
                    let fed = decoder.feed(black_box(read), |event| {
                        bytes += event.data.len();
                        ControlFlow::<Infallible>::Continue(())
                    });
                    assert!(fed.is_ok());
                }
                bytes
            });
        });
    }
    group.finish();
}

/// Measures the whole way of a chunk: it is decoded, made standard, and written. Chunks that differ
/// only in their content may take a short cut. So there are others too, whose other fields also
/// change.
fn streams(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dialects::Stream");
    let face = AnswerHeader {
        model: "fast".to_owned(),
        id: "chatcmpl-1".to_owned(),
        created: 1_790_000_000,
        show_usage: false,
        prompt_bytes: 100,
        ..AnswerHeader::default()
    };
    let words = [
        " gateway",
        " a",
        ",",
        " requests",
        "\\n\\n",
        " é",
        " several",
        " \\\"quoted\\\"",
    ];
    let with = |word: &str| CHUNK.replace(" gateway", word);
    let padded = |(index, word): (usize, &&str)| {
        with(word).replacen(
            '{',
            &format!(r#"{{"obfuscation":"{}","#, "x7Kq".repeat(index % 4 + 1)),
            1,
        )
    };
    let logprobs = |(index, word): (usize, &&str)| {
        let logprobs = format!(
            r#""logprobs":{{"content":[{{"token":"t","logprob":-0.{index}37,"bytes":null,"top_logprobs":[]}}],"refusal":null}}"#
        );
        with(word).replace(r#""logprobs":null"#, &logprobs)
    };
    for (name, chunks) in [
        ("the same chunk", vec![CHUNK.to_owned(); words.len()]),
        (
            "other contents",
            words.iter().map(|word| with(word)).collect(),
        ),
        (
            "other contents and padding",
            words.iter().enumerate().map(padded).collect(),
        ),
        (
            "other contents and logprobs",
            words.iter().enumerate().map(logprobs).collect::<Vec<_>>(),
        ),
    ] {
        let events: Vec<String> = chunks
            .iter()
            .map(|chunk| format!("data: {chunk}\n\n"))
            .collect();
        let dialect = Dialect::from(&openai::PROTOCOL);
        let to = Recipient {
            front: &CHAT,
            header: &face,
            options: AnswerOptions::default(),
        };
        let mut stream = dialect.stream("m", to, 8 << 20);
        let mut out = Vec::new();
        group.throughput(Throughput::Elements(events.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for event in &events {
                    out.clear();
                    assert!(stream.feed(black_box(event.as_bytes()), &mut out).is_ok());
                    // Without this, nothing may have been measured.
                    assert!(out.len() > CHUNK.len() / 2);
                }
                out.len()
            });
        });
    }
    group.finish();
}

/// Makes a catalog of this many models and keys. Each caller has a hundred keys.
fn catalog(models: usize, keys: usize) -> Catalog {
    let mut text = String::from("accounts:\n  a: { dialect: demo }\nmodels:\n");
    for n in 0..models {
        text.push_str(&format!(
            "  vendor/model-{n}: {{ targets: [{{ account: a }}] }}\n"
        ));
    }
    text.push_str("callers:\n");
    for n in 0..keys {
        if n % 100 == 0 {
            text.push_str(&format!("  caller-{}:\n    keys:\n", n / 100));
        }
        let hash: String = sha256_of(&secret(n))
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        text.push_str(&format!("      key-{n}: {{ hash: \"sha256:{hash}\" }}\n"));
    }
    match resolve_catalog(&[("catalog.yaml".to_owned(), text)], &mut |_| {
        Err("nothing is looked up".to_owned())
    }) {
        Ok(catalog) => catalog,
        Err(problems) => panic!("{problems:?}"),
    }
}

fn secret(n: usize) -> String {
    format!("sk-bench-{n:040}")
}

fn catalogs(criterion: &mut Criterion) {
    const MODELS: usize = 10_000;
    const KEYS: usize = 100_000;
    let large = catalog(MODELS, KEYS);
    let mut group = criterion.benchmark_group("catalog of 10,000 models and 100,000 keys");
    // The same entry never comes twice in a row, so that the processor's caches help no more than
    // under traffic.
    let some: Vec<usize> = (0..4096).map(|n| n * 7919).collect();
    let secrets: Vec<_> = some.iter().map(|n| secret(n % KEYS)).collect();
    let digests: Vec<_> = secrets.iter().map(|secret| sha256_of(secret)).collect();
    let names: Vec<_> = some
        .iter()
        .map(|n| format!("vendor/model-{}", n % MODELS))
        .collect();
    let now = SystemTime::now();
    let mut turn = digests.iter().cycle();
    group.bench_function("a key by its digest", |bencher| {
        bencher.iter(|| {
            assert!(
                turn.next()
                    .is_some_and(|digest| large.opened(black_box(digest), now).is_ok())
            )
        });
    });
    let mut turn = secrets.iter().cycle();
    group.bench_function("a key by its secret", |bencher| {
        bencher.iter(|| {
            assert!(
                turn.next()
                    .is_some_and(|secret| large.opened(&sha256_of(black_box(secret)), now).is_ok())
            )
        });
    });
    group.bench_function("an unknown key", |bencher| {
        bencher.iter(|| assert!(large.opened(black_box(&[7; 32]), now).is_err()))
    });
    let mut turn = names.iter().cycle();
    group.bench_function("a model by its name", |bencher| {
        bencher.iter(|| {
            assert!(
                turn.next()
                    .is_some_and(|name| large.model(black_box(name)).is_some())
            )
        });
    });
    group.finish();

    let mut group = criterion.benchmark_group("list of models");
    let small = catalog(100, 1);
    for (name, catalog, models) in [("100", &small, 100), ("10,000", &large, MODELS)] {
        let Ok(key) = catalog
            .opened(&sha256_of(&secret(0)), now)
            .map(|(key, _)| key)
        else {
            panic!("the key is there")
        };
        group.throughput(Throughput::Elements(models as u64));
        // The cache is fresh each time, as after a reload.
        group.bench_function(format!("{name}, rendered"), |bencher| {
            bencher.iter(|| Lists::default().list(black_box(catalog), key, &CHAT))
        });
        let lists = Lists::default();
        assert!(lists.list(catalog, key, &CHAT).len() > models * 50);
        group.bench_function(format!("{name}, cached"), |bencher| {
            bencher.iter(|| lists.list(black_box(catalog), key, &CHAT))
        });
    }
    group.finish();
}

criterion_group!(codecs, catalogs, envelopes, scans, splices, events, streams);
criterion_main!(codecs);

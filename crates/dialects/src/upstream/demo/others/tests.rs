use super::*;

/// The answer to a body of JSON, as JSON.
fn of(path: &str, asked: &Value) -> Value {
    let body = asked.to_string();
    let (kind, pieces) = answer_path(path, body.as_bytes(), body.len())
        .unwrap()
        .unwrap();
    assert_eq!(kind, "application/json");
    serde_json::from_slice(&pieces.concat()).unwrap()
}

fn vectors(asked: &Value) -> Vec<Vec<f32>> {
    let answer = of("/embeddings", asked);
    let data = answer["data"].as_array().unwrap();
    for (index, one) in data.iter().enumerate() {
        assert_eq!(
            (&one["object"], &one["index"]),
            (&json!("embedding"), &json!(index))
        );
    }
    let numbers = |one: &Value| {
        let Some(text) = one["embedding"].as_str() else {
            return serde_json::from_value(one["embedding"].clone()).unwrap();
        };
        let bytes = BASE64.decode(text).unwrap();
        bytes
            .chunks(4)
            .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
            .collect()
    };
    data.iter().map(numbers).collect()
}

#[test]
fn texts_with_words_in_common_have_near_vectors() {
    let texts = json!([
        "The cat sits on the mat.",
        "the mat has a cat on it",
        "Interest rates rose again"
    ]);
    let [cat, mat, rates] = vectors(&json!({ "input": texts }))[..]
        .to_owned()
        .try_into()
        .unwrap();
    let near = |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(a, b)| a * b).sum::<f32>();
    assert!((near(&cat, &cat) - 1.0).abs() < 1e-6 && cat.len() == 256);
    assert!(
        near(&cat, &mat) > near(&cat, &rates) + 0.3,
        "{} {}",
        near(&cat, &mat),
        near(&cat, &rates)
    );
}

#[test]
fn vectors_agree_in_both_forms_and_lengths() {
    for input in [
        json!("a b"),
        json!(["a b", "", "c"]),
        json!([1, 2]),
        json!([[1, 2], [3]]),
    ] {
        let floats = vectors(&json!({ "input": input, "dimensions": 8 }));
        let base64 =
            vectors(&json!({ "input": input, "dimensions": 8, "encoding_format": "base64" }));
        assert_eq!(floats, base64, "{input}");
        assert!(
            floats
                .iter()
                .all(|one| one.len() == 8 && one.iter().any(|number| *number != 0.0)),
            "{input}"
        );
    }
    let usage = of("/embeddings", &json!({ "input": ["a b", "c"] }))["usage"].clone();
    assert_eq!(usage, json!({ "prompt_tokens": 3, "total_tokens": 3 }));
    let many = json!({ "input": vec!["x"; 100], "dimensions": 4096 }).to_string();
    let why = answer_path("/embeddings", many.as_bytes(), many.len())
        .unwrap()
        .unwrap_err();
    assert!(why.contains("262144 numbers"), "{why}");
    assert!(
        answer_path("/embeddings", b"", MAX_BODY_BYTES + 1)
            .unwrap()
            .is_err()
    );
}

#[test]
fn texts_are_continued_whole_and_as_a_stream() {
    let whole = of(
        "/completions",
        &json!({ "prompt": ["one", "two"], "n": 2, "max_tokens": 3, "echo": true }),
    );
    let texts: Vec<_> = whole["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["text"].as_str().unwrap())
        .collect();
    assert_eq!(
        texts,
        [
            "one This is the",
            "one This is the",
            "two This is the",
            "two This is the"
        ]
    );
    assert_eq!(whole["choices"][3]["finish_reason"], "length");
    assert_eq!(
        whole["usage"],
        json!({ "prompt_tokens": 2, "completion_tokens": 12, "total_tokens": 14 })
    );
    let body = json!({ "prompt": "x", "stream": true, "max_tokens": 100 }).to_string();
    let (kind, pieces) = answer_path("/completions", body.as_bytes(), body.len())
        .unwrap()
        .unwrap();
    let text = String::from_utf8(pieces.concat()).unwrap();
    assert_eq!(
        (kind, text.ends_with("data: [DONE]\n\n")),
        ("text/event-stream", true)
    );
    let events = text
        .split("\n\n")
        .filter_map(|event| serde_json::from_str::<Value>(event.strip_prefix("data: ")?).ok());
    let events: Vec<Value> = events.collect();
    let said: String = events
        .iter()
        .filter_map(|event| event["choices"][0]["text"].as_str())
        .collect();
    assert_eq!(said, CONTINUED);
    let finish = events
        .iter()
        .filter(|event| event["choices"][0]["finish_reason"] == "stop");
    assert_eq!(
        (
            finish.count(),
            &events.last().unwrap()["usage"]["prompt_tokens"]
        ),
        (1, &json!(1))
    );
}

#[test]
fn documents_are_ordered_by_shared_words() {
    let documents = json!(["nothing", { "text": "big cats sleep" }, "cats sleep", "the cats"]);
    let asked = json!({ "query": "Do cats sleep", "documents": documents, "top_n": 3 });
    let answer = of("/rerank", &asked);
    let order: Vec<_> = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["index"].as_u64().unwrap())
        .collect();
    assert_eq!(order, [1, 2, 3], "those that are alike keep their order");
    assert_eq!(answer["results"][0]["document"]["text"], "big cats sleep");
    assert_eq!(
        answer["results"][2]["relevance_score"]
            .as_f64()
            .map(|score| (score * 3.0).round()),
        Some(1.0)
    );
}

#[test]
fn what_calls_itself_harmful_is_flagged() {
    let answer = of(
        "/moderations",
        &json!({ "input": ["a Harmful text", "harmless"] }),
    );
    let flagged = |nth: usize| {
        (
            &answer["results"][nth]["flagged"],
            &answer["results"][nth]["categories"]["violence"],
        )
    };
    assert_eq!(flagged(0), (&json!(true), &json!(true)));
    assert_eq!(flagged(1), (&json!(false), &json!(false)));
    assert_eq!(
        answer["results"][0]["categories"]
            .as_object()
            .unwrap()
            .len(),
        13
    );
}

#[test]
fn a_picture_has_the_asked_size_and_one_colour() {
    let answer = of(
        "/images/generations",
        &json!({ "prompt": "a sunset", "n": 2, "size": "1024x768" }),
    );
    assert_eq!(answer["data"].as_array().unwrap().len(), 2);
    let bytes = BASE64
        .decode(answer["data"][0]["b64_json"].as_str().unwrap())
        .unwrap();
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
    let mut rest = &bytes[8..];
    let mut chunks = Vec::new();
    while let Some((length, more)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (body, sum) = (&more[..length + 4], &more[length + 4..length + 8]);
        assert_eq!(crc32fast::hash(body).to_be_bytes(), sum);
        chunks.push((body[..4].to_vec(), body[4..].to_vec()));
        rest = &more[length + 8..];
    }
    let [(_, header), (_, palette), (_, packed), _] = chunks.try_into().unwrap();
    assert_eq!(
        (&header[..8], palette.len()),
        ([0, 0, 4, 0, 0, 0, 3, 0].as_slice(), 3)
    );
    // Two stored blocks, of all the lines.
    let lines = (1024 / 8 + 1) * 768;
    assert_eq!(packed.len(), 2 + lines + 2 * 5 + 4);
    assert_eq!(
        (packed[2], packed[2 + 5 + 65_535]),
        (0, 1),
        "only the last block says that it is the last"
    );
    let small = of("/images/edits", &Value::Null);
    assert!(
        BASE64
            .decode(small["data"][0]["b64_json"].as_str().unwrap())
            .unwrap()
            .len()
            > 256 * 33
    );
}

#[test]
fn sound_is_a_beep_and_forms_have_sizes() {
    let (kind, pieces) = answer_path("/audio/speech", br#"{"input":"hello"}"#, 17)
        .unwrap()
        .unwrap();
    let wav = pieces.concat();
    assert_eq!(
        (kind, &wav[..4], &wav[8..16], wav.len()),
        (
            "audio/wav",
            b"RIFF".as_slice(),
            b"WAVEfmt ".as_slice(),
            2_044
        )
    );
    assert_eq!(u32::from_le_bytes(wav[40..44].try_into().unwrap()), 2_000);
    let (_, pieces) = answer_path("/audio/transcriptions", b"demo", 123_456_789)
        .unwrap()
        .unwrap();
    assert!(
        String::from_utf8(pieces.concat())
            .unwrap()
            .contains("123456789 bytes")
    );
    assert!(answer_path("/chat/completions", b"{}", 2).is_none());
}

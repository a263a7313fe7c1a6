use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::front::{EMBEDDINGS, GEMINI_EMBED, GEMINI_EMBEDS, PathRequest};
use crate::neutral::Endpoint;
use crate::neutral::answer::AnswerOptions;
use crate::neutral::traits::Traits;
use crate::neutral::usage::Source;
use crate::upstream::{Protocol, Settings};

/// The dialect of a name, at its vectors.
fn at(name: &str) -> Dialect {
    let settings = Settings {
        project: Some("p".into()),
        region: Some("eu".into()),
        ..Settings::NONE
    };
    Dialect::new(Protocol::find(name).unwrap(), settings).for_endpoint(Endpoint::Embeddings)
}

fn envelope(front: &'static Front, body: &str) -> Envelope {
    let asked = PathRequest {
        model: (*front != EMBEDDINGS).then(|| "m".to_owned()),
        stream: false,
    };
    front.envelope(body.as_bytes()).unwrap().with_path(asked)
}

fn header() -> AnswerHeader {
    AnswerHeader {
        model: "m".to_owned(),
        prompt_bytes: 40,
        ..AnswerHeader::default()
    }
}

/// Asks, and reads an answer.
fn answered(
    front: &'static Front,
    name: &str,
    request: &str,
    answer: &str,
) -> Result<String, AnswerFault> {
    let (body, dialect, header) = (Bytes::from(request.to_owned()), at(name), header());
    let envelope = envelope(front, request);
    let outbound = dialect
        .write(&Translate::new(&body, &envelope, "up"))
        .unwrap();
    let options = AnswerOptions {
        undo: outbound.undo,
        ..AnswerOptions::default()
    };
    let to = Recipient {
        front,
        header: &header,
        options,
    };
    dialect
        .answer("up", &to, answer.as_bytes())
        .map(|(answer, _)| String::from_utf8(answer.body).unwrap())
}

#[test]
fn an_answer_has_a_vector_for_each_text() {
    let two = r#"{"model":"m","input":["a","b"]}"#;
    let check = |name, answer: &str, why: Option<&str>| match (
        answered(&EMBEDDINGS, name, two, answer),
        why,
    ) {
        (Ok(_), None) => {}
        (Err(AnswerFault::Nonsense(said)), Some(why)) => assert!(said.contains(why), "{said}"),
        (found, why) => panic!("{answer}: {found:?} {why:?}"),
    };
    check("ollama", r#"{"embeddings":[[1],[2]]}"#, None);
    check("ollama", r#"{"embeddings":[[1]]}"#, Some("more or fewer"));
    check(
        "ollama",
        r#"{"embeddings":[[1],[2],[3]]}"#,
        Some("more or fewer"),
    );
    check(
        "ollama",
        r#"{"embeddings":[[1],[null]]}"#,
        Some("no list of numbers"),
    );
    check("ollama", r#"{"embeddings":[]}"#, Some("no vectors"));
    check(
        "openai",
        r#"{"data":[{"embedding":[1]},{"embedding":[2]}]}"#,
        None,
    );
    check(
        "openai",
        r#"{"data":[{"embedding":[1],"index":0}]}"#,
        Some("more or fewer"),
    );
    check(
        "openai",
        r#"{"data":[{"embedding":[1],"index":0},{"embedding":[2],"index":0}]}"#,
        Some("numbers"),
    );
    let told = answered(
        &EMBEDDINGS,
        "openai",
        two,
        r#"{"error":{"message":"no room","code":503}}"#,
    );
    assert!(matches!(told, Err(AnswerFault::Upstream(error)) if error.message == "no room"));
}

#[test]
fn what_passes_has_the_asked_form() {
    let floats = r#"{"model":"m","input":"a"}"#;
    let base64 = r#"{"model":"m","input":"a","encoding_format":"base64"}"#;
    let answer = |vector: &str| {
        format!(r#"{{"id":"x","data":[{{"embedding":{vector},"index":0}}],"model":"up"}}"#)
    };
    let passed = |vector: &str| answer(vector).replace("up", "m");
    let of = |request, vector| answered(&EMBEDDINGS, "openai", request, &answer(vector)).unwrap();
    assert_eq!(of(floats, "[1, 2]"), passed("[1, 2]"));
    assert_eq!(of(base64, "\"AACAPw==\""), passed("\"AACAPw==\""));
    assert_eq!(of(base64, "[1.0]"), passed("\"AACAPw==\""));
    assert_eq!(of(floats, "\"AACAPw==\""), passed("[1.0]"));
    // Vectors that came in another order are written anew.
    let turned = r#"{"data":[{"embedding":[2],"index":1},{"embedding":[1],"index":0}],"usage":{"total_tokens":4}}"#;
    assert_eq!(
        answered(
            &EMBEDDINGS,
            "openai",
            r#"{"model":"m","input":["a","b"]}"#,
            turned
        )
        .unwrap(),
        concat!(
            r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]},"#,
            r#"{"object":"embedding","index":1,"embedding":[2]}],"model":"m","usage":{"prompt_tokens":4,"total_tokens":4}}"#
        )
    );
}

/// Returns the body that a dialect sends, and the losses; or the reason why it sends nothing.
fn sent(
    front: &'static Front,
    name: &str,
    model: &str,
    request: &str,
    says: (&str, Traits),
) -> Result<String, Refused> {
    let body = Bytes::from(request.to_owned());
    let mut envelope = envelope(front, request);
    if !says.0.is_empty() {
        envelope
            .headers
            .push(("x-portcullis-input-type", says.0.to_owned()));
    }
    let job = Translate {
        traits: says.1,
        ..Translate::new(&body, &envelope, model)
    };
    let outbound = at(name).write(&job)?;
    assert!(outbound.headers.is_empty());
    let body = String::from_utf8(outbound.body.concat()).unwrap();
    Ok(format!(
        "{} {body} -{}",
        outbound.path,
        outbound.losses.names().join(",")
    ))
}

#[test]
fn vectors_purpose_comes_from_request_header_then_catalog() {
    let usual = |input_type| Traits {
        input_type,
        ..Traits::UNKNOWN
    };
    let of = |name, body: &str, header, traits| {
        sent(&EMBEDDINGS, name, "embed-v4.0", body, (header, traits)).unwrap()
    };
    let (plain, said) = (
        r#"{"model":"m","input":"a"}"#,
        r#"{"model":"m","input":"a","input_type":"query"}"#,
    );
    let clusters = usual(Purpose::and_word("clustering"));
    assert!(of("cohere", said, "classification", clusters).contains(r#""search_query""#));
    assert!(of("cohere", plain, "classification", clusters).contains(r#""classification""#));
    assert!(of("cohere", plain, "", clusters).contains(r#""clustering""#));
    assert!(of("cohere", plain, "", usual(None)).contains(r#""search_document""#));
    assert!(of("gemini", plain, "RETRIEVAL_QUERY", clusters).contains(r#""RETRIEVAL_QUERY""#));
    assert!(!of("gemini", plain, "", usual(None)).contains("taskType"));
    assert!(of("ollama", plain, "query", clusters).ends_with("-input_type"));
    assert!(
        of("ollama", plain, "", clusters).ends_with('-'),
        "the catalog loses nothing of the caller's"
    );
    for name in ["openai", "azure"] {
        let passage = |body: &str| of(name, body, "", usual(Purpose::and_word("passage")));
        let (with, model) = (r#"{"input_type":"passage",""#, r#""model":"embed-v4.0""#);
        let up = |body: &str| body.replace(r#""model":"m""#, model);
        assert!(
            passage(plain).ends_with(&(up(plain).replacen(r#"{""#, with, 1) + " -")),
            "{}",
            passage(plain)
        );
        for own in [
            said,
            &said.replace(r#""query""#, "null"),
            &said.replace("query", "music"),
        ] {
            assert!(
                passage(own).ends_with(&(up(own) + " -")),
                "the caller's own word counts: {}",
                passage(own)
            );
        }
        assert!(of(name, plain, "", usual(None)).ends_with(&(up(plain) + " -")));
        let header = of(name, plain, "query", clusters);
        assert!(
            header.ends_with(&(up(plain) + " -x-portcullis-input-type")),
            "no other word than the caller's: {header}"
        );
    }
    assert!(
        of("cohere", plain, "fact_verification", clusters).ends_with("-input_type"),
        "it is only near"
    );
    let odd = sent(
        &EMBEDDINGS,
        "cohere",
        "embed-v4.0",
        plain,
        ("music", usual(None)),
    );
    assert!(matches!(odd, Err(Refused::Invalid(why)) if why.param == "x-portcullis-input-type"));
}

#[test]
fn what_a_model_cannot_do_is_refused() {
    let check = |front, name, model, body: &str, param: &str| match sent(
        front,
        name,
        model,
        body,
        ("", Traits::UNKNOWN),
    ) {
        Err(Refused::Unsupported(why)) => assert_eq!(why.param, param, "{}", why.message),
        found => panic!("{name} {body}: {found:?}"),
    };
    let tokens = r#"{"model":"m","input":[1,2]}"#;
    for name in ["gemini", "vertex", "cohere", "bedrock", "ollama"] {
        check(&EMBEDDINGS, name, "cohere.embed-v4:0", tokens, "input[0]");
        check(
            &EMBEDDINGS,
            name,
            "cohere.embed-v4:0",
            r#"{"model":"m","input":[[1],[2]]}"#,
            "input[0]",
        );
    }
    assert!(
        sent(&EMBEDDINGS, "openai", "up", tokens, ("", Traits::UNKNOWN))
            .unwrap()
            .contains("[1,2]")
    );
    let short = r#"{"model":"m","input":"a","dimensions":256}"#;
    check(
        &EMBEDDINGS,
        "cohere",
        "embed-english-v3.0",
        short,
        "dimensions",
    );
    check(
        &EMBEDDINGS,
        "bedrock",
        "cohere.embed-english-v3",
        short,
        "dimensions",
    );
    check(
        &EMBEDDINGS,
        "bedrock",
        "amazon.titan-embed-text-v1",
        short,
        "dimensions",
    );
    check(
        &EMBEDDINGS,
        "bedrock",
        "amazon.nova-pro-v1:0",
        r#"{"model":"m","input":"a"}"#,
        "input",
    );
    check(
        &EMBEDDINGS,
        "bedrock",
        "amazon.titan-embed-text-v2:0",
        r#"{"model":"m","input":["a","b"]}"#,
        "input",
    );
    let two = |fields: &str| {
        format!(
            r#"{{"requests":[{{"content":{{"parts":[{{"text":"a"}}]}}}},{{"content":{{"parts":[{{"text":"b"}}]}}{fields}}}]}}"#
        )
    };
    check(
        &GEMINI_EMBEDS,
        "openai",
        "up",
        &two(r#","outputDimensionality":7"#),
        "requests[1]",
    );
    check(
        &GEMINI_EMBEDS,
        "openai",
        "up",
        &two(r#","taskType":"CLUSTERING""#),
        "requests[1]",
    );
    check(
        &GEMINI_EMBED,
        "openai",
        "up",
        r#"{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"AA"}}]}}"#,
        "content.parts[0]",
    );
    let named = r#"{"model":"models/other","content":{"parts":[{"text":"a"}]}}"#;
    for name in ["gemini", "openai"] {
        let found = sent(&GEMINI_EMBED, name, "up", named, ("", Traits::UNKNOWN));
        assert!(
            matches!(found, Err(Refused::Invalid(why)) if why.param == "model"),
            "{name}"
        );
    }
}

#[test]
fn a_model_takes_so_many_texts_at_once() {
    for (name, model, most) in [
        ("openai", "text-embedding-3-small", usize::MAX),
        ("azure", "d", usize::MAX),
        ("gemini", "gemini-embedding-001", 100),
        ("vertex", "gemini-embedding-001", 1),
        ("vertex", "text-embedding-005", 250),
        ("cohere", "embed-v4.0", 96),
        ("bedrock", "us.cohere.embed-v4:0", 96),
        ("bedrock", "amazon.titan-embed-text-v2:0", 1),
        ("ollama", "nomic-embed-text", usize::MAX),
    ] {
        assert_eq!(at(name).most_inputs(model), most, "{name} {model}");
    }
    assert_eq!(
        Dialect::from(Protocol::find("openai").unwrap()).most_inputs("gpt-4o"),
        usize::MAX
    );
}

/// An answer of this door, with these numbers as vectors.
fn told(front: &Front, numbers: &[usize]) -> Answer {
    let vectors: Vec<String> = numbers.iter().map(|number| format!("[{number}]")).collect();
    let vectors: Vec<Cow<'_, [u8]>> = vectors
        .iter()
        .map(|vector| Cow::Borrowed(vector.as_bytes()))
        .collect();
    let usage = Usage {
        prompt: numbers.len() as u64,
        source: Source::Reported,
        ..Usage::default()
    };
    let mut tally = Tally::new(&header());
    tally.count_from_usage(&usage);
    Answer {
        body: (front.vectors.as_ref().unwrap().write)(&vectors, &header(), &tally),
        usage,
        ..Answer::default()
    }
}

proptest! {
    /// The slices of a request hold all texts once and in order, all other fields stay, and the
    /// answers to them become the answer to the request.
    #[test]
    fn what_is_cut_is_joined_again(count in 1usize..40, most in 1usize..12, is_gemini: bool) {
        let texts: Vec<String> = (0..count).map(|number| format!("é {number} ],[")).collect();
        let (front, body): (&'static Front, Value) = if is_gemini {
            let one = |text: &String| json!({ "content": { "parts": [{ "text": text }] } });
            (&GEMINI_EMBEDS, json!({ "requests": texts.iter().map(one).collect::<Vec<_>>(), "x": [1] }))
        } else {
            (&EMBEDDINGS, json!({ "model": "m", "input": texts, "x": [1] }))
        };
        let body = serde_json::to_string_pretty(&body).unwrap();
        let whole = envelope(front, &body);
        let inputs = whole.places.inputs.clone().unwrap();
        prop_assert_eq!(inputs.count, count);
        let Some(slices) = Slices::cut(&whole, &body.clone().into(), most).unwrap() else {
            prop_assert!(count <= most);
            return Ok(());
        };
        let (mut said, mut answers, mut number) = (Vec::new(), Vec::new(), 0);
        for place in 0..slices.count() {
            prop_assert_eq!(slices.first(place), number);
            let slice = slices.write(place);
            prop_assert_eq!(slice.len(), slices.size(place));
            let slice = str::from_utf8(&slice).unwrap();
            let of_slice = envelope(front, slice).places.inputs.unwrap();
            prop_assert!((1..=most).contains(&of_slice.count));
            answers.push(told(front, &(number..number + of_slice.count).collect::<Vec<_>>()));
            number += of_slice.count;
            let Value::Object(mut slice) = serde_json::from_str(slice).unwrap() else { panic!() };
            let list = slice.remove(if is_gemini { "requests" } else { "input" }).unwrap();
            said.extend(list.as_array().unwrap().iter().cloned());
            prop_assert_eq!(slice.get("x"), Some(&json!([1])));
        }
        prop_assert_eq!(slices.count(), inputs.request_count(most));
        prop_assert!(slices.write(slices.count()).len() < 80, "there is no such slice");
        let text = |value: &Value| value.pointer("/content/parts/0/text").unwrap_or(value).as_str().unwrap().to_owned();
        prop_assert_eq!(said.iter().map(text).collect::<Vec<_>>(), texts);
        let joined = join_answers(front, &inputs, &header(), &answers).unwrap();
        let requests = u32::try_from(slices.count()).unwrap();
        prop_assert_eq!(joined.usage.units.requests, requests, "each is charged for");
        prop_assert_eq!(joined.body, told(front, &(0..count).collect::<Vec<_>>()).body);
        answers.pop();
        prop_assert!(join_answers(front, &inputs, &header(), &answers).is_err());
    }
}

#[test]
fn an_estimate_among_the_slices_marks_the_whole() {
    let mut answers = [told(&EMBEDDINGS, &[0]), told(&EMBEDDINGS, &[1])];
    answers[0].usage = Usage {
        source: Source::Estimated,
        ..answers[0].usage
    };
    let inputs = Inputs {
        count: 2,
        ..Inputs::default()
    };
    let joined = join_answers(&EMBEDDINGS, &inputs, &header(), &answers).unwrap();
    assert_eq!(
        (joined.usage.prompt, joined.usage.source),
        (2, Source::Estimated)
    );
}

#[test]
fn long_settings_are_not_sent_with_each_slice() {
    let cut = |front, list: &str, length: usize| {
        let body = format!(r#"{{"model":"m","{list},"x":"{}"}}"#, "x".repeat(length));
        Slices::cut(&envelope(front, &body), &body.into(), 1)
    };
    assert_eq!(
        cut(&EMBEDDINGS, r#"input":["a","b"]"#, 1000)
            .unwrap()
            .unwrap()
            .count(),
        2
    );
    assert!(
        cut(&EMBEDDINGS, r#"input":["a"]"#, MOST_BESIDE)
            .unwrap()
            .is_none()
    );
    let refused = cut(&EMBEDDINGS, r#"input":["a","b"]"#, MOST_BESIDE);
    assert!(matches!(refused, Err(Refused::Unsupported(why)) if why.param == "input"));
}

#[test]
fn a_text_is_named_by_its_place_in_requests() {
    for (text, expected) in [
        ("input[3]", "input[99]"),
        (
            "`requests[0].content.parts[1]` is bad, not [1]",
            "`requests[96].content.parts[1]` is bad, not [1]",
        ),
        ("texts[1] and texts[2]: é[", "texts[97] and texts[98]: é["),
        (
            "input[x] input[] input[-1] input [1] 1]",
            "input[x] input[] input[-1] input [1] 1]",
        ),
        (
            "input[99999999999999999999999]",
            "input[99999999999999999999999]",
        ),
    ] {
        assert_eq!(in_whole(text, 96), expected);
    }
}

#[test]
fn all_vectors_of_an_answer_have_the_same_length() {
    let two = |fields: &str| format!(r#"{{"model":"m","input":["a","b"]{fields}}}"#);
    let odd = "different lengths";
    let check = |name, request: &str, answer: &str, why: Option<&str>| {
        let found = answered(&EMBEDDINGS, name, request, answer);
        match (&found, why) {
            (Ok(_), None) => {}
            (Err(AnswerFault::Nonsense(said)), Some(why)) => assert!(said.contains(why), "{said}"),
            _ => panic!("{answer}: {found:?} {why:?}"),
        }
    };
    let base64 = two(r#","encoding_format":"base64""#);
    for (name, answer) in [
        ("ollama", r#"{"embeddings":[[1],[2,3]]}"#),
        (
            "openai",
            r#"{"data":[{"embedding":[1]},{"embedding":[2,3]}]}"#,
        ),
        (
            "openai",
            r#"{"data":[{"embedding":"AACAPw=="},{"embedding":"AACAPwAAgL8="}]}"#,
        ),
        (
            "openai",
            r#"{"data":[{"embedding":"AACAPw=="},{"embedding":[1,2]}]}"#,
        ),
    ] {
        check(name, &two(""), answer, Some(odd));
        check(name, &base64, answer, Some(odd));
    }
    check(
        "openai",
        &base64,
        r#"{"data":[{"embedding":"AACAPw=="},{"embedding":[1]}]}"#,
        None,
    );
    let lengths = |first: &str, second: &str| {
        let one = |length: &str| format!(r#"{{"content":{{"parts":[{{"text":"a"}}]}}{length}}}"#);
        let request = format!(r#"{{"requests":[{},{}]}}"#, one(first), one(second));
        answered(
            &GEMINI_EMBEDS,
            "gemini",
            &request,
            r#"{"embeddings":[{"values":[1]},{"values":[1,2]}]}"#,
        )
    };
    let one = r#","outputDimensionality":1"#;
    assert!(
        lengths(one, r#","output_dimensionality":2"#).is_ok() && lengths(one, "").is_ok(),
        "it was asked for"
    );
    assert!(lengths(one, one).is_err() && lengths("", "").is_err());
}

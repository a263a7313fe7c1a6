//! `~` stands for the name of the model: the upstream's in the input, the caller's in the output.

use proptest::prelude::*;
use proptest::sample::select;

use super::super::answer::of_any_form;
use super::*;
use crate::upstream::quirks;

fn header(model: &str) -> AnswerHeader {
    AnswerHeader {
        model: model.into(),
        id: "chatcmpl-0a".into(),
        created: 99,
        prompt_bytes: 400,
        ..AnswerHeader::default()
    }
}

/// Answers as servers write them.
const PLAIN: [&str; 5] = [
    // OpenAI
    r#"{"id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":~,"choices":[{"index":0,"message":{"role":"assistant","content":"Hi \"you\" – é\n","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":48,"completion_tokens":34,"total_tokens":82,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"service_tier":"default","system_fingerprint":"fp_1"}"#,
    // Azure, with cached tokens
    r#"{"choices":[{"content_filter_results":{"hate":{"filtered":false}},"finish_reason":"length","index":0,"logprobs":null,"message":{"content":"","role":"assistant"}}],"created":1,"id":"x","model":~,"object":"chat.completion","prompt_filter_results":[],"usage":{"completion_tokens":1,"prompt_tokens":48,"prompt_tokens_details":{"cached_tokens":40},"total_tokens":49}}"#,
    // vLLM
    r#"{"id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":~,"choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":null,"reasoning_content":null},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3,"prompt_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}"#,
    // DeepSeek, with thinking, and two choices
    " { \"id\" : \"u\", \"object\" : \"chat.completion\", \"created\" : 7, \"model\" : ~, \"choices\" : [ \
     {\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"hm\"},\"finish_reason\":\"stop\"},\n \
     {\"index\":1,\"message\":{\"role\":\"assistant\",\"content\":\"b\",\"reasoning_content\":\"hm\"},\"finish_reason\":\"stop\"}], \
     \"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"total_tokens\":12,\"completion_tokens_details\":{\"reasoning_tokens\":2}}}",
    // Mistral
    r#"{"id":"u","created":7,"model":~,"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3},"object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","tool_calls":null,"content":"a"}}]}"#,
];

#[test]
fn servers_texts_are_plain_except_the_models_name() {
    for plain in PLAIN {
        for model in ["fast", "a \"fast\" one", "up"] {
            let named = |name: &str| plain.replace('~', &crate::wire::json::quote_string(name));
            let (came, header) = (named("up"), header(model));
            let answer = read_plain_answer(&header, &Quirks::NONE, true, came.as_bytes())
                .expect("a plain answer");
            assert_eq!(String::from_utf8_lossy(&answer.body), named(model));
            assert_eq!(
                of_any_form(&header, &Quirks::NONE, true, came.as_bytes()),
                Ok(answer),
                "{came}"
            );
            let header = AnswerHeader {
                wants_labels: true,
                ..header
            };
            let labels = super::read_plain_answer(&header, &Quirks::NONE, true, came.as_bytes())
                .and_then(|answer| answer.labels);
            assert_eq!(
                labels.as_deref(),
                Labels::of_answer(came.as_bytes()).as_ref(),
                "{came}"
            );
        }
    }
}

/// Members that an object may have in place of a member, or next to it.
const TOP: &[&str] = &[
    r#""id":"x""#,
    r#""id":"""#,
    r#""id":null"#,
    r#""object":"chat.completion""#,
    r#""object":"chat.completion.chunk""#,
    r#""object":null"#,
    r#""created":5"#,
    r#""created":0"#,
    r#""created":7.0"#,
    r#""created":-7"#,
    r#""created":"7""#,
    r#""created":18446744073709551616"#,
    r#""model":{}"#,
    r#""error":null"#,
    r#""error":{"message":"no"}"#,
    r#""x_groq":{"id":1}"#,
    r#""x_groq":{"error":"no"}"#,
    r#""citations":["https://a.test"]"#,
    r#""obfuscation":"abc""#,
    r#""choices":[]"#,
    r#""choices":null"#,
    r#""choices":[{"index":0,"message":{"role":"assistant","content":"b"},"finish_reason":"stop"}]"#,
    r#""usage":null"#,
    r#""usage":{}"#,
    r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}"#,
    r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":13}"#,
    r#""usage":{"prompt_tokens":9,"completion_tokens":3}"#,
    r#""usage":{"prompt_tokens":9.0,"completion_tokens":3,"total_tokens":12}"#,
    r#""usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#,
    r#""usage":{"prompt_tokens":1073741825,"completion_tokens":3,"total_tokens":12}"#,
    r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"num_cached_tokens":4}"#,
    r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4}}"#,
    r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":40}}"#,
    r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"cached_tokens":4,"prompt_tokens_details":null}"#,
    r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{},"prompt_tokens_details":null,"cached_tokens":4}"#,
    r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":32,"completion_tokens_details":{"reasoning_tokens":20}}"#,
    r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"completion_tokens_details":{"reasoning_tokens":20},"cost":0.5}"#,
];
const CHOICE: &[&str] = &[
    r#""index":0"#,
    r#""index":1"#,
    r#""index":0.0"#,
    r#""index":null"#,
    r#""finish_reason":"stop""#,
    r#""finish_reason":"length""#,
    r#""finish_reason":"tool_calls""#,
    r#""finish_reason":"content_filter""#,
    r#""finish_reason":"eos""#,
    r#""finish_reason":"st\u006fp""#,
    r#""finish_reason":"error""#,
    r#""finish_reason":"weird""#,
    r#""finish_reason":null"#,
    r#""logprobs":null"#,
    r#""logprobs":{"content":[]}"#,
    r#""logprobs":{"tokens":[]}"#,
    r#""logprobs":[]"#,
    r#""usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}"#,
    r#""error":"no""#,
    r#""error":null"#,
    r#""native_finish_reason":"STOP""#,
    r#""delta":{"content":"d","reasoning":"hm"}"#,
    r#""delta":null"#,
    r#""message":null"#,
    r#""message":{"role":"assistant","content":"c"}"#,
    r#""content_filter_results":{}"#,
];
const MESSAGE: &[&str] = &[
    r#""role":"assistant""#,
    r#""role":"model""#,
    r#""role":null"#,
    r#""content":"a""#,
    r#""content":"""#,
    r#""content":null"#,
    r#""content":[{"type":"text","text":"a"},{"type":"thinking","thinking":"hm"}]"#,
    r#""content":7"#,
    r#""refusal":null"#,
    r#""refusal":"no""#,
    r#""refusal":[]"#,
    r#""annotations":[{"type":"url_citation"}]"#,
    r#""audio":null"#,
    r#""audio":{"id":"x","expires_at":7}"#,
    r#""function_call":null"#,
    r#""function_call":{"name":"f","arguments":"{"}"#,
    r#""tool_calls":null"#,
    r#""tool_calls":[]"#,
    r#""tool_calls":{}"#,
    r#""tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]"#,
    r#""tool_calls":[{"function":{"name":"f"}}]"#,
    r#""reasoning_content":null"#,
    r#""reasoning_content":"hm""#,
    r#""reasoning_content":["hm"]"#,
    r#""reasoning":null"#,
    r#""reasoning":"hm""#,
    r#""reasoning":{"x":1}"#,
    r#""reasoning_details":[]"#,
    r#""provider_specific_fields":null"#,
    r#""images":[{"image_url":{"url":"data:"}}]"#,
    r#""\u0072ole":"assistant""#,
    r#""x":{"role":"user"}"#,
];

/// Puts members into an object, before or after those that it has, or in their places.
fn with<'a>(has: &[&'a str], others: &[(&'a str, usize, bool)]) -> String {
    let mut members = has.to_vec();
    for (other, place, is_instead) in others {
        let place = place % (members.len() + 1);
        match members.get_mut(place).filter(|_| *is_instead) {
            Some(member) => *member = other,
            None => members.insert(place, other),
        }
    }
    format!("{{{}}}", members.join(","))
}

fn others(of: &'static [&'static str]) -> impl Strategy<Value = Vec<(&'static str, usize, bool)>> {
    // Half of the objects are as they should be.
    prop_oneof![
        Just(Vec::new()),
        prop::collection::vec((select(of), 0..9usize, any::<bool>()), 0..3)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The fast way has the result of the slow way, or leaves the answer to it.
    #[test]
    fn a_plain_answer_is_what_any_answer_becomes(
        top in others(TOP),
        choices in prop::collection::vec((others(CHOICE), others(MESSAGE)), 1..3),
        bytes in prop_oneof![
            3 => Just(Vec::new()),
            1 => prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..3),
        ],
        (show_reasoning, wants_json, shows_cost) in (any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.1)),
        quirks in select(vec![&Quirks::NONE, &quirks::XAI]),
    ) {
        let choices = choices.iter().enumerate().map(|(place, (choice, message))| {
            let message = format!(r#""message":{}"#, with(&[r#""role":"assistant""#, r#""content":"a""#], message));
            with(&[&format!(r#""index":{place}"#), &message, r#""finish_reason":"stop""#], choice)
        });
        let choices = format!(r#""choices":[{}]"#, choices.collect::<Vec<_>>().join(","));
        let usage = r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}"#;
        let usual = [r#""id":"u""#, r#""object":"chat.completion""#, r#""created":7"#, r#""model":"up""#, &choices, usage];
        let mut text = with(&usual, &top).into_bytes();
        for (place, byte, how) in bytes {
            let place = place.index(text.len().max(1));
            match how {
                0 => text.iter_mut().skip(place).take(1).for_each(|found| *found = byte),
                1 => text.insert(place.min(text.len()), byte),
                _ => text.truncate(place),
            }
        }
        let cost = if shows_cost { ShowCost::AtPrice(None) } else { ShowCost::No };
        let header = AnswerHeader { wants_json, cost, ..header("fast") };
        if let Some(answer) = read_plain_answer(&header, quirks, show_reasoning, &text) {
            prop_assert_eq!(of_any_form(&header, quirks, show_reasoning, &text), Ok(answer), "{}", String::from_utf8_lossy(&text));
        }
    }
}

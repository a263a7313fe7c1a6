use std::sync::Arc;

use proptest::prelude::*;

use super::super::model_traits;
use super::super::vertex::vertex_request;
use super::*;
use crate::front::chat::read;
use crate::front::fields::tests::{Worded, through};
use crate::neutral::traits::{Sampling, Traits};
use crate::neutral::{Kept, Refused, Thought};

/// The target that the tests ask.
pub(in super::super) fn target<'t>(
    model: &'t str,
    kept: &'t dyn Fn(&str) -> Option<Kept>,
) -> Target<'t> {
    Target {
        model,
        traits: model_traits(model),
        default_max_tokens: None,
        stream: false,
        within: None,
        kept,
    }
}

pub(in super::super) fn nothing_kept(_: &str) -> Option<Kept> {
    None
}

/// Body and losses, or the refusal.
pub(in super::super) fn written(
    model: &str,
    body: &str,
) -> Result<(String, String), (String, String)> {
    shown(through(
        body.as_bytes(),
        &target(model, &nothing_kept),
        super::write_request,
    ))
}

pub(in super::super) fn shown(
    written: Result<Worded, Refused>,
) -> Result<(String, String), (String, String)> {
    match written {
        Ok(Written { body, losses, .. }) => {
            let body = String::from_utf8(body).unwrap();
            assert!(
                serde_json::from_str::<serde_json::Value>(&body).is_ok(),
                "{body}"
            );
            Ok((body, losses.names().join(" ")))
        }
        Err(Refused::Invalid(complaint)) => {
            Err((format!("invalid {}", complaint.param), complaint.message))
        }
        Err(Refused::Unsupported(complaint)) => Err((
            format!("unsupported {}", complaint.param),
            complaint.message,
        )),
    }
}

const HI: &str = r#""messages":[{"role":"user","content":"hi"}]"#;
const SAID: &str = r#""contents":[{"role":"user","parts":[{"text":"hi"}]}]"#;
/// A model that is known not to think.
const PLAIN: &str = "gemini-2.0-flash";

/// Checks a request with these fields: the members after `contents`, and the losses.
#[track_caller]
fn check(model: &str, fields: &str, expected: &str, losses: &str) {
    let comma = |text: &str| {
        if text.is_empty() {
            String::new()
        } else {
            format!(",{text}")
        }
    };
    let found = written(model, &format!("{{{HI}{}}}", comma(fields)));
    assert_eq!(
        found,
        Ok((format!("{{{SAID}{}}}", comma(expected)), losses.to_owned())),
        "{fields}"
    );
}

#[track_caller]
fn check_config(model: &str, fields: &str, config: &str, losses: &str) {
    let expected = if config.is_empty() {
        String::new()
    } else {
        format!(r#""generationConfig":{{{config}}}"#)
    };
    check(model, fields, &expected, losses);
}

#[track_caller]
fn check_refused(model: &str, fields: &str, refused: &str) {
    let found = written(model, &format!("{{{HI},{fields}}}"));
    assert_eq!(
        found.map_err(|(refused, _)| refused),
        Err(refused.to_owned()),
        "{fields}"
    );
}

#[test]
fn a_request_of_few_words() {
    check(PLAIN, "", "", "");
    check(
        "models/gemini-2.0-flash",
        r#""model":"m","stream":true"#,
        "",
        "",
    );
}

#[test]
fn numbers_go_as_they_came() {
    check_config(
        PLAIN,
        r#""temperature":0.70,"top_p":1e-1,"top_k":40,"max_tokens":512,"seed":7,"presence_penalty":0.5,"frequency_penalty":-2"#,
        r#""temperature":0.70,"topP":1e-1,"topK":40,"maxOutputTokens":512,"seed":7,"presencePenalty":0.5,"frequencyPenalty":-2"#,
        "",
    );
    check_config(
        PLAIN,
        r#""max_completion_tokens":9,"max_tokens":9"#,
        r#""maxOutputTokens":9"#,
        "",
    );
    check_config(PLAIN, r#""seed":-2147483648"#, r#""seed":-2147483648"#, "");
}

#[test]
fn numbers_out_of_bounds_are_cut() {
    check_config(
        PLAIN,
        r#""temperature":2.5,"top_p":-0.1"#,
        r#""temperature":2,"topP":0"#,
        "temperature top_p",
    );
    check_config(
        PLAIN,
        r#""temperature":-1,"top_p":1.5"#,
        r#""temperature":0,"topP":1"#,
        "temperature top_p",
    );
    check_config(
        PLAIN,
        r#""presence_penalty":2,"frequency_penalty":-2.1"#,
        r#""presencePenalty":1.99,"frequencyPenalty":-2"#,
        "presence_penalty frequency_penalty",
    );
    check_config(
        PLAIN,
        r#""max_tokens":9999"#,
        r#""maxOutputTokens":8192"#,
        "max_tokens",
    );
    check_config(PLAIN, r#""seed":2147483648"#, "", "seed");
    check_config(
        PLAIN,
        r#""presence_penalty":0,"frequency_penalty":0.0"#,
        "",
        "",
    );
    check_config(
        "gemini-2.5-flash-image",
        r#""presence_penalty":1,"frequency_penalty":1"#,
        "",
        "presence_penalty frequency_penalty",
    );
}

#[test]
fn the_catalog_has_its_say() {
    let body = format!(r#"{{{HI},"temperature":0.5,"top_p":0.5}}"#);
    #[track_caller]
    fn check(request: &str, traits: Traits, default: Option<u64>, config: &str, losses: &str) {
        let target = Target {
            traits,
            default_max_tokens: default,
            ..target("tuned", &nothing_kept)
        };
        let expected = format!(r#"{{{SAID},"generationConfig":{{{config}}}}}"#);
        assert_eq!(
            shown(through(request.as_bytes(), &target, super::write_request)),
            Ok((expected, losses.to_owned()))
        );
    }
    let known = Traits::UNKNOWN;
    let with = |sampling| Traits { sampling, ..known };
    check(
        &body,
        known,
        Some(64),
        r#""temperature":0.5,"topP":0.5,"maxOutputTokens":64"#,
        "",
    );
    check(
        &body,
        Traits {
            max_output: Some(32),
            ..known
        },
        Some(64),
        r#""temperature":0.5,"topP":0.5,"maxOutputTokens":32"#,
        "",
    );
    check(
        &body,
        with(Sampling::One),
        None,
        r#""temperature":0.5"#,
        "top_p",
    );
    check(
        &body,
        with(Sampling::Neither),
        Some(1),
        r#""maxOutputTokens":1"#,
        "temperature top_p",
    );
    // What is lost is named in the order of the request: `on_loss: refuse` names the first.
    check(
        &format!(r#"{{{HI},"temperature":3,"max_tokens":100}}"#),
        Traits {
            max_output: Some(32),
            ..known
        },
        None,
        r#""temperature":2,"maxOutputTokens":32"#,
        "temperature max_tokens",
    );
    let only = format!(r#"{{{HI},"top_p":0.5}}"#);
    check(&only, with(Sampling::One), None, r#""topP":0.5"#, "");
}

#[test]
fn stops_and_choices() {
    check_config(PLAIN, r#""stop":"x""#, r#""stopSequences":["x"]"#, "");
    check_config(
        PLAIN,
        r#""stop":["a","","b\n"],"n":1"#,
        r#""stopSequences":["a","b\n"]"#,
        "",
    );
    check_config(PLAIN, r#""stop":[""],"n":8"#, r#""candidateCount":8"#, "");
    check_config(
        PLAIN,
        r#""stop":["1","2","","3","4","5"]"#,
        r#""stopSequences":["1","2","3","4","5"]"#,
        "",
    );
    check_refused(
        PLAIN,
        r#""stop":["1","2","3","4","5","6"]"#,
        "unsupported stop",
    );
    check_refused(PLAIN, r#""n":9"#, "unsupported n");
}

#[test]
fn what_would_mean_something_else_is_refused() {
    check_refused(PLAIN, r#""logprobs":true"#, "unsupported logprobs");
    check_refused(
        PLAIN,
        r#""logprobs":true,"top_logprobs":2"#,
        "unsupported logprobs",
    );
    check_refused(
        PLAIN,
        r#""modalities":["text","audio"],"audio":{"voice":"alloy"}"#,
        "unsupported modalities",
    );
}

#[test]
fn what_has_no_place_is_told() {
    check(
        PLAIN,
        r#""user":"u","metadata":{"a":"b"},"store":true,"logit_bias":{"1":2},"verbosity":"low","prediction":{"type":"content"},"prompt_cache_key":"k","web_search_options":{},"odd name":1"#,
        "",
        "user metadata store logit_bias verbosity prediction prompt_cache_key web_search_options other",
    );
    check(
        PLAIN,
        r#""store":false,"logit_bias":{},"metadata":{},"modalities":["text"],"parallel_tool_calls":false,"verbosity":null"#,
        "",
        "",
    );
    check(PLAIN, r#""safety_identifier":"s""#, "", "safety_identifier");
    let long = format!(r#""{}":1"#, "x".repeat(65));
    check(PLAIN, &long, "", "other");
}

#[test]
fn tiers() {
    check(
        PLAIN,
        r#""service_tier":"flex""#,
        r#""serviceTier":"flex""#,
        "",
    );
    check(
        PLAIN,
        r#""service_tier":"priority""#,
        r#""serviceTier":"priority""#,
        "",
    );
    check(PLAIN, r#""service_tier":"auto""#, "", "");
    check(PLAIN, r#""service_tier":"default""#, "", "");
    check(PLAIN, r#""service_tier":"scale""#, "", "service_tier");
}

#[test]
fn metadata_are_labels_on_vertex_if_they_can_be() {
    #[track_caller]
    fn check(metadata: &str, labels: Option<&str>) {
        let body = format!(r#"{{{HI},"metadata":{metadata}}}"#);
        let labels_written =
            labels.map_or_else(String::new, |labels| format!(r#","labels":{labels}"#));
        let losses = if labels.is_some() { "" } else { "metadata" };
        let found = shown(through(
            body.as_bytes(),
            &target(PLAIN, &nothing_kept),
            vertex_request,
        ));
        assert_eq!(
            found,
            Ok((format!("{{{SAID}{labels_written}}}"), losses.to_owned())),
            "{metadata}"
        );
    }
    check(
        r#"{"team":"a-1_b","x":""}"#,
        Some(r#"{"team":"a-1_b","x":""}"#),
    );
    check(r#"{"Team":"a"}"#, None);
    check(r#"{"1":"a"}"#, None);
    check(r#"{"":"a"}"#, None);
    check(r#"{"a":"B"}"#, None);
    check(r#"{"a":1}"#, None);
    check(&format!(r#"{{"a":"{}"}}"#, "x".repeat(64)), None);
    let many: Vec<_> = (0..65).map(|n| format!(r#""k{n}":"v""#)).collect();
    check(&format!("{{{}}}", many.join(",")), None);
}

#[test]
fn efforts_are_budgets_or_levels() {
    let think = |model, effort: &str, config: &str, losses: &str| {
        let field = format!(r#""reasoning_effort":"{effort}""#);
        let config = if config.is_empty() {
            String::new()
        } else {
            format!(r#""thinkingConfig":{{{config}}}"#)
        };
        check_config(model, &field, &config, losses);
    };
    let shown = r#""includeThoughts":true"#;
    think(
        "gemini-2.5-flash",
        "high",
        &format!(r#""thinkingBudget":24576,{shown}"#),
        "",
    );
    think("gemini-2.5-flash", "none", r#""thinkingBudget":0"#, "");
    think(
        "gemini-2.5-pro",
        "none",
        r#""thinkingBudget":128"#,
        "reasoning_effort",
    );
    think(
        "gemini-2.5-pro",
        "max",
        &format!(r#""thinkingBudget":32768,{shown}"#),
        "",
    );
    think(
        "gemini-3-pro-preview",
        "low",
        &format!(r#""thinkingLevel":"LOW",{shown}"#),
        "",
    );
    think(
        "gemini-3-pro-preview",
        "minimal",
        &format!(r#""thinkingLevel":"LOW",{shown}"#),
        "reasoning_effort",
    );
    think(
        "gemini-3.8-flash",
        "none",
        r#""thinkingLevel":"MINIMAL""#,
        "reasoning_effort",
    );
    think(
        "gemini-3.8-flash",
        "xhigh",
        &format!(r#""thinkingLevel":"HIGH",{shown}"#),
        "reasoning_effort",
    );
    think(PLAIN, "none", "", "");
    let bounded = |model, effort: &str, limit: u64, config: &str, losses: &str| {
        let field = format!(r#""reasoning_effort":"{effort}","max_tokens":{limit}"#);
        let config = if config.is_empty() {
            String::new()
        } else {
            format!(r#","thinkingConfig":{{{config}}}"#)
        };
        check_config(
            model,
            &field,
            &format!(r#""maxOutputTokens":{limit}{config}"#),
            losses,
        );
    };
    bounded(
        "gemini-2.5-flash",
        "high",
        1000,
        &format!(r#""thinkingBudget":750,{shown}"#),
        "",
    );
    bounded(
        "gemini-2.5-flash",
        "low",
        2000,
        &format!(r#""thinkingBudget":1024,{shown}"#),
        "",
    );
    bounded("gemini-2.5-flash", "low", 3, shown, "reasoning_effort");
    bounded("gemini-2.5-flash", "none", 3, r#""thinkingBudget":0"#, "");
    bounded(
        "gemini-2.5-flash-lite",
        "low",
        680,
        shown,
        "reasoning_effort",
    );
    bounded(
        "gemini-2.5-pro",
        "max",
        172,
        &format!(r#""thinkingBudget":129,{shown}"#),
        "",
    );
    bounded("gemini-2.5-pro", "max", 168, shown, "reasoning_effort");
    bounded("gemini-2.5-pro", "none", 100, "", "reasoning_effort");
    think(PLAIN, "low", "", "reasoning_effort");
    think("tuned", "none", "", "reasoning_effort");
    // The request sets nothing: thoughts are shown if there are any.
    check_config(
        "gemini-2.5-pro",
        "",
        &format!(r#""thinkingConfig":{{{shown}}}"#),
        "",
    );
    check_config(
        "gemini-3.8-flash",
        "",
        &format!(r#""thinkingConfig":{{{shown}}}"#),
        "",
    );
    check_config(PLAIN, "", "", "");
    check_config("tuned", "", "", "");
}

#[test]
fn formats() {
    let json = r#""responseMimeType":"application/json""#;
    check_config(PLAIN, r#""response_format":{"type":"text"}"#, "", "");
    check_config(
        PLAIN,
        r#""response_format":{"type":"json_object"}"#,
        json,
        "",
    );
    check_config(
        PLAIN,
        r#""response_format":{"type":"json_schema","json_schema":{"name":"n"}}"#,
        json,
        "",
    );
    check_config(
        PLAIN,
        r#""response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"$schema":"s","type":"object","properties":{"a":{"type":"integer"}}}}}"#,
        &format!(
            r#"{json},"responseJsonSchema":{{"type":"object","properties":{{"a":{{"type":"integer"}}}}}}"#
        ),
        "",
    );
    check_config(
        PLAIN,
        r#""response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","schema":{"type":"object","pattern":"x"}}}"#,
        &format!(r#"{json},"responseJsonSchema":{{"type":"object"}}"#),
        "response_format.json_schema.description response_format.json_schema.schema",
    );
    check_refused(
        "gemma-3-27b-it",
        r#""response_format":{"type":"json_object"}"#,
        "unsupported response_format",
    );
}

#[test]
fn an_empty_conversation_is_no_request() {
    let found = written(PLAIN, r#"{"messages":[{"role":"user","content":""}]}"#);
    assert_eq!(
        found,
        Err((
            "unsupported messages".into(),
            "This model needs a message that is not empty.".into()
        ))
    );
}

#[test]
fn the_last_word() {
    let body = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#;
    assert!(
        through(
            body.as_bytes(),
            &target(PLAIN, &nothing_kept),
            super::write_request
        )
        .is_ok()
    );
    let target = Target {
        traits: Traits {
            prefill: false,
            ..Traits::UNKNOWN
        },
        ..target("tuned", &nothing_kept)
    };
    assert_eq!(
        shown(through(body.as_bytes(), &target, super::write_request))
            .unwrap_err()
            .0,
        "unsupported messages"
    );
}

const GOOD: &str = r##"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"é\n"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f g","arguments":"{\"a\":1}"},"extra_content":{"google":{"thought_signature":"eA=="}}}]},{"role":"tool","tool_call_id":"c1","content":"{}"}],"tools":[{"type":"function","function":{"name":"f g","parameters":{"type":"object","properties":{"a":{"const":1}}}}}],"tool_choice":{"type":"function","function":{"name":"f g"}},"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},"stop":["a"],"seed":7,"temperature":0.5,"reasoning_effort":"low","metadata":{"a":"b"}}"##;

proptest! {
    /// A request that can be read can be written, or is refused; and the written one is JSON.
    #[test]
    fn nothing_panics(at in 0..GOOD.len(), bytes in proptest::collection::vec(any::<u8>(), 0..3), model in 0..4usize) {
        let mut body = GOOD.as_bytes().to_vec();
        body.splice(at..(at + bytes.len()).min(GOOD.len()), bytes);
        let kept = |_: &str| -> Option<Kept> { Some(Arc::from([Thought { signature: Some("eQ==".into()), ..Thought::default() }])) };
        let model = ["gemini-2.5-pro", "gemini-3.8-flash", "gemma-3-27b-it", "tuned"][model];
        // The way of a body: who checks it is JSON comes before.
        if serde_json::from_slice::<serde_json::Value>(&body).is_ok()
            && let Ok((request, _)) = read::read_request(&body)
        {
            for written in [super::write_request(&request, &target(model, &kept)), vertex_request(&request, &target(model, &kept))].into_iter().flatten() {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(&written.body).is_ok());
            }
        }
    }
}

#[test]
fn the_book_has_the_rules_for_options() {
    crate::upstream::shared::options::tests::check_book("gemini", &OPTIONS);
}

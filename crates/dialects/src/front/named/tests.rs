use bytes::Bytes;
use proptest::prelude::*;

use crate::front::references::{AllowedReferences, Urls};
use crate::front::{CHAT, Envelope, Front, GEMINI, MESSAGES, PathRequest, RESPONSES};
use crate::neutral::Endpoint;
use crate::neutral::Refused;
use crate::upstream::{anthropic, gemini, openai};
use crate::{Dialect, OtherModel, Outbound, Translate};

const NOTHING: AllowedReferences = AllowedReferences::NOTHING;

/// A door, an account of its format if there is one, and a request for the model `m`.
fn doors() -> [(&'static Front, Dialect, &'static str); 4] {
    let openai = || Dialect::from(&openai::PROTOCOL);
    [
        (
            &CHAT,
            openai(),
            r#"{"model":"m","messages":[{"role":"user","content":"x"}]"#,
        ),
        (
            &MESSAGES,
            Dialect::from(&anthropic::PROTOCOL),
            r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]"#,
        ),
        (&RESPONSES, openai(), r#"{"model":"m","input":"x""#),
        (
            &GEMINI,
            Dialect::from(&gemini::PROTOCOL),
            r#"{"contents":[{"parts":[{"text":"x"}]}]"#,
        ),
    ]
}

fn envelope(front: &'static Front, body: &[u8]) -> Envelope {
    let model = (*front == GEMINI).then(|| "m".to_owned());
    front
        .envelope(body)
        .expect("a request")
        .with_path(PathRequest {
            model,
            stream: false,
        })
}

/// Writes a request for the account's model `up`. The caller may use `ours`, which is `theirs`
/// there, and `far`, which is elsewhere.
fn write(front: &'static Front, dialect: &Dialect, body: &str) -> Result<Outbound, Refused> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    dialect.write(&Translate {
        traits: (dialect.protocol.traits)("up"),
        other: &|name| match name {
            "ours" => OtherModel::Here("theirs".into()),
            "far" => OtherModel::Elsewhere,
            _ => OtherModel::Forbidden,
        },
        ..Translate::new(&body, &envelope(front, &body), "up")
    })
}

fn is_refused(front: &'static Front, dialect: &Dialect, body: &str) -> bool {
    front.envelope(body.as_bytes()).is_err() || write(front, dialect, body).is_err()
}

fn param(refused: Refused) -> String {
    match refused {
        Refused::Unsupported(why) | Refused::Invalid(why) => why.param,
    }
}

/// Every place where a request of a door can name a model, with the field's name for callers.
const MODELS: [(&str, &str, &str); 30] = [
    ("chat", r#""models":["m","NAME"]"#, "models[1]"),
    ("chat", r#""fallbacks":["NAME"]"#, "fallbacks[0]"),
    (
        "chat",
        r#""fallbacks":[{"model":"NAME","messages":[{"role":"user","content":"x"}]}]"#,
        "fallbacks[0].model",
    ),
    (
        "chat",
        r#""fallbacks":[{"m":["NAME"]}]"#,
        "fallbacks[0].m[0]",
    ),
    (
        "chat",
        r#""fallbacks":[{"m":"NAME","timeout":9}]"#,
        "fallbacks[0].m",
    ),
    (
        "chat",
        r#""fallbacks":[{"to":{"target":["NAME"]}}]"#,
        "fallbacks[0].to.target",
    ),
    (
        "chat",
        r#""fallbacks":[{"model":"NAME","effort":{"level":"high"}}]"#,
        "fallbacks[0].model",
    ),
    (
        "chat",
        r#""context_window_fallbacks":[{"m":["NAME"]}]"#,
        "context_window_fallbacks[0].m[0]",
    ),
    (
        "chat",
        r#""content_policy_fallbacks":[{"m":["NAME"]}]"#,
        "content_policy_fallbacks[0].m[0]",
    ),
    (
        "chat",
        r#""plugins":[{"id":"web","model":"NAME"}]"#,
        "plugins[0].model",
    ),
    (
        "chat",
        r#""plugins":[{"id":"auto-router","allowed_models":["NAME"]}]"#,
        "plugins[0].allowed_models[0]",
    ),
    ("chat", r#""draft_model":"NAME""#, "draft_model"),
    ("chat", r#""adapter_id":"NAME""#, "adapter_id"),
    (
        "chat",
        r#""extra_body":{"fallback\u005fmodels":["NAME"]}"#,
        "extra_body.fallback_models[0]",
    ),
    (
        "chat",
        r#""moderation":{"model":"NAME"}"#,
        "moderation.model",
    ),
    (
        "chat",
        r#""tools":[{"parameters":{"model":"NAME"},"type":"openrouter:advisor"}]"#,
        "tools[0].parameters.model",
    ),
    (
        "messages",
        r#""fallbacks":[{"model":"NAME","thinking":{"type":"adaptive"},"max_tokens":9}]"#,
        "fallbacks[0].model",
    ),
    (
        "chat",
        r#""tools":[{"type":"openrouter:a","Type":"function","parameters":{"model":"NAME"}}]"#,
        "tools[0].parameters.model",
    ),
    (
        "chat",
        r#""tools":[{"type":"openrouter:a","parameters":{"model":"NAME"},"PARAMETERS":{}}]"#,
        "tools[0].parameters.model",
    ),
    (
        "chat",
        r#""plugins":[{"id":"x","parameters":{"model":"NAME"}}]"#,
        "plugins[0].parameters.model",
    ),
    ("messages", r#""fallbacks":"NAME""#, "fallbacks"),
    (
        "messages",
        r#""tools":[{"model":"NAME","type":"advisor_20260301","name":"a"}]"#,
        "tools[0].model",
    ),
    (
        "messages",
        r#""new_field":{"inner":[{"model":"NAME"}]}"#,
        "new_field.inner[0].model",
    ),
    (
        "responses",
        r#""tools":[{"type":"image_generation","model":"NAME"}]"#,
        "tools[0].model",
    ),
    (
        "responses",
        r#""moderation":{"model":"NAME"}"#,
        "moderation.model",
    ),
    ("gemini", r#""model":"NAME""#, "model"),
    ("gemini", r#""model":"models/NAME""#, "model"),
    (
        "gemini",
        r#""generateContentRequest":{"model":"models/NAME"}"#,
        "generateContentRequest.model",
    ),
    (
        "gemini",
        r#""generation_config":{"routingConfig":{"manualMode":{"modelName":"NAME"}}}"#,
        "routingConfig.manualMode.modelName",
    ),
    (
        "gemini",
        r#""tools":[{"newTool":{"model":"NAME"}}]"#,
        "tools[0].newTool.model",
    ),
];

#[test]
fn a_model_is_the_requests_or_an_allowed_one() {
    for (front, dialect, base) in doors() {
        for (_, field, expected) in MODELS.iter().filter(|(door, ..)| *door == front.name) {
            let body = |name: &str| format!("{base},{}}}", field.replace("NAME", name));
            assert_eq!(
                write(front, &dialect, &body("dear"))
                    .err()
                    .map(param)
                    .as_deref(),
                Some(*expected),
                "{field}"
            );
            let passes = *front != RESPONSES;
            for (name, becomes) in [("m", "up"), ("ours", "theirs"), ("far", "")] {
                match write(front, &dialect, &body(name)) {
                    Ok(outbound) => {
                        let written = String::from_utf8(outbound.body.concat()).unwrap();
                        let is_there = written.contains(&format!(r#""{becomes}""#));
                        assert!(
                            is_there || !passes || *front == GEMINI,
                            "{field} {name}: {written}"
                        );
                        assert!(
                            !written.contains("dear")
                                && (name == "m" || !written.contains(&format!(r#""{name}""#)))
                        );
                        assert!(name != "far" || !passes, "{field}");
                    }
                    // A field that another format cannot express is refused for that reason.
                    Err(why) => assert!(name == "far" || !passes, "{field} {name}: {why:?}"),
                }
            }
        }
    }
}

#[test]
fn unknown_tools_with_a_model_are_refused() {
    for (front, dialect, base) in doors().into_iter().filter(|(front, ..)| **front != GEMINI) {
        for name in ["m", "ours"] {
            for types in [
                r#""type":"new_tool""#,
                r#""type":"new_tool","type_":"function""#,
            ] {
                let body = format!(r#"{base},"tools":[{{"model":"{name}",{types}}}]}}"#);
                assert_eq!(
                    write(front, &dialect, &body).err().map(param).as_deref(),
                    Some("tools[0].model"),
                    "{body}"
                );
            }
        }
    }
}

#[test]
fn a_counting_request_has_the_accounts_names() {
    let body = Bytes::from_static(
        br#"{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"advisor_20260301","name":"a","model":"ours"}]}"#,
    );
    let form = MESSAGES.counting.as_ref().unwrap();
    let (body, envelope) = (form.read)(
        body,
        &PathRequest {
            model: None,
            stream: false,
        },
    )
    .expect("a request to count");
    let other = |name: &str| {
        if name == "ours" {
            OtherModel::Here("theirs".into())
        } else {
            OtherModel::Forbidden
        }
    };
    let job = Translate {
        other: &other,
        ..Translate::new(&body, &envelope, "up")
    };
    let outbound = Dialect::from(&anthropic::PROTOCOL)
        .write(&job)
        .expect("it can be asked");
    let written = String::from_utf8(outbound.body.concat()).unwrap();
    assert!(
        written.contains(r#""model":"up""#) && written.contains(r#""model":"theirs""#),
        "{written}"
    );
}

/// Tools may stand in items of the conversation too, and in namespaces.
#[test]
fn tools_of_items_and_namespaces_are_judged_equally() {
    let dialect = Dialect::from(&openai::PROTOCOL).for_endpoint(Endpoint::Responses);
    for (place, param_ends) in [
        (
            r#""input":[{"type":"additional_tools","role":"developer","tools":[TOOL]}]"#,
            "tools[0].model",
        ),
        (
            r#""input":[{"tools":[TOOL],"type":"tool_search_output","call_id":"c"}]"#,
            "tools[0].model",
        ),
        (
            r#""input":[{"type":"additional_tools","tools":[{"type":"namespace","name":"n","tools":[TOOL]}]}]"#,
            "tools[0].tools[0].model",
        ),
        (
            r#""input":"x","tools":[{"type":"namespace","name":"n","tools":[TOOL]}]"#,
            "tools[0].tools[0].model",
        ),
    ] {
        let body = |kind: &str, name: &str| {
            let tool = format!(r#"{{"model":"{name}","type":"{kind}"}}"#);
            format!(r#"{{"model":"m",{}}}"#, place.replace("TOOL", &tool))
        };
        let refused = |body: String| {
            write(&RESPONSES, &dialect, &body)
                .err()
                .map(param)
                .unwrap_or_default()
        };
        assert!(
            refused(body("image_generation", "dear")).ends_with(param_ends),
            "{place}"
        );
        assert!(
            refused(body("new_tool", "ours")).ends_with(param_ends),
            "{place}"
        );
        // No namespace is known to hold a tool with a model.
        if place.contains("namespace") {
            assert!(
                refused(body("image_generation", "m")).ends_with(param_ends),
                "{place}"
            );
            continue;
        }
        for (name, becomes) in [("m", "up"), ("ours", "theirs")] {
            let written = write(&RESPONSES, &dialect, &body("image_generation", name))
                .expect("it passes")
                .body
                .concat();
            let expected = body("image_generation", becomes);
            let tool = expected
                .split_once(place.split("TOOL").next().unwrap())
                .unwrap()
                .1;
            assert!(String::from_utf8_lossy(&written).contains(tool), "{place}");
        }
    }
}

#[test]
fn a_tool_whose_type_changes_later_is_refused() {
    let (_, _, base) = &doors()[0];
    let tool = r#"{"type":"function","parameters":{"model":"dear"},"type":"openrouter:subagent"}"#;
    assert!(
        CHAT.envelope(format!(r#"{base},"tools":[{tool}]}}"#).as_bytes())
            .is_err()
    );
}

#[test]
fn many_schemas_are_not_counted_as_names() {
    let (front, _, base) = &doors()[2];
    let tool =
        r#"{"name":"f","parameters":{"properties":{"a":1},"model":"dear"},"type":"function"}"#;
    let body = |tools: usize| format!(r#"{base},"tools":[{}]}}"#, vec![tool; tools].join(","));
    assert!(
        envelope(front, body(2 * super::MAX_NAMED).as_bytes())
            .named
            .is_empty()
    );
    let named = body(2 * super::MAX_NAMED).replace("function", "openrouter:x");
    assert!(RESPONSES.envelope(named.as_bytes()).is_err());
}

#[test]
fn words_and_schemas_of_callers_name_no_model() {
    let schema = r#"{"type":"object","properties":{"model":{"type":"string","enum":["dear"]},"url":{"default":"file:///x"}}}"#;
    for (door, field) in [
        (
            "chat",
            format!(
                r#""tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}]"#
            ),
        ),
        (
            "chat",
            format!(r#""functions":[{{"name":"f","parameters":{schema}}}]"#),
        ),
        (
            "chat",
            format!(
                r#""response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{schema}}}}}"#
            ),
        ),
        (
            "chat",
            r#""metadata":{"model":"dear","url":"http://10.0.0.1/"}"#.to_owned(),
        ),
        (
            "chat",
            r#""models":[],"fallbacks":null,"draft_model":"""#.replace(r#""""#, r#""m""#),
        ),
        (
            "messages",
            format!(r#""tools":[{{"name":"f","input_schema":{schema}}}]"#),
        ),
        (
            "responses",
            format!(r#""tools":[{{"name":"f","parameters":{schema},"type":"function"}}]"#),
        ),
        (
            "responses",
            format!(r#""text":{{"format":{{"type":"json_schema","name":"n","schema":{schema}}}}}"#),
        ),
        (
            "gemini",
            format!(
                r#""tools":[{{"functionDeclarations":[{{"name":"f","parameters":{schema}}}]}}]"#
            ),
        ),
        (
            "gemini",
            format!(r#""generationConfig":{{"responseJsonSchema":{schema}}}"#),
        ),
    ] {
        for (front, dialect, base) in doors().into_iter().filter(|(front, ..)| front.name == door) {
            let body = format!("{base},{field}}}");
            let found = envelope(front, body.as_bytes());
            assert!(
                found
                    .named
                    .iter()
                    .all(|named| named.is_model() && door == "chat"),
                "{body} {found:?}"
            );
            assert_eq!(
                found.check_references(&NOTHING, body.as_bytes()),
                Ok(()),
                "{body}"
            );
            if let Err(why) = write(front, &dialect, &body) {
                assert!(!format!("{why:?}").contains("names a model"), "{why:?}");
            }
        }
    }
}

/// Every place where a request of a door can name something outside its conversation, with the word
/// that allows it.
const STORED: [(&str, &str, &str); 21] = [
    (
        "chat",
        r#""data_sources":[{"type":"azure_search"}]"#,
        "data_sources",
    ),
    (
        "chat",
        r#""dataSources":[{"type":"azure_search"}]"#,
        "data_sources",
    ),
    ("chat", r#""cached_content":"a""#, "cached"),
    (
        "chat",
        r#""extra_body":{"google":{"Cached_Content":"a"}}"#,
        "cached",
    ),
    ("chat", r#""prompt":{"id":"pmpt_1"}"#, "files"),
    ("chat", r#""api_base_url":"http://10.0.0.1/""#, "urls"),
    ("chat", r#""callback":{"url":"http://10.0.0.1/"}"#, "urls"),
    ("messages", r#""container":"c_1""#, "files"),
    (
        "messages",
        r#""container":{"skills":[{"type":"custom","skill_id":"s"}]}"#,
        "files",
    ),
    ("messages", r#""thread":{"id":"t_1"}"#, "files"),
    (
        "messages",
        r#""mcp_servers":[{"type":"url","url":"http://10.0.0.1/x","name":"a"}]"#,
        "urls",
    ),
    (
        "responses",
        r#""tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]"#,
        "files",
    ),
    (
        "responses",
        r#""tools":[{"type":"code_interpreter","container":"cntr_1"}]"#,
        "files",
    ),
    (
        "responses",
        r#""tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["file-1"]}}]"#,
        "files",
    ),
    (
        "responses",
        r#""tools":[{"type":"mcp","server_label":"a","server_url":"http://10.0.0.1/"}]"#,
        "urls",
    ),
    (
        "responses",
        r#""tools":[{"type":"image_generation","input_image_mask":{"file_id":"file-1"}}]"#,
        "files",
    ),
    ("gemini", r#""cachedContent":"cachedContents/1""#, "cached"),
    ("gemini", r#""cached_content":"cachedContents/1""#, "cached"),
    (
        "gemini",
        r#""tools":[{"fileSearch":{"fileSearchStoreNames":["fileSearchStores/1"]}}]"#,
        "files",
    ),
    (
        "gemini",
        r#""tools":{"retrieval":{"vertexRagStore":{"ragCorpora":["x"]}}}"#,
        "data_sources",
    ),
    (
        "gemini",
        r#""tools":[{"mcpServers":[{"streamableHttpTransport":{"url":"http://10.0.0.1/"}}]}]"#,
        "urls",
    ),
];

#[test]
fn things_beside_the_conversation_need_the_accounts_permission() {
    for (front, _, base) in doors() {
        for (_, field, word) in STORED.iter().filter(|(door, ..)| *door == front.name) {
            let body = format!("{base},{field}}}");
            let envelope = envelope(front, body.as_bytes());
            for (allowed, references) in [
                ("", NOTHING),
                (
                    "files",
                    AllowedReferences {
                        files: true,
                        ..NOTHING
                    },
                ),
                (
                    "data_sources",
                    AllowedReferences {
                        data_sources: true,
                        ..NOTHING
                    },
                ),
                (
                    "cached",
                    AllowedReferences {
                        cached: true,
                        ..NOTHING
                    },
                ),
                (
                    "urls",
                    AllowedReferences {
                        urls: Urls::Any,
                        ..NOTHING
                    },
                ),
            ] {
                let refused = envelope
                    .check_references(&references, body.as_bytes())
                    .is_err();
                assert_eq!(refused, allowed != *word, "{body} {allowed}");
            }
            assert!(envelope.may_refer());
            assert_eq!(
                envelope.check_references(&AllowedReferences::ALL, body.as_bytes()),
                Ok(())
            );
        }
    }
}

#[test]
fn what_is_empty_or_new_names_nothing() {
    for (door, field) in [
        ("chat", r#""data_sources":[],"cached_content":null"#),
        ("messages", r#""container":null"#),
        (
            "responses",
            r#""tools":[{"type":"code_interpreter","container":{"type":"auto"}}]"#,
        ),
        (
            "gemini",
            r#""cachedContent":"","tools":[{"googleSearch":{}},{"urlContext":{}}]"#,
        ),
    ] {
        for (front, _, base) in doors().into_iter().filter(|(front, ..)| front.name == door) {
            let body = format!("{base},{field}}}");
            assert!(!envelope(front, body.as_bytes()).may_refer(), "{body}");
        }
    }
}

#[test]
fn a_body_naming_more_than_needed_is_refused() {
    let many = |count: usize| {
        format!(
            r#"{{"model":"m","messages":[{{}}],"models":["m"{}]}}"#,
            r#","m""#.repeat(count - 1)
        )
    };
    assert!(CHAT.envelope(many(super::MAX_NAMED).as_bytes()).is_ok());
    assert!(
        CHAT.envelope(many(super::MAX_NAMED + 1).as_bytes())
            .is_err()
    );
}

/// A form for the model `m`, with these fields more.
fn form(fields: &[(&str, &str)]) -> String {
    let part = |(name, value): &(&str, &str)| {
        format!("--B\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    format!(
        "{}{}--B--\r\n",
        fields.iter().map(part).collect::<String>(),
        part(&("model", "m"))
    )
}

#[test]
fn a_form_is_judged_and_written_like_a_body() {
    for front in [
        Front::find("transcriptions").unwrap(),
        Front::find("image_edits").unwrap(),
    ] {
        let dialect =
            Dialect::from(&openai::PROTOCOL).for_endpoint(front.only_endpoint.expect("one kind"));
        for (field, value) in [
            ("fallbacks", "NAME"),
            ("models[]", "NAME"),
            ("JUDGE-Model", "NAME"),
            ("extra_body[deep][modelName]", "NAME"),
            ("extra_body", "{\"a\":[{\"fallback_models\":[\"NAME\"]}]}"),
        ] {
            let sent =
                |name: &str| form(&[(field, &value.replace("NAME", name)), ("language", "en")]);
            for (name, becomes) in [("m", "up"), ("ours", "theirs")] {
                let written = write(front, &dialect, &sent(name))
                    .expect("it passes")
                    .body
                    .concat();
                let expected = sent(becomes).replace("\r\n\r\nm\r\n", "\r\n\r\nup\r\n");
                assert_eq!(String::from_utf8(written).unwrap(), expected);
            }
            for name in ["far", "dear", "\u{e4}", " m", "m,ours", "\"m"] {
                assert!(is_refused(front, &dialect, &sent(name)), "{field} {name}");
            }
        }
    }
}

/// Stored objects, and files that a server would fetch, need the account's permission in a form,
/// too.
#[test]
fn what_a_form_refers_to_needs_the_accounts_permission() {
    for (field, value, allows) in [
        (
            "audio_url",
            "http://10.0.0.5/a.wav",
            AllowedReferences {
                urls: Urls::Any,
                ..NOTHING
            },
        ),
        (
            "extra_body",
            "{\"callback\":{\"url\":\"file:///etc/passwd\"}}",
            AllowedReferences {
                urls: Urls::Any,
                ..NOTHING
            },
        ),
        (
            "file",
            "gs://bucket/a.wav",
            AllowedReferences {
                gs: true,
                ..NOTHING
            },
        ),
        (
            "audio[file_id]",
            "file-1",
            AllowedReferences {
                files: true,
                ..NOTHING
            },
        ),
        (
            "vector_store_ids[]",
            "vs_1",
            AllowedReferences {
                files: true,
                ..NOTHING
            },
        ),
        (
            "cached_content",
            "a",
            AllowedReferences {
                cached: true,
                ..NOTHING
            },
        ),
    ] {
        let body = form(&[(field, value)]);
        let envelope = envelope(Front::find("transcriptions").unwrap(), body.as_bytes());
        assert!(envelope.may_refer(), "{field}");
        assert!(
            envelope
                .check_references(&NOTHING, body.as_bytes())
                .is_err(),
            "{field}"
        );
        assert_eq!(
            envelope.check_references(&allows, body.as_bytes()),
            Ok(()),
            "{field}"
        );
    }
    let data = format!("data:image/png;base64,{}", "iVBORw0KGgo".repeat(9_000));
    let good = form(&[
        ("image[]", &data),
        ("audio_url", "https://example.com/a.wav"),
        ("container", ""),
    ]);
    assert_eq!(
        envelope(Front::find("image_edits").unwrap(), good.as_bytes())
            .check_references(&NOTHING, good.as_bytes()),
        Ok(())
    );
    let long = form(&[("image_path", &"/a b".repeat(900))]);
    assert!(
        Front::find("image_edits")
            .unwrap()
            .envelope(long.as_bytes())
            .is_err(),
        "too long to be judged"
    );
}

/// A name of a member that names a model, as some server may read it.
fn member() -> impl Strategy<Value = String> {
    let words = [
        "model",
        "models",
        "fallbacks",
        "model_name",
        "modelName",
        "adapter_id",
        "Judge-Model",
        "fallback_models",
    ];
    let case = |(word, upper, plain): (&str, u32, bool)| {
        let letters = word.chars().enumerate();
        let cased = letters.map(|(at, c)| {
            if upper >> at & 1 == 1 {
                c.to_ascii_uppercase()
            } else {
                c
            }
        });
        if plain {
            word.to_owned()
        } else {
            cased.collect()
        }
    };
    (
        proptest::sample::select(words.to_vec()),
        any::<u32>(),
        any::<bool>(),
    )
        .prop_map(case)
}

proptest! {
    /// At every door, and however a form spells it.
    #[test]
    fn no_door_passes_a_model_the_key_lacks(
        outside in proptest::collection::vec(proptest::sample::select(vec!["extra_body", "x", "new-field", "Options"]), 1..5),
        member in member(),
        is_list in any::<bool>(),
        before in any::<bool>(),
    ) {
        let value = if is_list { "[\"m\",\"dear\"]" } else { "\"dear\"" };
        let json = |outside: &[&str]| outside.iter().rev().fold(format!("{{\"{member}\":{value}}}"), |inside, name| {
            format!("{{\"{name}\":{inside}}}")
        });
        for (front, dialect, base) in doors() {
            let field = json(&outside);
            let body = format!("{base},{}", &field[1..]);
            prop_assert!(is_refused(front, &dialect, &body), "{body}");
        }
        let (first, rest) = outside.split_first().unwrap();
        let brackets: String = rest.iter().chain([&&*member]).map(|name| format!("[{name}]")).collect();
        let list = if is_list { "[]" } else { "" };
        let dots = outside.iter().chain([&&*member]).copied().collect::<Vec<_>>().join(".");
        for (name, value) in [
            ((*first).to_owned(), json(rest)),
            (format!("{first}{brackets}{list}"), "dear".to_owned()),
            (format!("{first}{brackets}"), value.to_owned()),
            (dots, "dear".to_owned()),
            (format!("{first} {member}{list}"), "dear".to_owned()),
        ] {
            let fields = if before { [(&*name, &*value), ("prompt", "x")] } else { [("prompt", "x"), (&*name, &*value)] };
            for front in [Front::find("transcriptions").unwrap(), Front::find("image_edits").unwrap()] {
                let dialect = Dialect::from(&openai::PROTOCOL).for_endpoint(front.only_endpoint.expect("one kind"));
                let body = form(&fields);
                prop_assert!(is_refused(front, &dialect, &body), "{body}");
            }
        }
    }
}

use super::*;
use crate::neutral::purpose::Purpose;

fn of(front: &'static Front, body: &str) -> Result<Envelope, String> {
    front
        .envelope(body.as_bytes())
        .map_err(|fault| fault.message)
}

const ONE: &str = r#"{"content":{"parts":[{"text":"a"}]}}"#;

#[test]
fn each_door_has_its_path() {
    let route =
        |front: &Front, path: &str| front.route(path, None).map(|asked| asked.model.unwrap());
    for path in [
        "/v1beta/models/m",
        "/v1/models/m",
        "/v1beta/models/models%2Fm",
    ] {
        assert_eq!(
            route(&GEMINI_EMBED, &format!("{path}:embedContent")).as_deref(),
            Some("m")
        );
        assert_eq!(
            route(&GEMINI_EMBEDS, &format!("{path}:batchEmbedContents")).as_deref(),
            Some("m")
        );
        assert_eq!(
            route(&GEMINI_EMBED, &format!("{path}:batchEmbedContents")),
            None
        );
    }
}

#[test]
fn a_request_asks_for_one_vector_or_for_many() {
    let one = of(&GEMINI_EMBED, ONE).unwrap();
    assert_eq!(
        one.places.inputs,
        Some(Inputs {
            count: 1,
            ..Inputs::default()
        })
    );
    assert!(one.prompt_bytes == 1);
    let many = of(&GEMINI_EMBEDS, &format!(r#"{{"requests":[{ONE},{ONE}]}}"#)).unwrap();
    assert_eq!(
        (many.places.inputs.unwrap().count, many.prompt_bytes),
        (2, 2)
    );
    for body in [
        r#"{"requests":[]}"#,
        r#"{"requests":{}}"#,
        r#"{"requests":7}"#,
        "{}",
        ONE,
    ] {
        assert!(of(&GEMINI_EMBEDS, body).is_err(), "{body}");
    }
    let many = format!(
        r#"{{"requests":[{}]}}"#,
        vec![ONE; MAX_INPUTS + 1].join(",")
    );
    assert!(of(&GEMINI_EMBEDS, &many).unwrap_err().contains("2048"));
    for body in [
        "{}",
        r#"{"requests":[]}"#,
        r#"{"content":{"parts":[{"text":"a"}]},"content":{}}"#,
    ] {
        assert!(of(&GEMINI_EMBED, body).is_err(), "{body}");
    }
}

#[test]
fn settings_stand_beside_the_content_or_in_an_object() {
    let envelope = Envelope {
        model: "m".to_owned(),
        ..of(&GEMINI_EMBED, ONE).unwrap()
    };
    let settings = r#""taskType":"RETRIEVAL_DOCUMENT","title":"t","output_dimensionality":8"#;
    let expected = Embedding {
        inputs: vec![Input {
            text: "a\nb".into(),
            title: Some("t".into()),
        }],
        dimensions: Some(8),
        purpose: Some(Purpose::Document),
        default_purpose: None,
        others: Vec::new(),
    };
    let content =
        r#""model":"models/m","content":{"role":"user","parts":[{"text":"a"},{"text":"b"}]}"#;
    for body in [
        format!("{{{content},{settings}}}"),
        format!("{{{content},\"embedContentConfig\":{{{settings}}}}}"),
        format!("{{\"embed_content_config\":{{{settings}}},{content}}}"),
    ] {
        assert_eq!(
            read_embedding(&envelope, body.as_bytes(), false),
            Ok(expected.clone()),
            "{body}"
        );
        let many = format!(r#"{{"requests":[{body}]}}"#);
        assert_eq!(
            read_embedding(&envelope, many.as_bytes(), true),
            Ok(expected.clone()),
            "{body}"
        );
    }
    let plain = r#"{"content":{"parts":[{"text":"a"}]},"taskType":"TASK_TYPE_UNSPECIFIED","outputDimensionality":0,"x":1}"#;
    let read_plain = read_embedding(&envelope, plain.as_bytes(), false).unwrap();
    assert_eq!(
        (read_plain.purpose, read_plain.dimensions, read_plain.others),
        (None, None, vec!["x".into()])
    );
    for body in [
        r#"{"content":{"parts":[]}}"#,
        r#"{"content":7}"#,
        "{}",
        r#"{"content":{}}"#,
        r#"{"content":{"parts":[{}]}}"#,
        r#"{"content":{"parts":[{"text":"a"}]},"taskType":"MUSIC"}"#,
        r#"{"content":{"parts":[{"text":"a"}]},"model":"other"}"#,
    ] {
        assert!(
            matches!(
                read_embedding(&envelope, body.as_bytes(), false),
                Err(Refused::Invalid(_))
            ),
            "{body}"
        );
        let many = format!(r#"{{"requests":[{ONE},{body}]}}"#);
        assert!(
            read_embedding(&envelope, many.as_bytes(), true).is_err(),
            "{many}"
        );
    }
}

use super::*;

fn of(body: &str) -> Result<Envelope, (String, Option<String>)> {
    read_envelope(body.as_bytes()).map_err(|fault| (fault.message, fault.param.map(String::from)))
}

#[test]
fn a_request_asks_for_so_many_vectors() {
    let check = |input: &str, count, is_list: bool| {
        let envelope = of(&format!(r#"{{"model":"m","input":{input}}}"#)).unwrap();
        let inputs = envelope.places.inputs.unwrap();
        assert_eq!(
            (inputs.count, inputs.list.is_some(), inputs.base64),
            (count, is_list, false),
            "{input}"
        );
    };
    check(r#""a""#, 1, false);
    check(r#"["a"]"#, 1, true);
    check(r#"["a","b"]"#, 2, true);
    check("[1,2,3]", 1, false);
    check("[[1,2],[3]]", 2, true);
    check(r#"[{"text":"a"},{"image":"b"}]"#, 2, true);
    let base64 =
        of(r#"{"input":"a","model":"m","encoding_format":"base64","stream":false,"n":9}"#).unwrap();
    assert!(base64.places.inputs.is_some_and(|inputs| inputs.base64));
    assert_eq!((base64.stream, base64.choices.shown), (false, 1));
}

#[test]
fn what_is_no_input_is_refused() {
    let many = format!(
        r#"{{"model":"m","input":[{}]}}"#,
        vec![r#""a""#; MAX_INPUTS + 1].join(",")
    );
    let refused = |body: &str, param: &str| {
        assert_eq!(of(body).unwrap_err().1.as_deref(), Some(param), "{body}")
    };
    for input in [
        r#""""#,
        "[]",
        "null",
        "7",
        "{}",
        r#"["a",""]"#,
        r#"["a",1]"#,
        r#"[[1],"a"]"#,
        "[[1],[]]",
        "[null]",
    ] {
        refused(&format!(r#"{{"model":"m","input":{input}}}"#), "input");
    }
    refused(&many, "input");
    refused(r#"{"model":"m"}"#, "input");
    refused(r#"{"input":"a"}"#, "model");
    refused(
        r#"{"model":"m","input":"a","encoding_format":"int8"}"#,
        "encoding_format",
    );
    refused(
        r#"{"model":"m","input":"a","encoding_format":7}"#,
        "encoding_format",
    );
    refused(r#"{"model":"m","Input":"b","input":"a"}"#, "Input");
    refused(r#"{"model":"m","input":"a","stream":true}"#, "stream");
    assert!(of(r#"{"model":"m","input":"a","input":"b"}"#).is_err());
}

#[test]
fn a_request_is_read_whole() {
    let read_of = |body: &str| {
        read_embedding(&Envelope::new(&EMBEDDINGS), body.as_bytes()).map(|read| format!("{read:?}"))
    };
    let all = r#"{"model":"m","input":["a","b"],"encoding_format":"base64","dimensions":8,"user":"u","truncate":null,
"input_type":"search_query","task":"x"}"#;
    let expected = Embedding {
        inputs: ["a", "b"]
            .map(|text| Input {
                text: text.into(),
                title: None,
            })
            .to_vec(),
        dimensions: Some(8),
        purpose: Some(Purpose::Query),
        default_purpose: None,
        others: vec!["user".into(), "task".into()],
    };
    assert_eq!(read_of(all), Ok(format!("{expected:?}")));
    for (body, param) in [
        (r#"{"input":"a","dimensions":0}"#, "dimensions"),
        (r#"{"input":"a","dimensions":"8"}"#, "dimensions"),
        (r#"{"input":"a","input_type":"music"}"#, "input_type"),
    ] {
        assert!(
            matches!(read_of(body), Err(Refused::Invalid(why)) if why.param == param),
            "{body}"
        );
    }
}

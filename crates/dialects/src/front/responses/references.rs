//! The members of a Responses request's input that cannot refer to files or URLs.

/// Returns whether a member that is a text may refer to something.
pub(super) fn may_refer_as_text(name: &[u8]) -> bool {
    !matches!(name, b"content" | b"output" | b"input") && may_refer(name)
}

/// Returns whether a member may refer to something. The others are read by the model only, or
/// belong to a call or to its result. Tools are judged apart from the conversation.
pub(super) fn may_refer(name: &[u8]) -> bool {
    !matches!(
        name,
        b"type"
            | b"id"
            | b"call_id"
            | b"role"
            | b"name"
            | b"namespace"
            | b"status"
            | b"phase"
            | b"text"
            | b"refusal"
            | b"filename"
            | b"detail"
            | b"annotations"
            | b"logprobs"
            | b"stdout"
            | b"stderr"
            | b"arguments"
            | b"summary"
            | b"encrypted_content"
            | b"action"
            | b"operation"
            | b"code"
            | b"outputs"
            | b"result"
            | b"results"
            | b"queries"
            | b"tools"
    )
}

#[cfg(test)]
mod tests {
    use crate::front::RESPONSES;
    use crate::front::references::AllowedReferences;
    use crate::neutral::Refused;

    fn refused(body: &str) -> Option<String> {
        let refused = RESPONSES
            .contents
            .check(&AllowedReferences::NOTHING, body.as_bytes())
            .err();
        refused.map(|refused| match refused {
            Refused::Unsupported(why) | Refused::Invalid(why) => why.param,
        })
    }

    #[test]
    fn what_the_body_lacks_is_found_anywhere() {
        for (part, is_refused) in [
            (
                r#"{"type":"input_image","image_url":"http://10.0.0.1/x"}"#,
                true,
            ),
            (
                r#"{"type":"input_image","image_url":"https://example.com/x.png"}"#,
                false,
            ),
            (
                r#"{"type":"input_image","image_url":"data:image/png;base64,AAAA"}"#,
                false,
            ),
            (r#"{"type":"input_file","file_url":"gs://a/b"}"#, true),
            (r#"{"type":"input_file","file_id":"file-1"}"#, true),
            (
                r#"{"type":"input_audio","input_audio":{"data":"http://10.0.0.1/x","format":"wav"}}"#,
                true,
            ),
            (r#"{"type":"input_text","text":"http://10.0.0.1/x"}"#, false),
        ] {
            let check = |body: String, within: &str| {
                let found = refused(&body);
                assert_eq!(found.is_some(), is_refused, "{body}");
                assert!(
                    found.is_none_or(|param| param.starts_with(within)),
                    "{body}"
                );
            };
            check(
                format!(r#"{{"input":[{{"role":"user","content":[{part}]}}]}}"#),
                "input[0].content[0].",
            );
            check(
                format!(r#"{{"input":[{{"type":"function_call_output","output":[{part}]}}]}}"#),
                "input[0].output[0].",
            );
        }
        assert_eq!(refused(r#"{"input":"http://10.0.0.1/x"}"#), None);
        assert_eq!(
            refused(
                r#"{"input":[{"type":"function_call","arguments":"{\"url\":\"http://10.0.0.1/x\"}"}]}"#
            ),
            None
        );
    }

    #[test]
    fn what_server_tools_use_of_accounts_is_found() {
        let is_refused = |body: &str| {
            let envelope = RESPONSES.envelope(body.as_bytes()).unwrap();
            envelope
                .check_references(&AllowedReferences::NOTHING, body.as_bytes())
                .is_err()
        };
        for (tool, expected) in [
            (
                r#"{"type":"web_search","filters":{"allowed_domains":["x.test"]}}"#,
                false,
            ),
            (
                r#"{"type":"code_interpreter","container":{"type":"auto"}}"#,
                false,
            ),
            (
                r#"{"type":"code_interpreter","container":{"type":"auto","file_ids":[]}}"#,
                false,
            ),
            (
                r#"{"type":"code_interpreter","container":{"type":"auto","file_ids":["file-1"]}}"#,
                true,
            ),
            (r#"{"type":"code_interpreter","container":"cntr_1"}"#, true),
            (
                r#"{"vector_store_ids":["vs_1"],"type":"file_search"}"#,
                true,
            ),
            (r#"{"type":"image_generation","size":"auto"}"#, false),
            (
                r#"{"type":"image_generation","input_image_mask":{"file_id":"f"}}"#,
                true,
            ),
            (
                r#"{"type":"image_generation","input_image_mask":{"image_url":"http://10.0.0.1/x"}}"#,
                true,
            ),
            (
                r#"{"type":"mcp","server_url":"https://mcp.example.com/x","authorization":"s"}"#,
                false,
            ),
            (r#"{"type":"mcp","server_url":"http://10.0.0.1/x"}"#, true),
            (
                r#"{"type":"shell","environment":{"type":"container_reference","container_id":"c"}}"#,
                true,
            ),
            (
                r#"{"type":"function","name":"f","parameters":{"vector_store_ids":["x"]}}"#,
                false,
            ),
            (
                r#"{"type":"function","name":"f","type":"file_search","vector_store_ids":["x"]}"#,
                true,
            ),
            (
                r#"{"type":"namespace","tools":[{"type":"function","description":"http://10.0.0.1/"}]}"#,
                false,
            ),
        ] {
            assert_eq!(
                is_refused(&format!(r#"{{"model":"m","input":"x","tools":[{tool}]}}"#)),
                expected,
                "{tool}"
            );
            let shown = format!(
                r#"{{"model":"m","input":[{{"type":"additional_tools","tools":[{tool}]}}]}}"#
            );
            assert_eq!(is_refused(&shown), expected, "{shown}");
        }
        assert!(is_refused(
            r#"{"model":"m","input":[{"type":"code_interpreter_call","id":"ci_1","container_id":"c","outputs":null}]}"#
        ));
        assert!(is_refused(
            r#"{"model":"m","input":[{"type":"computer_call_output","output":{"type":"computer_screenshot","file_id":"f"}}]}"#
        ));
    }
}

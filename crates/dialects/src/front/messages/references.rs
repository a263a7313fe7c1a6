//! The members of a Messages request's conversation that cannot refer to files or URLs. The sources
//! of pictures and documents can, at any depth.

/// Returns whether a member may refer to something. Of the others a server makes text, or they are
/// the model's own text. A text in `content` is no reference, whatever its words are.
pub(super) fn may_refer(name: &[u8], is_text: bool) -> bool {
    let is_text_of_content = is_text && name == b"content";
    !is_text_of_content
        && !matches!(
            name,
            b"type"
                | b"role"
                | b"text"
                | b"title"
                | b"context"
                | b"thinking"
                | b"signature"
                | b"data"
                | b"id"
                | b"name"
                | b"tool_use_id"
                | b"tool_name"
                | b"input"
                | b"cache_control"
                | b"citations"
                | b"media_type"
                | b"encrypted_content"
        )
}

#[cfg(test)]
mod tests {
    use crate::front::MESSAGES;
    use crate::front::references::AllowedReferences;
    use crate::neutral::Refused;

    const NOTHING: AllowedReferences = AllowedReferences::NOTHING;

    #[track_caller]
    fn check_is(allowed: &AllowedReferences, body: &str, param: Option<&str>) {
        let refused = MESSAGES.contents.check(allowed, body.as_bytes()).err();
        let found = refused.map(|refused| match refused {
            Refused::Unsupported(why) | Refused::Invalid(why) => why.param,
        });
        assert_eq!(found.as_deref(), param, "{body}");
    }

    #[test]
    fn what_the_body_lacks_is_found_anywhere() {
        let source = |source: &str| format!(r#"{{"type":"image","source":{source}}}"#);
        let user =
            |block: &str| format!(r#"{{"messages":[{{"role":"user","content":[{block}]}}]}}"#);
        let inside = |block: &str| {
            user(&format!(
                r#"{{"type":"tool_result","tool_use_id":"a","content":[{block}]}}"#
            ))
        };
        let file = source(r#"{"type":"file","file_id":"file_1"}"#);
        let near = source(r#"{"type":"url","url":"http://10.0.0.1/x"}"#);
        let far = source(r#"{"type":"url","url":"https://example.com/x.png"}"#);
        let data = source(r#"{"type":"base64","media_type":"image/png","data":"AAAA"}"#);
        for (body, param) in [
            (user(&file), "messages[0].content[0].source"),
            (inside(&file), "messages[0].content[0].content"),
            (user(&near), "messages[0].content[0].source"),
            (inside(&near), "messages[0].content[0].content"),
        ] {
            check_is(&NOTHING, &body, Some(param));
            check_is(&AllowedReferences::ALL, &body, None);
        }
        for body in [user(&far), inside(&far), user(&data), inside(&data)] {
            check_is(&NOTHING, &body, None);
        }
        let found =
            r#"{"type":"search_result","source":"s3://bucket/a.pdf","title":"a","content":[]}"#;
        check_is(&NOTHING, &user(found), None);
        check_is(
            &NOTHING,
            &user(&found.replace("search_result", "image")),
            Some("messages[0].content[0]"),
        );
        let output = format!(r#"{{"type":"x_result","content":{{"content":[{file}]}}}}"#);
        check_is(
            &NOTHING,
            &user(&output),
            Some("messages[0].content[0].content"),
        );
        check_is(
            &NOTHING,
            r#"{"container":null,"messages":[{"content":"http://10.0.0.1/x"}]}"#,
            None,
        );
        let called =
            r#"{"type":"tool_use","id":"a","name":"f","input":{"url":"http://10.0.0.1/x"}}"#;
        check_is(&NOTHING, &user(called), None);
    }
}

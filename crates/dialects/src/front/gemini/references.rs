//! The members of a Gemini request's contents that cannot refer to files. The address of a file may
//! stand in any other member of a part.

use super::camel_name;

/// Returns whether a member may refer to a file. Of the others a server makes text, or they belong
/// to a tool's call or result.
pub(super) fn may_refer(name: &[u8]) -> bool {
    !matches!(
        &*camel_name(&String::from_utf8_lossy(name)),
        "role"
            | "text"
            | "thought"
            | "thoughtSignature"
            | "name"
            | "id"
            | "args"
            | "response"
            | "mimeType"
            | "data"
            | "displayName"
            | "language"
            | "code"
            | "outcome"
            | "output"
            | "videoMetadata"
    )
}

#[cfg(test)]
mod tests {
    use crate::front::GEMINI;
    use crate::front::references::AllowedReferences;

    #[test]
    fn addresses_are_judged_wherever_they_stand() {
        let check = |part: &str, is_refused: bool| {
            for contents in [
                format!(r#"[{{"parts":[{part}]}}]"#),
                format!(r#"{{"parts":{part}}}"#),
            ] {
                let body = format!(r#"{{"contents":{contents}}}"#);
                let found = GEMINI
                    .contents
                    .check(&AllowedReferences::NOTHING, body.as_bytes());
                assert_eq!(found.is_err(), is_refused, "{body}");
                assert_eq!(
                    GEMINI
                        .contents
                        .check(&AllowedReferences::ALL, body.as_bytes()),
                    Ok(())
                );
            }
        };
        for uri in [
            "http://10.0.0.1/x",
            "gs://b/x",
            "file:///etc/passwd",
            "s3://b/x",
        ] {
            check(&format!(r#"{{"fileData":{{"fileUri":"{uri}"}}}}"#), true);
            check(&format!(r#"{{"file_data":{{"file_uri":"{uri}"}}}}"#), true);
            let inside = format!(r#"{{"fileData":{{"fileUri":"{uri}"}}}}"#);
            check(
                &format!(r#"{{"functionResponse":{{"name":"f","parts":[{inside}]}}}}"#),
                true,
            );
            check(
                &format!(r#"{{"functionResponse":{{"name":"f","response":{inside}}}}}"#),
                false,
            );
            check(
                &format!(r#"{{"functionCall":{{"name":"f","args":{inside}}}}}"#),
                false,
            );
            check(&format!(r#"{{"text":"{uri}"}}"#), false);
        }
        check(
            r#"{"fileData":{"fileUri":"https://example.com/x.png"}}"#,
            false,
        );
    }
}

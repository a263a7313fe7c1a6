//! The body of `countTokens`: the contents of a request, or a whole request inside
//! `generateContentRequest`.

use bytes::Bytes;

use super::{camel_name, envelope, route};
use crate::front::{Fault, GEMINI, PathRequest, ToCount};
use crate::wire::json::{self, Cursor, Kind, Span, name_of};
use crate::wire::splice::without_members;

/// Reads the body of a count. Returns the request whose tokens are counted.
pub(super) fn read_count(body: Bytes, asked: &PathRequest) -> Result<ToCount, Fault> {
    let inner = find_inner_request(&body);
    let request = match inner {
        Some((_, true)) => {
            let message =
                "`generateContentRequest` must stand alone: write all of the request in it";
            return Err(Fault::of_value("generateContentRequest", message));
        }
        Some((span, false)) => {
            let inner = json::span_bytes(&body, &span);
            check_model(inner, asked)?;
            without_members(inner, |name| name == "model").into()
        }
        None => body,
    };
    let envelope = envelope::read_envelope(&request, &GEMINI)?;
    Ok((request, envelope))
}

/// Finds a request inside the body. Returns also whether the body has other fields.
fn find_inner_request(body: &[u8]) -> Option<(Span, bool)> {
    let mut inner = None;
    let mut count = 0;
    // A body that is no JSON is refused when the request is read.
    let _read = Cursor::new(body).maybe_object(|cursor, key| {
        count += 1;
        let is_inner = camel_name(&String::from_utf8_lossy(&name_of(body, &key)))
            == "generateContentRequest"
            && cursor.kind()? == Kind::Object;
        let span = cursor.value()?;
        if is_inner {
            inner = Some(span.clone());
        }
        Ok(span)
    });
    inner.map(|span| (span, count > 1))
}

/// Refuses a model that is not the model of the path: the key was checked for the latter only.
fn check_model(request: &[u8], asked: &PathRequest) -> Result<(), Fault> {
    let mut is_other = false;
    let _read = Cursor::new(request).members(|key, value| {
        if *name_of(request, &key) == *b"model" {
            let named = json::text_of(request, &value);
            let named = named
                .as_deref()
                .map(|named| route::model_id(named).unwrap_or(named));
            is_other |= named != asked.model.as_deref();
        }
    });
    let message = "`generateContentRequest.model` must be the model of the path";
    if is_other {
        Err(Fault::of_value("generateContentRequest.model", message))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> Result<String, (Option<String>, String)> {
        let asked = PathRequest {
            model: Some("m".to_owned()),
            stream: false,
        };
        match read_count(body.to_owned().into(), &asked) {
            Ok((request, envelope)) => {
                assert!(!envelope.stream && envelope.prompt_bytes > 0);
                Ok(String::from_utf8(request.to_vec()).unwrap())
            }
            Err(fault) => Err((fault.param.map(String::from), fault.message)),
        }
    }

    #[test]
    fn the_request_stands_outside_or_inside() {
        let contents = r#""contents":[{"parts":[{"text":"hello"}]}]"#;
        let plain = format!("{{{contents}}}");
        assert_eq!(of(&plain), Ok(plain.clone()));
        for model in [
            "",
            r#""model":"m","#,
            r#""model":"models/m","#,
            r#""model":"publishers/google/models/m","#,
        ] {
            for name in ["generateContentRequest", "generate_content_request"] {
                assert_eq!(
                    of(&format!(r#"{{"{name}":{{{model}{contents}}}}}"#)),
                    Ok(plain.clone()),
                    "{model}"
                );
            }
        }
    }

    #[test]
    fn no_other_model_and_no_half_request_is_counted() {
        let contents = r#""contents":[{"parts":[{"text":"hello"}]}]"#;
        for (body, param) in [
            (
                format!(r#"{{"generateContentRequest":{{"model":"models/other",{contents}}}}}"#),
                "generateContentRequest.model",
            ),
            (
                format!(r#"{{"generateContentRequest":{{"model":"m","model":"o",{contents}}}}}"#),
                "generateContentRequest.model",
            ),
            (
                format!(r#"{{"generateContentRequest":{{"model":7,{contents}}}}}"#),
                "generateContentRequest.model",
            ),
            (
                format!(r#"{{{contents},"generateContentRequest":{{{contents}}}}}"#),
                "generateContentRequest",
            ),
            (
                r#"{"generateContentRequest":{"model":"m"}}"#.to_owned(),
                "contents",
            ),
            (r#"{"generateContentRequest":7}"#.to_owned(), "contents"),
        ] {
            assert_eq!(of(&body).unwrap_err().0.as_deref(), Some(param), "{body}");
        }
        assert!(of("[").is_err() && of("{").is_err());
    }
}

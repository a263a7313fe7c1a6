//! The mark is our own object `x_portcullis` in the usage chunk. It marks an estimated usage, and
//! has the trail for keys that debug.

use super::usage::Source;
use crate::wire::json::{Cursor, span_bytes};

const ESTIMATED: &str = r#""usage":"estimated""#;

/// Returns the object, or `None` if it would be empty. `trail` is members as JSON text, on one
/// line.
pub(crate) fn mark_json(source: Source, trail: Option<&str>) -> Option<String> {
    let estimated = (source == Source::Estimated).then_some(ESTIMATED);
    match (estimated, trail.filter(|trail| !trail.is_empty())) {
        (None, None) => None,
        (Some(members), None) | (None, Some(members)) => Some(format!("{{{members}}}")),
        (Some(estimated), Some(trail)) => Some(format!("{{{estimated},{trail}}}")),
    }
}

/// Appends the object as a member that is not the first, unless it would be empty.
pub(crate) fn append_mark(out: &mut Vec<u8>, source: Source, trail: Option<&str>) {
    if let Some(mark) = mark_json(source, trail) {
        out.extend_from_slice(br#","x_portcullis":"#);
        out.extend_from_slice(mark.as_bytes());
    }
}

/// Returns whether this object marks the usage as an estimate. It comes from an upstream that is a
/// gateway like this one.
pub(crate) fn is_estimated(object: &[u8]) -> bool {
    let mut found = false;
    let read = Cursor::new(object).object(|cursor, key| {
        let value = cursor.value()?;
        found |= span_bytes(object, &key) == br#""usage""#
            && span_bytes(object, &value) == br#""estimated""#;
        Ok(())
    });
    read.is_ok() && found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_to_say_is_in_one_object() {
        let trail = r#""attempts":"a;ok;1ms","server_timing":"auth;dur=0.1""#;
        for (source, trail, expected, estimated) in [
            (Source::Reported, None, None, false),
            (Source::None, Some(""), None, false),
            (
                Source::Estimated,
                None,
                Some(r#"{"usage":"estimated"}"#),
                true,
            ),
            (
                Source::Estimated,
                Some(""),
                Some(r#"{"usage":"estimated"}"#),
                true,
            ),
            (
                Source::Reported,
                Some(trail),
                Some(r#"{"attempts":"a;ok;1ms","server_timing":"auth;dur=0.1"}"#),
                false,
            ),
            (
                Source::Estimated,
                Some(trail),
                Some(
                    r#"{"usage":"estimated","attempts":"a;ok;1ms","server_timing":"auth;dur=0.1"}"#,
                ),
                true,
            ),
        ] {
            let written = mark_json(source, trail);
            assert_eq!(written.as_deref(), expected);
            assert_eq!(
                is_estimated(written.unwrap_or_default().as_bytes()),
                estimated
            );
        }
        for other in [
            r#"{"usage":"reported"}"#,
            r#"{"attempts":"usage"}"#,
            r#""estimated""#,
            "true",
            r#"{"usage":"estimated""#,
        ] {
            assert!(!is_estimated(other.as_bytes()), "{other}");
        }
    }
}

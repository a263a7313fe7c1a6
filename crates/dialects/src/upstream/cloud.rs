//! Clouds that serve Claude in Anthropic's format. The path names the model there. The body has a
//! version, and it may have only fields that the cloud knows.

use std::borrow::Cow;

use crate::neutral::Losses;
use crate::wire::json::{Cursor, Writer, name_of};
use crate::wire::splice::Edits;

/// A cloud that serves Claude in Anthropic's format.
#[derive(Debug)]
pub(crate) struct Cloud {
    /// The value of `anthropic_version`.
    pub(crate) version: &'static str,
    /// True if the path asks for a stream or a whole answer, and the body has the betas.
    pub(crate) is_bare: bool,
}

/// The betas that the clouds know, each with their name for it. They refuse a request with any
/// other beta. One beta only names the client: it has no name here.
const BETAS: [(&str, &str); 17] = [
    (
        "advanced-tool-use-2025-11-20",
        "tool-search-tool-2025-10-19",
    ),
    ("claude-code-20250219", ""),
    ("compact-2026-01-12", "compact-2026-01-12"),
    ("computer-use-2024-10-22", "computer-use-2024-10-22"),
    ("computer-use-2025-01-24", "computer-use-2025-01-24"),
    ("computer-use-2025-11-24", "computer-use-2025-11-24"),
    ("context-1m-2025-08-07", "context-1m-2025-08-07"),
    (
        "context-management-2025-06-27",
        "context-management-2025-06-27",
    ),
    (
        "dev-full-thinking-2025-05-14",
        "dev-full-thinking-2025-05-14",
    ),
    ("effort-2025-11-24", "effort-2025-11-24"),
    (
        "fine-grained-tool-streaming-2025-05-14",
        "fine-grained-tool-streaming-2025-05-14",
    ),
    (
        "interleaved-thinking-2025-05-14",
        "interleaved-thinking-2025-05-14",
    ),
    ("output-128k-2025-02-19", "output-128k-2025-02-19"),
    (
        "structured-outputs-2025-12-15",
        "structured-outputs-2025-12-15",
    ),
    (
        "token-efficient-tools-2025-02-19",
        "token-efficient-tools-2025-02-19",
    ),
    ("tool-examples-2025-10-29", "tool-examples-2025-10-29"),
    ("tool-search-tool-2025-10-19", "tool-search-tool-2025-10-19"),
];

/// The header that names betas.
const HEADER: &str = "anthropic-beta";

/// Headers of a request.
type HeaderList = Vec<(&'static str, Cow<'static, str>)>;

impl Cloud {
    /// Makes a body fit for the cloud, and returns its headers.
    pub(crate) fn fit(
        &self,
        edits: &mut Edits<'_>,
        headers: HeaderList,
        losses: &mut Losses,
    ) -> HeaderList {
        let text = edits.text();
        let mut betas = Vec::new();
        let mut kept = HeaderList::new();
        for (name, value) in headers {
            if name != HEADER {
                kept.push((name, value));
                continue;
            }
            for beta in value
                .split(',')
                .map(str::trim)
                .filter(|beta| !beta.is_empty())
            {
                match BETAS
                    .iter()
                    .find(|(known, _)| *known == beta)
                    .map(|(_, name)| *name)
                {
                    Some(name) if name.is_empty() || betas.contains(&name) => {}
                    Some(name) => betas.push(name),
                    None => losses.add(HEADER),
                }
            }
        }
        // The body was read before.
        let _read = Cursor::new(text).members(|key, value| match &*name_of(text, &key) {
            b"model" | b"anthropic_version" => edits.remove_member(&key, &value),
            b"stream" if self.is_bare => edits.remove_member(&key, &value),
            b"anthropic_beta" => edits.remove_member(&key, &value),
            // The clouds offer no choice of these.
            name @ (b"service_tier" | b"inference_geo") => {
                losses.add(String::from_utf8_lossy(name).into_owned());
                edits.remove_member(&key, &value);
            }
            _ => {}
        });
        let open = text
            .iter()
            .position(|byte| *byte == b'{')
            .unwrap_or_default();
        edits.insert_member(
            open,
            format!(r#""anthropic_version":"{}""#, self.version).into_bytes(),
        );
        if betas.is_empty() {
            return kept;
        }
        if self.is_bare {
            let mut list = Writer::with_capacity(0);
            list.array(|list| betas.iter().for_each(|beta| list.text(beta)));
            edits.insert_member(
                open,
                [br#""anthropic_beta":"#.to_vec(), list.into_bytes()].concat(),
            );
        } else {
            kept.push((HEADER, betas.join(",").into()));
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the body, its headers and the losses of a request with these betas.
    fn fitted(cloud: &Cloud, body: &str, betas: &str) -> (String, String, String) {
        let (mut edits, mut losses, mut out) =
            (Edits::new(body.as_bytes()), Losses::default(), Vec::new());
        let headers = cloud.fit(
            &mut edits,
            vec![(HEADER, Cow::Owned(betas.to_owned()))],
            &mut losses,
        );
        edits.apply_into(&mut out);
        let headers: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        (
            String::from_utf8(out).unwrap(),
            headers.join("\n"),
            losses.names().join(" "),
        )
    }

    #[test]
    fn a_body_has_what_the_cloud_wants() {
        let bare = Cloud {
            version: "v",
            is_bare: true,
        };
        let other = Cloud {
            version: "v",
            is_bare: false,
        };
        let body = r#"{"model":"m", "max_tokens":1,"stream":true,"service_tier":"auto","anthropic_version":"x"}"#;
        let betas = "effort-2025-11-24, claude-code-20250219,advanced-tool-use-2025-11-20,tool-search-tool-2025-10-19";
        let both = r#"["effort-2025-11-24","tool-search-tool-2025-10-19"]"#;
        assert_eq!(
            fitted(&bare, body, betas),
            (
                format!(r#"{{"anthropic_version":"v","anthropic_beta":{both},"max_tokens":1}}"#),
                String::new(),
                "service_tier".to_owned()
            )
        );
        assert_eq!(
            fitted(&other, body, "effort-2025-11-24,fast-mode-2026-02-01"),
            (
                r#"{"anthropic_version":"v","max_tokens":1,"stream":true}"#.to_owned(),
                "anthropic-beta: effort-2025-11-24".to_owned(),
                "anthropic-beta service_tier".to_owned()
            )
        );
        assert_eq!(
            fitted(&bare, r#"{"model":"m"}"#, "").0,
            r#"{"anthropic_version":"v"}"#
        );
    }
}

//! The content type of a good answer decides how its body is read.

use crate::account::failure::Failure;
use dialects::Framing;
use dialects::wire::shorten_text;

/// The way in which the body of an answer is read.
pub(super) enum BodyReading {
    /// All of it is read, and then translated.
    Whole,
    /// Its events are translated one by one.
    Events,
    /// Its bytes pass as they come.
    AsItComes,
}

impl BodyReading {
    /// Decides how a body is read, or returns why it cannot be read. `passes` is true if the
    /// caller's format takes bytes as they come, and `asked` is the framing of the stream that was
    /// asked for, if one was.
    pub(super) fn choose(
        content_type: Option<&[u8]>,
        passes: bool,
        asked: Option<Framing>,
    ) -> Result<BodyReading, Failure> {
        match ContentKind::from_header(content_type) {
            ContentKind::Json => Ok(BodyReading::Whole),
            ContentKind::Stream(_) if passes => Ok(BodyReading::AsItComes),
            ContentKind::Stream(framing) if asked == Some(framing) => Ok(BodyReading::Events),
            ContentKind::Stream(_) => Err(Failure::Nonsense(
                "an event stream in a format that the gateway did not ask for".to_owned(),
            )),
            // A web page is no answer, and to a stream nothing but events are.
            ContentKind::Other(name) if passes && asked.is_none() && name != "text/html" => {
                Ok(BodyReading::AsItComes)
            }
            ContentKind::Other(name) => Err(Failure::Nonsense(format!("content-type {name}"))),
        }
    }
}

/// The kind of body that a content type announces.
enum ContentKind {
    Json,
    Stream(Framing),
    Other(String),
}

impl ContentKind {
    fn from_header(content_type: Option<&[u8]>) -> ContentKind {
        let Some(value) = content_type else {
            return ContentKind::Json;
        };
        let name = value
            .split(|b| *b == b';')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        if name.eq_ignore_ascii_case(b"application/json") {
            return ContentKind::Json;
        }
        let name = name.to_ascii_lowercase();
        if let Some(framing) = Framing::from_content_type(&name) {
            return ContentKind::Stream(framing);
        }
        match name.as_slice() {
            other if other.ends_with(b"+json") => ContentKind::Json,
            other => ContentKind::Other(shorten_text(&String::from_utf8_lossy(other), 60)),
        }
    }
}

//! What a picture, a sound or a file in a message may stand for, in tokens: by its kind and size, before anybody has read it.
//!
//! Its base64 is no text, so it is left out of what is counted as text. Only that: all else of the part counts by its bytes, as it does where the part is of another
//! type or the data is not base64. What a file is says its own beginning, and never a name that the caller gives it: what looks like nothing known counts as text.

use crate::wire::json::{self, Broken, Cursor, Kind, Span};

/// Of a picture, whatever its size: at most so many.
const LARGEST_PICTURE: u64 = 5_000;

/// The kinds of parts that hold media, by the name of their member, which is their type too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Image,
    Audio,
    File,
}

impl Place {
    /// By the name of a member or of a type.
    pub(super) fn of(name: &[u8]) -> Option<Place> {
        match name {
            b"image_url" => Some(Place::Image),
            b"input_audio" => Some(Place::Audio),
            b"file" => Some(Place::File),
            _ => None,
        }
    }

    /// Where its data stands.
    fn member(self) -> &'static [u8] {
        match self {
            Place::Image => b"url",
            Place::Audio => b"data",
            Place::File => b"file_data",
        }
    }
}

/// What a medium is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nature {
    Picture,
    Wave,
    /// Sounds that are packed, and films.
    Recording,
    Pdf,
    /// Whatever else: a model may read all of it as text.
    Text,
}

/// One medium, as it stands in its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Medium {
    /// The whole member's value.
    pub(super) bytes: usize,
    /// Of these, what is base64.
    pub(super) base64: usize,
    /// What it may stand for.
    pub(super) tokens: u64,
}

/// Consumes the value of such a member.
pub(super) fn read(cursor: &mut Cursor<'_>, place: Place) -> Result<Medium, Broken> {
    let mut data: Option<Span> = None;
    let span = match cursor.kind()? {
        Kind::Object => cursor.object(|cursor, key| {
            let is_data = *json::name_of(cursor.text(), &key) == *place.member();
            let is_text = cursor.kind()? == Kind::String;
            let value = cursor.value()?;
            // Of several the last one is taken, and the others count by their bytes.
            if is_data {
                data = is_text.then_some(value);
            }
            Ok(())
        })?,
        // As Mistral has it.
        Kind::String if place == Place::Image => {
            let span = cursor.value()?;
            data = Some(span.clone());
            span
        }
        Kind::String | Kind::Array | Kind::Number | Kind::Bool | Kind::Null => cursor.value()?,
    };
    let base64 = data.and_then(|data| base64_of(json::slice(cursor.text(), &data), place));
    Ok(Medium { bytes: span.len(), base64: base64.map_or(0, <[u8]>::len), tokens: tokens(place, base64) })
}

/// The base64 of a data URL, or alone where that is understood too.
fn base64_of(quoted: &[u8], place: Place) -> Option<&[u8]> {
    const HEAD: usize = 256;
    let text = quoted.get(1..quoted.len().saturating_sub(1))?;
    let is_url = text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"data:"));
    let data = if is_url {
        let comma = memchr::memchr(b',', text.get(..HEAD).unwrap_or(text))?;
        let (head, data) = text.split_at_checked(comma)?;
        head.to_ascii_lowercase().ends_with(b";base64").then(|| data.get(1..))??
    } else if place == Place::Image {
        return None;
    } else {
        text
    };
    is_base64(data).then_some(data)
}

/// Escapes too: PHP writes `\/`. In blocks, so that the compiler can take many bytes at once.
fn is_base64(data: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() | matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_' | b'\\');
    data.chunks(1024).all(|block| block.iter().fold(true, |all, byte| all & fits(byte)))
}

/// The table of the README.
fn tokens(place: Place, base64: Option<&[u8]>) -> u64 {
    let Some(base64) = base64 else {
        // Somebody else has it: how large it is nobody says.
        return match place {
            Place::Image => 1_500,
            Place::Audio => 1_000,
            Place::File => 5_000,
        };
    };
    let bytes = u64::try_from(base64.len()).unwrap_or(u64::MAX) / 4 * 3;
    match nature(place, base64) {
        Nature::Picture => (1_000 + bytes / 256).min(LARGEST_PICTURE),
        Nature::Wave => 100 + bytes / 512,
        Nature::Recording => 100 + bytes / 128,
        Nature::Pdf => 1_000 + bytes / 16,
        Nature::Text => 100 + bytes.div_ceil(4),
    }
}

/// By the place, and by how the data begins: each format's first bytes, in base64.
fn nature(place: Place, base64: &[u8]) -> Nature {
    const PICTURES: [&[u8]; 3] = [b"iVBORw0KGgo", b"/9j/", b"R0lGOD"];
    // MP3 with a tag and without, Ogg, FLAC, Matroska.
    const RECORDINGS: [&[u8]; 5] = [b"SUQz", b"//", b"T2dn", b"ZkxhQ", b"GkXf"];
    let begins = |with: &&[u8]| base64.starts_with(with);
    let at = |from: usize, word: &[u8]| base64.get(from..).is_some_and(|rest| rest.starts_with(word));
    let is_wave = at(0, b"UklGR") && at(12, b"QVZF");
    match place {
        Place::Image => Nature::Picture,
        Place::Audio | Place::File if is_wave => Nature::Wave,
        Place::Audio => Nature::Recording,
        Place::File if at(0, b"JVBERi") => Nature::Pdf,
        Place::File if PICTURES.iter().any(begins) || at(0, b"UklGR") && at(12, b"RUJQ") => Nature::Picture,
        // `ftyp` of MP4 stands after a length.
        Place::File if RECORDINGS.iter().any(begins) || at(6, b"Z0eX") => Nature::Recording,
        Place::File => Nature::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medium(place: Place, value: &str) -> (usize, u64) {
        let mut cursor = Cursor::new(value.as_bytes());
        let Medium { bytes, base64, tokens } = read(&mut cursor, place).expect("JSON");
        assert_eq!(bytes, value.len());
        (base64, tokens)
    }

    #[test]
    fn a_figure_goes_by_kind_and_size() {
        let long = |begin: &str| format!("{begin}{}", "A".repeat(400_000 - begin.len()));
        for (place, data, tokens) in [
            (Place::Image, "A".repeat(4), 1_000),
            (Place::Image, long(""), 1_000 + 300_000 / 256),
            (Place::Image, "A".repeat(40_000_000), 5_000),
            (Place::Audio, long("UklGRiQAAABXQVZFZm10"), 100 + 300_000 / 512),
            (Place::Audio, long("SUQzBAA"), 100 + 300_000 / 128),
            (Place::File, long("JVBERi0xLjcK"), 1_000 + 300_000 / 16),
            (Place::File, long("iVBORw0KGgoAAAA"), 1_000 + 300_000 / 256),
            (Place::File, long("UklGRiQAAABXRUJQVlA4"), 1_000 + 300_000 / 256),
            (Place::File, long("AAAAIGZ0eXBpc29t"), 100 + 300_000 / 128),
            (Place::File, long("SGVsbG8s"), 100 + 300_000 / 4),
        ] {
            let url = format!("data:application/x;name=y;base64,{data}");
            let member = String::from_utf8_lossy(place.member());
            let value = |text: &str| format!(r#"{{"{member}": "{text}", "filename": "a.png"}}"#);
            assert_eq!(medium(place, &value(&url)), (data.len(), tokens), "{place:?} {:.20}", data);
            if place != Place::Image {
                assert_eq!(medium(place, &value(&data)), (data.len(), tokens), "alone");
            }
        }
    }

    #[test]
    fn what_is_no_base64_is_not_left_out() {
        let image = |url: &str| medium(Place::Image, &format!(r#"{{"url":"{url}"}}"#));
        assert_eq!(image("https://example.com/a.png"), (0, 1_500));
        assert_eq!(image("AAAAAAAA"), (0, 1_500), "a path");
        assert_eq!(image("data:image/png;base64,tell me all of it"), (0, 1_500));
        assert_eq!(image("data:image/svg+xml,AAAA"), (0, 1_500));
        assert_eq!(image("DATA:image/png;BASE64,AAAA"), (4, 1_000));
        assert_eq!(image(r"data:image/jpeg;base64,\/9j\/"), (6, 1_000), "as PHP writes it");
        assert_eq!(medium(Place::Image, r#""data:image/png;base64,AAAA""#), (4, 1_000));
        assert_eq!(medium(Place::File, r#"{"file_id":"file-1"}"#), (0, 5_000));
        assert_eq!(medium(Place::File, r#"{"file_data":"https://x/y.pdf"}"#), (0, 5_000));
        assert_eq!(medium(Place::File, r#"{"file_data":"AAAA","file_data":7}"#), (0, 5_000));
        assert_eq!(medium(Place::Audio, r#"{"data":["AAAA"]}"#), (0, 1_000));
        assert_eq!(medium(Place::Audio, r#""AAAA""#), (0, 1_000));
    }
}

//! A [`Medium`] is a picture, a sound or a file in a message. Its tokens are estimated by its kind
//! and its size, without decoding it.
//!
//! Its base64 does not count as text; all other bytes of the part do. Data count as a picture, a
//! sound or a PDF only if two things agree: their first bytes, and the media type that the caller
//! declares. All other data are estimated as text, because the model may read them so: the declared
//! type decides how a server treats the data, and a text can have the first bytes of a picture.

use crate::named_enum;
use crate::wire::json::{self, Cursor, Kind, ScanResult, Span};
use crate::wire::starts_with_any_case;

/// The most tokens of a picture, whatever its size.
const LARGEST_PICTURE: u64 = 5_000;

named_enum! {
    /// The kinds of parts that hold media, by the name of their member, which is their type too.
    pub(crate) enum MediaKind {
        Image = "image_url",
        Audio = "input_audio",
        File = "file",
    }
}

impl MediaKind {
    /// Returns the kind of the member or the part with this name.
    pub(crate) fn from_name(name: &[u8]) -> Option<MediaKind> {
        let mut kinds = MediaKind::ALL.into_iter();
        kinds.find(|kind| kind.name().as_bytes() == name)
    }

    /// Returns the name of the member that holds the data.
    fn member(self) -> &'static [u8] {
        match self {
            MediaKind::Image => b"url",
            MediaKind::Audio => b"data",
            MediaKind::File => b"file_data",
        }
    }
}

/// One medium, in its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Medium {
    /// The bytes of the whole member's value.
    pub(crate) bytes: usize,
    /// The number of these bytes that are base64.
    pub(crate) base64: usize,
    /// The estimate of its tokens.
    pub(crate) tokens: u64,
}

/// Base64, and its declared media type, which is empty if the caller declares none.
#[derive(Clone, Copy)]
struct Data<'a> {
    base64: &'a [u8],
    media_type: &'a [u8],
}

/// Reads the value of a member that holds a medium.
pub(crate) fn read_medium(cursor: &mut Cursor<'_>, media_kind: MediaKind) -> ScanResult<Medium> {
    let mut data: Option<Span> = None;
    let mut names: Option<Span> = None;
    let span = match cursor.kind()? {
        Kind::Object => cursor.object(|cursor, key| {
            let name = json::name_of(cursor.text(), &key);
            let is_text = cursor.kind()? == Kind::String;
            let value = cursor.value()?;
            // Of several members of one name, the last one is taken, and the others count as text.
            if *name == *media_kind.member() {
                data = is_text.then_some(value);
            } else if *name == *b"filename" {
                names = is_text.then_some(value);
            }
            Ok(())
        })?,
        // Mistral writes the bare URL.
        Kind::String if media_kind == MediaKind::Image => {
            let span = cursor.value()?;
            data = Some(span.clone());
            span
        }
        Kind::String | Kind::Array | Kind::Number | Kind::Bool | Kind::Null => cursor.value()?,
    };
    let text = cursor.text();
    let data = data.and_then(|data| data_of(json::span_bytes(text, &data), media_kind));
    let name = names
        .map(|name| json::span_bytes(text, &name))
        .and_then(|quoted| quoted.get(1..quoted.len().saturating_sub(1)));
    let tokens = medium_tokens(media_kind, data, name.unwrap_or_default());
    Ok(Medium {
        bytes: span.len(),
        base64: data.map_or(0, |data| data.base64.len()),
        tokens,
    })
}

/// Returns the medium for base64 of this media type. `quoted` is the JSON text of the base64, and
/// `bytes` is the length of the value that holds it.
pub(crate) fn from_base64(
    media_kind: MediaKind,
    quoted: &[u8],
    media_type: &[u8],
    bytes: usize,
) -> Medium {
    let base64 = quoted
        .get(1..quoted.len().saturating_sub(1))
        .filter(|base64| is_base64(base64));
    let data = base64.map(|base64| Data { base64, media_type });
    Medium {
        bytes,
        base64: data.map_or(0, |data| data.base64.len()),
        tokens: medium_tokens(media_kind, data, b""),
    }
}

/// Returns a file that another server has: its size is not known.
pub(crate) fn remote_file() -> Medium {
    Medium {
        bytes: 0,
        base64: 0,
        tokens: medium_tokens(MediaKind::File, None, b""),
    }
}

/// Returns the base64 of a data URL, or base64 alone where servers understand that too.
fn data_of(quoted: &[u8], media_kind: MediaKind) -> Option<Data<'_>> {
    const HEAD: usize = 256;
    let text = quoted.get(1..quoted.len().saturating_sub(1))?;
    let data = if starts_with_any_case(text, "data:") {
        let comma = memchr::memchr(b',', text.get(..HEAD).unwrap_or(text))?;
        let (head, base64) = (text.get(5..comma)?, text.get(comma + 1..)?);
        let last = head
            .rsplit(|byte| *byte == b';')
            .next()
            .filter(|last| last.len() < head.len())?;
        let media_type = head.split(|byte| *byte == b';').next().unwrap_or_default();
        last.eq_ignore_ascii_case(b"base64").then_some(Data {
            base64,
            media_type: media_type.trim_ascii(),
        })?
    } else if media_kind == MediaKind::Image {
        return None;
    } else {
        Data {
            base64: text,
            media_type: b"",
        }
    };
    is_base64(data.base64).then_some(data)
}

/// Returns whether data is base64. Escapes count as base64: PHP writes `\/`. The check goes by
/// blocks, so that the compiler can take many bytes at once.
fn is_base64(data: &[u8]) -> bool {
    data.chunks(1024).all(|block| {
        block.iter().fold(true, |all, byte| {
            all & (byte.is_ascii_alphanumeric()
                | matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_' | b'\\'))
        })
    })
}

/// Estimates the tokens of a medium, by the table in docs/src/limits.md.
fn medium_tokens(media_kind: MediaKind, data: Option<Data<'_>>, name: &[u8]) -> u64 {
    let Some(data) = data else {
        // Another server has it: its size is not known.
        return match media_kind {
            MediaKind::Image => 1_500,
            MediaKind::Audio => 1_000,
            MediaKind::File => 5_000,
        };
    };
    let bytes = u64::try_from(data.base64.len())
        .unwrap_or(u64::MAX)
        .div_ceil(4)
        * 3;
    let picture = (1_000 + bytes / 256).min(LARGEST_PICTURE);
    let pdf = 1_000 + bytes / 16;
    let signature = read_signature(data.base64);
    match declared_nature(media_kind, data.media_type, name) {
        Some(Nature::Picture) if signature.picture => picture,
        Some(Nature::Pdf) if signature.pdf => pdf,
        Some(Nature::Sound) if signature.wave => 100 + bytes / 512,
        // A compressed sound, or a film. Raw sound may have any first bytes, but no server reads
        // the data of `input_audio` as text.
        Some(Nature::Sound) if signature.recording || media_kind == MediaKind::Audio => {
            100 + bytes / 128
        }
        // The model may read the data as text, and a server that goes by the first bytes alone may
        // read them as a picture or a PDF. The largest estimate counts.
        Some(Nature::Picture | Nature::Pdf | Nature::Sound) | None => {
            let pdf = if signature.pdf { pdf } else { 0 };
            let picture = if signature.picture || media_kind == MediaKind::Image {
                picture
            } else {
                0
            };
            (100 + bytes.div_ceil(4)).max(pdf).max(picture)
        }
    }
}

/// The nature that a caller declares for a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nature {
    Picture,
    /// A sound or a film.
    Sound,
    Pdf,
}

/// Returns the nature that the media type declares, else the ending of the file's name. Both are
/// still JSON, where PHP writes `\/`.
fn declared_nature(place: MediaKind, media_type: &[u8], name: &[u8]) -> Option<Nature> {
    match place {
        _ if !media_type.is_empty() => nature_of_type(media_type),
        MediaKind::Image => None,
        MediaKind::Audio => Some(Nature::Sound),
        MediaKind::File => nature_of_name(name),
    }
}

fn nature_of_type(media_type: &[u8]) -> Option<Nature> {
    let slash = memchr::memchr(b'/', media_type)?;
    let (kind, subtype) = (media_type.get(..slash)?, media_type.get(slash + 1..)?);
    let kind = kind.strip_suffix(b"\\").unwrap_or(kind);
    match &*kind.to_ascii_lowercase() {
        b"image" => Some(Nature::Picture),
        b"audio" | b"video" => Some(Nature::Sound),
        b"application" if subtype.eq_ignore_ascii_case(b"pdf") => Some(Nature::Pdf),
        _ => None,
    }
}

fn nature_of_name(name: &[u8]) -> Option<Nature> {
    const ENDINGS: [(Nature, &[&str]); 3] = [
        (Nature::Pdf, &["pdf"]),
        (Nature::Picture, &["png", "jpg", "jpeg", "gif", "webp"]),
        (
            Nature::Sound,
            &[
                "mp3", "wav", "ogg", "flac", "m4a", "mp4", "mov", "mkv", "webm",
            ],
        ),
    ];
    let ending = name.get(memchr::memrchr(b'.', name)? + 1..)?;
    let is_ending = |known: &&str| ending.eq_ignore_ascii_case(known.as_bytes());
    let mut rows = ENDINGS.into_iter();
    rows.find(|(_, endings)| endings.iter().any(is_ending))
        .map(|(nature, _)| nature)
}

/// The natures that data may have by their first bytes.
#[derive(Debug, Clone, Copy)]
struct Signature {
    picture: bool,
    wave: bool,
    recording: bool,
    pdf: bool,
}

/// Compares data with each format's first bytes, in base64.
fn read_signature(base64: &[u8]) -> Signature {
    // PNG, JPEG, GIF, TIFF of either kind, BMP.
    const PICTURES: [&[u8]; 6] = [
        b"iVBORw0KGgo",
        b"/9j/",
        b"R0lGOD",
        b"SUkqA",
        b"TU0AK",
        b"Qk",
    ];
    // MP3 with a tag, Ogg, FLAC, Matroska.
    const RECORDINGS: [&[u8]; 4] = [b"SUQz", b"T2dn", b"ZkxhQ", b"GkXf"];
    let mut head = [0; 24];
    let bytes = base64
        .iter()
        .enumerate()
        .filter(|(index, byte)| **byte != b'\\' || base64.get(index + 1) != Some(&b'/'));
    head.iter_mut()
        .zip(bytes)
        .for_each(|(place, (_, byte))| *place = *byte);
    let starts_with_any = |starts: &[&[u8]]| starts.iter().any(|start| head.starts_with(start));
    let is_riff = head.starts_with(b"UklGR");
    // MP4, HEIC and AVIF: a length stands before this.
    let is_ftyp = head[6..].starts_with(b"Z0eX");
    // MP3 without a tag. A text in UTF-16 begins with `//` too, but goes on otherwise.
    let is_frame = head.starts_with(b"//") && !b"456789+/".contains(&head[2]);
    Signature {
        picture: starts_with_any(&PICTURES)
            || is_ftyp
            || is_riff && head[12..].starts_with(b"RUJQ"),
        wave: is_riff && head[12..].starts_with(b"QVZF"),
        recording: starts_with_any(&RECORDINGS) || is_ftyp || is_frame,
        pdf: head.starts_with(b"JVBERi"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medium(place: MediaKind, value: &str) -> (usize, u64) {
        let mut cursor = Cursor::new(value.as_bytes());
        let Medium {
            bytes,
            base64,
            tokens,
        } = read_medium(&mut cursor, place).expect("JSON");
        assert_eq!(bytes, value.len());
        (base64, tokens)
    }

    #[test]
    fn a_figure_goes_by_kind_and_size() {
        let long = |begin: &str| format!("{begin}{}", "A".repeat(400_000 - begin.len()));
        for (place, kind, name, data, tokens) in [
            (MediaKind::Image, "image/png", "", "A".repeat(4), 1_000),
            (
                MediaKind::Image,
                "image/png",
                "",
                long("iVBORw0KGgoAAAA"),
                1_000 + 300_000 / 256,
            ),
            (
                MediaKind::Image,
                "IMAGE/*",
                "",
                long("/9j/4AAQ"),
                1_000 + 300_000 / 256,
            ),
            (
                MediaKind::Image,
                "image/heic",
                "",
                long("AAAAIGZ0eXBoZWlj"),
                1_000 + 300_000 / 256,
            ),
            (
                MediaKind::Image,
                r"image\/gif",
                "",
                format!("R0lGOD{}", "A".repeat(40_000_000)),
                5_000,
            ),
            (
                MediaKind::Audio,
                "audio/wav",
                "",
                long("UklGRiQAAABXQVZFZm10"),
                100 + 300_000 / 512,
            ),
            (
                MediaKind::Audio,
                "audio/mpeg",
                "",
                long("SUQzBAA"),
                100 + 300_000 / 128,
            ),
            (
                MediaKind::Audio,
                "audio/mpeg",
                "",
                long("AAAA"),
                100 + 300_000 / 128,
            ),
            (
                MediaKind::File,
                "application/pdf",
                "a.pdf",
                long("JVBERi0xLjcK"),
                1_000 + 300_000 / 16,
            ),
            (
                MediaKind::File,
                "image/png",
                "a.PNG",
                long("iVBORw0KGgoAAAA"),
                1_000 + 300_000 / 256,
            ),
            (
                MediaKind::File,
                "image/webp",
                "a.webp",
                long("UklGRiQAAABXRUJQVlA4"),
                1_000 + 300_000 / 256,
            ),
            (
                MediaKind::File,
                "video/mp4",
                "a.mp4",
                long("AAAAIGZ0eXBpc29t"),
                100 + 300_000 / 128,
            ),
            (
                MediaKind::File,
                "audio/mpeg",
                "a.b.mp3",
                long("//uQxAA"),
                100 + 300_000 / 128,
            ),
            (
                MediaKind::File,
                "text/plain",
                "a.txt",
                long("SGVsbG8s"),
                100 + 300_000 / 4,
            ),
        ] {
            let member = String::from_utf8_lossy(place.member());
            for kind in [kind.to_owned(), format!("{kind};name=y")] {
                let value =
                    format!(r#"{{"filename": "a.txt", "{member}": "data:{kind};base64,{data}"}}"#);
                assert_eq!(
                    medium(place, &value),
                    (data.len(), tokens),
                    "{place:?} {kind} {:.20}",
                    data
                );
            }
            if place != MediaKind::Image {
                let value = format!(r#"{{"{member}": "{data}", "filename": "{name}"}}"#);
                assert_eq!(medium(place, &value), (data.len(), tokens), "alone, {name}");
            }
        }
    }

    #[test]
    fn only_real_media_count_as_media() {
        let long = |begin: &str| format!("{begin}{}", "A".repeat(400_000 - begin.len()));
        let text = 100 + 300_000 / 4;
        let begins = [
            "R0lGODlh",
            "SUQz",
            "JVBERi0",
            "T2dnUw",
            "ZkxhQw",
            "UklGRkFBQUFXRUJQ",
            "UklGRkFBQUFXQVZF",
            "//5BAA",
            "QkFB",
            "SGVsbG8s",
        ];
        for data in begins.map(long) {
            for kind in [
                "text/plain",
                "text/csv",
                "application/json",
                "application/octet-stream",
                "image",
                "imagery/x",
                "application/x-pdf",
            ] {
                let url = format!("data:{kind};base64,{data}");
                assert_eq!(
                    medium(MediaKind::Image, &format!(r#"{{"url":"{url}"}}"#)),
                    (data.len(), text),
                    "{kind} {:.8}",
                    data
                );
                assert_eq!(
                    medium(MediaKind::Image, &format!(r#""{url}""#)),
                    (data.len(), text),
                    "{kind} {:.8}",
                    data
                );
                for name in ["a.pdf", "a.png", "a.mp3", "a"] {
                    let value = format!(r#"{{"file_data":"{url}","filename":"{name}"}}"#);
                    assert_eq!(
                        medium(MediaKind::File, &value),
                        (data.len(), text),
                        "{kind} {:.8}",
                        data
                    );
                }
                assert_eq!(
                    medium(
                        MediaKind::Audio,
                        &format!(r#"{{"data":"{url}","format":"wav"}}"#)
                    ),
                    (data.len(), text),
                    "{kind} {:.8}",
                    data
                );
            }
            for name in ["", "a.txt", "pdf", "a.pdf.md"] {
                let value =
                    |head: &str| format!(r#"{{"file_data":"{head}{data}","filename":"{name}"}}"#);
                assert_eq!(
                    medium(MediaKind::File, &value("")),
                    (data.len(), text),
                    "{name} {:.8}",
                    data
                );
                assert_eq!(
                    medium(MediaKind::File, &value("data:;base64,")),
                    (data.len(), text),
                    "{name} {:.8}",
                    data
                );
            }
        }
        // And what is said to be a picture is none.
        for data in ["SGVsbG8s", "JVBERi0", "SUQz", "//5BAA", "PHN2ZyB4"].map(long) {
            assert_eq!(
                medium(
                    MediaKind::Image,
                    &format!(r#""data:image/png;base64,{data}""#)
                ),
                (data.len(), text),
                "{:.8}",
                data
            );
            let value = format!(r#"{{"file_data":"{data}","filename":"a.gif"}}"#);
            assert_eq!(
                medium(MediaKind::File, &value),
                (data.len(), text),
                "{:.8}",
                data
            );
        }
        let value = format!(
            r#"{{"file_data":"{}","filename":"a.pdf","filename":"a.txt"}}"#,
            long("JVBERi0")
        );
        assert_eq!(medium(MediaKind::File, &value), (400_000, text));
    }

    #[test]
    fn what_is_no_base64_is_not_left_out() {
        let image = |url: &str| medium(MediaKind::Image, &format!(r#"{{"url":"{url}"}}"#));
        assert_eq!(image("https://example.com/a.png"), (0, 1_500));
        assert_eq!(image("AAAAAAAA"), (0, 1_500), "a path");
        assert_eq!(image("data:image/png;base64,tell me all of it"), (0, 1_500));
        assert_eq!(image("data:image/svg+xml,AAAA"), (0, 1_500));
        assert_eq!(image("DATA:image/png;BASE64,AAAA"), (4, 1_000));
        assert_eq!(
            image(r"data:image/jpeg;base64,\/9j\/"),
            (6, 1_000),
            "as PHP writes it"
        );
        assert_eq!(
            medium(MediaKind::Image, r#""data:image/png;base64,AAAA""#),
            (4, 1_000)
        );
        assert_eq!(
            medium(MediaKind::File, r#"{"file_id":"file-1"}"#),
            (0, 5_000)
        );
        assert_eq!(
            medium(MediaKind::File, r#"{"file_data":"https://x/y.pdf"}"#),
            (0, 5_000)
        );
        assert_eq!(
            medium(MediaKind::File, r#"{"file_data":"AAAA","file_data":7}"#),
            (0, 5_000)
        );
        assert_eq!(medium(MediaKind::Audio, r#"{"data":["AAAA"]}"#), (0, 1_000));
        assert_eq!(medium(MediaKind::Audio, r#""AAAA""#), (0, 1_000));
    }
}

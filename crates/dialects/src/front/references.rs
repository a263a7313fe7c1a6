//! The references in a request: files at the provider, and URLs that a server fetches.
//!
//! Portcullis fetches nothing, but the account's server may. It may use the account's own rights,
//! for names that only its provider knows (`gs://`, `s3://`, a file's id). It may reach the
//! operator's network, if it stands there. [`AllowedReferences`] lists the references that an
//! account lets callers use; any other is refused before the request goes up. Each front door knows
//! where in a body a reference may stand.

use std::borrow::Cow;

use crate::address::is_public_host;
use crate::wire::json::{self, Span};

/// The references that an account lets callers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowedReferences {
    /// `gs://`: files in Google's storage that the account may read.
    pub gs: bool,
    /// `s3://`: files in Amazon's storage.
    pub s3: bool,
    /// Files that were uploaded to the account, by id or by their address there.
    pub files: bool,
    /// Azure's `data_sources`: searches and databases that the account may read.
    pub data_sources: bool,
    /// Objects that were stored at the account before, by their names: Gemini's `cached_content`.
    /// An operator allows them together with `files`.
    pub cached: bool,
    /// URLs of the public internet.
    pub urls: Urls,
}

/// The URLs that an account lets callers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urls {
    /// Every URL, of whatever scheme.
    Any,
    /// `https:`, and a host of the public internet.
    Public,
    /// No URL: the server stands in a network that is not public.
    NoneForNearServer,
    /// No URL, because the operator forbids them.
    None,
}

impl AllowedReferences {
    /// Every reference, for accounts that fetch nothing.
    pub const ALL: AllowedReferences = AllowedReferences {
        gs: true,
        s3: true,
        files: true,
        data_sources: true,
        cached: true,
        urls: Urls::Any,
    };

    /// No reference but URLs of the public internet, for tests.
    #[cfg(test)]
    pub(crate) const NOTHING: AllowedReferences = AllowedReferences {
        gs: false,
        s3: false,
        files: false,
        data_sources: false,
        cached: false,
        urls: Urls::Public,
    };

    /// Judges a string of a body; `name` is the member that holds it. Returns why it may not go up,
    /// if it may not.
    pub fn judge(&self, name: &[u8], text: &[u8], span: &Span) -> Option<Judgement> {
        // Without the opening quote.
        let raw = json::span_bytes(text, span).get(1..).unwrap_or_default();
        // A `data:` URL of megabytes is not decoded: it refers to nothing.
        if raw
            .get(..5)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"data:"))
        {
            return None;
        }
        let text = json::text_of(text, span).filter(|text| !text.is_empty())?;
        self.judge_text(name, &text)
    }

    /// Judges the reference in a text that is no JSON.
    pub(super) fn judge_text(&self, name: &[u8], text: &str) -> Option<Judgement> {
        let refers = if names_file(name) {
            Refers::File
        } else {
            Refers::from_text(name, text)
        };
        let (is_allowed, why, setting) = match (refers, self.urls) {
            (Refers::No, _) => return None,
            (Refers::Gs, _) => (
                self.gs,
                "The provider would read files at gs:// with the account's own rights",
                GS,
            ),
            (Refers::S3, _) => (
                self.s3,
                "The server would read files at s3:// with the account's own rights",
                S3,
            ),
            (Refers::File, _) => (
                self.files,
                "The provider would read uploaded files with the account's own rights",
                FILES,
            ),
            (_, Urls::Any) | (Refers::PublicUrl, Urls::Public) => return None,
            (Refers::Path, Urls::Public) if !is_surely_path(name, text) => return None,
            (_, Urls::NoneForNearServer) => (
                false,
                "The model's server would fetch the URL from within the gateway's own network",
                PASS_URLS,
            ),
            (_, Urls::None) => (
                false,
                "URLs are not passed on to this model's server",
                PASS_URLS,
            ),
            (Refers::PlainUrl, _) => (
                false,
                "The URL begins with http:, but only https: is passed on",
                PASS_URLS,
            ),
            (Refers::PrivateUrl, _) => (
                false,
                "The URL's host is not on the public internet",
                PASS_URLS,
            ),
            (Refers::Other, _) => (
                false,
                "A URL of this scheme may name a file on the server itself",
                PASS_URLS,
            ),
            (Refers::Path, _) => (
                false,
                "A path in place of a URL may name a file on the server itself",
                PASS_URLS,
            ),
        };
        (!is_allowed).then_some(Judgement { why, setting })
    }
}

/// The reason why a reference is refused, and what an operator writes to allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    why: &'static str,
    setting: &'static str,
}

impl Judgement {
    /// Azure's `data_sources`.
    pub(crate) const DATA_SOURCES: Self = Self {
        why: "The provider would read data sources with the account's own rights",
        setting: "caller_references: [data_sources]",
    };
    /// An object that was stored at the account before, and that may be no file.
    pub(crate) const STORED: Self = Self {
        why: "The provider would use what is stored at the account",
        setting: FILES,
    };
    /// An object that was stored at the account before.
    pub(crate) const CACHED: Self = Self {
        why: "The provider would read cached content with the account's own rights",
        setting: FILES,
    };

    /// Returns the sentence for the caller.
    pub(crate) fn message(&self) -> String {
        let Self { why, setting } = self;
        format!(
            "{why}. Send the data itself, or ask the gateway's operator to allow it (`{setting}`)."
        )
    }
}

/// The setting that allows files in Google's storage; those for Amazon's storage and for uploaded
/// files follow.
const GS: &str = "caller_references: [gs]";
const S3: &str = "caller_references: [s3]";
const FILES: &str = "caller_references: [files]";
/// The setting that allows URLs.
const PASS_URLS: &str = "media_urls: pass";

/// The kind of thing that a text refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refers {
    /// No reference: a plain text.
    No,
    Gs,
    S3,
    /// A file that was uploaded to the provider.
    File,
    /// An `https:` URL of a public host.
    PublicUrl,
    /// An `http:` URL of a public host.
    PlainUrl,
    /// An `http:` or `https:` URL whose host is not surely public.
    PrivateUrl,
    /// A URL of another scheme.
    Other,
    /// Perhaps the path of a file on the server.
    Path,
}

impl Refers {
    fn from_text(name: &[u8], text: &str) -> Self {
        // Servers ignore blanks at either end of a URL, and line ends and tabs anywhere in it.
        let clean = text.trim_matches(|c: char| c <= ' ');
        // A longer text is not copied, and is judged by its scheme alone. Where such a URL leads is
        // not known.
        let is_long = clean.len() > MAX_URL;
        let head: Cow<'_, str> = if is_long {
            // The scheme and `://`.
            clean
                .chars()
                .filter(|c| !CUT.contains(c))
                .take(MAX_SCHEME + 3)
                .collect()
        } else if clean.contains(CUT) {
            Cow::Owned(clean.replace(CUT, ""))
        } else {
            Cow::Borrowed(clean)
        };
        let text = if is_long { clean } else { &*head };
        let Some((scheme, rest)) = head.split_once(':').filter(|(scheme, _)| is_scheme(scheme))
        else {
            return Self::of_path(name, text);
        };
        match scheme.to_ascii_lowercase().as_str() {
            "data" => Self::No,
            "gs" => Self::Gs,
            "s3" | "s3a" | "s3n" => Self::S3,
            "https" | "http" if is_long => Self::PrivateUrl,
            "https" | "http" if is_google_file(rest) => Self::File,
            "https" if is_public(rest) => Self::PublicUrl,
            "http" if is_public(rest) => Self::PlainUrl,
            "https" | "http" => Self::PrivateUrl,
            "file" | "ftp" => Self::Other,
            _ if rest.starts_with("//") => Self::Other,
            // `C:\…`, or a sentence with a colon.
            _ => Self::of_path(name, text),
        }
    }

    /// Judges a text that does not begin as a URL. Some servers look past quotes, brackets and
    /// other blanks, or for a URL anywhere in a text that is to name a place.
    fn of_path(name: &[u8], text: &str) -> Self {
        let names_place = names_place(name);
        let mut other = false;
        for offset in memchr::memmem::find_iter(text.as_bytes(), b"://") {
            let before = text.get(..offset).unwrap_or_default();
            let before_scheme = before.trim_end_matches(|c: char| {
                c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')
            });
            // In a member that names no place, a URL behind other words is part of a sentence.
            if !names_place && before_scheme.contains(char::is_alphanumeric) {
                break;
            }
            if ends_with_any_case(before, "gs") {
                return Self::Gs;
            }
            if ["s3", "s3a", "s3n"]
                .iter()
                .any(|scheme| ends_with_any_case(before, scheme))
            {
                return Self::S3;
            }
            other = true;
        }
        match other {
            true => Self::Other,
            false if is_path(name, text) => Self::Path,
            false => Self::No,
        }
    }
}

fn ends_with_any_case(text: &str, end: &str) -> bool {
    text.get(text.len().saturating_sub(end.len())..)
        .is_some_and(|text| text.eq_ignore_ascii_case(end))
}

/// Longer URLs are judged by their scheme.
const MAX_URL: usize = 64 * 1024;
const MAX_SCHEME: usize = 32;
/// These characters are cut out of a URL.
const CUT: [char; 3] = ['\t', '\n', '\r'];

fn is_scheme(word: &str) -> bool {
    word.len() <= MAX_SCHEME
        && word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// Returns whether the text after `https:` leads to a public host, however a server reads it. Such
/// a text has no user's name, no backslash, and nothing else that servers read in different ways.
fn is_public(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix("//") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let end = if authority.starts_with('[') {
        authority.find(']').map_or(authority.len(), |end| end + 1)
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (host, port) = authority.split_at_checked(end).unwrap_or_default();
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)) && is_public_host(host)
}

/// Returns whether the host is the Gemini API's. Its files can be read only with the key that
/// uploaded them. The path is not judged: it can be written in too many ways.
fn is_google_file(rest: &str) -> bool {
    let rest = rest.to_ascii_lowercase();
    rest.trim_start_matches(['/', '\\'])
        .split(['/', '?', '#'])
        .next()
        .is_some_and(|host| host.contains("generativelanguage.googleapis.com"))
}

/// Returns whether a text without a scheme may be read as a path.
fn is_path(name: &[u8], text: &str) -> bool {
    names_place(name) && !is_base64(text)
}

/// Returns whether a text is data in base64. It has no dots. It is longer than a path, or begins as
/// pictures and sounds do.
fn is_base64(text: &str) -> bool {
    const STARTS: [&str; 6] = ["/9j/", "iVBORw0KGgo", "R0lGOD", "UklGR", "JVBERi", "SUQz"];
    const LONG: usize = 256;
    let is_digit = |b: u8| b.is_ascii_alphanumeric() || b"+/=-_\t\r\n".contains(&b);
    (text.len() > LONG || STARTS.iter().any(|start| text.starts_with(start)))
        && text.bytes().all(is_digit)
}

/// Returns whether a text is a path for every server: its member is named like a URL, or the text
/// begins as a path does. A member such as `image_size` holds words.
fn is_surely_path(name: &[u8], text: &str) -> bool {
    let text = text.trim_start_matches(|c: char| c <= ' ');
    let second = text.get(1..).unwrap_or_default();
    let is_url = ["url", "uri"]
        .iter()
        .any(|word| memchr::memmem::find(name, word.as_bytes()).is_some());
    // The last two are drives: `C:\`.
    is_url
        || text.starts_with(['/', '.', '~', '\\'])
        || second.starts_with(":\\")
        || second.starts_with(":/")
}

/// Returns whether a member holds the id of a file, or the ids of several.
pub(super) fn names_file(name: &[u8]) -> bool {
    ["file_id", "fileid", "file_ids", "fileids"]
        .iter()
        .any(|known| json::folds_to(name, known))
}

/// Returns whether a member may hold a URL or a path, by its name. Members that hold data are
/// known: servers look for nothing else in them.
pub(super) fn names_place(name: &[u8]) -> bool {
    const PLACES: [&str; 6] = ["url", "uri", "path", "image", "video", "file"];
    !matches!(
        name,
        b"data" | b"file_data" | b"bytes" | b"file_name" | b"filename"
    ) && PLACES
        .iter()
        .any(|word| memchr::memmem::find(name, word.as_bytes()).is_some())
}

//! A form of files and fields (`multipart/form-data`, RFC 7578), scanned as it comes. Only some
//! fields are read, and the places of their values are kept.
//!
//! Servers read odd forms in different ways. A form is refused if a server could read a field in it
//! in another way than the scanner: with a boundary anywhere but between two parts, with escapes in
//! names, or with parameters that a split at each `;` would change. **Invariant:** the result does
//! not depend on how the bytes are cut, and the scanner holds no more than a part's head and a
//! boundary.

use std::borrow::Cow;

use memchr::memmem;

use super::json::Span;
use super::starts_with_any_case;

/// The most parts of a form.
const PARTS: usize = 256;
/// The longest head of a part.
const HEAD: usize = 8 * 1024;
/// The longest value of a field that stands once, and the longest beginning of a value.
const VALUE: usize = 1024;
/// The most bytes of all values together that are read whole.
const VALUES: usize = 64 * 1024;

/// The part of a field that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldReading {
    /// Nothing.
    Nothing,
    /// Its value, which is short, under this name. The form has the field once, and it is no file.
    Once(&'static str),
    /// The whole value. It is no file.
    Whole,
    /// The whole value if it is an object or a list in JSON, else nothing.
    Json,
    /// The whole value if it is an object or a list in JSON, else its beginning.
    Beginning,
}

/// A field of a form that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormField {
    /// Its name.
    pub name: Cow<'static, str>,
    /// The part of the field that is read.
    pub reading: FieldReading,
    /// The value, or its beginning.
    pub value: Vec<u8>,
    /// The place of these bytes in the form.
    pub span: Span,
    /// False if the value goes on.
    pub is_whole: bool,
}

/// Why a form cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormFault {
    /// The field at fault, if it is one field.
    pub field: Option<Cow<'static, str>>,
    /// The fault of the field, or of the form.
    pub why: &'static str,
}

/// Reads a form piece by piece.
#[derive(Debug)]
pub struct FormScanner {
    /// `--`, and the boundary.
    delimiter: memmem::Finder<'static>,
    /// Returns how much of a field of this name is read.
    reading: fn(&str) -> FieldReading,
    /// The bytes that are not read yet.
    rest: Vec<u8>,
    /// The place of their first byte in the form.
    rest_start: usize,
    state: State,
    parts: usize,
    found: Vec<FormField>,
}

/// The part of the form that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The first delimiter.
    Start,
    /// The bytes after a delimiter.
    Delimiter,
    /// The head of a part.
    Head,
    /// The content of a part. True if the field is read.
    Content(bool),
    /// The end: only line ends may follow.
    Over,
}

/// Reads the boundary from a content type. Returns `None` if the type is no form.
pub fn form_boundary(content_type: &[u8]) -> Option<Result<&str, &'static str>> {
    const WHY: &str =
        "has no usable `boundary` in its content type: 1 to 70 letters, digits and `'()+_,-./:=?`";
    let end = content_type
        .iter()
        .position(|byte| *byte == b';')
        .unwrap_or(content_type.len());
    let (kind, rest) = content_type.split_at(end);
    kind.trim_ascii()
        .eq_ignore_ascii_case(b"multipart/form-data")
        .then(|| {
            let parameters = read_parameters(rest).ok_or(WHY)?;
            let mut named = parameters
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case(b"boundary"));
            let (Some((_, value)), None) = (named.next(), named.next()) else {
                return Err(WHY);
            };
            let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(byte);
            let is_good = (1..=70).contains(&value.len()) && value.iter().all(fits);
            str::from_utf8(value).ok().filter(|_| is_good).ok_or(WHY)
        })
}

impl FormScanner {
    /// Begins to read a form with this boundary. `reading` decides by a field's name how much of it
    /// is read.
    pub fn new(boundary: &str, reading: fn(&str) -> FieldReading) -> FormScanner {
        FormScanner {
            delimiter: memmem::Finder::new(format!("--{boundary}").as_bytes()).into_owned(),
            reading,
            rest: Vec::new(),
            rest_start: 0,
            state: State::Start,
            parts: 0,
            found: Vec::new(),
        }
    }

    /// Returns the number of bytes in memory that its fields take.
    pub fn in_memory(&self) -> usize {
        self.found.iter().map(|field| field.value.len()).sum()
    }

    /// Takes the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), FormFault> {
        self.rest.extend_from_slice(bytes);
        while self.step()? {}
        Ok(())
    }

    /// Ends the form, and returns the fields that were read.
    pub fn finish(self) -> Result<Vec<FormField>, FormFault> {
        match (self.state, self.rest.as_slice()) {
            (State::Over, b"" | b"\r\n") => Ok(self.found),
            _ => Err(broken_form(
                "ends before its last boundary, or goes on after it",
            )),
        }
    }

    /// Takes one step. Returns false if more bytes are needed.
    fn step(&mut self) -> Result<bool, FormFault> {
        let delimiter = self.delimiter.needle().len();
        match self.state {
            State::Start if self.rest.len() < delimiter => Ok(false),
            State::Start if self.rest.starts_with(self.delimiter.needle()) => {
                self.go(delimiter, State::Delimiter)
            }
            State::Start => Err(broken_form("does not begin with its boundary")),
            State::Delimiter => match self.rest.get(..2) {
                None => Ok(false),
                Some(b"--") => self.go(2, State::Over),
                Some(b"\r\n") if self.parts < PARTS => {
                    self.parts += 1;
                    self.go(2, State::Head)
                }
                Some(b"\r\n") => Err(broken_form("has more than 256 parts")),
                Some(_) => Err(broken_form(INSIDE)),
            },
            State::Head => match memmem::find(&self.rest, b"\r\n\r\n") {
                Some(end) if end <= HEAD => {
                    let head = self.rest.get(..end).unwrap_or_default();
                    if self.delimiter.find(head).is_some() {
                        return Err(broken_form(INSIDE));
                    }
                    let field = self.begin_field(part_name(head)?, self.rest_start + end + 4)?;
                    let reads = field.is_some();
                    self.found.extend(field);
                    self.go(end + 4, State::Content(reads))
                }
                None if self.rest.len() < HEAD + 4 => Ok(false),
                Some(_) | None => Err(broken_form("has a part with a head of more than 8 KiB")),
            },
            State::Content(reads) => match self.delimiter.find(&self.rest) {
                Some(found) => {
                    // A field that is too long is reported first: if it comes in small pieces, its
                    // boundary is not known yet.
                    let length = found.saturating_sub(2);
                    let reads = self.keep(reads, length)?;
                    self.end_field(reads);
                    if self.rest.get(length..found) != Some(b"\r\n") {
                        return Err(broken_form(INSIDE));
                    }
                    self.go(found + delimiter, State::Delimiter)
                }
                // The end of the bytes may be the begin of the delimiter, and of the line before.
                None => match self.rest.len().saturating_sub(delimiter + 1) {
                    0 => Ok(false),
                    length => {
                        let reads = self.keep(reads, length)?;
                        self.go(length, State::Content(reads)).map(|_| false)
                    }
                },
            },
            State::Over if self.rest.len() > 2 => {
                Err(broken_form("goes on after its last boundary"))
            }
            State::Over => Ok(false),
        }
    }

    /// Drops the bytes that were read, and changes the state.
    fn go(&mut self, read: usize, state: State) -> Result<bool, FormFault> {
        self.rest.drain(..read.min(self.rest.len()));
        self.rest_start += read;
        self.state = state;
        Ok(true)
    }

    /// Takes the next bytes of a part, if it is a field that is read. Returns whether it still is.
    fn keep(&mut self, reads: bool, length: usize) -> Result<bool, FormFault> {
        let Some(mut field) = self.found.pop_if(|_| reads) else {
            return Ok(false);
        };
        let bytes = self.rest.get(..length).unwrap_or_default();
        let begin = || ValueStart::classify(&field.value, bytes);
        let (max_bytes, fault) = match field.reading {
            FieldReading::Once(_) => (VALUE, Some("is too long")),
            FieldReading::Nothing | FieldReading::Whole => (self.room(), Some(TOO_MUCH)),
            FieldReading::Json | FieldReading::Beginning => match begin() {
                ValueStart::Json => (self.room(), Some(TOO_MUCH)),
                ValueStart::Unknown => (VALUE, Some("begins with too many blanks")),
                ValueStart::Other if field.reading == FieldReading::Json => return Ok(false),
                ValueStart::Other => (VALUE, None),
            },
        };
        let kept = length.min(max_bytes.saturating_sub(field.value.len()));
        field.is_whole &= kept == length;
        if let Some(why) = fault.filter(|_| kept < length) {
            return Err(FormFault {
                field: Some(field.name),
                why,
            });
        }
        field
            .value
            .extend_from_slice(bytes.get(..kept).unwrap_or_default());
        field.span.end += kept;
        self.found.push(field);
        Ok(true)
    }

    /// Returns the room for one more value that is read whole.
    fn room(&self) -> usize {
        let fields = self.found.iter();
        let whole = fields.filter(|field| {
            !matches!(field.reading, FieldReading::Once(_)) && field.is_json_or_whole()
        });
        let taken: usize = whole.map(|field| field.value.len()).sum();
        VALUES.saturating_sub(taken)
    }

    /// Ends a field. One that is read only if it is JSON may be blank.
    fn end_field(&mut self, reads: bool) {
        self.found.pop_if(|field| {
            reads && field.reading == FieldReading::Json && !field.is_json_or_whole()
        });
    }

    /// Returns a field whose value begins at this place, if the field is read.
    fn begin_field(
        &self,
        part: PartName<'_>,
        start: usize,
    ) -> Result<Option<FormField>, FormFault> {
        let name = String::from_utf8_lossy(part.name);
        let reading = (self.reading)(&name);
        let name = match reading {
            FieldReading::Nothing => return Ok(None),
            FieldReading::Json | FieldReading::Beginning if part.file == PartFile::Surely => {
                return Ok(None);
            }
            FieldReading::Once(name) => Cow::Borrowed(name),
            FieldReading::Whole | FieldReading::Json | FieldReading::Beginning => {
                Cow::Owned(name.into_owned())
            }
        };
        let is_known = || self.found.iter().any(|field| field.reading == reading);
        let why = match reading {
            FieldReading::Once(_) | FieldReading::Whole if part.file != PartFile::No => {
                "must be a text and no file"
            }
            FieldReading::Once(_) if is_known() => "is given more than once",
            FieldReading::Nothing
            | FieldReading::Once(_)
            | FieldReading::Whole
            | FieldReading::Json
            | FieldReading::Beginning => {
                return Ok(Some(FormField {
                    name,
                    reading,
                    value: Vec::new(),
                    span: start..start,
                    is_whole: true,
                }));
            }
        };
        Err(FormFault {
            field: Some(name),
            why,
        })
    }
}

const TOO_MUCH: &str =
    "is too long: all fields that hold JSON or name models have at most 64 KiB together";

/// The beginning of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueStart {
    /// As an object or a list.
    Json,
    /// In another way.
    Other,
    /// There is nothing yet but blanks.
    Unknown,
}

impl ValueStart {
    /// Classifies a value in two pieces. Some servers ignore blanks before JSON, and marks that are
    /// no JSON.
    fn classify(value: &[u8], more: &[u8]) -> ValueStart {
        let start: Vec<u8> = value.iter().chain(more).take(VALUE).copied().collect();
        let (text, is_broken) = match str::from_utf8(&start) {
            Ok(text) => (text, false),
            Err(why) => {
                let (good, _) = start.split_at(why.valid_up_to());
                (
                    str::from_utf8(good).unwrap_or_default(),
                    why.error_len().is_some(),
                )
            }
        };
        match text.trim_start_matches(is_blank).chars().next() {
            Some('{' | '[') => ValueStart::Json,
            Some(_) => ValueStart::Other,
            None if is_broken => ValueStart::Other,
            None => ValueStart::Unknown,
        }
    }
}

/// Returns whether any server ignores this character before a JSON text.
pub(crate) fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control() || letter == '\u{feff}'
}

impl FormField {
    fn is_json_or_whole(&self) -> bool {
        self.reading == FieldReading::Whole
            || ValueStart::classify(&self.value, b"") == ValueStart::Json
    }
}

const INSIDE: &str = "has its boundary inside a part: choose a longer boundary";

fn broken_form(why: &'static str) -> FormFault {
    FormFault { field: None, why }
}

/// The name of a part, and whether it is a file.
#[derive(Clone, Copy)]
struct PartName<'h> {
    name: &'h [u8],
    file: PartFile,
}

/// Whether a part is a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartFile {
    No,
    /// Some servers take a part for a text if its file has no name.
    Perhaps,
    Surely,
}

/// Reads the head of a part.
fn part_name(head: &[u8]) -> Result<PartName<'_>, FormFault> {
    let mut found = None;
    let mut has_odd_charset = false;
    let line_feeds = memchr::memchr_iter(b'\n', head).count();
    if memmem::find_iter(head, b"\r\n").count() != line_feeds {
        return Err(broken_form(ODD));
    }
    for line in head
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
    {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Err(broken_form(ODD));
        };
        let (name, value) = line.split_at(colon);
        let is_odd = |byte: &u8| *byte < b' ' && *byte != b'\t' || *byte == 0x7f;
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) || value.iter().any(is_odd) {
            return Err(broken_form(ODD));
        }
        let text = value
            .get(1..)
            .unwrap_or_default()
            .trim_ascii()
            .to_ascii_lowercase();
        let is = |header: &[u8]| name.eq_ignore_ascii_case(header);
        // Some servers decode encoded parts, and read forms inside forms. Others do not.
        let is_coded = || ![&b"7bit"[..], b"8bit", b"binary"].contains(&&*text);
        has_odd_charset |= is(b"content-type") && !is_like_ascii(&text);
        if is(b"content-disposition") && found.replace(value).is_some()
            || is(b"content-transfer-encoding") && is_coded()
            || is(b"content-type") && text.starts_with(b"multipart/")
        {
            return Err(broken_form(ODD));
        }
    }
    let part = read_disposition(found.unwrap_or_default()).ok_or(broken_form(ODD))?;
    // It would change how servers read the other fields.
    let sets_charset = part.name.eq_ignore_ascii_case(b"_charset_");
    if sets_charset || has_odd_charset && part.file != PartFile::Surely {
        return Err(broken_form(ODD));
    }
    Ok(part)
}

/// Returns whether a content type, in lower case, names no character set that changes the meaning
/// of ASCII bytes.
fn is_like_ascii(content_type: &[u8]) -> bool {
    const KNOWN: [&[u8]; 5] = [b"utf-8", b"utf8", b"us-ascii", b"ascii", b"iso-8859-1"];
    memmem::find_iter(content_type, b"charset").all(|position| {
        let rest = content_type
            .get(position + b"charset".len()..)
            .unwrap_or_default();
        let value = rest
            .trim_ascii_start()
            .strip_prefix(b"=")
            .unwrap_or_default()
            .trim_ascii_start();
        let value = value
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        let value = value
            .strip_prefix(b"\"")
            .and_then(|value| value.strip_suffix(b"\""))
            .unwrap_or(value);
        KNOWN.contains(&value)
    })
}

const ODD: &str = "has a part whose head is not `content-disposition: form-data; name=\"…\"`, whose name has escapes, or that is encoded or a form";

/// Reads the value of a `content-disposition`, from its colon on.
fn read_disposition(value: &[u8]) -> Option<PartName<'_>> {
    let rest = value.strip_prefix(b":")?.trim_ascii();
    let (kind, rest) = rest.split_at(rest.iter().position(|byte| *byte == b';')?);
    let parameters =
        read_parameters(rest).filter(|_| kind.trim_ascii().eq_ignore_ascii_case(b"form-data"))?;
    // Some servers know `name*` and `name*0`, and others do not.
    let mut names = parameters
        .iter()
        .filter(|(name, _)| starts_with_any_case(name, "name"));
    let file = if parameters.iter().any(|(name, value)| {
        (name.eq_ignore_ascii_case(b"filename") || starts_with_any_case(name, "filename*"))
            && !value.is_empty()
    }) {
        PartFile::Surely
    } else if parameters
        .iter()
        .any(|(name, _)| starts_with_any_case(name, "filename"))
    {
        PartFile::Perhaps
    } else {
        PartFile::No
    };
    let ((key, name), None) = (names.next()?, names.next()) else {
        return None;
    };
    if key.len() > b"name".len() {
        return None;
    }
    // Some servers decode escapes, and others do not.
    let is_plain = name
        .iter()
        .all(|byte| (b' '..=b'~').contains(byte) && !b"%\\".contains(byte));
    (is_plain && !name.is_empty()).then_some(PartName { name, file })
}

/// Reads parameters, each after a `;`: their names and values.
fn read_parameters(mut text: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut found = Vec::new();
    loop {
        text = text.trim_ascii_start();
        if text.is_empty() {
            return Some(found);
        }
        text = text.strip_prefix(b";")?.trim_ascii_start();
        if text.is_empty() {
            return Some(found);
        }
        let (name, rest) = text.split_at(text.iter().position(|byte| !is_token(*byte))?);
        let rest = rest.strip_prefix(b"=")?;
        let (value, rest) = match rest.strip_prefix(b"\"") {
            Some(quoted) => {
                let (value, rest) = quoted.split_at(memchr::memchr(b'"', quoted)?);
                // Servers that know no escape would end the text here, and others would not. Those
                // that split at each `;` would find a parameter in the text.
                let is_odd =
                    value.ends_with(b"\\") || value.contains(&b';') && value.contains(&b'=');
                (value, rest.get(1..).filter(|_| !is_odd)?)
            }
            None => rest.split_at(
                rest.iter()
                    .position(|byte| !byte.is_ascii_graphic() || b"\";\\".contains(byte))
                    .unwrap_or(rest.len()),
            ),
        };
        found.push((name, value));
        text = rest;
    }
}

/// Returns whether a byte may stand in the name of a header or of a parameter.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests;

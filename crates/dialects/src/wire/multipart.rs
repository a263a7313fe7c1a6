//! A form of files and fields (`multipart/form-data`, RFC 7578), scanned as it comes: only a few
//! short fields are read, and it is known where their values stand.
//!
//! Servers read odd forms in different ways. What one of them could read as another field than the
//! scanner does is refused: a boundary at any place but between two parts, names with escapes,
//! parameters that a split at each `;` would read in another way. **Invariant:** however the bytes
//! are cut, the same comes out, and the scanner holds no more than a part's head and a boundary.

use memchr::memmem;

use super::json::Span;

/// The most parts of a form.
const PARTS: usize = 256;
/// The longest head of a part.
const HEAD: usize = 8 * 1024;
/// The longest value of a field that is read.
const VALUE: usize = 1024;

/// A short field of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormField {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: Vec<u8>,
    /// The place of the value in the form.
    pub place: Span,
}

/// Why a form cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormFault {
    /// The field that is wrong, if it is one.
    pub field: Option<&'static str>,
    /// What is wrong with it, or with the form.
    pub why: &'static str,
}

/// Reads a form piece by piece.
#[derive(Debug)]
pub struct FormScanner {
    /// `--`, and the boundary.
    delimiter: memmem::Finder<'static>,
    wanted: &'static [&'static str],
    /// The bytes that are not read yet.
    rest: Vec<u8>,
    /// The place of the first of them in the form.
    at: usize,
    state: State,
    parts: usize,
    found: Vec<FormField>,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The first delimiter.
    Start,
    /// What follows a delimiter.
    Delimiter,
    /// The head of a part.
    Head,
    /// The content of a part. True if the field is read.
    Content(bool),
    /// Nothing but the end of a line.
    Over,
}

/// Reads the boundary from a content type. Returns `None` if the type is no form.
pub fn boundary(content_type: &[u8]) -> Option<Result<&str, &'static str>> {
    const WHY: &str = "has no usable `boundary` in its content type: 1 to 70 letters, digits and `'()+_,-./:=?`";
    let end = content_type.iter().position(|byte| *byte == b';').unwrap_or(content_type.len());
    let (kind, rest) = content_type.split_at(end);
    kind.trim_ascii().eq_ignore_ascii_case(b"multipart/form-data").then(|| {
        let parameters = parameters(rest).ok_or(WHY)?;
        let mut named = parameters.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"boundary"));
        let (Some((_, value)), None) = (named.next(), named.next()) else { return Err(WHY) };
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(byte);
        let is_good = (1..=70).contains(&value.len()) && value.iter().all(fits);
        std::str::from_utf8(value).ok().filter(|_| is_good).ok_or(WHY)
    })
}

impl FormScanner {
    /// Begins to read a form with this boundary, and these of its fields.
    pub fn new(boundary: &str, wanted: &'static [&'static str]) -> FormScanner {
        let delimiter = memmem::Finder::new(format!("--{boundary}").as_bytes()).into_owned();
        FormScanner { delimiter, wanted, rest: Vec::new(), at: 0, state: State::Start, parts: 0, found: Vec::new() }
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
            _ => Err(broken("ends before its last boundary, or goes on after it")),
        }
    }

    /// Takes one step. Returns false if more bytes are needed.
    fn step(&mut self) -> Result<bool, FormFault> {
        let delimiter = self.delimiter.needle().len();
        match self.state {
            State::Start if self.rest.len() < delimiter => Ok(false),
            State::Start if self.rest.starts_with(self.delimiter.needle()) => self.go(delimiter, State::Delimiter),
            State::Start => Err(broken("does not begin with its boundary")),
            State::Delimiter => match self.rest.get(..2) {
                None => Ok(false),
                Some(b"--") => self.go(2, State::Over),
                Some(b"\r\n") if self.parts < PARTS => {
                    self.parts += 1;
                    self.go(2, State::Head)
                }
                Some(b"\r\n") => Err(broken("has more than 256 parts")),
                Some(_) => Err(broken(INSIDE)),
            },
            State::Head => match memmem::find(&self.rest, b"\r\n\r\n") {
                Some(end) if end <= HEAD => {
                    let head = self.rest.get(..end).unwrap_or_default();
                    if self.delimiter.find(head).is_some() {
                        return Err(broken(INSIDE));
                    }
                    let named = part_name(head)?;
                    let field = wanted(self.wanted, named, &self.found)?;
                    let start = self.at + end + 4;
                    let place = start..start;
                    self.found.extend(field.map(|name| FormField { name, value: Vec::new(), place }));
                    self.go(end + 4, State::Content(field.is_some()))
                }
                None if self.rest.len() < HEAD + 4 => Ok(false),
                Some(_) | None => Err(broken("has a part with a head of more than 8 KiB")),
            },
            State::Content(reads) => match self.delimiter.find(&self.rest) {
                Some(found) => {
                    // A field that is too long is told first: if it comes in small pieces, its
                    // boundary is not known yet.
                    let length = found.saturating_sub(2);
                    self.keep(reads, length)?;
                    if self.rest.get(length..found) != Some(b"\r\n") {
                        return Err(broken(INSIDE));
                    }
                    self.go(found + delimiter, State::Delimiter)
                }
                // The end of the bytes may be the begin of the delimiter, and of the line before.
                None => match self.rest.len().saturating_sub(delimiter + 1) {
                    0 => Ok(false),
                    length => {
                        self.keep(reads, length)?;
                        self.go(length, self.state).map(|_| false)
                    }
                },
            },
            State::Over if self.rest.len() > 2 => Err(broken("goes on after its last boundary")),
            State::Over => Ok(false),
        }
    }

    /// Drops the bytes that were read, and changes the state.
    fn go(&mut self, read: usize, state: State) -> Result<bool, FormFault> {
        self.rest.drain(..read.min(self.rest.len()));
        self.at += read;
        self.state = state;
        Ok(true)
    }

    /// Takes the next bytes of a part, if it is a field that is read.
    fn keep(&mut self, reads: bool, length: usize) -> Result<(), FormFault> {
        let Some(field) = self.found.last_mut().filter(|_| reads) else { return Ok(()) };
        if field.value.len() + length > VALUE {
            return Err(FormFault { field: Some(field.name), why: "is too long" });
        }
        field.value.extend_from_slice(self.rest.get(..length).unwrap_or_default());
        field.place.end += length;
        Ok(())
    }
}

/// Returns the name of a part, if it is a field that is read.
fn wanted(
    wanted: &'static [&'static str],
    (name, is_file): (&[u8], bool),
    found: &[FormField],
) -> Result<Option<&'static str>, FormFault> {
    // Some servers read `name[]`, ` name` and `Name` as `name`.
    let plain = name.split(|byte| *byte == b'[').next().unwrap_or_default().trim_ascii();
    let is_named = |wanted: &&str| wanted.as_bytes().eq_ignore_ascii_case(plain);
    let Some(name) = wanted.iter().copied().find(is_named) else { return Ok(None) };
    let is_known = found.iter().any(|field| field.name == name);
    match (is_file, is_known) {
        (true, _) => Err(FormFault { field: Some(name), why: "must be a text and no file" }),
        (false, true) => Err(FormFault { field: Some(name), why: "is given more than once" }),
        (false, false) => Ok(Some(name)),
    }
}

const INSIDE: &str = "has its boundary inside a part: choose a longer boundary";

fn broken(why: &'static str) -> FormFault {
    FormFault { field: None, why }
}

/// Reads the head of a part. Returns its name, and whether it is a file.
fn part_name(head: &[u8]) -> Result<(&[u8], bool), FormFault> {
    let mut found = None;
    let line_feeds = memchr::memchr_iter(b'\n', head).count();
    if memmem::find_iter(head, b"\r\n").count() != line_feeds {
        return Err(broken(ODD));
    }
    for line in head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return Err(broken(ODD)) };
        let (name, value) = line.split_at(colon);
        let is_odd = |byte: &u8| *byte < b' ' && *byte != b'\t' || *byte == 0x7f;
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) || value.iter().any(is_odd) {
            return Err(broken(ODD));
        }
        let text = value.get(1..).unwrap_or_default().trim_ascii().to_ascii_lowercase();
        let is = |header: &[u8]| name.eq_ignore_ascii_case(header);
        // Some servers decode what is encoded, and read forms in forms, and others do not.
        let is_coded = || ![&b"7bit"[..], b"8bit", b"binary"].contains(&&*text);
        if is(b"content-disposition") && found.replace(value).is_some()
            || is(b"content-transfer-encoding") && is_coded()
            || is(b"content-type") && text.starts_with(b"multipart/")
        {
            return Err(broken(ODD));
        }
    }
    disposition(found.unwrap_or_default()).ok_or(broken(ODD))
}

const ODD: &str = "has a part whose head is not `content-disposition: form-data; name=\"…\"`, whose name has escapes, or that is encoded or a form";

/// Reads the value of a `content-disposition`, from its colon on.
fn disposition(value: &[u8]) -> Option<(&[u8], bool)> {
    let rest = value.strip_prefix(b":")?.trim_ascii();
    let (kind, rest) = rest.split_at(rest.iter().position(|byte| *byte == b';')?);
    let parameters = parameters(rest).filter(|_| kind.trim_ascii().eq_ignore_ascii_case(b"form-data"))?;
    // Some servers know `name*` and `name*0`, and others do not.
    let begins = |name: &[u8], with: &[u8]| name.get(..with.len()).is_some_and(|name| name.eq_ignore_ascii_case(with));
    let mut names = parameters.iter().filter(|(name, _)| begins(name, b"name"));
    let is_file = parameters.iter().any(|(name, _)| begins(name, b"filename"));
    let ((key, name), None) = (names.next()?, names.next()) else { return None };
    if key.len() > b"name".len() {
        return None;
    }
    // Some servers decode escapes, and others do not.
    let is_plain = name.iter().all(|byte| (b' '..=b'~').contains(byte) && !b"%\\".contains(byte));
    (is_plain && !name.is_empty()).then_some((name, is_file))
}

/// Reads parameters, each after a `;`: their names and values.
fn parameters(mut text: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
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
                let is_odd = value.ends_with(b"\\") || value.contains(&b';') && value.contains(&b'=');
                (value, rest.get(1..).filter(|_| !is_odd)?)
            }
            None => rest.split_at(
                rest.iter().position(|byte| !byte.is_ascii_graphic() || b"\";\\".contains(byte)).unwrap_or(rest.len()),
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

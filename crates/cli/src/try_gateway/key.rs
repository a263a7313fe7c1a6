//! The key with which a server is tried: from a file, standard input or the environment.

use std::env::{self, VarError};
use std::io::{self, ErrorKind};
use std::path::Path;

use portcullis::base::problem::unless_secret;
use portcullis::base::secret::Secret;
use portcullis::catalog::files::read_regular_file;

/// The largest file with a key.
const MAX_BYTES: usize = 64 << 10;

/// The error about a key among the arguments.
pub(super) const NO_ARGUMENT: &str = "this looks like a key, and other users can read arguments: name a file with it after --key, pipe it to \
                                      `--key -`, or set PORTCULLIS_KEY";

/// Returns the key, and where it is from. Another machine gets no key of a file that is not named.
pub(super) fn read_key(
    file: Option<&Path>,
    is_loopback: bool,
) -> Result<(Option<Secret>, String), String> {
    let variable = match env::var("PORTCULLIS_KEY") {
        Err(VarError::NotUnicode(_)) => return Err("PORTCULLIS_KEY is no text".to_owned()),
        variable => variable.unwrap_or_default(),
    };
    let initial = Some(Path::new("portcullis.key"))
        .filter(|file| is_loopback && variable.is_empty() && file.is_file());
    let (read, origin) = match file.or(initial) {
        None if variable.is_empty() => return Ok((None, "no key".to_owned())),
        None => (Ok(variable), "PORTCULLIS_KEY".to_owned()),
        Some(file) if file == Path::new("-") => {
            let mut line = String::new();
            let read = io::stdin().read_line(&mut line);
            (read.map(|_| line), "standard input".to_owned())
        }
        Some(file) => (
            read_regular_file(file, MAX_BYTES)
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            unless_secret(&file.to_string_lossy()).to_owned(),
        ),
    };
    let text = read.map_err(|why| {
        let is_missing = why.kind() == ErrorKind::NotFound;
        if origin == "…" && (is_missing || why.kind() == ErrorKind::InvalidFilename) {
            NO_ARGUMENT.to_owned()
        } else if is_missing {
            format!("{origin}: not found (--key takes a file, or - for standard input)")
        } else {
            format!("{origin} cannot be read: {why}")
        }
    })?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(format!("{origin} is empty")),
        key if is_word_without(b"\"\\", key) => {
            Ok((Some(Secret::new(key)), format!("the key of {origin}")))
        }
        _ => Err(format!(
            "{origin} must be one line of ASCII characters, without spaces and quotes"
        )),
    }
}

/// Returns whether a text is of ASCII characters without spaces, and without these.
pub(super) fn is_word_without(excluded: &[u8], text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_graphic() && !excluded.contains(&byte))
}

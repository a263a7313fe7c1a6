//! The key with which a server is tried: from a file, standard input or the environment.

use std::path::Path;
use std::{env, io};

use portcullis::base::problem::unless_secret;
use portcullis::base::secret::Secret;
use portcullis::catalog::files::read_regular_file;

/// The largest file with a key.
const MAX_BYTES: usize = 64 << 10;

/// The error about a key among the arguments.
pub(super) const NO_ARGUMENT: &str = "this looks like a key, and other users can read arguments: name a file with it after --key, pipe it to \
                                      `--key -`, or set PORTCULLIS_KEY";

/// Returns the key, and where it is from. No message has the argument: it may be the key.
pub(super) fn read_key(file: Option<&Path>) -> Result<(Option<Secret>, &'static str), String> {
    let (read, origin) = match file {
        Some(file) if file == Path::new("-") => {
            let mut line = String::new();
            (
                io::stdin().read_line(&mut line).map(|_| line),
                "the key of standard input",
            )
        }
        Some(file) if unless_secret(&file.to_string_lossy()) == "…" && !file.exists() => {
            return Err(format!("--key: {NO_ARGUMENT}"));
        }
        Some(file) => (
            read_regular_file(file, MAX_BYTES)
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            "the key of the file",
        ),
        None => match env::var("PORTCULLIS_KEY").unwrap_or_default() {
            empty if empty.is_empty() => return Ok((None, "no key")),
            key => (Ok(key), "the key of PORTCULLIS_KEY"),
        },
    };
    let text = read.map_err(|why| format!("{origin} cannot be read: {why}"))?;
    let key = text.trim_end_matches(['\r', '\n']);
    if key.is_empty()
        || !key
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
    {
        return Err(format!(
            "{origin} must be one line of ASCII characters, without spaces and quotes"
        ));
    }
    Ok((Some(Secret::new(key)), origin))
}

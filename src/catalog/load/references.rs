//! Reads what the configuration's files name but do not hold: environment variables, files with a
//! secret, CA files.

use super::Secrets;
use crate::base::problem::{is_variable_name, nearest_name, quote_near_miss};
use crate::catalog::files::{LARGEST_NAMED, read_now};
use crate::catalog::texts::Texts;
use crate::conf::secret_ref::Reference;
use crate::tls::trust::parse_certificates;
use dialects::presets;
use std::collections::BTreeSet;
use std::env::VarError;
use std::io;
use std::path::{Path, PathBuf};

/// The largest size of a file that is taken for a secret.
const LARGEST_SECRET: usize = 64 << 10;

/// A reader of what the configuration's files name but do not hold: secrets and CA files.
pub(super) struct ReferenceReader<'c> {
    pub(super) conf: &'c Path,
    secrets: Secrets,
    /// Texts that are known already, and are not read again.
    known: Texts,
    /// Everything that was read, or looked for in vain.
    pub(super) read_texts: Texts,
    /// Those of the files that hold secrets.
    pub(super) private: BTreeSet<PathBuf>,
    /// The environment variables that were read.
    pub(super) variables: BTreeSet<String>,
    /// The files with the hash of a key that somebody could guess, and no other secret.
    pub(super) guessable: BTreeSet<PathBuf>,
}

impl<'c> ReferenceReader<'c> {
    pub(super) fn new(conf: &'c Path, secrets: Secrets, known: Texts) -> Self {
        Self {
            conf,
            secrets,
            known,
            read_texts: Texts::new(),
            private: BTreeSet::new(),
            variables: BTreeSet::new(),
            guessable: BTreeSet::new(),
        }
    }

    pub(super) fn read(&mut self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let version = self
            .known
            .get(path)
            .cloned()
            .unwrap_or_else(|| read_now(path, limit));
        let read = version.text.bytes(limit).map(<[u8]>::to_vec);
        self.read_texts.insert(path.to_owned(), version);
        read
    }

    /// Returns the text that a reference names, or the reason why there is none.
    pub(super) fn look_up(&mut self, reference: Reference<'_>) -> Result<String, String> {
        let stand_in = reference.stand_in();
        match self.secrets {
            Secrets::Read => self.find(reference),
            Secrets::StandIns => Ok(stand_in.to_owned()),
            Secrets::ReadIfPossible => {
                let may_be_empty = !matches!(reference, Reference::Env(_) | Reference::File(_));
                let found = self.find(reference).ok();
                Ok(found
                    .filter(|text| may_be_empty || !text.trim().is_empty())
                    .unwrap_or_else(|| stand_in.to_owned()))
            }
        }
    }

    fn find(&mut self, reference: Reference<'_>) -> Result<String, String> {
        let written = match reference {
            Reference::Env(variable) | Reference::Optional(variable) => {
                let is_optional = reference == Reference::Optional(variable);
                let read = std::env::var(variable).or_else(|why| match why {
                    VarError::NotPresent if is_optional => Ok(String::new()),
                    VarError::NotPresent => Err(not_set(variable)),
                    VarError::NotUnicode(_) => {
                        Err("the environment variable is not UTF-8".to_owned())
                    }
                });
                if read.as_ref().is_ok_and(|text| !text.is_empty()) {
                    self.variables.insert(variable.to_owned());
                }
                return read;
            }
            Reference::File(path) | Reference::Ca(path) | Reference::Keys(path) => path,
        };
        let path = self.conf.join(written);
        let bytes = self
            .read(&path, LARGEST_NAMED)
            .map_err(|why| unreadable_message(self.conf, &path, &why))?;
        if matches!(reference, Reference::File(_)) {
            if bytes.len() > LARGEST_SECRET {
                return Err(format!(
                    "the file is too large for a secret: at most {} KiB are allowed",
                    LARGEST_SECRET >> 10
                ));
            }
            self.private.insert(path);
        }
        if matches!(reference, Reference::Ca(_)) && parse_certificates(&bytes).is_empty() {
            return Err("the file holds no certificate that can be read".to_owned());
        }
        String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())
    }
}

/// Returns the error of a variable that is not set. The variable's name is shown only if it plainly
/// is one, is close to the name of one that is set, or is a name that everybody uses.
fn not_set(variable: &str) -> String {
    let set: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .collect();
    let meant = nearest_name(variable, set.iter().map(String::as_str))
        .map(|near| format!("; did you mean {near}?"))
        .unwrap_or_default();
    let known = presets::key_variables().chain(set.iter().map(String::as_str));
    match is_variable_name(variable)
        .then(String::new)
        .or_else(|| quote_near_miss(variable, known))
    {
        Some(_) => format!("the environment variable {variable} is not set{meant}"),
        None => format!("the environment variable named here is not set{meant}"),
    }
}

/// Returns the error of a file that another file names and that cannot be read. Its path is not
/// shown: it may be a secret in the wrong place.
pub(super) fn unreadable_message(conf: &Path, path: &Path, why: &io::Error) -> String {
    if why.kind() != io::ErrorKind::NotFound {
        format!("the file cannot be read: {why}")
    } else if path.starts_with(conf) {
        format!(
            "the file does not exist; relative paths start at {}",
            conf.display()
        )
    } else {
        "the file does not exist".to_owned()
    }
}

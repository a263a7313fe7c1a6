//! A secret is made, read and hashed here. None is stored.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::ExitCode;

use crate::print_result;
use portcullis::catalog::raw::Digest;
use portcullis::catalog::resolve;
use portcullis::conf::secret_ref::placeholder::Placeholder;
use portcullis::conf::yaml::edit::NewValue;

/// The digits of an id of 64 bits in base 62.
const ID_DIGITS: usize = 11;
/// The digits of 256 bits in base 62.
const SECRET_DIGITS: usize = 43;

/// A secret that was just made.
pub(crate) struct NewSecret {
    /// The secret that a caller sends.
    pub(crate) text: String,
    /// The hash that the catalog holds.
    pub(super) hash: String,
    /// The beginning of the secret. It is written after the hash, and says which secret the hash
    /// belongs to.
    pub(super) note: String,
}

impl NewSecret {
    /// Makes a secret: 256 random bits, after an id of 64.
    pub(crate) fn make() -> Result<NewSecret, String> {
        // The bytes come from the operating system's generator.
        let mut random = [0; 40];
        getrandom::fill(&mut random)
            .map_err(|why| format!("the operating system gave no random bytes: {why}"))?;
        let (id, secret) = random.split_at(8);
        let id = encode_base62(id, ID_DIGITS);
        let text = format!("sk-{id}-{}", encode_base62(secret, SECRET_DIGITS));
        Ok(NewSecret {
            hash: Digest(resolve::sha256_of(&text)).to_string(),
            note: format!("sk-{id}-…"),
            text,
        })
    }

    /// Returns the value to write into the catalog.
    pub(crate) fn value(&self) -> NewValue {
        NewValue::text(&self.hash).noted(&self.note)
    }
}

/// Returns a warning if the output went into a file that everybody can read.
pub(super) fn exposure_warning() -> Option<&'static str> {
    let out = File::from(io::stdout().as_fd().try_clone_to_owned().ok()?)
        .metadata()
        .ok()?;
    let is_open = out.is_file() && out.permissions().mode() & 0o004 != 0;
    is_open.then_some(
        "warning: the secret was written into a file that every user of this machine can read: run \
         `chmod 600` on it. After `umask 077` your new files can only be read by you",
    )
}

/// Reads a key from standard input and prints its hash. A line end after the key is not part of it.
pub(super) fn print_hash() -> Result<ExitCode, String> {
    const LARGEST: u64 = 64 << 10;
    let mut text = String::new();
    let read = io::stdin()
        .lock()
        .take(LARGEST + 1)
        .read_to_string(&mut text);
    read.map_err(|_| "standard input could not be read, or is not UTF-8")?;
    let key = text.strip_suffix('\n').map_or(text.as_str(), |line| {
        line.strip_suffix('\r').unwrap_or(line)
    });
    Ok(print_result(&format!("{}\n", digest_existing(key)?)))
}

fn digest_existing(key: &str) -> Result<Digest, &'static str> {
    if key.is_empty() {
        return Err(
            "there is no key on standard input: use it like `portcullis key hash < key.txt`",
        );
    }
    if Placeholder::detect(key).is_some() {
        return Err(
            "this is a template, a placeholder or a key in quotes, not a key: give the key itself on standard input",
        );
    }
    if !key.bytes().all(|b| b.is_ascii_graphic()) || key.len() > 512 {
        return Err(
            "this cannot be sent as a key: it must be one line of at most 512 ASCII characters, without spaces",
        );
    }
    Ok(Digest(resolve::sha256_of(key)))
}

/// Writes a number in base 62 with `digits` digits. They must be enough, so that no part of the
/// number is lost.
fn encode_base62(bytes: &[u8], digits: usize) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut number = bytes.to_vec();
    let mut text: Vec<char> = (0..digits)
        .map(|_| {
            // This is a long division by 62, one byte a step.
            let rest = number.iter_mut().fold(0_u16, |rest, byte| {
                let part = rest << 8 | u16::from(*byte);
                *byte = u8::try_from(part / 62).unwrap_or(u8::MAX);
                part % 62
            });
            ALPHABET
                .get(usize::from(rest))
                .map_or('0', |digit| char::from(*digit))
        })
        .collect();
    text.reverse();
    text.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_62() {
        assert_eq!(encode_base62(&[0], 2), "00");
        assert_eq!(encode_base62(&[61], 2), "0z");
        assert_eq!(encode_base62(&[62], 2), "10");
        assert_eq!(encode_base62(&[255; 8], 11), "LygHa16AHYF");
        // 62^43 > 2^256: nothing is lost, and the first digit is not always 0.
        assert_eq!(encode_base62(&[255; 32], 43).len(), 43);
        assert!(!encode_base62(&[255; 32], 43).starts_with('0'));
    }

    #[test]
    fn existing_keys() {
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(
            digest_existing("abc").map(|digest| digest.to_string()),
            Ok(abc.to_owned())
        );
        for wrong in [
            "",
            "a b",
            "a\nb",
            "ä",
            "$MY_KEY",
            "sk-...",
            "your-key",
            &"a".repeat(513),
        ] {
            assert!(digest_existing(wrong).is_err(), "{wrong}");
        }
    }
}

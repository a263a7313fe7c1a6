//! A quick hash for names from the catalog and for words of our own. Whoever may choose the texts
//! can make them collide, so texts of a request are not hashed by it. And a slow hash, for digests
//! that are shown though secrets count in them.

use std::fmt::Write as _;
use std::hash::{BuildHasherDefault, Hasher};

use sha2::{Digest as _, Sha256};

/// Makes quick hashers, for a map.
pub type Quick = BuildHasherDefault<QuickHasher>;

/// A hasher that hashes as rustc's own tables do it.
#[derive(Debug, Default)]
pub struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_bytes(self.0, bytes);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix_word(self.0, word);
    }

    fn finish(&self) -> u64 {
        // The high bits are the best mixed ones, and a map takes the low ones first.
        self.0.rotate_left(26)
    }
}

/// The number of blocks that are hashed: that takes some milliseconds, in a debug build, too.
const BLOCKS: usize = 100_000;

/// Hashes the digest of secrets slowly, so that trying weak secrets is slow, too. The digest is
/// repeated and hashed as one text, as OpenPGP does it with passwords (iterated S2K).
pub fn hash_slowly(digest: [u8; 32]) -> [u8; 32] {
    const PART: usize = 1_000;
    let (part, mut sha) = (digest.repeat(2 * PART), Sha256::new());
    (0..BLOCKS / PART).for_each(|_| sha.update(&part));
    sha.finalize().into()
}

/// Hashes each part with its length, so that no two lists of parts are one text.
pub fn digest_parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> [u8; 32] {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part);
    }
    sha.finalize().into()
}

/// Writes the first bytes of a digest as hexadecimal digits.
pub fn digest_text(digest: &[u8], bytes: usize) -> String {
    let mut text = String::with_capacity(2 * bytes);
    for byte in digest.iter().take(bytes) {
        // Anything can be written to a text.
        let _written = write!(text, "{byte:02x}");
    }
    text
}

/// Gives one number for all texts to the hasher.
pub fn hash_texts<'t>(texts: impl IntoIterator<Item = &'t str>, state: &mut impl Hasher) {
    state.write_u64(
        texts
            .into_iter()
            .fold(0, |so_far, text| hash_bytes(so_far, text.as_bytes())),
    );
}

fn hash_bytes(so_far: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let so_far = words.iter().fold(so_far, |so_far, word| {
        mix_word(so_far, u64::from_le_bytes(*word))
    });
    mix_word(
        so_far,
        rest.iter().fold(bytes.len() as u64, |word, byte| {
            word << 8 | u64::from(*byte)
        }),
    )
}

fn mix_word(so_far: u64, word: u64) -> u64 {
    const FACTOR: u64 = 0x517C_C1B7_2722_0A95;
    (so_far.rotate_left(5) ^ word).wrapping_mul(FACTOR)
}

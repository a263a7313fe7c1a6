//! `portcullis key new` and `portcullis key hash`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::ExitCode;

use super::{NewKeyArgs, fail, print};
use crate::catalog::raw::Digest;
use crate::catalog::{name, resolve};

/// Makes a key and prints it, with what to paste into the catalog. The secret is stored nowhere.
pub(super) fn new(args: &NewKeyArgs) -> ExitCode {
    for (option, given) in [("--caller", &args.caller), ("--name", &args.name)] {
        if let Err(wrong) = name::of_entry(given) {
            return fail(&format!("{option}: {wrong}"));
        }
    }
    // Bytes of the operating system's generator.
    let mut random = [0; 40];
    if let Err(why) = getrandom::fill(&mut random) {
        return fail(&format!("no randomness from the operating system: {why}"));
    }
    let (id, secret) = random.split_at(8);
    let id = base62(id, 11);
    let key = format!("sk-{id}-{}", base62(secret, 43));
    match to_paste(&args.caller, &args.name, &Digest(resolve::digest(&key))) {
        Ok(yaml) => print(&format!(
            "The key, shown this once and stored nowhere:\n\n{key}\n\n\
             For conf/catalog.yaml or a file of conf/catalog.d:\n\n{} # sk-{id}-…\n",
            yaml.trim_end(),
        )),
        Err(why) => fail(&format!("the YAML to paste cannot be written: {why}")),
    }
}

/// The catalog's entry, in quotes where YAML would take a name for something else.
fn to_paste(caller: &str, name: &str, hash: &Digest) -> Result<String, serde_yaml::Error> {
    let keys = BTreeMap::from([(name, BTreeMap::from([("hash", hash.to_string())]))]);
    serde_yaml::to_string(&BTreeMap::from([("callers", BTreeMap::from([(caller, BTreeMap::from([("keys", keys)]))]))]))
}

/// Reads a key from standard input and prints its hash. One line end at its end is not part of it.
pub(super) fn hash() -> ExitCode {
    const LARGEST: u64 = 64 << 10;
    let mut text = String::new();
    if std::io::stdin().lock().take(LARGEST + 1).read_to_string(&mut text).is_err() {
        return fail("standard input cannot be read as UTF-8");
    }
    let key = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    match of_existing(key) {
        Ok(digest) => print(&format!("{digest}\n")),
        Err(why) => fail(why),
    }
}

fn of_existing(key: &str) -> Result<Digest, &'static str> {
    if key.is_empty() {
        return Err("no key: give it on standard input, such as `portcullis key hash < key.txt`");
    }
    if !key.bytes().all(|b| b.is_ascii_graphic()) || key.len() > 512 {
        return Err("this cannot be sent as a key: it must be one line of at most 512 ASCII characters, without spaces");
    }
    Ok(Digest(resolve::digest(key)))
}

/// A number in base 62, the first digit first, `digits` of them: enough that none is lost.
fn base62(bytes: &[u8], digits: usize) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut number = bytes.to_vec();
    let mut text: Vec<char> = (0..digits)
        .map(|_| {
            // Long division by 62, a byte a step.
            let rest = number.iter_mut().fold(0_u16, |rest, byte| {
                let part = rest << 8 | u16::from(*byte);
                *byte = u8::try_from(part / 62).unwrap_or(u8::MAX);
                part % 62
            });
            ALPHABET.get(usize::from(rest)).map_or('0', |digit| char::from(*digit))
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
        assert_eq!(base62(&[0], 2), "00");
        assert_eq!(base62(&[61], 2), "0z");
        assert_eq!(base62(&[62], 2), "10");
        assert_eq!(base62(&[255; 8], 11), "LygHa16AHYF");
        // 62^43 > 2^256: nothing is lost, and the first digit is not always 0.
        assert_eq!(base62(&[255; 32], 43).len(), 43);
        assert!(!base62(&[255; 32], 43).starts_with('0'));
    }

    #[test]
    fn what_is_to_paste_is_read_back() {
        for (caller, name) in [("acme", "prod"), ("true", "123"), ("no", "a.b-c")] {
            let yaml = to_paste(caller, name, &Digest([7; 32])).unwrap();
            let files = [("catalog.yaml".to_owned(), format!("accounts: {{}}\nmodels: {{}}\n{yaml}"))];
            let catalog = resolve::resolve(&files, &mut |_| unreachable!("it names nothing")).unwrap();
            let key = catalog.key(&[7; 32], std::time::SystemTime::now()).unwrap();
            assert_eq!(&*key.id, format!("{caller}/{name}"));
        }
    }

    #[test]
    fn existing_keys() {
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_existing("abc").map(|digest| digest.to_string()), Ok(abc.to_owned()));
        for wrong in ["", "a b", "a\nb", "ä", &"a".repeat(513)] {
            assert!(of_existing(wrong).is_err(), "{wrong}");
        }
    }
}

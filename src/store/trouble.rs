//! Makes one line for operators from an error of the store: what the server said, and what to do.
//!
//! **Invariant:** the password is not in the line, whole or in part, whatever the server quotes.

use crate::base::secret::Secret;
use crate::conf::config::Address;
use crate::error::scrub_secret_words;
use dialects::wire::shorten_text;

/// The most characters of the error in a line.
const MAX_CHARACTERS: usize = 160;

/// The advice for an error that contains the first text. The first match counts.
const ADVICE: [(&str, &str); 23] = [
    (
        "NOSCRIPT ",
        "its scripts were flushed: Portcullis loads them again",
    ),
    ("OOM ", "it is full: raise its `maxmemory`"),
    (
        "READONLY ",
        "it is a replica: `store.redis` must be the primary",
    ),
    (
        "MASTERDOWN ",
        "it is a replica: `store.redis` must be the primary",
    ),
    (
        "MISCONF ",
        "it cannot write to its disk: see the log of the store",
    ),
    ("NOAUTH ", "the URL in `store.redis` needs a password"),
    (
        "WRONGPASS ",
        "check user and password in the URL of `store.redis`",
    ),
    (
        "authentication failed",
        "check user and password in the URL of `store.redis`",
    ),
    (
        "NOPERM ",
        "its ACL must allow this to the user in `store.redis`",
    ),
    (
        "LOADING ",
        "it is still loading its data: wait until it has finished",
    ),
    (
        "BUSY ",
        "another client's script does not end: stop it with SCRIPT KILL",
    ),
    (
        "CLUSTERDOWN ",
        "it is a part of a cluster: `store.redis` must be a server with all slots",
    ),
    (
        "MOVED ",
        "it is a part of a cluster: `store.redis` must be a server with all slots",
    ),
    ("max number of clients", "raise its `maxclients`"),
    (
        "DB index",
        "check the database, the number at the end of the URL in `store.redis`",
    ),
    (
        "unknown command",
        "it must be Redis or Valkey, version 6 or later, without disabled commands",
    ),
    (
        "Parse error",
        "a server that is not Redis or Valkey answers",
    ),
    (
        "UnknownIssuer",
        "`store.tls.ca` must hold the certificate that signed the store's certificate",
    ),
    (
        "CaUsedAsEndEntity",
        "`store.tls.ca` must be exactly this certificate, or the store needs a certificate that an authority has signed",
    ),
    (
        "not valid for name",
        "the host in `store.redis` must be one of the names in the store's certificate",
    ),
    (
        "InvalidContentType",
        "it does not speak TLS: write redis:// instead of rediss://",
    ),
    (
        "Connection refused",
        "no process listens there: is the store running?",
    ),
    (
        "lookup address",
        "check the name of the host in `store.redis`",
    ),
];

/// Writes an error as one line.
pub(super) fn redacted_line(address: &Address, why: &str) -> String {
    // The server quotes a part of the command, and so perhaps a part of the password.
    let message = why
        .split(", with args beginning with")
        .next()
        .unwrap_or(why);
    // Redis 7 and later add the place in the script.
    let message = message.split(" script: ").next().unwrap_or(message);
    let secrets: Vec<&str> = address.password.iter().map(Secret::expose).collect();
    // This comes before the line is cut: a part of a secret would not be found any more.
    let message = scrub_secret_words(message, &secrets);
    let words: Vec<&str> = message
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let message = shorten_text(&words.join(" "), MAX_CHARACTERS);
    let message = message.trim_end_matches(['.', ' ']);
    match ADVICE.iter().find(|(part, _)| why.contains(part)) {
        Some((_, advice)) => format!("{message} ({advice})"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_one_line_with_remedy_without_password() {
        let long = "p4ssw0rd".repeat(40);
        for password in ["hunter2", &long] {
            let address = Address::parse(&format!("redis://:{password}@h")).unwrap();
            let check =
                |why: &str, expected: &str| assert_eq!(redacted_line(&address, why), expected);
            check("broken pipe", "broken pipe");
            check(
                "OOM command not allowed when used memory > 'maxmemory'. script: d85701ec3ec1923f326237d70f2f009f2fdccda1, on @user_script:71.",
                "OOM command not allowed when used memory > 'maxmemory' (it is full: raise its `maxmemory`)",
            );
            check(
                "Incompatible type - Parse error at 1\nUnexpected `33`\n\nUnexpected `60`\n",
                "Incompatible type - Parse error at 1 Unexpected `33` Unexpected `60` (a server that is not Redis or Valkey answers)",
            );
            let quoted: String = password.chars().take(128).collect();
            let told = redacted_line(
                &address,
                &format!("ERR unknown command 'AUTH', with args beginning with: '{quoted}' "),
            );
            assert!(
                told.starts_with("ERR unknown command 'AUTH' (") && !told.contains("p4ss"),
                "{told}"
            );
            let told = redacted_line(&address, &format!("{} {password}", "because ".repeat(19)));
            assert!(!told.contains("hun") && !told.contains("p4s"), "{told}");
        }
    }
}

//! Words for amounts, times and failures.

use portcullis::account::failure::Failure;
use portcullis::base::units;
use portcullis::error::{redact_secrets, scrub_secret_words};
use portcullis::exchange::advice;

/// Writes why there is no answer: in the provider's words, or else in plain ones. `secrets` must
/// not appear in it.
pub(crate) fn failure_words(failure: &Failure, secrets: &[&str]) -> String {
    if failure.error().is_some() || matches!(failure, Failure::Unsigned(_)) {
        return advice::provider_message(failure, secrets);
    }
    let why = match failure {
        Failure::Unreachable(_)
        | Failure::Unsigned(_)
        | Failure::Status { .. }
        | Failure::InAnswer(_) => "",
        Failure::Tls { .. } => "no secure connection: ",
        Failure::Proxy { .. } => "the proxy gave no connection: ",
        Failure::Nonsense(_) => "the answer cannot be used: ",
        Failure::ConnectTimeout => "no connection was open in time",
        Failure::Reset | Failure::Stale => "the server closed the connection without an answer",
        Failure::SendTimeout => "the server stopped reading the request",
        Failure::FirstByteTimeout | Failure::FirstTokenTimeout => {
            "the server did not begin to answer in time"
        }
        Failure::IdleTimeout => "the server stopped sending before its answer was complete",
        Failure::TotalTimeout => "no whole answer came in time",
        Failure::NoRoom => "the answer needs more memory than the limits allow",
        Failure::NoDescriptors => "no file descriptor is free for a connection",
        Failure::BrokenCall(_) => "the answer calls a tool with arguments that nobody can read",
        Failure::Cut => "the server ended its answer before it was complete",
    };
    format!(
        "{why}{}",
        failure
            .detail()
            .map(|detail| scrub_secret_words(&detail, secrets))
            .unwrap_or_default()
    )
}

/// Takes secrets out of a text that a server may have written. A key that is a short word is no
/// secret.
pub(crate) fn redact_long_secrets(text: &str, mut secrets: Vec<&str>) -> String {
    secrets.retain(|secret| secret.len() >= 8);
    redact_secrets(text, &secrets).into_owned()
}

/// Writes a number of bytes: `512 KiB`, `1.5 GiB`.
pub(super) fn size_text(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        None => format!("{bytes} bytes"),
        Some((unit, name)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(*unit);
            match tenths % 10 {
                0 => format!("{} {name}", tenths / 10),
                rest => format!("{}.{rest} {name}", tenths / 10),
            }
        }
    }
}

/// Lists the first three texts, and counts the others.
pub(super) fn first_three<T: AsRef<str>>(texts: &[T]) -> String {
    units::first_three(texts, ", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn failures_are_told_in_plain_words() {
        let told = |failure: Failure| failure_words(&failure, &["s3cret"]);
        assert_eq!(told(Failure::TotalTimeout), "no whole answer came in time");
        assert_eq!(
            told(Failure::Nonsense("no s3cret".to_owned())),
            "the answer cannot be used: no [redacted]"
        );
        assert_eq!(
            told(Failure::Unreachable("cannot resolve x.test".to_owned())),
            "cannot resolve x.test"
        );
        assert_eq!(
            told(Failure::Unsigned("no key".to_owned())),
            "no request could be signed: no key"
        );
    }

    #[test]
    fn amounts_have_the_unit_that_fits() {
        assert_eq!(
            [0, 1023, 1024, 1536, 1 << 20, 3 << 29].map(size_text),
            [
                "0 bytes",
                "1023 bytes",
                "1 KiB",
                "1.5 KiB",
                "1 MiB",
                "1.5 GiB"
            ]
        );
        assert_eq!(
            [512 << 10, 1023 << 10, 512 << 20, 30 << 40, u64::MAX].map(size_text),
            [
                "512 KiB",
                "1023 KiB",
                "512 MiB",
                "30720 GiB",
                "17179869183.9 GiB"
            ]
        );
        assert_eq!(
            [0, 119, 120, 7_200, 172_800].map(|s| units::rough_duration(Duration::from_secs(s))),
            ["0 s", "119 s", "2 min", "2 h", "2 days"]
        );
        assert_eq!(first_three(&["a", "b", "c", "d"]), "a, b, c and 1 more");
        assert_eq!(first_three(&["a"]), "a");
    }
}

//! An advice is what the operator's log says about an account whose credential was refused: the
//! provider's answer, and what to do.
//!
//! **Invariant:** no other place takes a provider's sentence into a log, since it may quote the
//! prompt. A provider that refuses a credential has not looked at the request. Even so, the
//! sentence is one short line here, and has no secret in it.

use crate::account::failure::Failure;
use crate::base::units::cut_text;
use crate::catalog::{Account, Signer};
use crate::error::scrub_secret_words;

/// The most characters of a sentence.
const MAX_CHARACTERS: usize = 200;

/// Returns the advice for an account that rests because its credential failed. `secrets` must not
/// appear in it.
pub fn on_credential(failure: &Failure, account: &Account, secrets: &[&str]) -> String {
    let (message, action, id) = (
        provider_message(failure, secrets),
        advised_action(failure, account),
        &account.id,
    );
    format!(
        "{message}. One request a minute tries the account until you act: {action}. A changed file is used at \
         once, an environment variable after a restart; if neither changes, POST /accounts/{id}/reset"
    )
}

/// Returns the provider's error for a request that it refused, or why none could be signed.
/// `secrets` must not appear in it.
pub fn provider_message(failure: &Failure, secrets: &[&str]) -> String {
    let error = failure.error();
    let message = match (failure, error) {
        (Failure::Unsigned(why), _) => one_line(why, secrets),
        (_, Some(error)) if error.is_silent() => String::new(),
        (_, error) => error
            .map(|error| one_line(&error.message, secrets))
            .unwrap_or_default(),
    };
    let words = failure
        .detail()
        .filter(|_| error.is_some())
        .map(|words| format!(" ({})", scrub_secret_words(&words, secrets)))
        .unwrap_or_default();
    if let Some(body) = error.and_then(|error| error.excerpt.as_ref()) {
        // The sentence is the gateway's own, since the body has none.
        return format!(
            "{message}; its answer begins with \"{}\"",
            one_line(body, secrets)
        );
    }
    match (message.is_empty(), error.is_some()) {
        (true, _) => format!("the provider gave no reason{words}"),
        (false, true) => format!("the provider says \"{message}\"{words}"),
        (false, false) => format!("no request could be signed: {message}"),
    }
}

/// Returns whether a credential failed only since its account is not paid for.
pub fn is_about_money(failure: &Failure) -> bool {
    let words = failure
        .error()
        .map(|error| [&error.code, &error.kind])
        .into_iter()
        .flatten()
        .flatten();
    let mut words = words.into_iter();
    failure.facts().status == Some(402)
        || words.any(|word| word.contains("insufficient_quota") || word.contains("billing"))
}

/// Returns whether AWS or Google finds a signature too old, or too young.
fn is_about_time(failure: &Failure) -> bool {
    const WORDS: [&str; 3] = [
        "Signature expired",
        "Signature not yet current",
        "reasonable timeframe",
    ];
    failure
        .error()
        .is_some_and(|error| WORDS.iter().any(|words| error.message.contains(words)))
}

/// Returns what to do about an account whose credential failed.
pub fn advised_action(failure: &Failure, account: &Account) -> String {
    let id = &account.id;
    match &account.signer {
        Some(_) if is_about_time(failure) => "let NTP set this machine's clock".to_owned(),
        _ if is_about_money(failure) => {
            "pay for the account at its provider, or raise its limit there".to_owned()
        }
        Some(Signer::Aws(_)) => format!("write valid keys into accounts.{id}.aws"),
        Some(Signer::Source(source)) if source.issuer().is_some() => {
            format!("write a valid service account into accounts.{id}.service_account")
        }
        Some(Signer::Source(source)) => {
            format!("mend what accounts.{id}.{} names", source.field())
        }
        None if account.key.is_none() => format!("accounts.{id} has no `key`, so write one"),
        None => format!("write a valid key into the place that accounts.{id}.key names"),
    }
}

/// Returns the text in one line, without secrets, and cut short.
fn one_line(text: &str, secrets: &[&str]) -> String {
    let line: String = scrub_secret_words(text, secrets)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    cut_text(line.trim(), MAX_CHARACTERS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::resolve::resolve_catalog;
    use dialects::UpstreamError;

    const CATALOG: &str = "accounts:\n  keyed: { dialect: openai, key: s3cret-of-ours }\n  bare: { dialect: openai, base_url: \
                           \"http://127.0.0.1:1/v1\" }\n  aws: { dialect: bedrock, region: eu-west-1, aws: { access_key_id: A, \
                           secret_access_key: B } }\nmodels: {}\ncallers: {}\n";

    fn status(status: u16, message: &str, code: Option<&str>) -> Failure {
        let error = UpstreamError {
            message: message.into(),
            code: code.map(str::to_owned),
            ..UpstreamError::default()
        };
        Failure::Status {
            status,
            seen: status,
            error: Box::new(error),
            retry_after: None,
        }
    }

    #[track_caller]
    fn check(id: &str, failure: Failure, expected: &[&str], never: &[&str]) {
        let catalog = resolve_catalog(
            &[("catalog.yaml".to_owned(), CATALOG.to_owned())],
            &mut |_| Ok(String::new()),
        )
        .expect("a catalog");
        let account = catalog
            .accounts()
            .iter()
            .find(|account| *account.id == *id)
            .expect("the account");
        let line = on_credential(&failure, account, &account.secrets());
        for part in expected {
            assert!(line.contains(part), "no {part:?} in {line}");
        }
        for part in never {
            assert!(!line.contains(part), "{part:?} in {line}");
        }
        assert!(line.len() < 700 && !line.contains('\n'), "{line}");
    }

    #[test]
    fn it_tells_the_providers_words_and_the_remedy() {
        let wrong = status(
            401,
            "Incorrect API key provided: s3cret-of-ours.\nGo to x.test",
            Some("invalid_api_key"),
        );
        let expected = [
            "Incorrect API key provided: [redacted]",
            "code=invalid_api_key",
            "accounts.keyed.key",
            "/accounts/keyed/reset",
        ];
        check("keyed", wrong, &expected, &["s3cret"]);
        check(
            "keyed",
            status(402, "", None),
            &["the provider gave no reason", "pay for the account"],
            &["accounts.keyed.key"],
        );
        check(
            "keyed",
            status(429, "You exceeded your quota", Some("insufficient_quota")),
            &["pay for the account"],
            &[],
        );
        check(
            "bare",
            status(401, "who are you?", None),
            &[
                "the provider says \"who are you?\"",
                "accounts.bare has no `key`",
            ],
            &[],
        );
        check(
            "aws",
            Failure::Unsigned("the path cannot be signed".into()),
            &["no request could be signed: the path", "accounts.aws.aws"],
            &[],
        );
        let expired = "Signature expired: 20260101T000000Z is now earlier than 20260101T001000Z";
        check(
            "aws",
            status(403, expired, None),
            &["until you act: let NTP set this machine's clock"],
            &["valid keys"],
        );
        check(
            "keyed",
            status(401, expired, None),
            &["accounts.keyed.key"],
            &["NTP"],
        );
        let known = "{\"s3cret-of-ours\": 1}";
        let error = UpstreamError {
            excerpt: Some(known.into()),
            ..UpstreamError::default()
        };
        let error = UpstreamError {
            message: "the upstream's reason is not in a known format".into(),
            ..error
        };
        let odd = Failure::Status {
            status: 401,
            seen: 401,
            error: Box::new(error),
            retry_after: None,
        };
        let expected = "the upstream's reason is not in a known format; its answer begins with \"{\"[redacted]\": 1}\"";
        check("keyed", odd, &[expected], &["the provider says"]);
        check(
            "keyed",
            status(401, "the upstream gave no reason", None),
            &["the provider gave no reason."],
            &["says"],
        );
        check(
            "keyed",
            status(401, &"é".repeat(5000), None),
            &["é…\""],
            &[],
        );
        check(
            "keyed",
            status(401, "your sk-live-0123456789abcdef is bad", None),
            &["your [redacted] is bad"],
            &["0123456789abcdef"],
        );
    }
}

//! What is known for free of an account's credential, and the one table that makes the finding of
//! it.

use std::time::Duration;

use super::{CheckedAccount, failure_text};
use crate::doctor::report::{Checked, Finding};
use portcullis::account::failure::{Class, Failure};
use portcullis::base::units::rough_duration;
use portcullis::catalog::Signer;
use portcullis::error::scrub_secret_words;
use portcullis::exchange::advice;

/// The check of the credential.
pub(crate) const CREDENTIAL: &str = "credential";
/// The check of the models, and of the list that they are in.
pub(super) const MODELS: &str = "models";
/// The check of the server's address, which only answers show to be wrong.
const ADDRESS: &str = "address";

/// What the list of models shows of a credential, or else the signer.
pub(super) enum Proof {
    /// The source gave a credential.
    Obtained {
        /// The time for which it is good.
        life: Duration,
        /// Whom the provider takes us for. It may be empty.
        name: String,
    },
    /// The source gave no credential.
    NotObtained(Failure),
    /// Requests are signed, and no list is read.
    Signature,
    /// The provider has no list.
    NoList,
    /// The list came, and the account has no key.
    ListWithoutKey,
    /// The list comes with the key only.
    ListWithKey,
    /// The list comes with and without the key.
    PublicList,
    /// The list came, and it is not known whether it comes without the key.
    UnclearList,
    /// The list is at the base path with `/v1` behind it.
    ListBehindV1,
    /// The server of an `http:` address speaks TLS.
    TlsOnly,
    /// The list did not come.
    FailedList(Failure),
}

/// The facts that the finding follows from.
pub(super) struct CredentialFacts {
    pub(super) proof: Proof,
    /// The answer of an endpoint that refuses the credential, if it counts.
    pub(super) refusal: Option<Failure>,
    /// True if an endpoint has found fault with something else than the credential.
    pub(super) is_let_in: bool,
    /// True if the server is known to have an endpoint.
    pub(super) has_endpoint: bool,
}

impl CredentialFacts {
    /// Begins with the proof, before any endpoint is asked.
    pub(super) fn new(proof: Proof) -> CredentialFacts {
        CredentialFacts {
            proof,
            refusal: None,
            is_let_in: false,
            has_endpoint: false,
        }
    }

    /// Adds the refusal of the endpoints, if it counts beside the proof: a token is proved by its
    /// server, and a key by a list that comes with it only. But a list is free also for whoever has
    /// not paid.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the rule for all proofs but those named"
    )]
    pub(super) fn add_refusal(&mut self, refusal: Option<&Failure>) {
        let counts = match self.proof {
            Proof::Obtained { .. } => false,
            Proof::ListWithKey => refusal.is_some_and(advice::is_about_money),
            _ => true,
        };
        self.refusal = refusal.filter(|_| counts).cloned();
    }

    /// Returns whether the credential is refused. Then its account is asked for nothing more.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the rule for all proofs but those named"
    )]
    pub(super) fn is_refused(&self) -> bool {
        match &self.proof {
            Proof::NotObtained(_) => true,
            Proof::FailedList(failure) if failure.class() == Class::Credential => true,
            _ => self.refusal.is_some(),
        }
    }

    /// Returns the finding: the table of the proofs.
    pub(super) fn finding(&self, checked: &CheckedAccount) -> Finding {
        if let Some(failure) = &self.refusal {
            return failed_finding(checked, failure, "is refused");
        }
        let ok = |seen: &str| checked.ok(CREDENTIAL, seen);
        let skip = |seen: &str| checked.skip(CREDENTIAL, seen);
        let id = &checked.account().id;
        match &self.proof {
            Proof::Obtained { life, name } => {
                let owner = match name.is_empty() {
                    true => String::new(),
                    false => format!(" as {name}"),
                };
                ok(&format!("obtained one for {}{owner}", rough_duration(*life)))
            }
            Proof::NotObtained(failure) => not_obtained(checked, failure),
            Proof::Signature if self.is_let_in => ok("its provider takes the signature"),
            Proof::Signature | Proof::NoList => skip(
                "only a request that is charged for shows whether the provider takes it: --ask makes one",
            ),
            Proof::ListWithoutKey => ok("its list of models comes without a key"),
            Proof::ListWithKey => ok("its list of models comes with this key"),
            Proof::PublicList => {
                skip("its list of models is public, so it says nothing of the key: `doctor --ask` tells")
            }
            Proof::UnclearList => skip(
                "its list of models comes, and it is not known whether it comes without a key, too; so it says nothing of the key: `doctor --ask` tells",
            ),
            Proof::ListBehindV1 => checked.fail(
                ADDRESS,
                "there is no list of models at `base_url`, but there is one at `base_url` with /v1 behind it",
                format!("write /v1 at the end of accounts.{id}.base_url"),
            ),
            Proof::TlsOnly => checked.fail(
                ADDRESS,
                "the server speaks TLS, and its address is http:",
                format!("write https: into accounts.{id}.base_url"),
            ),
            Proof::FailedList(failure) => self.no_list(checked, failure),
        }
    }

    /// Returns the finding for a list that did not come: the table of the failures.
    fn no_list(&self, checked: &CheckedAccount, failure: &Failure) -> Finding {
        let skip = |seen: String| checked.skip(CREDENTIAL, seen);
        let warn = |seen: &str, remedy: &str| checked.warn(CREDENTIAL, seen, remedy);
        let reason = failure_text(checked, failure);
        match (failure.class(), failure.facts().status) {
            (Class::Credential, _) => failed_finding(checked, failure, "is refused"),
            (_, Some(403)) if self.is_let_in => skip(format!(
                "may not read the list of models (HTTP 403), so the models are not checked: `doctor --ask` tells; {reason}"
            )),
            (_, Some(403)) => warn(
                &format!("may not read the list of models (HTTP 403): {reason}"),
                "the key may be wrong, or may be allowed to ask models only: `doctor --ask` tells which",
            ),
            (_, Some(status @ (404 | 405 | 501))) => {
                let seen = format!(
                    "the server has no list of models (HTTP {status}), so key and models cannot be checked for free"
                );
                if self.has_endpoint {
                    skip(format!("{seen}: `doctor --ask` tells"))
                } else {
                    warn(
                        &seen,
                        "is the path of `base_url` right? `doctor --ask` tells whether it works",
                    )
                }
            }
            (_, Some(status @ 300..400)) => checked.fail(
                ADDRESS,
                format!("the server sends callers elsewhere (HTTP {status})"),
                "write the address that it names into `base_url`: the gateway follows nobody elsewhere",
            ),
            (Class::Overloaded, _) => {
                warn("the provider is overloaded now", "wait, and run this again")
            }
            (Class::Rate, _) => warn(
                "the provider takes no more requests now (HTTP 429)",
                "wait, and run this again",
            ),
            _ if matches!(failure, Failure::Nonsense(_)) => {
                let sent = failure.detail().unwrap_or_default();
                let secrets = checked.account().secrets();
                checked.fail(
                    ADDRESS,
                    format!(
                        "what answers is no such server: it sent {}",
                        scrub_secret_words(&sent, &secrets)
                    ),
                    "are the host, the port and the path of `base_url` right?",
                )
            }
            // It says nothing of the credential.
            _ => checked.fail(
                MODELS,
                failure_sentence("the list of models did not come", failure, &reason),
                MEND_SERVER,
            ),
        }
    }
}

/// Returns the finding for a source that gave no credential.
fn not_obtained(checked: &CheckedAccount, failure: &Failure) -> Finding {
    let account = checked.account();
    let source = match &account.signer {
        Some(Signer::Source(source)) => Some(source),
        Some(Signer::Aws(_)) | None => None,
    };
    let issuer = source.and_then(|source| source.issuer());
    let host = issuer
        .and_then(|url| url.split('/').nth(2))
        .unwrap_or_default();
    let message = match host {
        "" => "none was obtained".to_owned(),
        host => format!("the token server {host} gave no token"),
    };
    let finding = failed_finding(checked, failure, &message);
    if failure.class() != Class::Transient || failure.facts().status.is_some() {
        return finding;
    }
    match source {
        Some(source) if issuer.is_none() => finding.with_remedy(format!(
            "this machine must reach the servers that accounts.{}.{} means",
            account.id,
            source.field()
        )),
        Some(_) | None => finding.with_remedy("this machine must reach that server: its address is `token_uri` in the service account"),
    }
}

/// Returns the finding for a failure that stands for itself.
fn failed_finding(checked: &CheckedAccount, failure: &Failure, message: &str) -> Finding {
    let remedy = if failure.class() == Class::Credential {
        advice::advised_action(failure, checked.account())
    } else {
        MEND_SERVER.to_owned()
    };
    let reason = failure_text(checked, failure);
    let seen = failure_sentence(message, failure, &reason);
    checked.fail(CREDENTIAL, seen, remedy)
}

/// The advice about a server with a fault of its own.
const MEND_SERVER: &str = "look at the server, or wait until its provider has mended it";

/// Writes a failure with its status and its reason.
fn failure_sentence(message: &str, failure: &Failure, reason: &str) -> String {
    let status = match failure.facts().status {
        Some(status) if failure.error().is_some() => format!(" (HTTP {status})"),
        _ => String::new(),
    };
    format!("{message}{status}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::accounts::list_accounts;
    use dialects::UpstreamError;
    use portcullis::catalog::resolve::resolve_catalog;
    use portcullis::explain::standalone_snapshot;
    use std::sync::Arc;

    const CATALOG: &str = "accounts:\n  a: { dialect: openai, base_url: \"http://127.0.0.1/api\", key: k-0123456789 }\nmodels: {}\ncallers: {}\n";

    fn checked() -> CheckedAccount {
        let files = [("catalog.yaml".to_owned(), CATALOG.to_owned())];
        let catalog = resolve_catalog(&files, &mut |_| Ok(String::new())).expect("a catalog");
        let snapshot = standalone_snapshot(catalog, Arc::default());
        list_accounts(&snapshot).remove(0)
    }

    fn answer(status: u16) -> Failure {
        Failure::Status {
            status,
            seen: status,
            error: Box::new(UpstreamError {
                message: "no".into(),
                ..UpstreamError::default()
            }),
            retry_after: None,
        }
    }

    fn failed(status: u16) -> Proof {
        Proof::FailedList(answer(status))
    }

    /// Endpoints that were not asked, or showed nothing.
    const SILENT: (bool, bool) = (false, false);
    /// An endpoint finds fault with the request itself.
    const LET_IN: (bool, bool) = (true, true);
    /// An endpoint is there, as far as can be seen.
    const THERE: (bool, bool) = (false, true);

    #[test]
    fn each_fact_of_a_credential_has_its_finding() {
        let account = checked();
        let check = |proof, endpoints: (bool, bool), expected: [&str; 4]| {
            let (is_let_in, has_endpoint) = endpoints;
            let facts = CredentialFacts {
                is_let_in,
                has_endpoint,
                ..CredentialFacts::new(proof)
            };
            let finding = serde_json::to_value(facts.finding(&account)).expect("JSON");
            let found = ["state", "check", "seen", "do"]
                .map(|field| finding[field].as_str().unwrap_or_default());
            assert_eq!(found, expected);
        };
        let only_asked = [
            "skip",
            "credential",
            "only a request that is charged for shows whether the provider takes it: --ask makes one",
            "",
        ];
        let mend = "look at the server, or wait until its provider has mended it";
        let key = "write a valid key into the place that accounts.a.key names";
        check(
            Proof::Obtained {
                life: Duration::from_secs(3_600),
                name: "app@p".to_owned(),
            },
            SILENT,
            ["ok", "credential", "obtained one for 60 min as app@p", ""],
        );
        check(
            Proof::NotObtained(Failure::ConnectTimeout),
            SILENT,
            [
                "fail",
                "credential",
                "none was obtained: no connection was open in time",
                "this machine must reach that server: its address is `token_uri` in the service account",
            ],
        );
        check(
            Proof::NotObtained(answer(401)),
            SILENT,
            [
                "fail",
                "credential",
                "none was obtained (HTTP 401): the provider says \"no\"",
                key,
            ],
        );
        check(
            Proof::Signature,
            LET_IN,
            ["ok", "credential", "its provider takes the signature", ""],
        );
        check(Proof::Signature, THERE, only_asked);
        check(Proof::NoList, LET_IN, only_asked);
        check(
            Proof::ListWithoutKey,
            SILENT,
            [
                "ok",
                "credential",
                "its list of models comes without a key",
                "",
            ],
        );
        check(
            Proof::ListWithKey,
            SILENT,
            [
                "ok",
                "credential",
                "its list of models comes with this key",
                "",
            ],
        );
        check(
            Proof::PublicList,
            LET_IN,
            [
                "skip",
                "credential",
                "its list of models is public, so it says nothing of the key: `doctor --ask` tells",
                "",
            ],
        );
        check(
            Proof::UnclearList,
            LET_IN,
            [
                "skip",
                "credential",
                "its list of models comes, and it is not known whether it comes without a key, too; so it says nothing of the key: `doctor --ask` tells",
                "",
            ],
        );
        check(
            Proof::ListBehindV1,
            SILENT,
            [
                "fail",
                "address",
                "there is no list of models at `base_url`, but there is one at `base_url` with /v1 behind it",
                "write /v1 at the end of accounts.a.base_url",
            ],
        );
        check(
            Proof::TlsOnly,
            SILENT,
            [
                "fail",
                "address",
                "the server speaks TLS, and its address is http:",
                "write https: into accounts.a.base_url",
            ],
        );
        check(
            failed(401),
            SILENT,
            [
                "fail",
                "credential",
                "is refused (HTTP 401): the provider says \"no\"",
                key,
            ],
        );
        check(
            failed(403),
            LET_IN,
            [
                "skip",
                "credential",
                "may not read the list of models (HTTP 403), so the models are not checked: `doctor --ask` tells; the provider says \"no\"",
                "",
            ],
        );
        check(
            failed(403),
            THERE,
            [
                "warn",
                "credential",
                "may not read the list of models (HTTP 403): the provider says \"no\"",
                "the key may be wrong, or may be allowed to ask models only: `doctor --ask` tells which",
            ],
        );
        check(
            failed(404),
            THERE,
            [
                "skip",
                "credential",
                "the server has no list of models (HTTP 404), so key and models cannot be checked for free: `doctor --ask` tells",
                "",
            ],
        );
        check(
            failed(501),
            SILENT,
            [
                "warn",
                "credential",
                "the server has no list of models (HTTP 501), so key and models cannot be checked for free",
                "is the path of `base_url` right? `doctor --ask` tells whether it works",
            ],
        );
        check(
            failed(307),
            SILENT,
            [
                "fail",
                "address",
                "the server sends callers elsewhere (HTTP 307)",
                "write the address that it names into `base_url`: the gateway follows nobody elsewhere",
            ],
        );
        check(
            failed(529),
            SILENT,
            [
                "warn",
                "credential",
                "the provider is overloaded now",
                "wait, and run this again",
            ],
        );
        check(
            failed(429),
            SILENT,
            [
                "warn",
                "credential",
                "the provider takes no more requests now (HTTP 429)",
                "wait, and run this again",
            ],
        );
        check(
            Proof::FailedList(Failure::Nonsense("k-0123456789".to_owned())),
            SILENT,
            [
                "fail",
                "address",
                "what answers is no such server: it sent [redacted]",
                "are the host, the port and the path of `base_url` right?",
            ],
        );
        check(
            failed(500),
            SILENT,
            [
                "fail",
                "models",
                "the list of models did not come (HTTP 500): the provider says \"no\"",
                mend,
            ],
        );
        check(
            Proof::FailedList(Failure::Reset),
            SILENT,
            [
                "fail",
                "models",
                "the list of models did not come: the server closed the connection without an answer",
                mend,
            ],
        );
    }

    #[test]
    fn a_refusal_counts_unless_the_proof_is_stronger() {
        let account = checked();
        let check = |proof, status: u16, expected: bool| {
            let mut facts = CredentialFacts::new(proof);
            facts.add_refusal(Some(&answer(status)));
            assert_eq!(facts.is_refused(), expected, "{status}");
            let finding = serde_json::to_value(facts.finding(&account)).expect("JSON");
            let seen = format!("is refused (HTTP {status}): the provider says \"no\"");
            assert_eq!(finding["seen"] == *seen, expected, "{finding}");
        };
        let obtained = Proof::Obtained {
            life: Duration::from_secs(1),
            name: String::new(),
        };
        check(obtained, 402, false);
        check(Proof::ListWithKey, 401, false);
        for status in [401, 402] {
            check(Proof::Signature, status, true);
            check(Proof::NoList, status, true);
            check(Proof::ListWithoutKey, status, true);
            check(Proof::PublicList, status, true);
            check(Proof::UnclearList, status, true);
            check(failed(404), status, true);
        }
        check(Proof::ListWithKey, 402, true);
    }

    #[test]
    fn only_a_failed_credential_is_refused_by_its_proof() {
        let check = |proof, expected: bool| {
            assert_eq!(CredentialFacts::new(proof).is_refused(), expected);
        };
        check(Proof::NotObtained(Failure::Reset), true);
        check(failed(401), true);
        check(failed(402), true);
        check(failed(403), false);
        check(failed(500), false);
        check(Proof::ListBehindV1, false);
        check(Proof::TlsOnly, false);
        check(Proof::PublicList, false);
    }
}

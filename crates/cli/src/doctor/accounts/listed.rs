//! The rights of an account's credential, as far as they can be seen for free: the provider's list
//! of models, a token, and the answers to requests for nothing. A request for an answer would be
//! charged for.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use tokio::time::{Instant, timeout};

use super::endpoints::{self, EndpointAnswers};
use super::reach::speaks_tls;
use super::{CheckedAccount, ServerReport, failure_text, lacks_secret};
use crate::doctor::report::{CheckState, Finding};
use crate::doctor::words::{duration_text, first_three};
use portcullis::account::failure::{Class, Failure};
use portcullis::base::problem::{nearest_name, quote_safely};
use portcullis::catalog::listing::ListedNames;
use portcullis::catalog::{Account, Signer, globs};
use portcullis::conf::proxy::Proxies;
use portcullis::error::scrub_secret_words;
use portcullis::exchange::upstream::Upstream;
use portcullis::exchange::{advice, credential, lists};
use portcullis::live::ready_account::{ReadyAccount, server_account};
use portcullis::signers::google::ServiceAccount;

/// The longest time for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer of which only the head counts.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The check of the credential.
const CREDENTIAL: &str = "credential";

/// Looks at the credential and the models. Whoever is refused, or at the wrong address, hears
/// nothing else from the endpoints.
pub(super) async fn check_credential(
    checked_account: &CheckedAccount,
    upstream: &Upstream,
    findings: &mut Vec<Finding>,
) -> ServerReport {
    let (before, mut date, mut is_refused) = (SystemTime::now(), None, false);
    let account = checked_account.account();
    let protocol = account.dialect.protocol;
    if lacks_secret(account) {
        findings.push(checked_account.finding(
            CheckState::Skip,
            CREDENTIAL,
            "its secret could not be read: see configuration",
        ));
        return ServerReport::default();
    }
    if let Some(Signer::Google(service, _)) = &account.signer {
        let finding = fetch_token(checked_account, upstream, service).await;
        is_refused = finding.is_failure();
        findings.push(finding);
        findings.push(checked_account.finding(
            CheckState::Skip,
            "models",
            "its provider has no list of models that is asked here: --ask tells",
        ));
        if !is_refused {
            endpoints::probe_endpoints(checked_account, upstream, &mut date)
                .await
                .add_findings(checked_account, findings);
        }
    } else if account.signer.is_some() || protocol.endpoints.listing.is_none() {
        let answers = endpoints::probe_endpoints(checked_account, upstream, &mut date).await;
        match answers.refusal() {
            Some(failure) => {
                is_refused = true;
                findings.push(refused_finding(checked_account, failure));
            }
            None => {
                findings.push(without_list(checked_account, &answers));
                answers.add_findings(checked_account, findings);
            }
        }
    } else {
        let fetched = timeout(
            ANSWER_TIMEOUT,
            lists::fetch_list(upstream, &checked_account.ready_account, &mut date),
        )
        .await;
        match fetched.unwrap_or(Err(Failure::TotalTimeout)) {
            Ok(names) => {
                let (credential, is_proved) = listed_for(checked_account, upstream).await;
                let answers =
                    endpoints::probe_endpoints(checked_account, upstream, &mut date).await;
                // A list is free also for whoever has not paid.
                let counts = |failure: &&Failure| !is_proved || advice::is_about_money(failure);
                let refusal = answers.refusal().filter(counts);
                is_refused = refusal.is_some();
                findings.push(refusal.map_or(credential, |failure| {
                    refused_finding(checked_account, failure)
                }));
                compare_models(checked_account, &names, findings);
                if refusal.is_none() {
                    answers.add_findings(checked_account, findings);
                }
            }
            Err(failure) => {
                let finding = no_list(checked_account, upstream, &failure).await;
                if finding.is_failure() {
                    is_refused = failure.class() == Class::Credential;
                    findings.push(finding);
                } else {
                    let answers =
                        endpoints::probe_endpoints(checked_account, upstream, &mut date).await;
                    if let Some(refusal) = answers.refusal() {
                        is_refused = true;
                        findings.push(refused_finding(checked_account, refusal));
                    } else {
                        findings.push(
                            unlisted_finding(checked_account, &failure, &answers)
                                .unwrap_or(finding),
                        );
                        answers.add_findings(checked_account, findings);
                    }
                }
            }
        }
    }
    ServerReport {
        clock: date.map(|server_time| (before, server_time)),
        is_refused,
    }
}

/// Fetches a token for a service account, and returns the finding.
async fn fetch_token(
    checked_account: &CheckedAccount,
    upstream: &Upstream,
    service: &ServiceAccount,
) -> Finding {
    let (ready_account, account) = (&checked_account.ready_account, checked_account.account());
    match credential::fetch_token(
        upstream,
        ready_account,
        service,
        Instant::now() + ANSWER_TIMEOUT,
    )
    .await
    {
        Ok((token, lasts)) => {
            ready_account
                .state
                .tokens
                .put(token, lasts, account.fingerprint);
            checked_account.finding(
                CheckState::Ok,
                CREDENTIAL,
                format!("the token server gave a token for {}", duration_text(lasts)),
            )
        }
        Err(failure) => {
            let server = ready_account
                .issuer
                .as_ref()
                .map(|issuer| issuer.account.base.authority.clone())
                .unwrap_or_default();
            let finding = failed_finding(
                checked_account,
                &failure,
                &format!("the token server {server} gave no token"),
            );
            let is_unheard =
                failure.facts().status.is_none() && failure.class() == Class::Transient;
            if is_unheard {
                finding.with_remedy("this machine must reach that server: its address is `token_uri` in the service account")
            } else {
                finding
            }
        }
    }
}

/// Returns the finding for a server that gives no list, where its endpoints show that the way is
/// right.
fn unlisted_finding(
    checked_account: &CheckedAccount,
    failure: &Failure,
    answers: &EndpointAnswers,
) -> Option<Finding> {
    let skip = |seen: String| Some(checked_account.finding(CheckState::Skip, CREDENTIAL, seen));
    match failure.facts().status? {
        status @ (404 | 405 | 501) if answers.show_one() => skip(format!(
            "the server has no list of models (HTTP {status}), so key and models cannot be checked for free: --ask tells"
        )),
        403 if answers.is_let_in() => skip(format!(
            "may not read the list of models (HTTP 403), so the models are not checked: --ask tells; {}",
            failure_text(checked_account, failure)
        )),
        _ => None,
    }
}

/// Returns the finding for a credential that no list is read with.
fn without_list(checked_account: &CheckedAccount, answers: &EndpointAnswers) -> Finding {
    if checked_account.account().signer.is_some() && answers.is_let_in() {
        return checked_account.finding(
            CheckState::Ok,
            CREDENTIAL,
            "its provider takes the signature",
        );
    }
    let seen =
        "only a request that is charged for shows whether the provider takes it: --ask makes one";
    checked_account.finding(CheckState::Skip, CREDENTIAL, seen)
}

fn refused_finding(checked_account: &CheckedAccount, failure: &Failure) -> Finding {
    failed_finding(checked_account, failure, "is refused")
}

/// Returns the finding for a server that gives a list, and whether it proves the credential. The
/// key is proved only if the list does not come without it.
async fn listed_for(checked_account: &CheckedAccount, upstream: &Upstream) -> (Finding, bool) {
    let account = checked_account.account();
    let ok = |seen: &str| checked_account.finding(CheckState::Ok, CREDENTIAL, seen);
    if account.key.is_none() {
        return (ok("its list of models comes without a key"), false);
    }
    let mut anonymous = ReadyAccount::standalone(without_key(account), &Proxies::default());
    anonymous
        .proxy
        .clone_from(&checked_account.ready_account.proxy);
    let anonymous = Arc::new(anonymous);
    let fetched = timeout(
        ANSWER_TIMEOUT,
        lists::fetch_list(upstream, &anonymous, &mut None),
    )
    .await;
    let skip = |seen: &str| checked_account.finding(CheckState::Skip, CREDENTIAL, seen);
    match fetched.unwrap_or(Err(Failure::TotalTimeout)) {
        Ok(_) => (
            skip("its list of models is public, so it says nothing of the key: --ask tells"),
            false,
        ),
        Err(failure) if matches!(failure.facts().status, Some(400 | 401 | 403 | 404)) => {
            (ok("its list of models comes with this key"), true)
        }
        Err(_) => (
            skip(
                "its list of models comes, and it is not known whether it comes without a key, too; so it says nothing of the key: --ask tells",
            ),
            false,
        ),
    }
}

/// Returns the account as somebody without its key has it.
fn without_key(account: &Account) -> Account {
    let (id, base, timeouts) = (account.id.clone(), account.base.clone(), account.timeouts);
    Account {
        dialect: account.dialect.clone(),
        network: account.network.clone(),
        headers: account.headers.clone(),
        ..server_account(
            id,
            base,
            timeouts,
            HeaderValue::from_static("application/json"),
        )
    }
}

/// Returns the finding for a server that gives no list.
async fn no_list(
    checked_account: &CheckedAccount,
    upstream: &Upstream,
    failure: &Failure,
) -> Finding {
    let account = checked_account.account();
    let status = failure.facts().status;
    match (failure.class(), status) {
        (Class::Credential, _) => failed_finding(checked_account, failure, "is refused"),
        (_, Some(403)) => {
            let reason = failure_text(checked_account, failure);
            let finding = checked_account.finding(
                CheckState::Warn,
                CREDENTIAL,
                format!("may not read the list of models (HTTP 403): {reason}"),
            );
            finding.with_remedy(
                "the key may be wrong, or may be allowed to ask models only: --ask tells which",
            )
        }
        (_, Some(404 | 405 | 501)) => {
            let base = &account.base.path;
            if !base.ends_with("/v1")
                && lists_at(checked_account, upstream, &format!("{base}/v1")).await
            {
                let seen = "there is no list of models at `base_url`, but there is one at `base_url` with /v1 behind it";
                return checked_account
                    .finding(CheckState::Fail, "address", seen)
                    .with_remedy(format!(
                        "write /v1 at the end of accounts.{}.base_url",
                        account.id
                    ));
            }
            let status = status.unwrap_or_default();
            let seen = format!(
                "the server has no list of models (HTTP {status}), so key and models cannot be checked for free"
            );
            checked_account
                .finding(CheckState::Warn, CREDENTIAL, seen)
                .with_remedy("is the path of `base_url` right? --ask tells whether it works")
        }
        (_, Some(status @ 300..400)) => {
            let finding = checked_account.finding(
                CheckState::Fail,
                "address",
                format!("the server sends callers elsewhere (HTTP {status})"),
            );
            finding.with_remedy("write the address that it names into `base_url`: the gateway follows nobody elsewhere")
        }
        (Class::Overloaded, _) => {
            let finding = checked_account.finding(
                CheckState::Warn,
                CREDENTIAL,
                "the provider is overloaded now",
            );
            finding.with_remedy("wait, and run this again")
        }
        (Class::Rate, _) => {
            let finding = checked_account.finding(
                CheckState::Warn,
                CREDENTIAL,
                "the provider takes no more requests now (HTTP 429)",
            );
            finding.with_remedy("wait, and run this again")
        }
        _ if is_odd(failure) && speaks_tls(checked_account).await => {
            let finding = checked_account.finding(
                CheckState::Fail,
                "address",
                "the server speaks TLS, and its address is http:",
            );
            finding.with_remedy(format!(
                "write https: into accounts.{}.base_url",
                account.id
            ))
        }
        _ if matches!(failure, Failure::Nonsense(_)) => {
            let sent = failure.detail().unwrap_or_default();
            let seen = format!(
                "what answers is no such server: it sent {}",
                scrub_secret_words(&sent, &checked_account.ready_account.secrets(None))
            );
            let finding = checked_account.finding(CheckState::Fail, "address", seen);
            finding.with_remedy("are the host, the port and the path of `base_url` right?")
        }
        _ => failed_finding(checked_account, failure, "the list of models did not come"),
    }
}

/// Returns whether the answer is one that a server which speaks TLS may give to plain HTTP.
fn is_odd(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Reset | Failure::Unreachable(_) | Failure::Nonsense(_)
    ) || failure.facts().status == Some(400)
}

/// Returns whether the server has a list of models at another base path.
async fn lists_at(checked_account: &CheckedAccount, upstream: &Upstream, base: &str) -> bool {
    let Some(listing) = checked_account.account().dialect.protocol.endpoints.listing else {
        return false;
    };
    let (path, due) = (listing.path(base, None), Instant::now() + ANSWER_TIMEOUT);
    let body = lists::get_bytes(
        upstream,
        &checked_account.ready_account,
        &path,
        (8 * MAX_ANSWER_BYTES, due),
        &mut None,
    )
    .await;
    body.is_ok_and(|body| listing.page(&body).is_some())
}

/// Returns the finding for a failure that stands for itself.
fn failed_finding(checked_account: &CheckedAccount, failure: &Failure, message: &str) -> Finding {
    let status = failure.facts().status.filter(|_| failure.error().is_some());
    let status = status
        .map(|status| format!(" (HTTP {status})"))
        .unwrap_or_default();
    let finding = checked_account.finding(
        CheckState::Fail,
        CREDENTIAL,
        format!(
            "{message}{status}: {}",
            failure_text(checked_account, failure)
        ),
    );
    if failure.class() == Class::Credential {
        finding.with_remedy(advice::advised_action(failure, checked_account.account()))
    } else {
        finding.with_remedy("look at the server, or wait until its provider has mended it")
    }
}

/// Compares the models of the catalog with the list.
fn compare_models(
    checked_account: &CheckedAccount,
    listed: &ListedNames,
    findings: &mut Vec<Finding>,
) {
    let missing: Vec<&Arc<str>> = checked_account
        .models
        .keys()
        .filter(|name| !is_listed(listed, name))
        .collect();
    let (all, listed_count) = (checked_account.models.len(), listed.names.len());
    if missing.len() < all {
        let seen = format!(
            "{} of {all} models of the catalog are in the provider's list of {listed_count}",
            all - missing.len()
        );
        findings.push(checked_account.finding(CheckState::Ok, "models", seen));
    }
    for name in missing {
        let near = nearest_name(name, listed.names.iter().map(|name| &**name));
        let near = near
            .map(|near| format!("; did you mean {}?", quote_safely(near)))
            .unwrap_or_default();
        let seen = format!(
            "{} is not in the provider's list of {listed_count}{near}",
            quote_safely(name)
        );
        let remedy = "correct `targets[].model`, or ask the provider whether this account may use the model; some serve models that they do not \
                      list";
        findings.push(
            checked_account
                .finding(CheckState::Warn, "models", seen)
                .with_remedy(remedy),
        );
    }
    for pattern in &checked_account.patterns {
        let matching: Vec<&str> = listed
            .names
            .iter()
            .map(|name| &**name)
            .filter(|name| globs::glob_matches(pattern, name))
            .collect();
        findings.push(match matching.as_slice() {
            [] => checked_account
                .finding(
                    CheckState::Warn,
                    "models",
                    format!(
                        "no model of the provider's list of {listed_count} matches {}",
                        quote_safely(pattern)
                    ),
                )
                .with_remedy("correct `targets[].model`: the pattern serves nothing here"),
            some_names => {
                let names = matching.len();
                checked_account.finding(
                    CheckState::Ok,
                    "models",
                    format!(
                        "{names} models of the provider's list match {}: {}",
                        quote_safely(pattern),
                        first_three(some_names)
                    ),
                )
            }
        });
    }
}

/// Returns whether the provider lists a model. Ollama lists a model without a tag as the latest.
fn is_listed(listed: &ListedNames, name: &str) -> bool {
    let names = [name, &format!("{name}:latest")];
    names.iter().any(|name| {
        let found = listed.names.binary_search_by(|listed| (**listed).cmp(name));
        found.is_ok()
    })
}

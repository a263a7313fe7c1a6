//! The rights of an account's credential, as far as they can be seen for free: the provider's list
//! of models, a token, and the answers to requests for nothing. A request for an answer would be
//! charged for.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use tokio::time::{Instant, timeout};

use super::credential::{CREDENTIAL, CredentialFacts, MODELS, Proof};
use super::endpoints;
use super::reach::speaks_tls;
use super::{CheckedAccount, ServerReport, lacks_secret};
use crate::doctor::report::{Checked, Finding};
use crate::doctor::words::first_three;
use portcullis::account::failure::{Class, Failure};
use portcullis::base::problem::{nearest_name, quote_safely};
use portcullis::catalog::listing::ListedNames;
use portcullis::catalog::{Account, Signer, globs};
use portcullis::conf::proxy::Proxies;
use portcullis::exchange::upstream::Upstream;
use portcullis::exchange::{identity, lists};
use portcullis::live::ready_account::{ReadyAccount, server_account};

/// The longest time for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer of which only the head counts.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Checks the credential and the models. Whoever is refused, or at the wrong address, gets no
/// finding about the endpoints.
pub(super) async fn check_credential(
    checked: &CheckedAccount,
    upstream: &Upstream,
    findings: &mut Vec<Finding>,
) -> ServerReport {
    let (before, mut date) = (SystemTime::now(), None);
    let account = checked.account();
    if lacks_secret(account) {
        findings.push(checked.skip(
            CREDENTIAL,
            "its secret could not be read: see configuration",
        ));
        return ServerReport::default();
    }
    let (proof, listed) = fetch_proof(checked, upstream, &mut date).await;
    let mut facts = CredentialFacts::new(proof);
    let mut answers = None;
    if !facts.finding(checked).is_failure() {
        let probed = endpoints::probe_endpoints(checked, upstream, &mut date).await;
        facts.add_refusal(probed.refusal());
        facts.is_let_in = probed.is_let_in();
        facts.has_endpoint = probed.show_one();
        answers = Some(probed).filter(|_| !facts.is_refused());
    }
    findings.push(facts.finding(checked));
    if let Some(listed) = &listed {
        compare_models(checked, listed, findings);
    }
    let has_list = account.dialect.protocol.endpoints.listing.is_some();
    if matches!(account.signer, Some(Signer::Source(_))) && !has_list {
        findings.push(checked.skip(
            MODELS,
            "its provider has no list of models that is asked here: `doctor --ask` tells",
        ));
    }
    if let Some(answers) = answers {
        answers.add_findings(checked, findings);
    }
    ServerReport {
        listed,
        clock: date.map(|server_time| (before, server_time)),
        is_refused: facts.is_refused(),
    }
}

/// Fetches what proves the credential for free: a token, or the list of models, which is returned
/// too.
async fn fetch_proof(
    checked: &CheckedAccount,
    upstream: &Upstream,
    date: &mut Option<SystemTime>,
) -> (Proof, Option<ListedNames>) {
    let account = checked.account();
    match &account.signer {
        Some(Signer::Source(_)) => return (obtain_credential(checked, upstream).await, None),
        Some(Signer::Aws(_)) => return (Proof::Signature, None),
        None if account.dialect.protocol.endpoints.listing.is_none() => {
            return (Proof::NoList, None);
        }
        None => {}
    }
    match fetch_list(upstream, &checked.ready_account, date).await {
        Ok(listed) => (list_proof(checked, upstream).await, Some(listed)),
        Err(failure) => (no_list_proof(checked, upstream, failure).await, None),
    }
}

/// Obtains a credential from the account's source.
async fn obtain_credential(checked: &CheckedAccount, upstream: &Upstream) -> Proof {
    match identity::fetch_and_keep(upstream, &checked.ready_account).await {
        Ok((present, _)) => Proof::Obtained {
            life: present.until.saturating_duration_since(present.since),
            name: present.name.clone(),
        },
        Err((failure, _)) => Proof::NotObtained(failure),
    }
}

/// Fetches the list of models in the time that there is for an answer.
async fn fetch_list(
    upstream: &Upstream,
    ready_account: &Arc<ReadyAccount>,
    date: &mut Option<SystemTime>,
) -> Result<ListedNames, Failure> {
    let fetched = timeout(
        ANSWER_TIMEOUT,
        lists::fetch_list(upstream, ready_account, date),
    );
    fetched.await.unwrap_or(Err(Failure::TotalTimeout))
}

/// Returns what a list that came shows. The key is proved only if the list does not come without
/// it.
async fn list_proof(checked: &CheckedAccount, upstream: &Upstream) -> Proof {
    let account = checked.account();
    if account.key.is_none() {
        return Proof::ListWithoutKey;
    }
    let mut anonymous = ReadyAccount::standalone(without_key(account), &Proxies::default());
    anonymous.proxy.clone_from(&checked.ready_account.proxy);
    match fetch_list(upstream, &Arc::new(anonymous), &mut None).await {
        Ok(_) => Proof::PublicList,
        Err(failure) if matches!(failure.facts().status, Some(400 | 401 | 403 | 404)) => {
            Proof::ListWithKey
        }
        Err(_) => Proof::UnclearList,
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

/// Returns what a list that did not come shows, and other requests where they may show why.
async fn no_list_proof(checked: &CheckedAccount, upstream: &Upstream, failure: Failure) -> Proof {
    let base = &checked.account().base.path;
    let (class, status) = (failure.class(), failure.facts().status);
    let is_absent = class != Class::Credential && matches!(status, Some(404 | 405 | 501));
    if is_absent
        && !base.ends_with("/v1")
        && has_list_below(checked, upstream, &format!("{base}/v1")).await
    {
        return Proof::ListBehindV1;
    }
    let is_answer = matches!(class, Class::Credential | Class::Overloaded | Class::Rate);
    if !is_answer && is_odd(&failure) && speaks_tls(checked).await {
        return Proof::TlsOnly;
    }
    Proof::FailedList(failure)
}

/// Returns whether the answer is one that a server which speaks TLS may give to plain HTTP.
fn is_odd(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Reset | Failure::Unreachable(_) | Failure::Nonsense(_)
    ) || failure.facts().status == Some(400)
}

/// Returns whether the server has a list of models at another base path.
async fn has_list_below(checked: &CheckedAccount, upstream: &Upstream, base: &str) -> bool {
    let Some(listing) = checked.account().dialect.protocol.endpoints.listing else {
        return false;
    };
    let path = listing.page_path(base, None);
    let due = Instant::now() + ANSWER_TIMEOUT;
    let body = lists::get_bytes(
        upstream,
        &checked.ready_account,
        &path,
        8 * MAX_ANSWER_BYTES,
        due,
        &mut None,
    )
    .await;
    body.is_ok_and(|body| listing.read_page(&body).is_some())
}

/// Compares the models of the catalog with the list.
fn compare_models(checked: &CheckedAccount, listed: &ListedNames, findings: &mut Vec<Finding>) {
    let missing: Vec<&Arc<str>> = checked
        .models
        .keys()
        .filter(|name| !listed.lists_model(name))
        .collect();
    let (all, listed_count) = (checked.models.len(), listed.names.len());
    if missing.len() < all {
        let seen = format!(
            "{} of {all} models of the catalog are in the provider's list of {listed_count}",
            all - missing.len()
        );
        findings.push(checked.ok(MODELS, seen));
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
        findings.push(checked.warn(MODELS, seen, remedy));
    }
    for pattern in &checked.patterns {
        let matching: Vec<&str> = listed
            .names
            .iter()
            .map(|name| &**name)
            .filter(|name| globs::glob_matches(pattern, name))
            .collect();
        let pattern = quote_safely(pattern);
        findings.push(if matching.is_empty() {
            checked.warn(
                MODELS,
                format!("no model of the provider's list of {listed_count} matches {pattern}"),
                "correct `targets[].model`: the pattern serves nothing here",
            )
        } else {
            checked.ok(
                MODELS,
                format!(
                    "{pattern} stands for {} of the {listed_count} in the provider's list: {}",
                    matching.len(),
                    first_three(&matching)
                ),
            )
        });
    }
}

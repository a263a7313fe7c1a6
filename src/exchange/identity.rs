//! The credentials of accounts that obtain them anew again and again: fetched in the background,
//! never while a request waits for more than a moment.
//!
//! **Invariant:** one fetch at a time for all targets of an account. A metadata service is called
//! from here only, and never through a proxy. No redirect is followed.

use super::attempt::Attempt;
use super::backends::Backends;
use super::outgoing::{Outgoing, own_id};
use super::tasks::NamedTasks;
use super::upstream::Upstream;
use crate::account::failure::Failure;
use crate::account::identity::Present;
use crate::base::alarm::Alarm;
use crate::base::clock::{Clock, Round};
use crate::base::secret::Secret;
use crate::base::units::{cut_text, rough_duration};
use crate::catalog::resolve::parse_service;
use crate::catalog::{Signer, Timeouts};
use crate::error::scrub_secret_words;
use crate::live::Live;
use crate::live::ready_account::ReadyAccount;
use crate::metrics::Metrics;
use crate::signers::Source;
use crate::signers::courier::{Answer, Courier, Credential, Fault, Obtained, Place, Request};
use crate::signers::sigv4;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

/// The pause between two looks for credentials that are due.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time for a connection to a server that gives credentials.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest time for a credential, with all requests that it needs.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time that a request waits for the first credential.
const FIRST_TIMEOUT: Duration = Duration::from_secs(2);
/// The most bytes of an answer or a file.
const MAX_BYTES: usize = 64 * 1024;
/// The most characters of a provider's sentence.
const MAX_CHARACTERS: usize = 300;

/// Fetches each credential when it is due, for ever. A panic of ours over an answer ends only that
/// fetch.
pub async fn keep_fresh(live: &Live, backends: &Arc<Backends>, metrics: &Metrics) {
    let mut running = NamedTasks::new();
    loop {
        running.forget_ended(metrics);
        let snapshot = live.load_full();
        let now = Clock::now();
        for ready_account in snapshot.sourced_accounts() {
            let account = &ready_account.account;
            let is_due = ready_account
                .state
                .identity
                .is_due(account.fingerprint, now);
            if is_due && !running.has(&account.id) {
                let (backends, ready_account) = (backends.clone(), ready_account.clone());
                running.start(account.id.clone(), async move {
                    refresh(&backends.upstream, &ready_account).await;
                });
            }
        }
        drop(snapshot);
        Clock::pause(Round::Identities, CHECK_INTERVAL).await;
    }
}

/// Returns the credential that a request to the account uses. Waits a moment for the first one.
pub async fn usable_credential(
    ready_account: &ReadyAccount,
    total: Instant,
) -> Result<Arc<Present>, Failure> {
    let (identity, fingerprint) = (
        &ready_account.state.identity,
        ready_account.account.fingerprint,
    );
    if let Some(present) = identity.usable(fingerprint) {
        return Ok(present);
    }
    let due = Instant::now() + FIRST_TIMEOUT;
    let waited = identity.wait_for(fingerprint, due.min(total)).await;
    waited.map_err(|failure| {
        if failure == Failure::ConnectTimeout && total <= due {
            Failure::TotalTimeout
        } else {
            failure
        }
    })
}

/// Fetches a credential for an account, and keeps it. Logs when fetches begin to fail, and when
/// they work again.
async fn refresh(upstream: &Upstream, ready_account: &Arc<ReadyAccount>) {
    let (account, state) = (&ready_account.account, &ready_account.state);
    match fetch_and_keep(upstream, ready_account).await {
        Ok((_, true)) => {
            // Requests may have failed for the lack of it.
            state.reset_rest();
            log::info!("account {}: obtained a credential again", account.id);
        }
        Ok((_, false)) => {}
        Err((failure, true)) => {
            let seen = state.identity.state(account.fingerprint, Clock::now());
            let then = match &seen.present {
                Some(present) => format!(
                    "the gateway uses the old one for {} more",
                    rough_duration(present.until.saturating_duration_since(Clock::now()))
                ),
                None => "requests to the account fail until there is one".to_owned(),
            };
            let why = failure_text(&failure, ready_account);
            log::warn!(
                "account {}: could not obtain a credential ({why}); {then}",
                account.id
            );
        }
        Err((_, false)) => {}
    }
}

/// Fetches a credential and keeps it, or notes why there is none. Returns also whether fetches
/// failed before; with a failure, whether it is the first one in a row.
pub async fn fetch_and_keep(
    upstream: &Upstream,
    ready_account: &Arc<ReadyAccount>,
) -> Result<(Arc<Present>, bool), (Failure, bool)> {
    let (account, identity) = (&ready_account.account, &ready_account.state.identity);
    match fetch(upstream, ready_account).await {
        Ok(obtained) => {
            let signer = match &obtained.credential {
                Credential::Aws(keys) => {
                    let region = account.dialect.settings().region.as_deref();
                    Some(sigv4::Signer::for_keys(region.unwrap_or_default(), keys))
                }
                Credential::Token(_) => None,
            };
            let failed_before = identity.record(obtained, signer, account.fingerprint);
            let missing = || (Failure::Reset, false);
            Ok((identity.present().ok_or_else(missing)?, failed_before))
        }
        Err(failure) => {
            let why = failure_text(&failure, ready_account);
            let is_first = identity.record_failure(failure.clone(), why, account.fingerprint);
            Err((failure, is_first))
        }
    }
}

/// Fetches a credential for a command that runs no background work, if the account needs one.
pub async fn fetch_if_missing(
    upstream: &Upstream,
    ready_account: &Arc<ReadyAccount>,
) -> Result<(), Failure> {
    let account = &ready_account.account;
    let is_source = matches!(account.signer, Some(Signer::Source(_)));
    if !is_source
        || ready_account
            .state
            .identity
            .usable(account.fingerprint)
            .is_some()
    {
        return Ok(());
    }
    let fetched = fetch_and_keep(upstream, ready_account).await;
    fetched.map(drop).map_err(|(failure, _)| failure)
}

/// Returns the reason of a failure in the provider's own words, without secrets.
pub fn failure_text(failure: &Failure, ready_account: &ReadyAccount) -> String {
    let error = failure.error().map(|error| error.message.clone());
    let code = failure.error().and_then(|error| error.code.clone());
    let detail = || failure.detail().map(|detail| detail.into_owned());
    let text = error.filter(|message| !message.is_empty()).or_else(detail);
    let text = match (code, text) {
        (Some(code), Some(text)) if !text.contains(&*code) => format!("{code}: {text}"),
        (_, Some(text)) => text,
        (_, None) => failure.name().replace('_', " "),
    };
    let present = ready_account.state.identity.present();
    let text = scrub_secret_words(&text, &ready_account.secrets(present.as_ref()));
    cut_text(text.trim(), MAX_CHARACTERS)
}

/// Fetches a credential.
async fn fetch(
    upstream: &Upstream,
    ready_account: &Arc<ReadyAccount>,
) -> Result<Obtained, Failure> {
    let Some(Signer::Source(source)) = &ready_account.account.signer else {
        let why = "the account has no source of credentials".to_owned();
        return Err(Failure::Unsigned(why));
    };
    let mut errand = Errand {
        upstream,
        ready_account,
        due: Instant::now() + FETCH_TIMEOUT,
        failure: None,
    };
    // The future is boxed: it holds all steps of all sources.
    let obtained = Box::pin(obtain_in_time(source, &mut errand)).await;
    obtained.map_err(|fault| errand.explain(fault))
}

async fn obtain_in_time(source: &Source, errand: &mut Errand<'_>) -> Result<Obtained, Fault> {
    let due = errand.due;
    let obtained = tokio::time::timeout_at(due, source.obtain(errand)).await;
    obtained.unwrap_or(Err(Fault::Unanswered(None)))
}

/// The courier of a fetch.
struct Errand<'a> {
    upstream: &'a Upstream,
    ready_account: &'a ReadyAccount,
    due: Instant,
    /// The reason why a server did not answer.
    failure: Option<Failure>,
}

impl Errand<'_> {
    /// Returns the failure of a fault.
    fn explain(&mut self, fault: Fault) -> Failure {
        match fault {
            Fault::Local(why) => Failure::Unsigned(why),
            Fault::Nonsense(why) => Failure::Nonsense(why),
            Fault::Refused(error) => {
                let status = error.status.unwrap_or(502);
                Failure::Status {
                    status,
                    seen: status,
                    retry_after: error.retry_after,
                    error,
                }
            }
            Fault::Unanswered(hint) => {
                let failure = self.failure.take().unwrap_or(Failure::ConnectTimeout);
                match hint {
                    None => failure,
                    Some(hint) => {
                        let why = failure.detail().map(|detail| detail.into_owned());
                        let why = why.unwrap_or_else(|| failure.name().replace('_', " "));
                        Failure::Unreachable(format!("{why}; {hint}"))
                    }
                }
            }
        }
    }

    async fn answer(&self, request: &Request) -> Result<Answer, Failure> {
        let unsigned = |why: &str| Failure::Unsigned(why.to_owned());
        let is_nearby = request.place == Place::Nearby;
        let insecure = self.ready_account.account.network.insecure;
        let parsed = parse_service(&request.url, is_nearby, insecure);
        let (base, path) =
            parsed.map_err(|wrong| Failure::Unsigned(format!("a server's address {wrong}")))?;
        let timeouts = Timeouts::for_message(CONNECT_TIMEOUT, FETCH_TIMEOUT);
        let kind = request.content_type;
        let server = self
            .ready_account
            .token_server(base, is_nearby, kind, timeouts);
        let server = Arc::new(server);
        let headers = request.headers.iter().map(|(name, value)| {
            let mut value = HeaderValue::try_from(value.expose()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        });
        let headers: Option<Vec<_>> = headers.collect();
        let headers = headers.ok_or_else(|| unsigned("a value does not fit in a header"))?;
        let body = [Bytes::copy_from_slice(request.body.expose().as_bytes())];
        let request_id = own_id();
        let outgoing = Outgoing {
            method: Some(request.method.name()),
            headers: &headers,
            body: if request.body.expose().is_empty() {
                &[]
            } else {
                &body
            },
            ..Outgoing::own(&request_id, &path, timeouts, self.due)
        };
        let mut alarm = Alarm::default();
        let permit = server.state.take_permit()?;
        let mut attempt =
            Attempt::connect_and_send(self.upstream, &server, permit, &outgoing, &mut alarm)
                .await
                .map_err(Failure::after_last_try)?;
        let (status, headers) = attempt
            .head_until(self.due, &mut alarm)
            .await
            .map_err(Failure::after_last_try)?;
        let status = status.as_u16();
        let content_type = headers.text("content-type").map(str::to_owned);
        // An answer from a cache has the time at which it was put there.
        let is_fresh = headers.get("age").is_none();
        let date = headers.text("date").filter(|_| is_fresh);
        let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
        let body = attempt.read_rest(MAX_BYTES, self.due, &mut alarm).await?;
        attempt.finish().await;
        let body = String::from_utf8(body)
            .map_err(|_| Failure::Nonsense("an answer that is no text".to_owned()))?;
        Ok(Answer {
            status,
            content_type,
            body: Secret::new(body),
            date,
        })
    }
}

impl Courier for Errand<'_> {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    async fn read_file(&mut self, path: &str) -> Result<Secret, Fault> {
        let owned = path.to_owned();
        let read = spawn_blocking(move || read_text(&owned)).await;
        let fault = |why: &str| Fault::Local(format!("the file {path} {why}"));
        match read {
            Ok(Ok(text)) if text.expose().is_empty() => Err(fault("is empty")),
            Ok(Ok(text)) if text.expose().len() >= MAX_BYTES => Err(fault("is too long")),
            Ok(Ok(text)) => Ok(text),
            Ok(Err(error)) => Err(fault(&format!("cannot be read: {error}"))),
            Err(_) => Err(fault("cannot be read")),
        }
    }

    async fn send(&mut self, request: Request) -> Result<Answer, Fault> {
        let answer = self.answer(&request).await;
        answer.map_err(|failure| {
            // The end of a fetch's time is not the end of a request's time.
            self.failure = Some(if failure == Failure::TotalTimeout {
                Failure::ConnectTimeout
            } else {
                failure
            });
            Fault::Unanswered(None)
        })
    }
}

/// Reads a file of at most so many bytes as are allowed, without white space around its text.
fn read_text(path: &str) -> std::io::Result<Secret> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(MAX_BYTES as u64).read_to_string(&mut text)?;
    Ok(Secret::new(text.trim()))
}

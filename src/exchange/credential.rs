//! The credential of a request that has no fixed key: a signature over the request, or a token that
//! serves all requests for a while.
//!
//! **Invariant:** a private key never leaves the process, and a token goes only to the account that
//! it was made for.

use super::attempt::Attempt;
use super::outgoing::{Outgoing, own_id};
use super::upstream::Upstream;
use crate::account::failure::Failure;
use crate::account::token::Turn;
use crate::base::alarm::Alarm;
use crate::base::calendar::unix_time;
use crate::base::secret::Secret;
use crate::catalog::{Account, AwsKeys, Signer};
use crate::error::scrub_secret_words;
use crate::live::ready_account::{ReadyAccount, bearer_header};
use crate::plan::Candidate;
use crate::signers::google::{self, ServiceAccount};
use bytes::Bytes;
use dialects::Outbound;
use dialects::wire::shorten_text;
use http::header::{HeaderName, HeaderValue};
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// The most bytes of a token server's answer.
const MAX_TOKEN_ANSWER: usize = 64 * 1024;

/// Returns the headers that only this request has.
pub async fn candidate_headers(
    upstream: &Upstream,
    candidate: &Candidate,
    outbound: &Outbound,
    total: Instant,
    alarm: &mut Alarm,
) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
    account_headers(
        upstream,
        &candidate.ready_account,
        candidate.timeouts.connect,
        outbound,
        total,
        alarm,
    )
    .await
}

/// Returns the headers that only this request to an account has.
pub async fn account_headers(
    upstream: &Upstream,
    ready_account: &Arc<ReadyAccount>,
    connect: Duration,
    outbound: &Outbound,
    total: Instant,
    alarm: &mut Alarm,
) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
    let mut headers = plain_headers(outbound);
    match &ready_account.account.signer {
        None => {}
        Some(Signer::Aws(keys)) => {
            headers.extend(sign_request(keys, &ready_account.account, outbound)?)
        }
        Some(Signer::Google(account, _)) => {
            // A request that waits for another one's token waits no longer than it would for its
            // own.
            let due = total.min(Instant::now() + connect * 2);
            let late = if due == total {
                Failure::TotalTimeout
            } else {
                Failure::ConnectTimeout
            };
            // The future is boxed, since most accounts need no token, and every request would hold
            // its memory.
            let token = Box::pin(account_token(upstream, ready_account, account, due));
            let token = alarm.until(due, pin!(token)).await.ok_or(late)??;
            headers.extend(bearer_header(&token));
        }
    }
    Ok(headers)
}

/// Returns the headers of this request that are no credential.
pub fn plain_headers(outbound: &Outbound) -> Vec<(HeaderName, HeaderValue)> {
    outbound
        .headers
        .iter()
        .filter_map(|(name, value)| {
            Some((
                HeaderName::from_static(name),
                HeaderValue::from_str(value).ok()?,
            ))
        })
        .collect()
}

/// Returns the signature headers of a request to AWS.
pub fn sign_request(
    keys: &AwsKeys,
    account: &Account,
    outbound: &Outbound,
) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
    let path = format!("{}{}", account.base.path, outbound.path);
    // A translated request is in one part.
    let whole: Cow<'_, [u8]> = if let [part] = outbound.body.as_slice() {
        part[..].into()
    } else {
        outbound.body.concat().into()
    };
    let signed = keys
        .signer
        .headers(&account.base.authority, &path, &whole, SystemTime::now());
    let signed = signed.map_err(|_| {
        Failure::Unsigned("the path or the session token cannot be signed".to_owned())
    })?;
    let mut headers = Vec::new();
    for (name, value) in signed {
        let value = HeaderValue::try_from(value.expose());
        let mut value = value
            .map_err(|_| Failure::Unsigned("the signature does not fit in a header".to_owned()))?;
        value.set_sensitive(true);
        headers.push((HeaderName::from_static(name), value));
    }
    Ok(headers)
}

/// Returns the token for an account. Fetches a token if there is none or it ends soon.
async fn account_token(
    upstream: &Upstream,
    ready_account: &Arc<ReadyAccount>,
    account: &ServiceAccount,
    total: Instant,
) -> Result<Secret, Failure> {
    let fingerprint = ready_account.account.fingerprint;
    match ready_account.state.tokens.turn(fingerprint).await {
        Turn::Take(token) => Ok(token),
        Turn::Pause(failure) => Err(failure),
        Turn::Fetch(_turn, old) => match fetch_token(upstream, ready_account, account, total).await
        {
            Ok((token, good_for)) => {
                ready_account
                    .state
                    .tokens
                    .put(token.clone(), good_for, fingerprint);
                Ok(token)
            }
            // The server that issues tokens was not asked.
            Err(failure @ Failure::NoDescriptors) => old.ok_or(failure),
            Err(failure) => {
                ready_account
                    .state
                    .tokens
                    .record_failure(&failure, fingerprint);
                let Some(old) = old else {
                    return Err(failure);
                };
                let why = failure.detail().unwrap_or_else(|| failure.name().into());
                let why = scrub_secret_words(&why, &ready_account.secrets(Some(&old)));
                let why = shorten_text(&why, 200);
                log::warn!(
                    "account {}: could not get a new token ({why}); the gateway still uses the old token",
                    ready_account.account.id
                );
                Ok(old)
            }
        },
    }
}

/// Fetches a token for an account. Returns also the time for which it is good.
pub async fn fetch_token(
    upstream: &Upstream,
    ready_account: &Arc<ReadyAccount>,
    account: &ServiceAccount,
    total: Instant,
) -> Result<(Secret, Duration), Failure> {
    let Some(issuer) = &ready_account.issuer else {
        return Err(Failure::Unsigned(
            "the account has no server that issues tokens".to_owned(),
        ));
    };
    let now = unix_time(SystemTime::now()).as_secs();
    let form = account
        .form(now)
        .map_err(|why| Failure::Unsigned(why.to_owned()))?;
    let body = [Bytes::copy_from_slice(form.expose().as_bytes())];
    let due = total.min(Instant::now() + issuer.account.timeouts.connect * 2);
    let request_id = own_id();
    let outgoing = Outgoing {
        body: &body,
        ..Outgoing::own(&request_id, "", issuer.account.timeouts, due)
    };
    let mut alarm = Alarm::default();
    let permit = issuer.state.admit().map(Arc::new).ok_or(Failure::Reset)?;
    let mut attempt = Attempt::connect_and_send(upstream, issuer, permit, &outgoing, &mut alarm)
        .await
        .map_err(Failure::after_last_try)?;
    let late = || Failure::ConnectTimeout;
    let (status, _) = alarm
        .until(due, pin!(attempt.head()))
        .await
        .ok_or_else(late)?
        .map_err(Failure::after_last_try)?;
    let mut answer = Vec::new();
    while let Some(chunk) = alarm
        .until(due, pin!(attempt.read()))
        .await
        .ok_or_else(late)??
    {
        if answer.len() + chunk.len() > MAX_TOKEN_ANSWER {
            return Err(Failure::Nonsense(
                "the answer of the token server is too long".to_owned(),
            ));
        }
        answer.extend_from_slice(&chunk);
    }
    let seen = status.as_u16();
    match google::parse_token(seen, None, &answer) {
        Ok(token) => Ok((token.access_token, token.expires_in)),
        Err(error) if status.is_success() => {
            // These are words of the gateway.
            Err(Failure::Nonsense(error.message))
        }
        Err(error) => Err(Failure::Status {
            status: error.status.unwrap_or(seen),
            seen,
            retry_after: error.retry_after,
            error: Box::new(error),
        }),
    }
}

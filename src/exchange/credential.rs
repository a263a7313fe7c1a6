//! The credential of a request that has no fixed key: a signature over the request, or a token that
//! serves all requests for a while.
//!
//! **Invariant:** a private key never leaves the process, and a token goes only to the account that
//! it was made for.

use super::identity::usable_credential;
use crate::account::failure::Failure;
use crate::account::identity::Present;
use crate::catalog::{Account, Signer};
use crate::live::ready_account::{ReadyAccount, bearer_header};
use crate::plan::Candidate;
use crate::signers::courier::Credential;
use crate::signers::sigv4;
use dialects::Outbound;
use http::header::{HeaderName, HeaderValue};
use std::borrow::Cow;
use std::time::SystemTime;
use tokio::time::Instant;

/// Returns the headers that only this request has.
pub async fn candidate_headers(
    candidate: &Candidate,
    outbound: &Outbound,
    total: Instant,
) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
    account_headers(&candidate.ready_account, outbound, total).await
}

/// Returns the headers that only this request to an account has.
pub async fn account_headers(
    ready_account: &ReadyAccount,
    outbound: &Outbound,
    total: Instant,
) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
    let mut headers = plain_headers(outbound);
    match &ready_account.account.signer {
        None => {}
        Some(Signer::Aws(keys)) => headers.extend(sign_request(
            &keys.signer,
            &ready_account.account,
            outbound,
        )?),
        // The future is boxed, since most accounts need none, and every request would hold its
        // memory.
        Some(Signer::Source(_)) => {
            let present = Box::pin(usable_credential(ready_account, total)).await?;
            headers.extend(obtained_headers(
                &present,
                &ready_account.account,
                outbound,
            )?);
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

/// Returns the headers that an obtained credential makes.
fn obtained_headers(
    present: &Present,
    account: &Account,
    outbound: &Outbound,
) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
    match (&present.credential, &present.signer) {
        (Credential::Aws(_), Some(signer)) => sign_request(signer, account, outbound),
        (Credential::Token(token), _) => Ok(bearer_header(token).into_iter().collect()),
        (Credential::Aws(_), None) => Err(Failure::Unsigned(
            "there is no signer for the keys".to_owned(),
        )),
    }
}

/// Returns the signature headers of a request to AWS.
pub fn sign_request(
    signer: &sigv4::Signer,
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
    let signed = signer.headers(&account.base.authority, &path, &whole, SystemTime::now());
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

//! Callers who sign in elsewhere: a token of an issuer stands where a key may.
//!
//! A token that was verified before is found by its hash. Any other is verified, which may wait for
//! the issuer's keys. Then the key of its subject is found, which may wait for what the subject has
//! used before.
//!
//! **Invariant:** until a token is verified, its sender learns nothing but that it is not valid.
//! No log has anything of a token.

use super::Desk;
use super::auth::{FoundKey, is_usable_from};
use crate::base::calendar::{self, unix_time};
use crate::base::secret::Secret;
use crate::catalog::Key;
use crate::catalog::identity::Identity;
use crate::error::{FailureKind, Refusal};
use crate::identity::jwk::KeyId;
use crate::identity::remembered::{Finding, TokenDigest};
use crate::identity::rules::{Accepted, Refused};
use crate::identity::token::{NotVerified, Unverified};
use crate::live::issuers::Issuer;
use crate::live::subjects::{Known, Reading};
use crate::live::{SeenToken, Snapshot};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, timeout, timeout_at};

/// The longest wait for the keys of an issuer.
const KEYS_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest wait for what a subject has used before.
const PAST_TIMEOUT: Duration = Duration::from_millis(50);
/// The most times that a newer catalog is taken while a token is judged.
const MAX_CATALOGS: usize = 3;

/// A token that was found genuine, and whose it is.
struct Judged {
    seen: SeenToken,
    identity: usize,
}

impl Desk {
    /// Finds the key of a token that was verified before, and whose subject is known.
    pub(super) fn recall_token(&self, snapshot: &Arc<Snapshot>, token: &[u8]) -> Option<Arc<Key>> {
        let live = &self.books.live;
        let now = unix_time(SystemTime::now()).as_secs();
        let seen = live.tokens.find(&TokenDigest::new(token), now)?;
        let identity = snapshot.catalog.identity(&seen.identity)?;
        if identity.fingerprint != seen.fingerprint {
            return None;
        }
        let template = identity.templates.get(&seen.caller)?;
        match live
            .subjects
            .find(snapshot, template, &seen.key, &live.limits)
        {
            Known::Ready(key) => Some(key),
            Known::Unread(reading) => {
                self.read_past(reading);
                None
            }
            Known::Awaited(_) | Known::Outdated => None,
        }
    }

    /// Finds the key for a token, or returns why there is none.
    pub(super) async fn judge_token(
        &self,
        token: Secret,
        address: Option<IpAddr>,
    ) -> Result<FoundKey, (Refusal, Option<Arc<Key>>)> {
        for _ in 0..MAX_CATALOGS {
            let snapshot = self.books.live.load_full();
            let judged = self.verify_token(&snapshot, &token).await;
            let Judged { seen, identity } = judged.map_err(|refusal| (refusal, None))?;
            let identity = snapshot.catalog.identities.get(identity);
            let template = identity.and_then(|identity| identity.templates.get(&seen.caller));
            let template = template.ok_or_else(|| (invalid_token(), None))?;
            let key = match self.find_subject(&snapshot, template, &seen.key).await {
                Ok(Some(key)) => key,
                Ok(None) => continue,
                Err(refusal) => return Err((refusal, None)),
            };
            return match is_usable_from(&key, address) {
                true => Ok((snapshot, key)),
                false => Err((invalid_token(), Some(key))),
            };
        }
        Err((unknown_use(), None))
    }

    /// Verifies a token and decides whose it is.
    async fn verify_token(&self, snapshot: &Snapshot, token: &Secret) -> Result<Judged, Refusal> {
        let live = &self.books.live;
        let text = token.expose().as_bytes();
        let unverified =
            Unverified::parse(text).map_err(|fault| self.refuse_token(None, fault.reason()))?;
        let issuer = unverified.issuer().unwrap_or_default();
        let found = snapshot
            .issuers()
            .enumerate()
            .find(|(_, (identity, _))| *identity.rules.issuer == *issuer);
        let (index, (identity, keys)) = found.ok_or_else(|| self.refuse_token(None, "issuer"))?;
        let id = Some(&identity.id);
        let epoch = live.tokens.begin();
        let verified = match self.verify_now(identity, keys, &unverified) {
            Err(Unverifiable::NoKeys | Unverifiable::Key(NotVerified::UnknownKey)) => {
                self.await_keys(keys).await;
                self.verify_now(identity, keys, &unverified)
            }
            verified => verified,
        };
        let key = match verified {
            Ok(key) => key,
            Err(Unverifiable::NoKeys) => {
                self.books.metrics.catalog.note_token_refused(id, "no_keys");
                return Err(unknown_keys());
            }
            // The issuer may have a newer key, and could not be asked for it.
            Err(Unverifiable::Key(NotVerified::UnknownKey)) if keys.trouble().is_some() => {
                let counts = &self.books.metrics.catalog;
                counts.note_token_refused(id, "no_keys");
                return Err(unknown_keys());
            }
            Err(Unverifiable::Key(why)) => return Err(self.refuse_token(id, why.reason())),
        };
        let now = unix_time(SystemTime::now()).as_secs();
        let claims = unverified.unverified_claims();
        let accepted = identity.rules.accept(claims, now).map_err(|refused| {
            self.books
                .metrics
                .catalog
                .note_token_refused(id, refused.reason());
            log_refusal(identity, &refused);
            Refusal::new(FailureKind::InvalidToken, refused.to_string()).without_retry()
        })?;
        let Accepted {
            subject,
            caller,
            expires_at,
        } = accepted;
        let key_id = format!("{caller}/{}", subject.key_name(&identity.id));
        let seen = SeenToken {
            identity: identity.id.clone(),
            fingerprint: identity.fingerprint,
            caller,
            key: key_id.into(),
        };
        let finding = Finding {
            value: Arc::new(seen.clone()),
            issuer: &identity.rules.issuer,
            key,
            expires_at,
        };
        live.tokens
            .keep(TokenDigest::new(text), finding, epoch, now);
        Ok(Judged {
            seen,
            identity: index,
        })
    }

    /// Counts a token that is not genuine, and returns its refusal.
    fn refuse_token(&self, identity: Option<&Arc<str>>, reason: &'static str) -> Refusal {
        let counts = &self.books.metrics.catalog;
        counts.note_token_refused(identity, reason);
        invalid_token()
    }

    /// Verifies a token with the keys that are known now. Returns the key that signed it.
    fn verify_now(
        &self,
        identity: &Identity,
        issuer: &Issuer,
        token: &Unverified,
    ) -> Result<KeyId, Unverifiable> {
        let keys = issuer.keys(identity).ok_or(Unverifiable::NoKeys)?;
        let verified = token.verify(&keys.set).map_err(Unverifiable::Key)?;
        Ok(verified.key)
    }

    /// Asks for the issuer's keys, and waits until they were fetched. For all tokens together there
    /// is one such fetch in 30 seconds, except that those who come meanwhile wait for it, too.
    async fn await_keys(&self, issuer: &Issuer) {
        let mut fetches = issuer.watch_fetches();
        let before = *fetches.borrow();
        let is_asked = issuer.ask_for_unknown_key(Issuer::now());
        if is_asked {
            self.books.live.issuers.wanted.notify_one();
        }
        if is_asked || issuer.last_keys().is_none() || issuer.is_fetching() {
            let ended = fetches.wait_for(|fetches| *fetches != before);
            // Whether the keys came in time is seen where they are used.
            let _in_time = timeout(KEYS_TIMEOUT, ended).await.is_ok();
        }
    }

    /// Finds the key of a subject. Returns `None` if a newer catalog is live.
    async fn find_subject(
        &self,
        snapshot: &Arc<Snapshot>,
        template: &Arc<Key>,
        id: &Arc<str>,
    ) -> Result<Option<Arc<Key>>, Refusal> {
        let live = &self.books.live;
        let due = Instant::now() + PAST_TIMEOUT;
        loop {
            let reading = match live.subjects.find(snapshot, template, id, &live.limits) {
                Known::Ready(key) => return Ok(Some(key)),
                Known::Outdated => return Ok(None),
                Known::Awaited(reading) => reading,
                Known::Unread(reading) => {
                    self.read_past(reading.clone());
                    reading
                }
            };
            let ended = timeout_at(due, reading.await_end()).await;
            ended.map_err(|_| unknown_use())?;
            if reading.has_failed() {
                return Err(unknown_use());
            }
        }
    }

    /// Has the ledger read what a subject has used before.
    fn read_past(&self, reading: Arc<Reading>) {
        let books = self.books.clone();
        let now = calendar::now_millis();
        self.books.ledger.read_past_of_key(
            reading.caller.clone(),
            reading.id.clone(),
            now,
            Box::new(move |past| books.live.subjects.end_reading(&reading, past)),
        );
    }
}

/// Why a token cannot be verified now.
enum Unverifiable {
    /// No keys of the issuer are known, or they are too old.
    NoKeys,
    /// Its key did not sign it, or is not known.
    Key(NotVerified),
}

/// Says in the log why a genuine token is refused. The caller learns only which claim it is.
fn log_refusal(identity: &Identity, refused: &Refused) {
    log::info!(
        "identity {}: a token is refused: {}",
        identity.id,
        refused.operator_text()
    );
}

/// Makes the refusal for every token that is not genuine, and for one that may not be used here.
fn invalid_token() -> Refusal {
    Refusal::new(
        FailureKind::InvalidToken,
        "The token is not valid here. Sign in again, or send an API key of this gateway.",
    )
    .without_retry()
}

/// Makes the refusal for tokens whose issuer's keys are not known.
fn unknown_keys() -> Refusal {
    let message = "The gateway cannot verify tokens of this issuer now, because it could not fetch the \
                   issuer's keys. Try again shortly.";
    Refusal::new(FailureKind::IdentityDown, message).retry_after(5)
}

/// Makes the refusal for a subject of which is not known what it has used.
fn unknown_use() -> Refusal {
    let message =
        "The gateway is still reading what this subject has used before. Try again shortly.";
    Refusal::new(FailureKind::IdentityDown, message).retry_after(1)
}

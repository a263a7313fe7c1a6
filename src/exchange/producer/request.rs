//! A [`Request`] is what a producer answers, and [`Sent`] is what came with it.

use super::meter::Meter;
use crate::account::demand::Demand;
use crate::base::memory::Held;
use crate::base::trace_context::TraceContext;
use crate::catalog::{Key, Model, Permissions};
use crate::exchange::upload::Upload;
use crate::limits::Limits;
use crate::live::Snapshot;
use crate::plan::{Candidate, Plan};
use crate::settled::Times;
use bytes::Bytes;
use dialects::AnswerHeader;
use dialects::front::Envelope;
use std::sync::Arc;
use std::time::Duration;

/// A request that was read and planned, with the candidates that may answer it.
#[derive(Clone)]
pub struct Request {
    /// The facts that were read from the caller's body.
    pub envelope: Envelope,
    /// The facts that every answer shows.
    pub answer_header: Arc<AnswerHeader>,
    /// The model that was asked for.
    pub model: Arc<Model>,
    /// The demand for the model, which all its requests share.
    pub demand: Arc<Demand>,
    /// The candidates, the best first.
    pub candidates: Vec<Candidate>,
    /// The most time for all attempts together, from the caller.
    pub timeout: Option<Duration>,
    /// Where the time went before, for keys that may see the trail.
    pub debug: Option<Times>,
    /// Our id for the exchange.
    pub request_id: String,
    /// The caller's key, and what it may use.
    pub rights: KeyRights,
    /// The meter of what the exchange has used so far.
    pub meter: Arc<Meter>,
    /// The catalog that the exchange began with, kept to its end.
    pub snapshot: Arc<Snapshot>,
    /// The exchange's trace, if accounts that ask for it get it.
    pub trace: Option<Arc<TraceContext>>,
}

/// The key of a request, and what it may use.
#[derive(Clone, Default)]
pub struct KeyRights {
    /// The key's id: thoughts are kept for this key only.
    pub key: Arc<str>,
    /// The caller's id: what the caller carries is sealed for it only.
    pub caller: Arc<str>,
    /// The models that the key may see.
    pub permissions: Arc<Permissions>,
    /// The key's limits for single models.
    pub model_limits: Arc<[(usize, Limits)]>,
}

impl KeyRights {
    /// Returns the rights of a caller's key.
    #[inline]
    pub fn from_key(key: &Key) -> KeyRights {
        KeyRights {
            key: key.id.clone(),
            caller: key.caller.id.clone(),
            permissions: key.permissions.clone(),
            model_limits: key.model_limits.clone(),
        }
    }
}

impl Request {
    /// Makes a request with this plan. It has no id yet, no deadline of its caller, shows no times,
    /// and belongs to no trace.
    #[inline]
    pub fn new(
        rights: KeyRights,
        model: Arc<Model>,
        envelope: Envelope,
        answer_header: AnswerHeader,
        plan: Plan,
        meter: Arc<Meter>,
        snapshot: Arc<Snapshot>,
    ) -> Request {
        Request {
            envelope,
            answer_header: Arc::new(answer_header),
            model,
            demand: plan.demand,
            candidates: plan.candidates,
            timeout: None,
            debug: None,
            request_id: String::new(),
            rights,
            meter,
            snapshot,
            trace: None,
        }
    }
}

/// The request of a caller.
pub struct Sent {
    /// The body; of a form, the texts that may change on the way.
    pub body: Bytes,
    /// The form, if it is one.
    pub upload: Option<Upload>,
    /// The part of the budget that they hold.
    pub memory: Held,
}

impl Sent {
    /// Wraps a body that is no form.
    pub fn body(body: Bytes, held: Held) -> Sent {
        Sent {
            body,
            upload: None,
            memory: held,
        }
    }
}

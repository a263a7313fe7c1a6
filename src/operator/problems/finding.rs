//! A [`Finding`] is the result of a rule for one subject at one moment. It becomes a problem if it
//! lasts.

use crate::status::Severity;
use dialects::named_enum;
use std::sync::Arc;

named_enum! {
    /// The rules. Their names are also in the book, in alerts and in notices: they never change.
    #[derive(PartialOrd, Ord)]
    pub enum Rule {
        /// The files of the catalog hold what was refused.
        ReloadRefused = "reload_refused",
        /// A change of the catalog is held back.
        ChangeHeld = "change_held",
        /// No target of a model can answer.
        ModelUnfit = "model_unfit",
        /// The process has no file descriptor for another connection.
        NoDescriptors = "no_descriptors",
        /// A provider refuses an account's credential.
        CredentialRefused = "credential_refused",
        /// The keys of an issuer of callers' tokens cannot be fetched.
        IdentityKeys = "identity_keys",
        /// The credential of an account cannot be obtained anew.
        IdentityRefresh = "identity_refresh",
        /// The list of a provider's models cannot be fetched, or is empty.
        ListFailing = "list_failing",
        /// The breaker of a target has been open for long.
        BreakerOpen = "breaker_open",
        /// Callers give up waiting for a target.
        GivenUp = "given_up",
        /// No request for a model was answered since the start, or the last ones failed.
        NotAnswering = "not_answering",
        /// Many requests fail.
        Failures = "failures",
        /// Requests wait, or were turned away.
        Queue = "queue",
        /// Little is left of a provider's quota.
        Headroom = "headroom",
        /// Little is left of a caller's limit.
        LimitNear = "limit_near",
        /// The store that instances share does not decide.
        StoreDown = "store_down",
        /// The store had counts that could not be read.
        CountsUnreadable = "counts_unreadable",
        /// The ledger cannot be written.
        LedgerFailing = "ledger_failing",
        /// Access lines were dropped.
        AccessLinesDropped = "access_lines_dropped",
        /// The gateway has a bug, and hit it.
        Panics = "panics",
        /// A listener waits for its certificate.
        NoCertificate = "no_certificate",
        /// The certificate of a listener ends soon.
        CertificateEnds = "certificate_ends",
        /// A key that is in use ends soon.
        KeyEnds = "key_ends",
        /// A secret that is in use ends soon, although the key has a newer one.
        OldSecretUsed = "old_secret_used",
        /// The cost of answers is not known.
        Unpriced = "unpriced",
        /// The clock of the gateway is wrong, or the store's.
        ClockOff = "clock_off",
        /// Everybody who reaches the admin listener may read it.
        AdminOpen = "admin_open",
    }
}

impl Rule {
    /// Returns the place in the book with more.
    pub fn link(self) -> String {
        format!("problems.md#{}", self.name())
    }
}

/// The part of the failures that are the callers' fault.
pub(super) const CALLERS: &str = "callers";
/// The part of the failures that callers gave up.
pub(super) const GIVEN_UP: &str = "given_up";

/// A rule, the kind and the name of its subject, and the part of the subject.
pub type FindingName = (Rule, &'static str, Arc<str>, &'static str);

/// The finding of a rule about one subject at one moment.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// The kind of the subject, and its name.
    pub subject: (&'static str, Arc<str>),
    /// Separates the findings of a rule about one subject, if there may be several at once.
    pub part: &'static str,
    /// The fault, in one sentence.
    pub summary: String,
    /// The advice, in one or two sentences.
    pub remedy: String,
    /// The number of requests of the last five minutes that are concerned, if it is known.
    pub requests: Option<u64>,
    /// The models that are concerned, if the finding is about what models answer.
    pub models: Vec<Arc<str>>,
    /// The time since which it has lasted, if the facts have it.
    pub since: Option<u64>,
    /// The time that it must last before it is a problem, in milliseconds.
    pub must_last: u64,
}

impl Finding {
    /// Makes a finding that is a problem at once.
    pub fn new(
        rule: Rule,
        severity: Severity,
        subject: (&'static str, impl Into<Arc<str>>),
        summary: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        let subject = (subject.0, subject.1.into());
        let (summary, remedy) = (summary.into(), remedy.into());
        Finding {
            rule,
            severity,
            subject,
            part: "",
            summary,
            remedy,
            requests: None,
            models: Vec::new(),
            since: None,
            must_last: 0,
        }
    }

    /// Returns the key that separates the finding from all others.
    pub fn name(&self) -> FindingName {
        (self.rule, self.subject.0, self.subject.1.clone(), self.part)
    }

    /// Adds the number of requests.
    pub fn with_requests(self, requests: Option<u64>) -> Finding {
        Finding { requests, ..self }
    }

    /// Adds the models that are concerned.
    pub fn with_models(self, models: Vec<Arc<str>>) -> Finding {
        Finding { models, ..self }
    }

    /// Adds the time since which it has lasted.
    pub fn lasting_since(self, since: u64) -> Finding {
        Finding {
            since: Some(since),
            ..self
        }
    }

    /// Makes it a problem only after so many milliseconds.
    pub fn must_last(self, must_last: u64) -> Finding {
        Finding { must_last, ..self }
    }
}

//! A [`Finding`] is the result of a rule for one subject at one moment. It becomes a problem if it
//! lasts.

use crate::status::Severity;
use std::sync::Arc;

/// The rules. Their names are also in the book, in alerts and in notices: they never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The files of the catalog hold what was refused.
    ReloadRefused,
    /// A change of the catalog is held back.
    ChangeHeld,
    /// No target of a model can answer.
    ModelUnfit,
    /// The process has no file descriptor for another connection.
    NoDescriptors,
    /// A provider refuses an account's credential.
    CredentialRefused,
    /// The list of a provider's models cannot be fetched, or is empty.
    ListFailing,
    /// The breaker of a target has been open for long.
    BreakerOpen,
    /// Callers give up waiting for a target.
    GivenUp,
    /// Many requests fail.
    Failures,
    /// Requests wait, or were turned away.
    Queue,
    /// Little is left of a provider's quota.
    Headroom,
    /// Little is left of a caller's limit.
    LimitNear,
    /// The store that instances share does not decide.
    StoreDown,
    /// The store had counts that could not be read.
    CountsUnreadable,
    /// The ledger cannot be written.
    LedgerFailing,
    /// Access lines were dropped.
    AccessLinesDropped,
    /// The gateway has a bug, and hit it.
    Panics,
    /// A listener waits for its certificate.
    NoCertificate,
    /// The certificate of a listener ends soon.
    CertificateEnds,
    /// A key that is in use ends soon.
    KeyEnds,
    /// A secret that is in use ends soon, although the key has a newer one.
    OldSecretUsed,
    /// The cost of answers is not known.
    Unpriced,
    /// The clock of the gateway is wrong, or the store's.
    ClockOff,
    /// Everybody who reaches the admin listener may read it.
    AdminOpen,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 24] = [
        Self::ReloadRefused,
        Self::ChangeHeld,
        Self::ModelUnfit,
        Self::NoDescriptors,
        Self::CredentialRefused,
        Self::ListFailing,
        Self::BreakerOpen,
        Self::GivenUp,
        Self::Failures,
        Self::Queue,
        Self::Headroom,
        Self::LimitNear,
        Self::StoreDown,
        Self::CountsUnreadable,
        Self::LedgerFailing,
        Self::AccessLinesDropped,
        Self::Panics,
        Self::NoCertificate,
        Self::CertificateEnds,
        Self::KeyEnds,
        Self::OldSecretUsed,
        Self::Unpriced,
        Self::ClockOff,
        Self::AdminOpen,
    ];

    /// Returns the rule's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReloadRefused => "reload_refused",
            Self::ChangeHeld => "change_held",
            Self::ModelUnfit => "model_unfit",
            Self::NoDescriptors => "no_descriptors",
            Self::CredentialRefused => "credential_refused",
            Self::ListFailing => "list_failing",
            Self::BreakerOpen => "breaker_open",
            Self::GivenUp => "given_up",
            Self::Failures => "failures",
            Self::Queue => "queue",
            Self::Headroom => "headroom",
            Self::LimitNear => "limit_near",
            Self::StoreDown => "store_down",
            Self::CountsUnreadable => "counts_unreadable",
            Self::LedgerFailing => "ledger_failing",
            Self::AccessLinesDropped => "access_lines_dropped",
            Self::Panics => "panics",
            Self::NoCertificate => "no_certificate",
            Self::CertificateEnds => "certificate_ends",
            Self::KeyEnds => "key_ends",
            Self::OldSecretUsed => "old_secret_used",
            Self::Unpriced => "unpriced",
            Self::ClockOff => "clock_off",
            Self::AdminOpen => "admin_open",
        }
    }

    /// Returns the place in the book with more.
    pub fn link(self) -> String {
        format!("problems.md#{}", self.name())
    }
}

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

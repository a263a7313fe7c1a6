//! Why a request is not sent to a target, for the caller to read.

/// Why a request cannot be written for a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The request is at fault, whoever is asked.
    Invalid(Complaint),
    /// This dialect, or this model, cannot do what is asked without changing what it means; another
    /// may.
    Unsupported(Complaint),
}

/// What to tell the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The field: `messages[3].content[0].image_url`.
    pub param: String,
    /// A sentence.
    pub message: String,
}

impl Refused {
    /// The request is at fault.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(Complaint { param: param.into(), message: message.into() })
    }

    /// The target is.
    pub fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Unsupported(Complaint { param: param.into(), message: message.into() })
    }
}

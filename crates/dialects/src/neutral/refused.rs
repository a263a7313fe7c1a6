//! Why a request is not sent to a target, for the caller to read.

use super::field::Field;

/// Why a request cannot be written for a target. `P` is how the field at fault is named: in the
/// caller's words, or, inside a dialect, as a [`Field`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused<P = String> {
    /// The request is at fault, whoever is asked.
    Invalid(Complaint<P>),
    /// This dialect, or this model, cannot do what is asked without changing what it means; another
    /// may.
    Unsupported(Complaint<P>),
}

/// Why a dialect cannot write a request.
pub type FieldRefused = Refused<Field>;

impl FieldRefused {
    /// Refuses the first field of a table that asks for what the target cannot do; each with the
    /// reason why.
    pub(crate) fn any<const N: usize>(table: [(bool, Field, &str); N]) -> Result<(), Self> {
        match table.into_iter().find(|(is_refused, ..)| *is_refused) {
            Some((_, field, why)) => Err(Self::unsupported(field, why)),
            None => Ok(()),
        }
    }
}

/// What to tell the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint<P = String> {
    /// The field: `messages[3].content[0].image_url`.
    pub param: P,
    /// A sentence.
    pub message: String,
}

impl<P> Refused<P> {
    /// Returns a refusal of a request that is at fault.
    pub fn invalid(param: impl Into<P>, message: impl Into<String>) -> Self {
        Self::Invalid(Complaint { param: param.into(), message: message.into() })
    }

    /// Returns a refusal of a request that the target cannot answer.
    pub fn unsupported(param: impl Into<P>, message: impl Into<String>) -> Self {
        Self::Unsupported(Complaint { param: param.into(), message: message.into() })
    }
}

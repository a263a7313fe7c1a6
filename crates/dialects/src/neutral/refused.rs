//! A refusal is the reason why a request is not sent to a target. The caller can read it.

use super::field::Field;

/// The reason why a request cannot be written for a target. `P` is the type that names the field at
/// fault: a text in the caller's words, or, inside a dialect, a [`Field`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused<P = String> {
    /// The request is at fault for any target.
    Invalid(Complaint<P>),
    /// This dialect or this model cannot serve the request without changing its meaning. Another
    /// target may be able to.
    Unsupported(Complaint<P>),
}

/// The reason why a dialect cannot write a request.
pub type FieldRefused = Refused<Field>;

impl FieldRefused {
    /// Refuses the request if a row of the table asks for something that the target cannot do. A
    /// row has: whether it is asked for, the field, and the reason. The first such row counts.
    pub(crate) fn any<const N: usize>(table: [(bool, Field, &str); N]) -> Result<(), Self> {
        match table.into_iter().find(|(is_refused, ..)| *is_refused) {
            Some((_, field, why)) => Err(Self::unsupported(field, why)),
            None => Ok(()),
        }
    }
}

impl<P> From<Box<Refused<P>>> for Refused<P> {
    fn from(refused: Box<Refused<P>>) -> Self {
        *refused
    }
}

/// The text of a refusal for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint<P = String> {
    /// The field: `messages[3].content[0].image_url`.
    pub param: P,
    /// A sentence.
    pub message: String,
}

impl Refused {
    /// Gives the field another name, in the sentence too.
    pub(crate) fn about(self, words: impl FnOnce(&str) -> String) -> Self {
        self.map_complaint(|Complaint { param, message }| {
            let other = words(&param);
            Complaint {
                message: message.replace(&format!("`{param}`"), &format!("`{other}`")),
                param: other,
            }
        })
    }
}

impl<P> Refused<P> {
    /// Returns this refusal with another complaint.
    pub(crate) fn map_complaint<Q>(
        self,
        change: impl FnOnce(Complaint<P>) -> Complaint<Q>,
    ) -> Refused<Q> {
        match self {
            Self::Invalid(why) => Refused::Invalid(change(why)),
            Self::Unsupported(why) => Refused::Unsupported(change(why)),
        }
    }
    /// Returns a refusal of a request that is at fault.
    pub fn invalid(param: impl Into<P>, message: impl Into<String>) -> Self {
        Self::Invalid(Complaint {
            param: param.into(),
            message: message.into(),
        })
    }

    /// Returns a refusal of a request that the target cannot answer.
    pub fn unsupported(param: impl Into<P>, message: impl Into<String>) -> Self {
        Self::Unsupported(Complaint {
            param: param.into(),
            message: message.into(),
        })
    }
}

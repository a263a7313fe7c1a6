//! A flaw is a fault in an answer that claims to be complete: a call that no client can execute, or
//! text where JSON was asked for.
//!
//! Flaws are reported, not repaired. An answer that declares that it may be cut short has no flaws:
//! it ends with `length`, a refusal or a filter.

use crate::wire::json::Pieces;

/// The flaws of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flaws {
    /// The number of function calls whose arguments are no JSON object.
    pub broken_calls: u32,
    /// True if JSON was asked for, and the content of a choice is no JSON.
    pub not_json: bool,
    /// True if a text that the caller should carry for the model was too long to be sealed.
    pub not_sealed: bool,
    /// True if the answer has citations that the caller's format cannot show.
    pub not_cited: bool,
}

impl Flaws {
    /// Adds the flaws of another choice.
    pub(crate) fn add(&mut self, other: Flaws) {
        self.broken_calls = self.broken_calls.saturating_add(other.broken_calls);
        self.not_json |= other.not_json;
        self.not_sealed |= other.not_sealed;
        self.not_cited |= other.not_cited;
    }
}

/// Returns whether a call cannot be executed with these complete arguments. Blank arguments or
/// `null` belong to a function without parameters, and are valid.
pub(crate) fn is_broken(arguments: &Pieces) -> bool {
    !(arguments.is_blank() || arguments.is_null() || arguments.is_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_nothing_or_an_object() {
        for (text, broken) in [
            ("", false),
            (" ", false),
            ("null", false),
            ("{}", false),
            ("{\"city\":\"Rome\"}", false),
            ("{\"city\":", true),
            ("\"Rome\"}", true),
            ("{}{}", true),
            ("[]", true),
            ("\"{}\"", true),
            ("nul", true),
        ] {
            let mut arguments = Pieces::default();
            arguments.take(text);
            assert_eq!(is_broken(&arguments), broken, "{text}");
        }
        // However deep they are.
        let mut arguments = Pieces::default();
        arguments.take(&"{\"a\":[".repeat(500));
        arguments.take(&"]}".repeat(500));
        assert!(!is_broken(&arguments));
    }
}

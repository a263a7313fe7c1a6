//! What is wrong with an answer that says of itself that it is whole: calls that nobody can
//! execute, and text where JSON was asked for.
//!
//! Nothing is mended, and nothing is said where the answer itself says that it may be cut short: at
//! a `length`, a refusal, a filter.

use crate::wire::json::Pieces;

/// The flaws of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flaws {
    /// Calls of functions whose arguments are no JSON object.
    pub broken_calls: u32,
    /// JSON was asked for, and the content of a choice is none.
    pub not_json: bool,
}

impl Flaws {
    /// Adds what another choice has.
    pub(crate) fn add(&mut self, other: Flaws) {
        self.broken_calls = self.broken_calls.saturating_add(other.broken_calls);
        self.not_json |= other.not_json;
    }
}

/// Whether a call cannot be executed with these arguments, all of them. None at all, or `null`, are
/// those of a function that takes none.
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

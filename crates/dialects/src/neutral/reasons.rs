//! The reasons for which the choices of an answer ended, as a small set that is copied freely.
//! Traces show them, in OpenAI's words.

use super::event::Finish;

/// OpenAI's words for the reasons. The bit of a word is its index here.
const WORDS: [&str; 5] = [
    "stop",
    "length",
    "tool_calls",
    "content_filter",
    "function_call",
];

/// The reasons for which the choices of an answer ended, each once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndReasons(u8);

impl EndReasons {
    /// Adds a reason in OpenAI's words. Any other text adds nothing.
    pub(crate) fn add(&mut self, word: &str) {
        for (bit, known) in WORDS.iter().enumerate() {
            self.0 |= u8::from(*known == word) << bit;
        }
    }

    /// Adds a reason.
    pub(crate) fn add_finish(&mut self, finish: Finish) {
        self.add(match finish {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Calls => "tool_calls",
            Finish::Filtered => "content_filter",
        });
    }

    /// Returns the reasons in OpenAI's words.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        (0..)
            .zip(WORDS)
            .filter_map(move |(bit, word)| ((self.0 >> bit) & 1 == 1).then_some(word))
    }
}

impl FromIterator<Finish> for EndReasons {
    fn from_iter<I: IntoIterator<Item = Finish>>(finishes: I) -> EndReasons {
        let mut reasons = EndReasons::default();
        finishes
            .into_iter()
            .for_each(|finish| reasons.add_finish(finish));
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_there_once() {
        let mut reasons = EndReasons::default();
        assert_eq!(reasons.words().count(), 0);
        for word in ["function_call", "stop", "stop", "pr0mpt", ""] {
            reasons.add(word);
        }
        for finish in [Finish::Calls, Finish::Stop] {
            reasons.add_finish(finish);
        }
        let same = [Finish::Length, Finish::Filtered]
            .into_iter()
            .collect::<EndReasons>();
        assert_eq!(
            same.words().collect::<Vec<_>>(),
            ["length", "content_filter"]
        );
        assert_eq!(
            reasons.words().collect::<Vec<_>>(),
            ["stop", "tool_calls", "function_call"]
        );
    }
}

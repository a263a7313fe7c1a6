//! The reasons for which the choices of an answer ended, as a small set.

use super::event::Finish;

/// The words of OpenAI's format: one bit for each.
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
        self.0 |= match finish {
            Finish::Stop => 1,
            Finish::Length => 1 << 1,
            Finish::Calls => 1 << 2,
            Finish::Filtered => 1 << 3,
        };
    }

    /// Returns the reasons in OpenAI's words.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        (0..)
            .zip(WORDS)
            .filter_map(move |(bit, word)| (self.0 >> bit & 1 == 1).then_some(word))
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

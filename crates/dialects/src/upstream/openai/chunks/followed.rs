//! The text that a chunk continues: the content of a choice, or the arguments of a call.

use super::super::choice::find_choice;
use super::Chunks;
use crate::neutral::StreamResult;
use crate::wire::json::Pieces;

/// The text that a chunk continues, if the text is checked: the index of a choice, and the place of
/// its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Followed {
    Nothing,
    Content(usize),
    Arguments(usize, usize),
}

impl Chunks {
    /// Returns the text that the only text of the chunk in the scan continues.
    pub(super) fn find_followed(&mut self, text: &[u8]) -> StreamResult<Followed> {
        let [entry] = self.scan.entries.as_slice() else {
            return Ok(Followed::Nothing);
        };
        let Some(body) = &entry.delta else {
            return Ok(Followed::Nothing);
        };
        // 0 is the place of the only entry in the list.
        let choice = find_choice(&mut self.choices, text, entry, 0, self.choices_asked)?;
        Ok(match self.scan.calls.get(body.call_range.clone()) {
            Some([call]) => match choice.calls.find_call(text, call) {
                Ok(slot) => Followed::Arguments(choice.index, slot),
                Err(_) => Followed::Nothing,
            },
            Some(_) | None if self.common.wants_json && body.is_only_content() => {
                Followed::Content(choice.index)
            }
            Some(_) | None => Followed::Nothing,
        })
    }

    /// Returns the state of the text that the template continues.
    #[inline]
    pub(super) fn followed_pieces(&mut self) -> Option<&mut Pieces> {
        match self.followed {
            Followed::Nothing => None,
            Followed::Content(choice_index) => self
                .choices
                .get_mut(choice_index)
                .map(|choice| &mut choice.content),
            Followed::Arguments(choice_index, slot) => {
                self.choices.get_mut(choice_index)?.calls.arguments_of(slot)
            }
        }
    }
}

//! Losses are the fields of a request that a dialect cannot send, or not as the caller wrote them.

use std::borrow::Cow;

use super::field::Field;
use super::shown::shown_name;

/// The fields of a request that a dialect left out, weakened or added to, each once. `F` is the
/// type that names a field: a text as the caller wrote it, without indexes (`messages[].name`), or,
/// inside a dialect, a [`Field`].
///
/// A text that is `Cow::Borrowed` is one of our names, so metrics may use it as a label. A name
/// that only the caller knows is `Cow::Owned`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Losses<F = Cow<'static, str>> {
    names: Vec<F>,
    /// The index in `names` of the first field that was left out or weakened; `None` if fields were
    /// only added to.
    first_loss: Option<u8>,
}

/// The fields that a dialect left out, weakened or added to.
pub type LostFields = Losses<Field>;

/// The most fields that are noted. If a caller invents more, the last entry stands for the rest.
const MAX_NAMES: usize = 64;

impl<F> Default for Losses<F> {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            first_loss: None,
        }
    }
}

impl<F: PartialEq> Losses<F> {
    /// Returns all fields, including those that were only added to.
    pub fn names(&self) -> &[F] {
        &self.names
    }

    /// Notes a field. If it is the last for which there is room, notes `rest` in its place. Returns
    /// the index of the field in the list.
    fn note(&mut self, name: F, rest: F) -> u8 {
        // The list has at most `MAX_NAMES` entries.
        let index = |position: usize| u8::try_from(position).unwrap_or(u8::MAX);
        if let Some(position) = self.names.iter().position(|known| *known == name) {
            return index(position);
        }
        if self.names.len() < MAX_NAMES {
            self.names.push(if self.names.len() + 1 < MAX_NAMES {
                name
            } else {
                rest
            });
        }
        index(self.names.len() - 1)
    }
}

impl LostFields {
    /// Notes that a field is lost.
    pub fn add(&mut self, field: Field) {
        let index = self.note(field, Field::Rest);
        self.first_loss.get_or_insert(index);
    }

    /// Notes that a field is lost, if `is_lost` is true.
    pub fn add_if(&mut self, is_lost: bool, field: Field) {
        if is_lost {
            self.add(field);
        }
    }

    /// Notes that something is added to a field, and that all the caller wrote is kept. No request
    /// is refused for that.
    pub fn note_addition(&mut self, field: Field) {
        self.note(field, Field::Rest);
    }

    /// Replaces each field by its name in the caller's format.
    pub(crate) fn with_names(self, name: impl Fn(&Field) -> Cow<'static, str>) -> Losses {
        let mut losses = Losses::default();
        for (index, field) in (0..).zip(&self.names) {
            let name_index = losses.note_name(name(field));
            if self.first_loss == Some(index) {
                losses.first_loss = Some(name_index);
            }
        }
        losses
    }
}

impl Losses {
    /// Notes that a field is lost.
    pub fn add(&mut self, name: impl Into<Cow<'static, str>>) {
        let index = self.note_name(name.into());
        self.first_loss.get_or_insert(index);
    }

    /// Notes a name, and returns its index in the list.
    fn note_name(&mut self, name: Cow<'static, str>) -> u8 {
        // A known name is borrowed; see [`Losses`].
        let known = LABEL_NAMES.iter().find(|known| **known == name);
        self.note(
            known.map_or(name, |known| Cow::Borrowed(*known)),
            "other".into(),
        )
    }

    /// Notes that a field is lost, by the name that the caller wrote. A name that must not be shown
    /// becomes `other`.
    pub fn add_written(&mut self, prefix: &str, name: &str) {
        self.add(format!("{prefix}{}", shown_name(name)));
    }

    /// Returns the first field that is left out or weakened.
    pub fn first_lost(&self) -> Option<&str> {
        self.names
            .get(usize::from(self.first_loss?))
            .map(AsRef::as_ref)
    }
}

/// Known names that reach us as texts of the caller. They are borrowed from here, so that metrics
/// may use them as labels.
const LABEL_NAMES: [&str; 16] = [
    "audio",
    "function_call",
    "logit_bias",
    "max_tokens",
    "modalities",
    "moderation",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "store",
    "top_logprobs",
    "user",
    "verbosity",
    "web_search_options",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Names each field as the code does.
    fn named(losses: &LostFields) -> Losses {
        let losses = losses.clone();
        losses.with_names(|field| format!("{field:?}").into())
    }

    #[test]
    fn mere_additions_are_named_and_no_loss() {
        let mut losses = LostFields::default();
        losses.note_addition(Field::Tools);
        assert_eq!(
            (losses.names().len(), named(&losses).first_lost()),
            (1, None)
        );
        losses.add(Field::Seed);
        losses.add(Field::Tools);
        assert_eq!(
            (losses.names().len(), named(&losses).first_lost()),
            (2, Some("Seed"))
        );
        let mut losses = LostFields::default();
        losses.note_addition(Field::Tools);
        losses.add(Field::Tools);
        assert_eq!(
            (losses.names().len(), named(&losses).first_lost()),
            (1, Some("Tools")),
            "it is lost besides"
        );
    }

    #[test]
    fn what_may_be_a_secret_is_not_named() {
        for name in [
            "sk-0123456789ab",
            "content[].sk-0123456789ab",
            "x.AIza0123456789",
            &"0a".repeat(16),
            "Abcdefghijklmnopqrstuvwxyz012",
        ] {
            let mut losses: Losses = Losses::default();
            losses.add_written("messages[].", name);
            assert_eq!(losses.names(), ["messages[].other"], "{name}");
        }
    }

    #[test]
    fn callers_inventions_are_named_only_if_plain() {
        let mut losses: Losses = Losses::default();
        for name in [
            "odd",
            "a.b-c_1",
            "",
            "a b",
            "odd",
            &"x".repeat(65),
            "a[0]",
            "content[].x",
        ] {
            losses.add_written("messages[].", name);
        }
        assert_eq!(
            losses.names(),
            [
                "messages[].odd",
                "messages[].a.b-c_1",
                "messages[].other",
                "messages[].content[].x"
            ]
        );
    }
}

//! What of a request is not said to whom it goes.

use std::borrow::Cow;

/// The fields of a request that a dialect left out, weakened or added to: names as in the request,
/// without indexes (`messages[].name`), each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Losses {
    names: Vec<Cow<'static, str>>,
    /// Of those the first that is left out or weakened.
    first: Option<usize>,
}

impl Losses {
    /// This field is lost. Whoever makes up hundreds of them is told of `other` in the end.
    pub fn add(&mut self, name: impl Into<Cow<'static, str>>) {
        let place = self.name(name.into());
        self.first.get_or_insert(place);
    }

    /// Something is added to this field that the caller did not say, and nothing of it is lost: it
    /// is named, and nobody is refused for it.
    pub fn add_to(&mut self, name: impl Into<Cow<'static, str>>) {
        self.name(name.into());
    }

    /// Where it stands among the names.
    fn name(&mut self, name: Cow<'static, str>) -> usize {
        const MOST: usize = 64;
        if let Some(place) = self.names.iter().position(|known| *known == name) {
            return place;
        }
        if self.names.len() < MOST {
            let name = match OPTIONAL.iter().find(|known| **known == name) {
                Some(known) => Cow::Borrowed(*known),
                None => name,
            };
            self.names.push(if self.names.len() + 1 < MOST { name } else { "other".into() });
        }
        self.names.len() - 1
    }

    /// This field is lost, by the name that the caller wrote: what a caller made up must not swell
    /// logs or headers.
    pub fn add_written(&mut self, prefix: &str, name: &str) {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        // What is this long may be a key that slipped in among the names.
        let is_word = |word: &str| word.bytes().all(is_plain) && !word.split('.').any(looks_secret);
        let is_shown = !name.is_empty() && name.len() <= 48 && !looks_secret(name) && name.split("[]").all(is_word);
        self.add(format!("{prefix}{}", if is_shown { name } else { "other" }));
    }

    /// The names.
    pub fn names(&self) -> &[Cow<'static, str>] {
        &self.names
    }

    /// The first field that is left out or weakened.
    pub fn first(&self) -> Option<&str> {
        self.names.get(self.first?).map(AsRef::as_ref)
    }
}

/// The fields of OpenAI's own that reading keeps as it finds them: their names are known, and may
/// be a metric's label.
const OPTIONAL: [&str; 16] = [
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

/// Whether a word looks made by a generator of keys rather than by a person.
pub fn looks_secret(word: &str) -> bool {
    let prefixed =
        ["sk-", "sk_", "gsk_", "xai-", "AIza", "key-", "pk-"].iter().any(|p| word.starts_with(p)) && word.len() >= 12;
    let random = word.len() >= 28
        && word.bytes().any(|b| b.is_ascii_digit())
        && word.bytes().any(|b| b.is_ascii_uppercase())
        && word.bytes().any(|b| b.is_ascii_lowercase());
    let hex = word.len() >= 32 && word.bytes().all(|b| b.is_ascii_hexdigit());
    prefixed || random || hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_added_to_is_named_and_is_no_loss() {
        let mut losses = Losses::default();
        losses.add_to("tools");
        assert_eq!((losses.names().len(), losses.first()), (1, None));
        losses.add("seed");
        losses.add("tools");
        assert_eq!((losses.names().len(), losses.first()), (2, Some("seed")));
        let mut losses = Losses::default();
        losses.add_to("tools");
        losses.add("tools");
        assert_eq!((losses.names().len(), losses.first()), (1, Some("tools")), "it is lost besides");
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
            let mut losses = Losses::default();
            losses.add_written("messages[].", name);
            assert_eq!(losses.names(), ["messages[].other"], "{name}");
        }
    }

    #[test]
    fn what_a_caller_made_up_is_named_only_if_it_is_plain() {
        let mut losses = Losses::default();
        for name in ["odd", "a.b-c_1", "", "a b", "odd", &"x".repeat(49), "a[0]", "content[].x"] {
            losses.add_written("messages[].", name);
        }
        assert_eq!(
            losses.names(),
            ["messages[].odd", "messages[].a.b-c_1", "messages[].other", "messages[].content[].x"]
        );
    }
}

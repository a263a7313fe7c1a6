//! A seal closes thoughts that an upstream must get back into a text that the caller carries: the
//! caller sends it with the next turn, and cannot read it. So nothing need be stored here.
//!
//! This crate decides which texts are sealed, and where they stand. Its user decides how they are
//! sealed, and for which caller: it has a [`Seal`] for each account.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;

use super::field::Field;
use super::request::{Request, Role, Thought};
use super::target;
use crate::wire::json::text_of;

/// The beginning of every sealed text. A signature of a provider never begins so.
pub const MARK: &str = "pcsealv1";

/// The most bytes of a sealed text.
pub const MAX_SEALED_BYTES: usize = 2 << 20;

/// The thoughts that must come back with a call, and those that a caller carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The call's id, as the caller sees it.
    pub call: String,
    /// The thoughts that led to the call. If the call itself was signed, the last one is only that
    /// signature.
    pub thoughts: Vec<Thought<'static>>,
}

/// Seals thoughts for one caller and one account, and opens them.
pub trait Seal: Send + Sync {
    /// Returns the thoughts as a text that begins with [`MARK`] and is base64, or `None` if they
    /// are too long.
    fn seal(&self, kept: &Kept) -> Option<String>;
    /// Returns the thoughts in a sealed text, or `None` if it was not sealed for this caller and
    /// this account.
    fn open(&self, sealed: &str) -> Option<Kept>;
    /// Returns the signature for thoughts that come without one, if they get one.
    fn signature(&self) -> Option<&'static str> {
        None
    }
}

/// The seal of the account that answers. Two are equal if they are one object.
#[derive(Clone)]
pub struct AnswerSeal(pub Arc<dyn Seal>);

impl AnswerSeal {
    /// Seals the signature of a thought that the caller sees.
    pub(crate) fn signature(&self, text: &str) -> Option<String> {
        self.seal_thought(Thought {
            signature: Some(text.to_owned().into()),
            ..Thought::default()
        })
    }

    /// Seals a redacted thought.
    pub(crate) fn redacted(&self, text: &str) -> Option<String> {
        self.seal_thought(Thought {
            redacted: Some(text.to_owned().into()),
            ..Thought::default()
        })
    }

    /// Seals the signature of a call. It comes back with the call.
    pub(crate) fn signature_of_call(&self, text: &str) -> Option<String> {
        self.seal_thought(Thought {
            signature: Some(text.to_owned().into()),
            of_call: true,
            ..Thought::default()
        })
    }

    fn seal_thought(&self, thought: Thought<'static>) -> Option<String> {
        self.0.seal(&Kept {
            call: String::new(),
            thoughts: vec![thought],
        })
    }

    /// Seals the thoughts that led to a call. `is_shown` is true if the thoughts are sealed where
    /// they are shown, and only the call's own signature is not.
    pub(crate) fn seal_call(&self, kept: &Kept, is_shown: bool) -> Option<String> {
        if !is_shown {
            return self.0.seal(kept);
        }
        let thoughts: Vec<_> = kept
            .thoughts
            .iter()
            .filter(|thought| thought.of_call)
            .cloned()
            .collect();
        (!thoughts.is_empty())
            .then(|| {
                self.0.seal(&Kept {
                    call: kept.call.clone(),
                    thoughts,
                })
            })
            .flatten()
    }
}

impl fmt::Debug for AnswerSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerSeal")
    }
}

impl PartialEq for AnswerSeal {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for AnswerSeal {}

/// The treatment of the thoughts of earlier answers that a request holds.
#[derive(Clone, Copy)]
pub enum Sealed<'a> {
    /// Sealed thoughts are left out, because there is no seal to open them.
    Closed,
    /// Sealed thoughts are opened with this seal. Thoughts that do not open are left out.
    Opened(&'a dyn Seal),
    /// All thoughts are left out, because the upstream has refused them.
    LeftOut,
}

impl Sealed<'_> {
    /// Returns the thought in a sealed text, if it is only one.
    pub(crate) fn open_one(&self, text: &str) -> Option<Thought<'static>> {
        let thoughts: [_; 1] = self.open(text)?.thoughts.try_into().ok()?;
        thoughts.into_iter().next()
    }

    /// Opens a sealed text, if there is a seal for that.
    pub(crate) fn open(&self, text: &str) -> Option<Kept> {
        match self {
            Self::Opened(seal) => seal.open(text),
            Self::Closed | Self::LeftOut => None,
        }
    }
}

/// Returns whether a text is sealed, by its beginning. Some programs add blanks to a text that they
/// carry.
pub fn is_sealed(text: &str) -> bool {
    text.trim_start().starts_with(MARK)
}

/// Returns the texts in a body that may be sealed, the last one first. There are at most four.
pub fn sealed_in(body: &[u8]) -> impl Iterator<Item = Cow<'_, str>> {
    // The search from the front is many times as fast, and most bodies have none.
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MARK));
    let there = FINDER
        .find(body)
        .map(|_| memchr::memmem::rfind_iter(body, MARK));
    let texts = there.into_iter().flatten().filter_map(|start| {
        // Inside of another text, a quote has a backslash before it.
        let before = body.get(..start)?.trim_ascii_end();
        if !before.ends_with(b"\"") || before.ends_with(b"\\\"") {
            return None;
        }
        let length = memchr::memchr(
            b'"',
            body.get(start..body.len().min(start + MAX_SEALED_BYTES))?,
        )?;
        // Some programs escape the slash and the plus.
        text_of(body, &(start.checked_sub(1)?..start + length + 1))
    });
    texts.take(4)
}

/// The thoughts that were sealed in a request.
#[derive(Default)]
pub(crate) struct OpenedThoughts {
    /// The thoughts that led to a call, by the call's id.
    by_call: HashMap<String, target::Kept>,
    /// The fields of the thoughts that were left out.
    pub(crate) lost: Vec<Field>,
}

impl OpenedThoughts {
    /// Opens the sealed thoughts in a request. Leaves out thoughts that do not open.
    pub(crate) fn open(request: &mut Request<'_>, sealed: Sealed<'_>) -> Self {
        let mut opened = Self::default();
        let all_out = matches!(sealed, Sealed::LeftOut);
        request.messages.retain_mut(|message| {
            let is_touched = message
                .thoughts
                .iter()
                .any(|thought| all_out || thought.sealed_text().is_some());
            if is_touched {
                for thought in std::mem::take(&mut message.thoughts) {
                    opened.thought(thought, sealed, &mut message.thoughts);
                }
            }
            for call in &mut message.calls {
                let Some(text) = call.signature.take_if(|text| all_out || is_sealed(text)) else {
                    continue;
                };
                match sealed.open(&text) {
                    Some(kept) => drop(
                        opened
                            .by_call
                            .insert(call.id.to_string(), kept.thoughts.into()),
                    ),
                    None => opened.lost.push(Field::CallSignature),
                }
            }
            let is_empty = message.content.is_empty()
                && message.calls.is_empty()
                && message.thoughts.is_empty();
            !(is_touched && is_empty && message.role == Role::Assistant)
        });
        opened
    }

    /// Opens a thought. Appends it to the list, or notes it as the thought that led to a call.
    fn thought<'a>(
        &mut self,
        thought: Thought<'a>,
        sealed: Sealed<'_>,
        list: &mut Vec<Thought<'a>>,
    ) {
        let Some(text) = thought
            .sealed_text()
            .filter(|_| !matches!(sealed, Sealed::LeftOut))
        else {
            match sealed {
                Sealed::LeftOut => self.lost.push(Field::Thoughts),
                Sealed::Closed | Sealed::Opened(_) => list.push(thought),
            }
            return;
        };
        match sealed.open(text) {
            Some(kept) if kept.call.is_empty() => {
                let own = Some(&thought.text).filter(|text| !text.is_empty());
                list.extend(kept.thoughts.into_iter().map(|opened| match own {
                    // The caller has sent the text itself.
                    Some(own) => Thought {
                        text: own.clone(),
                        ..opened
                    },
                    None => opened,
                }));
            }
            Some(kept) => drop(self.by_call.insert(kept.call, kept.thoughts.into())),
            None => self.lost.push(Field::Thoughts),
        }
    }

    /// Returns the thoughts that led to a call.
    pub(crate) fn find(&self, call: &str) -> Option<target::Kept> {
        self.by_call.get(call).cloned()
    }
}

impl Thought<'_> {
    /// Returns the sealed text in place of the signature or of the data, if there is one.
    pub(crate) fn sealed_text(&self) -> Option<&str> {
        [&self.redacted, &self.signature]
            .into_iter()
            .flatten()
            .map(AsRef::as_ref)
            .find(|text| is_sealed(text))
    }
}

#[cfg(test)]
pub(crate) mod tests;

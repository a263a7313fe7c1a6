//! Calls and their results. Google's callers may leave out the ids: then the first result of a name
//! belongs to the first call of that name which has none.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::neutral::Call;

/// The calls since the last results. A call after a result begins anew.
#[derive(Default)]
pub(super) struct Calls<'a> {
    ids: HashSet<Cow<'a, str>>,
    /// The ids of the calls, by the name of the function and in order.
    by_name: HashMap<Cow<'a, str>, VecDeque<Cow<'a, str>>>,
    /// The ids of the calls that have a result.
    answered: HashSet<Cow<'a, str>>,
}

impl<'a> Calls<'a> {
    /// Notes a call.
    pub(super) fn add(&mut self, call: &Call<'a>) {
        // A result came after the calls before: this is a call of a new turn.
        if !self.answered.is_empty() {
            *self = Self::default();
        }
        self.ids.insert(call.id.clone());
        self.by_name
            .entry(call.name.clone())
            .or_default()
            .push_back(call.id.clone());
    }

    /// Returns the id for a result of this function: that of the call to which it belongs. Without
    /// such a call, the id stays as the caller wrote it, if it wrote one.
    pub(super) fn take_call_for(
        &mut self,
        id: Option<Cow<'a, str>>,
        name: &str,
    ) -> Option<Cow<'a, str>> {
        if let Some(id) = id.as_ref().filter(|id| self.ids.contains(*id)) {
            self.answered.insert(id.clone());
            return Some(id.clone());
        }
        let Some(queue) = self.by_name.get_mut(name) else {
            return id;
        };
        // Calls that were answered by their id are passed over.
        while let Some(next) = queue.pop_front() {
            if self.answered.insert(next.clone()) {
                return Some(next);
            }
        }
        id
    }
}

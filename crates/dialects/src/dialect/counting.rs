//! Counting the tokens of a request, by the account's own servers.

use super::{Dialect, Outbound};
use crate::front::Front;
use crate::upstream::{Counting, demo};
use crate::wire::json::{self, Cursor};

impl Dialect {
    /// Returns whether its servers may count the tokens of a request.
    pub fn counts(&self) -> bool {
        self.protocol
            .translation
            .is_some_and(|translation| translation.counting.is_some())
            || self.protocol.calls_nobody()
    }

    fn counting(&self, model: &str) -> Option<&'static Counting> {
        self.protocol
            .for_model(model)
            .translation
            .as_ref()?
            .counting
            .as_ref()
    }

    /// Counts the tokens of a request if the account makes no calls. Returns the answer for the
    /// callers of a front door.
    pub fn count_here(&self, front: &Front, request: &Outbound) -> Option<Vec<u8>> {
        let form = front
            .counting
            .as_ref()
            .filter(|_| self.protocol.calls_nobody())?;
        Some(write_number(
            form.field,
            demo::count_tokens(&request.body.concat()),
        ))
    }

    /// Makes a request that counts the tokens of another request. Returns `None` if its servers
    /// would not count exactly the content of that request.
    pub fn to_count(&self, model: &str, request: Outbound) -> Option<Outbound> {
        let counting = self.counting(model)?;
        let path = (counting.path)(&request.path)?.into();
        let body = (counting.body)(model, &request.body.concat())?;
        Some(Outbound {
            path,
            copied: body.len(),
            body: vec![body.into()],
            ..request
        })
    }

    /// Reads the number of tokens in an answer of this model, and returns the answer for the
    /// callers of a front door. Returns `None` if there is no number.
    pub fn counted(&self, model: &str, front: &Front, answer: &[u8]) -> Option<Vec<u8>> {
        let (from, to) = (self.counting(model)?.field, front.counting.as_ref()?.field);
        let mut number = None;
        let _read = Cursor::new(answer).maybe_members(|key, value| {
            if *json::name_of(answer, &key) == *from.as_bytes() {
                number = json::integer_of(answer, &value);
            }
        });
        // With an equal field, the answer is in the door's format, and its other fields may be of
        // use.
        number.map(|number| {
            if from == to {
                answer.to_vec()
            } else {
                write_number(to, number)
            }
        })
    }
}

fn write_number(field: &str, number: u64) -> Vec<u8> {
    format!(r#"{{"{field}":{number}}}"#).into_bytes()
}

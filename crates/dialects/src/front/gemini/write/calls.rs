//! Calls whose arguments are still coming. A call is written whole, and only if its arguments are
//! an object.

use crate::neutral::Call;
use crate::neutral::answer::NewCall;
use crate::wire::json::Pieces;

/// The most bytes of arguments that wait, of all choices together.
pub(super) const MAX_WAITING_BYTES: usize = 4 << 20;

/// The call of each choice that has begun and not ended.
#[derive(Debug, Default)]
pub(super) struct WaitingCalls {
    open: Vec<Option<Waiting>>,
    /// The bytes of all arguments.
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    call: Call<'static>,
    arguments: Pieces,
}

impl WaitingCalls {
    /// Begins a call. The choice's call before it has ended.
    pub(super) fn begin_call(&mut self, choice: usize, call: &NewCall<'_>) {
        if self.open.len() <= choice {
            self.open.resize_with(choice + 1, || None);
        }
        if let Some(waiting_call) = self.open.get_mut(choice) {
            *waiting_call = Some(Waiting {
                call: call.without_arguments(),
                arguments: Pieces::default(),
            });
        }
    }

    /// Takes a piece of the arguments of a choice's call.
    pub(super) fn take(&mut self, choice: usize, piece: &str) {
        if let Some(Some(waiting)) = self.open.get_mut(choice) {
            waiting.call.arguments.to_mut().push_str(piece);
            waiting.arguments.take(piece);
            self.bytes += piece.len();
        }
    }

    /// Ends a choice's call. Returns the call, unless it was cut or no caller can execute it.
    pub(super) fn end(&mut self, choice: usize) -> Option<Call<'static>> {
        let Waiting { call, arguments } = self.open.get_mut(choice)?.take()?;
        self.bytes -= call.arguments.len();
        (arguments.is_object() || arguments.is_null()).then_some(call)
    }

    /// Ends a choice's call if its arguments are complete, so that later parts stand after it.
    pub(super) fn end_if_whole(&mut self, choice: usize) -> Option<Call<'static>> {
        let waiting = self.open.get(choice)?.as_ref()?;
        if waiting.arguments.is_object() {
            self.end(choice)
        } else {
            None
        }
    }

    /// Returns whether more bytes wait than are kept.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > MAX_WAITING_BYTES
    }
}

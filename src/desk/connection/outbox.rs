//! The [`Outbox`] collects what is written to a caller until it is flushed, so that a head and a
//! small answer leave together. It has memory only while something waits in it: an idle connection
//! or stream holds none. Pingora's own buffer of a connection is as large, and stays.

use crate::base::pool::{self, SIZE};
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// The bytes that wait to be written.
#[derive(Default)]
pub(super) struct Outbox {
    /// It has no memory while nothing waits.
    waiting: Vec<u8>,
    /// The number of its bytes that were written.
    written_bytes: usize,
}

impl Outbox {
    /// Takes the parts if there is room for all of them.
    pub(super) fn queue(&mut self, parts: &[impl Deref<Target = [u8]>]) -> bool {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if self.waiting.len() + length > SIZE {
            return false;
        }
        if length > 0 {
            let waiting = self.waiting();
            parts
                .iter()
                .for_each(|part| waiting.extend_from_slice(part));
        }
        true
    }

    /// Takes the parts, or writes some of them if they are large. Returns how many bytes were
    /// taken or written.
    pub(super) fn poll_write<W: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut W,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length == 0 {
            return Poll::Ready(Ok(0));
        }
        if !self.queue(parts) {
            ready!(self.poll_empty(stream, context))?;
            if !self.queue(parts) {
                return Pin::new(stream).poll_write_vectored(context, parts);
            }
        }
        Poll::Ready(Ok(length))
    }

    /// Returns the bytes that wait, so that more are written behind them.
    pub(super) fn waiting(&mut self) -> &mut Vec<u8> {
        if self.waiting.capacity() == 0 {
            self.waiting = pool::take_buffer();
        }
        &mut self.waiting
    }

    /// Writes all that waits to the connection.
    pub(super) fn poll_empty<W: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut W,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while let Some(rest) = self
            .waiting
            .get(self.written_bytes..)
            .filter(|rest| !rest.is_empty())
        {
            match ready!(Pin::new(&mut *stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => self.written_bytes += written,
            }
        }
        self.give_back();
        Poll::Ready(Ok(()))
    }

    /// Returns whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn give_back(&mut self) {
        self.written_bytes = 0;
        pool::give_back(std::mem::take(&mut self.waiting));
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A connection that takes a few bytes at a time, and sometimes none.
    struct Slow {
        came: Vec<u8>,
        takes: Vec<usize>,
        turn: usize,
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.turn += 1;
            match self.takes[self.turn % self.takes.len()].min(bytes.len()) {
                0 => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                taken => {
                    self.came.extend_from_slice(&bytes[..taken]);
                    Poll::Ready(Ok(taken))
                }
            }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    proptest! {
        #[test]
        fn what_is_written_comes_out_whole_and_in_order(
            writes in prop::collection::vec((0..40_000_usize, any::<u8>(), any::<bool>()), 0..20),
            takes in prop::collection::vec(0..30_000_usize, 1..6),
        ) {
            let takes: Vec<usize> = takes.into_iter().chain([1000]).collect();
            let mut slow = Slow { came: Vec::new(), takes, turn: 0 };
            let mut outbox = Outbox::default();
            let context = &mut Context::from_waker(std::task::Waker::noop());
            let mut all = Vec::new();
            for (length, byte, flushes) in writes {
                let bytes = vec![byte; length];
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let (one, other) = rest.split_at(rest.len() / 3);
                    if let Poll::Ready(taken) = outbox.poll_write(&mut slow, context, &[IoSlice::new(one), IoSlice::new(other)]) {
                        rest = &rest[taken.expect("a write")..];
                    }
                }
                all.extend(bytes);
                prop_assert!(outbox.waiting.len() <= SIZE);
                while flushes && outbox.poll_empty(&mut slow, context).is_pending() {}
                prop_assert!(!flushes || outbox.waiting.capacity() == 0, "it holds memory for nothing");
            }
            while outbox.poll_empty(&mut slow, context).is_pending() {}
            prop_assert_eq!(slow.came, all);
        }
    }
}

//! The bytes of a connection that were read and not taken yet.

use crate::base::pool;
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that were read, and not taken yet. It has no memory while it waits for the first of them:
/// so a stream that waits for its next event holds none.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffer {
    memory: Vec<u8>,
    /// The number of bytes that were taken.
    taken_bytes: usize,
}

impl ReadBuffer {
    /// Returns the bytes that were not taken yet.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.get(self.taken_bytes..).unwrap_or_default()
    }

    /// Takes so many bytes. Their memory stays until the next read.
    pub(crate) fn take(&mut self, count: usize) {
        self.taken_bytes = self.memory.len().min(self.taken_bytes + count);
    }

    /// Gives the memory back if no bytes are in it, without waiting for the next read.
    pub(crate) fn release(&mut self) {
        if self.bytes().is_empty() {
            self.give_back();
        }
    }

    /// Takes the bytes up to the end of the part, and returns the part.
    pub(crate) fn take_part(&mut self, part: Range<usize>) -> &[u8] {
        let start = self.taken_bytes;
        self.take(part.end);
        self.memory
            .get(start + part.start..start + part.end)
            .unwrap_or_default()
    }

    /// Reads more bytes behind those that are there, and returns their number: zero at the end of
    /// the connection. The memory grows if all of it is needed.
    pub(crate) fn poll_fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.make_room();
        // This future has no state of its own.
        let read = pin!(stream.read_buf(&mut self.memory)).poll(context);
        if self.memory.is_empty() {
            self.give_back();
        }
        read
    }

    fn make_room(&mut self) {
        if self.taken_bytes == self.memory.len() {
            self.memory.clear();
            self.taken_bytes = 0;
        }
        if self.memory.capacity() == 0 {
            self.memory = pool::take_buffer();
        }
        if self.memory.len() < self.memory.capacity() {
            return;
        }
        if self.taken_bytes > 0 {
            self.memory.drain(..self.taken_bytes);
            self.taken_bytes = 0;
        } else {
            self.memory.reserve_exact(self.memory.len());
        }
    }

    fn give_back(&mut self) {
        self.taken_bytes = 0;
        pool::give_back(std::mem::take(&mut self.memory));
    }

    /// Returns whether the buffer has memory now.
    #[cfg(test)]
    pub(crate) fn has_memory(&self) -> bool {
        self.memory.capacity() > 0
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        self.give_back();
    }
}

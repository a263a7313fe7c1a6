//! An [`AnswerReader`] reads one answer of HTTP/1 from a connection that Pingora has opened.
//!
//! It is ours, since Pingora 0.9.1 makes a map of each head, and allocates 64 KiB for each body,
//! for as long as it lasts. It takes for an answer what Pingora's reader takes, with the same end,
//! and the fuzz target `answers` says so. It differs where Pingora's is lax:
//!
//! * An answer with both `content-length` and `transfer-encoding`, or with more encodings than one,
//!   is the last of its connection. So is one that says `connection: close` in any place, one whose
//!   head has folded lines or a blank before a colon, and a 204 or 304 with a length.
//! * A chunk begins with a number below 2^63, and no line of chunks has a bare line feed. The line
//!   before a chunk has at most 8 KiB.
//! * The upstream may not switch protocols (101): no request asks for it.
//! * A head has at most 64 KiB, not 1 MiB.
//! * A broken body stays broken. Pingora's reader says once that it is, and then that it has ended.

mod chunks;
mod head;

use crate::base::read_buffer::ReadBuffer;
use chunks::ChunkReader;
pub use head::AnswerHead;
use head::BodyFraming;
use http::StatusCode;
use pingora::protocols::Stream;
use std::future::poll_fn;

/// The most bytes of a head.
const LARGEST: usize = 64 * 1024;
/// The most informational heads before an answer.
const INFORMATIONAL: usize = 8;

/// The reader of one answer.
#[derive(Debug)]
pub struct AnswerReader {
    stream: Stream,
    buffer: ReadBuffer,
    head: Option<AnswerHead>,
    /// The number of informational heads so far.
    informational: usize,
    /// True if the upstream has sent a byte.
    has_begun: bool,
    body: BodyRest,
}

/// The rest of the body.
#[derive(Debug)]
enum BodyRest {
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunks(ChunkReader),
    /// All bytes until the connection ends.
    UntilClose,
    /// Nothing: it was not whole.
    Broken,
}

/// The error while a head is read.
#[derive(Debug, PartialEq, Eq)]
pub enum HeadFault {
    /// The connection ended.
    Cut,
    /// The bytes are no answer. The text has the reason.
    Nonsense(&'static str),
}

/// The error for a body that is not whole, or not written as it must be.
#[derive(Debug, PartialEq, Eq)]
pub struct BodyCut;

impl AnswerReader {
    /// Makes the reader of the next answer on a connection.
    pub fn new(stream: Stream) -> AnswerReader {
        AnswerReader {
            stream,
            buffer: ReadBuffer::default(),
            head: None,
            informational: 0,
            has_begun: false,
            body: BodyRest::Broken,
        }
    }

    /// Returns the answer's head, once it was read.
    pub fn head(&self) -> Option<&AnswerHead> {
        self.head.as_ref()
    }

    /// Returns whether the upstream has sent anything, so that it has looked at the request.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Reads the head. Informational heads before it are skipped. This future may be dropped before
    /// it is ready: the next one reads on.
    pub async fn read_head(&mut self) -> Result<(), HeadFault> {
        while self.head.is_none() {
            let came = self.buffer.bytes();
            if !came.is_empty() {
                let read =
                    AnswerHead::read(came).map_err(|_| HeadFault::Nonsense("no HTTP response"))?;
                if let Some((head, length)) = read {
                    self.buffer.take(length);
                    self.note(head)?;
                    continue;
                }
                if came.len() >= LARGEST {
                    return Err(HeadFault::Nonsense("a response head that is too long"));
                }
            }
            match self.fill().await {
                Ok(1..) => self.has_begun = true,
                Ok(0) | Err(_) => return Err(HeadFault::Cut),
            }
        }
        Ok(())
    }

    fn note(&mut self, head: AnswerHead) -> Result<(), HeadFault> {
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(HeadFault::Nonsense(
                "a change of protocol that nobody asked for",
            ));
        }
        if head.status.is_informational() {
            self.informational += 1;
            let is_last = self.informational > INFORMATIONAL;
            let many = HeadFault::Nonsense("too many informational (1xx) responses");
            return if is_last { Err(many) } else { Ok(()) };
        }
        self.body = match head.framing {
            BodyFraming::Length(length) => BodyRest::Length(length),
            BodyFraming::Chunked => BodyRest::Chunks(ChunkReader::default()),
            BodyFraming::UntilClose => BodyRest::UntilClose,
        };
        self.head = Some(head);
        Ok(())
    }

    /// Returns the next piece of the body; `None` at its end. The head must have been read.
    ///
    /// **Invariant:** this future may be dropped before it is ready. All of its state is in the
    /// reader, and bytes are taken only in the poll that returns them.
    pub async fn read(&mut self) -> Result<Option<&[u8]>, BodyCut> {
        let piece = loop {
            let came = self.buffer.bytes();
            let piece = match &mut self.body {
                BodyRest::Broken => return Err(BodyCut),
                BodyRest::Length(0) => return Ok(None),
                BodyRest::Length(left) => {
                    let taken =
                        usize::try_from(*left).map_or(came.len(), |left| left.min(came.len()));
                    *left -= taken as u64;
                    0..taken
                }
                BodyRest::Chunks(chunks) => match chunks.next(came) {
                    Ok(piece) => piece,
                    Err(_) => return Err(self.breaks()),
                },
                BodyRest::UntilClose => 0..came.len(),
            };
            if !piece.is_empty() {
                break piece;
            }
            self.buffer.take(piece.end);
            if self.is_done() {
                return Ok(None);
            }
            match (self.fill().await, &self.body) {
                (Ok(1..), _) => {}
                (Ok(0), BodyRest::UntilClose) => {
                    self.body = BodyRest::Length(0);
                    return Ok(None);
                }
                (Ok(0) | Err(_), _) => return Err(self.breaks()),
            }
        };
        Ok(Some(self.buffer.take_part(piece)))
    }

    fn breaks(&mut self) -> BodyCut {
        self.body = BodyRest::Broken;
        BodyCut
    }

    /// Returns whether all of the body was read.
    pub fn is_done(&self) -> bool {
        match &self.body {
            BodyRest::Length(left) => *left == 0,
            BodyRest::Chunks(chunks) => chunks.is_done(),
            BodyRest::UntilClose | BodyRest::Broken => false,
        }
    }

    /// Returns the connection if another request may follow on it: the answer was whole, nothing
    /// came after it, and the upstream keeps the connection, too. If not, the connection is the
    /// error, and must be closed.
    pub fn finish(self) -> Result<Stream, Stream> {
        let keeps = self.head.as_ref().is_some_and(|head| head.keeps);
        if keeps && self.is_done() && self.buffer.bytes().is_empty() {
            Ok(self.stream)
        } else {
            Err(self.stream)
        }
    }

    async fn fill(&mut self) -> std::io::Result<usize> {
        poll_fn(|context| self.buffer.poll_fill(&mut self.stream, context)).await
    }
}

#[cfg(test)]
mod tests;

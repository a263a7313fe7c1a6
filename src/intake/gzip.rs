//! A body that comes compressed: unpacked piece by piece, each taken from the budget before it is made.
//!
//! What counts is the size that it unpacks to: a bomb is refused where any other body would be. Between pieces others have their turn.

use super::{Held, too_large};
use crate::error::{Refusal, What};
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use std::io::Read;

/// So much is unpacked at once.
const PIECE: usize = 64 * 1024;
/// After so many pieces it is another's turn: some milliseconds.
const TURN: usize = 16;

/// What was packed, of `limit` bytes at most. `held` holds the packed body, and just what it unpacks to from then on.
pub(super) async fn unpacked(packed: Bytes, limit: usize, held: &mut Held) -> Result<Bytes, Refusal> {
    let mut decoder = MultiGzDecoder::new(&*packed);
    let mut body = Vec::new();
    if packed.is_empty() {
        return Ok(Bytes::new());
    }
    for piece in 1usize.. {
        if !held.grow(PIECE) {
            return Err(Refusal::no_room());
        }
        let before = body.len();
        let read = (&mut decoder).take(PIECE as u64).read_to_end(&mut body);
        if read.is_err() {
            return Err(Refusal::new(What::BadRequest { code: None }, "The request's body is not gzip, as its `content-encoding` says."));
        }
        if body.len() > limit {
            return Err(too_large(limit));
        }
        if body.len() == before {
            break;
        }
        if piece.is_multiple_of(TURN) {
            tokio::task::yield_now().await;
        }
    }
    // Less than it held so far.
    held.hold(body.len());
    Ok(body.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::budget::{Budget, Purse};
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;
    use std::sync::Arc;

    fn pack(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    /// The body or the status, with a limit of a mebibyte; and what is left of the budget while it is held.
    fn unpack(packed: &[u8], budget: usize) -> (Result<Bytes, u16>, usize) {
        let all = Arc::new(Budget::new(budget, budget));
        let mut held = all.open(&Arc::new(Purse::default()));
        assert!(held.grow(packed.len()), "room for the packed body");
        let run = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = run.block_on(unpacked(Bytes::copy_from_slice(packed), 1 << 20, &mut held));
        let left = budget - held.bytes();
        (body.map_err(|refusal| refusal.what.row().status), left)
    }

    #[test]
    fn what_was_packed_comes_out_and_is_held() {
        for size in [1, PIECE - 1, PIECE, PIECE + 1, 1 << 20] {
            let body: Vec<u8> = (0..size).map(|n| b'a' + u8::try_from(n % 23).unwrap()).collect();
            let (unpacked, left) = unpack(&pack(&body), 8 << 20);
            assert_eq!((unpacked.unwrap(), left), (Bytes::from(body), (8 << 20) - size));
        }
        assert_eq!(unpack(&[pack(b"{\"a\":"), pack(b"1}")].concat(), 1 << 20).0.unwrap(), "{\"a\":1}", "in two members");
        assert_eq!(unpack(b"", 1 << 20), (Ok(Bytes::new()), 1 << 20));
    }

    #[test]
    fn a_bomb_is_refused_at_the_limit_and_at_the_budget() {
        let bomb = pack(&vec![b' '; 64 << 20]);
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        let (refused, left) = unpack(&bomb, 8 << 20);
        assert_eq!(refused, Err(413));
        assert!(left > (8 << 20) - bomb.len() - (1 << 20) - 2 * PIECE, "{left}");
        assert_eq!(unpack(&bomb, bomb.len() + 3 * PIECE).0, Err(503));
        // A bomb of bombs is as long as it is.
        assert_eq!(unpack(&pack(&bomb), 8 << 20).0.map(|body| body.len()), Ok(bomb.len()));
    }

    #[test]
    fn what_is_no_gzip_is_refused() {
        let good = pack(b"{}");
        for bad in [&b"{}"[..], &good[..good.len() - 1], &good[..5], &[&good[..], b"x"].concat(), b"\x1f\x8b"] {
            assert_eq!(unpack(bad, 1 << 20).0, Err(400), "{bad:?}");
        }
    }
}

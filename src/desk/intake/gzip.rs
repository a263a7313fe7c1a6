//! Unpacks a compressed body piece by piece. Each piece is taken from the memory budget before it
//! is made.
//!
//! The limit counts the unpacked size: a bomb is refused at the same size as any other body. Other
//! requests run between the pieces.

use super::too_large;
use crate::base::memory::Held;
use crate::error::{FailureKind, Refusal};
use bytes::Bytes;
use flate2::bufread::GzDecoder;
use std::io::Read;

/// The bytes that are unpacked at once.
const PIECE: usize = 64 * 1024;
/// The number of pieces, or members, after which other requests run: they take some milliseconds.
const PIECES_PER_TURN: usize = 16;
/// The most gzip members in one body. Each costs its reader something, even if it is empty;
/// programs that pack in blocks make one for each 64 KiB.
const MAX_MEMBERS: usize = 4096;

/// Unpacks a body, to `limit` bytes at most. Before the call `held` holds the packed body, and
/// after it only the unpacked one.
pub(super) async fn unpack_body(
    packed: Bytes,
    limit: usize,
    held: &mut Held,
) -> Result<Bytes, Refusal> {
    let mut body = Vec::new();
    if !packed.is_empty() {
        unpack_into(&packed, limit, &mut body, held).await?;
        body.shrink_to_fit();
    }
    drop(packed);
    // The unpacked body alone is less than what is held so far.
    held.hold(body.capacity());
    Ok(body.into())
}

/// Unpacks into `body`. **Invariant:** `held` holds the body's capacity, and the body never has
/// capacity for more than a byte above its limit.
async fn unpack_into(
    packed: &[u8],
    limit: usize,
    body: &mut Vec<u8>,
    held: &mut Held,
) -> Result<(), Refusal> {
    let (mut rest, mut steps, mut members) = (packed, 0usize, 0);
    while !rest.is_empty() {
        members += 1;
        if members > MAX_MEMBERS {
            return Err(no_gzip("holds too many gzip parts, one after the other"));
        }
        let mut decoder = GzDecoder::new(rest);
        loop {
            if body.len() == body.capacity() {
                grow_body(body, limit, held)?;
            }
            let before = body.len();
            // The read stays within the body's capacity, so that `read_to_end` does not reserve
            // more.
            let read_limit = PIECE.min(body.capacity() - before) as u64;
            (&mut decoder)
                .take(read_limit)
                .read_to_end(body)
                .map_err(|_| {
                    no_gzip("is not valid gzip, although its `content-encoding` is gzip")
                })?;
            if body.len() > limit {
                return Err(too_large(limit));
            }
            steps += 1;
            if steps.is_multiple_of(PIECES_PER_TURN) {
                tokio::task::yield_now().await;
            }
            if body.len() == before {
                break;
            }
        }
        rest = decoder.into_inner();
    }
    Ok(())
}

fn no_gzip(why: &str) -> Refusal {
    Refusal::new(
        FailureKind::BadRequest { code: None },
        format!("The request's body {why}."),
    )
}

/// Adds a quarter to the capacity, so that the body is moved only a few times. If the budget has no
/// quarter left, adds a piece.
fn grow_body(body: &mut Vec<u8>, limit: usize, held: &mut Held) -> Result<(), Refusal> {
    let room = body.capacity();
    let max_growth = limit.saturating_add(1).saturating_sub(room);
    let more = [room / 4, PIECE].map(|more| more.max(PIECE).min(max_growth));
    let more = more
        .into_iter()
        .find(|more| held.grow(*more))
        .ok_or_else(Refusal::no_room)?;
    body.reserve_exact(more);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::memory::{Budget, Purse};
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;
    use std::sync::Arc;

    fn pack(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    /// The body or the status, with a limit of a mebibyte; and what is left of the budget while it
    /// is held.
    fn unpack(packed: &[u8], budget: usize) -> (Result<Bytes, u16>, usize) {
        let all = Arc::new(Budget::new(budget, budget));
        let mut held = all.open(&Arc::new(Purse::default()));
        assert!(held.grow(packed.len()), "room for the packed body");
        let run = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let body = run.block_on(unpack_body(
            Bytes::copy_from_slice(packed),
            1 << 20,
            &mut held,
        ));
        let left = budget - held.bytes();
        (body.map_err(|refusal| refusal.kind.row().status), left)
    }

    #[test]
    fn what_was_packed_comes_out_and_is_held() {
        for size in [1, PIECE - 1, PIECE, PIECE + 1, 1 << 20] {
            let body: Vec<u8> = (0..size)
                .map(|n| b'a' + u8::try_from(n % 23).unwrap())
                .collect();
            let (unpacked, left) = unpack(&pack(&body), 8 << 20);
            assert_eq!(
                (unpacked.unwrap(), left),
                (Bytes::from(body), (8 << 20) - size)
            );
        }
        assert_eq!(
            unpack(&[pack(b"{\"a\":"), pack(b"1}")].concat(), 1 << 20)
                .0
                .unwrap(),
            "{\"a\":1}",
            "in two members"
        );
        assert_eq!(unpack(b"", 1 << 20), (Ok(Bytes::new()), 1 << 20));
    }

    #[test]
    fn what_is_held_is_what_there_is_room_for() {
        let (limit, run) = (
            1 << 20,
            tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
        );
        let mut endings = std::collections::BTreeSet::new();
        for size in [
            1,
            PIECE,
            PIECE + 1,
            5 * PIECE + 7,
            limit - 1,
            limit,
            limit + 1,
            8 << 20,
        ] {
            for budget in [2 * PIECE, 12 * PIECE, 8 << 20] {
                let packed = pack(&vec![b' '; size]);
                let mut held =
                    Arc::new(Budget::new(budget, budget)).open(&Arc::new(Purse::default()));
                assert!(held.grow(packed.len()), "room for the packed body");
                let mut body = Vec::new();
                let told = run
                    .block_on(super::unpack_into(&packed, limit, &mut body, &mut held))
                    .map_err(|refusal| refusal.kind.row().status);
                assert_eq!(
                    held.bytes(),
                    packed.len() + body.capacity(),
                    "{size} of {budget}: {told:?}"
                );
                assert!(body.capacity() <= limit + 1, "{}", body.capacity());
                endings.insert(told);
            }
        }
        assert_eq!(
            endings.into_iter().collect::<Vec<_>>(),
            [Ok(()), Err(413), Err(503)]
        );
    }

    #[test]
    fn a_bomb_is_refused_at_limit_and_budget() {
        let bomb = pack(&vec![b' '; 64 << 20]);
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        let (refused, left) = unpack(&bomb, 8 << 20);
        assert_eq!(refused, Err(413));
        assert!(
            left > (8 << 20) - bomb.len() - (1 << 20) - 2 * PIECE,
            "{left}"
        );
        assert_eq!(unpack(&bomb, bomb.len() + 3 * PIECE).0, Err(503));
        // A bomb of bombs is as long as it is.
        assert_eq!(
            unpack(&pack(&bomb), 8 << 20).0.map(|body| body.len()),
            Ok(bomb.len())
        );
    }

    #[test]
    fn what_holds_nothing_a_thousand_times_is_refused_soon() {
        let empty = pack(b"");
        assert_eq!(
            unpack(&empty.repeat(MAX_MEMBERS), 1 << 20).0,
            Ok(Bytes::new())
        );
        assert_eq!(unpack(&empty.repeat(MAX_MEMBERS + 1), 1 << 20).0, Err(400));
        assert_eq!(
            unpack(
                &[empty.repeat(MAX_MEMBERS - 1), pack(b"{}")].concat(),
                1 << 20
            )
            .0,
            Ok(Bytes::from_static(b"{}"))
        );
        // However long it goes on.
        assert_eq!(unpack(&empty.repeat(500_000), 16 << 20).0, Err(400));
    }

    #[test]
    fn what_is_no_gzip_is_refused() {
        let good = pack(b"{}");
        for bad in [
            &b"{}"[..],
            &good[..good.len() - 1],
            &good[..5],
            &[&good[..], b"x"].concat(),
            b"\x1f\x8b",
        ] {
            assert_eq!(unpack(bad, 1 << 20).0, Err(400), "{bad:?}");
        }
    }
}

//! The sizes of the futures of a request's way, on the upstream's side.

use super::Producer;
use super::opening::Opening;
use crate::base::future_sizes::{future_size, hold_sizes, never};
use crate::exchange::attempt::Attempt;

#[test]
fn futures_of_an_exchange_are_no_larger_than_accepted() {
    let producer: fn() -> &'static mut Producer<'static> = never;
    let opening: fn() -> Opening<'static> = never;
    hold_sizes(&[
        ("Producer::next", future_size(|| producer().next()), 408),
        (
            "Producer::begin_next_attempt",
            future_size(|| producer().begin_next_attempt()),
            256,
        ),
        ("Producer::race", future_size(|| producer().race()), 64),
        (
            "Producer::advance",
            future_size(|| producer().advance()),
            368,
        ),
        (
            "Opening::open",
            future_size(|| opening().open(never())),
            2832,
        ),
        (
            "Attempt::connect_and_send",
            future_size(|| Attempt::connect_and_send(never(), never(), never(), never(), never())),
            928,
        ),
    ]);
}

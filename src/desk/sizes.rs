//! The sizes of the futures of a request's way, on the caller's side.

use super::Desk;
use super::relay::Relay;
use super::reply::Reply;
use crate::base::future_sizes::{future_size, hold_sizes, never};

#[test]
fn futures_of_a_request_are_no_larger_than_accepted() {
    let desk: fn() -> &'static Desk = never;
    let relay: fn() -> Relay<'static> = never;
    let reply: fn() -> &'static mut Reply<'static> = never;
    hold_sizes(&[
        (
            "Desk::answer_or_plan",
            future_size(|| desk().answer_or_plan(never(), never())),
            2400,
        ),
        (
            "Desk::plan_request",
            future_size(|| desk().plan_request(never(), never(), never(), never(), never())),
            2344,
        ),
        (
            "Desk::read_body",
            future_size(|| desk().read_body(never(), never())),
            624,
        ),
        (
            "Desk::run_exchange",
            future_size(|| desk().run_exchange(never(), never(), never())),
            3392,
        ),
        ("Relay::run", future_size(|| relay().run(never())), 2016),
        (
            "Reply::write_answer",
            future_size(|| reply().write_answer(never(), never())),
            944,
        ),
        (
            "Reply::refuse",
            future_size(|| reply().refuse(never(), never())),
            920,
        ),
        (
            "Reply::write",
            future_size(|| reply().write(never(), never())),
            448,
        ),
    ]);
}

//! An alarm is one timer for all the deadlines of one half of an exchange.
//!
//! A deadline moves with every byte, and it is expensive to move a timer. So the timer stays where
//! it is. When it fires before the present deadline, it is set again. A wait that ends at once
//! never touches it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep, sleep_until};

/// One timer for many deadlines.
#[derive(Default)]
pub struct Alarm {
    armed: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    /// Is ready once `due` has passed.
    pub fn poll(&mut self, context: &mut Context<'_>, due: Instant) -> Poll<()> {
        let sleep = match &mut self.armed {
            Some(sleep) => {
                if sleep.deadline() > due {
                    sleep.as_mut().reset(due);
                }
                sleep
            }
            None => self.armed.insert(Box::pin(sleep_until(due))),
        };
        while sleep.as_mut().poll(context).is_ready() {
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(due);
        }
        Poll::Pending
    }

    /// Returns the future's value, or `None` once `due` has passed. The future is taken pinned:
    /// futures here are large, and a move is a copy.
    pub fn until<F: Future>(
        &mut self,
        due: Instant,
        mut future: Pin<&mut F>,
    ) -> impl Future<Output = Option<F::Output>> {
        std::future::poll_fn(move |context| {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                return Poll::Ready(Some(value));
            }
            self.poll(context, due).map(|()| None)
        })
    }
}

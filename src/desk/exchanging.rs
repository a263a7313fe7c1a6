//! The stage of the exchange: a producer asks the upstreams, and a relay writes to the caller.

use super::record::Record;
use super::relay::{End, Relay, account_for};
use super::reply::Notes;
use super::{Desk, Planned};
use crate::exchange::producer::Producer;
use crate::exchange::{self, OwnTime, Panicked};
use pingora_proxy::Session;
use std::pin::pin;

impl Desk {
    /// Has the upstreams answer a planned request.
    pub(super) async fn run_exchange(
        &self,
        session: &mut Session,
        record: &mut Record,
        mut planned: Box<Planned>,
    ) -> End {
        if let Some(before) = &mut planned.request.debug {
            before.own_time = record.facts.times.own_time;
        }
        exchange::panic_if_asked(session, "exchange");
        let own = OwnTime::from_beginning(record.began);
        let slices = match planned.request.cut(&planned.body) {
            Ok(slices) => slices,
            Err(refusal) => return End::Refused(refusal, Notes::default()),
        };
        let mut producer = Producer::new(&self.backends, &planned.request, planned.body, &own);
        producer.slice(slices.as_deref());
        let relay = Relay::new(self.reply(session, record), &own);
        let relayed = exchange::run_guarded(&own, pin!(relay.run(&mut producer))).await;
        record.facts.times.own_time += own.so_far();
        relayed.unwrap_or_else(|Panicked| {
            account_for(record, &mut producer);
            let refusal = self.panicked();
            record.record_refusal(&refusal);
            // After the head, only the end of the connection can tell the caller.
            let is_silent = session
                .response_written()
                .is_none_or(|head| head.status.is_informational());
            if is_silent {
                End::Refused(refusal, Notes::default())
            } else {
                End::Broken
            }
        })
    }
}

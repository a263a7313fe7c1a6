//! The stage of arrival: what is known of every request before anything is decided.

use super::record::Record;
use super::{Desk, auth, connection, request_id};
use crate::drain::Phase;
use crate::traces;
use pingora_proxy::Session;

impl Desk {
    /// Notes the facts that are known of every request before anything is decided.
    pub(super) fn begin_record(&self, session: &mut Session, record: &mut Record) {
        let timeouts = self.settings.timeouts;
        session.set_read_timeout(Some(timeouts.client_read));
        session.set_write_timeout(Some(timeouts.client_write));
        if self.books.drain.phase() > Phase::Serving {
            connection::end_after_answer(session);
        } else if session.get_keepalive().is_some() {
            session.set_keepalive(Some(timeouts.keepalive.as_secs().max(1)));
        }
        let header = session.req_header();
        let (id, made) = request_id::read_or_make(&header.headers);
        let local_address = || session.server_addr().and_then(|a| a.as_inet()).copied();
        record.facts.trace = traces::begin_trace(
            self.books.traces.as_deref(),
            &header.headers,
            made,
            local_address,
        );
        record.facts.request.id = id;
        record.facts.request.method = header
            .method
            .as_str()
            .get(..16)
            .unwrap_or(header.method.as_str())
            .to_owned();
        record.facts.request.path = request_id::display_text(header.uri.path()).into();
        let peer = session
            .client_addr()
            .and_then(|a| a.as_inet())
            .map(|a| a.ip());
        record.facts.sender.address = auth::caller_address(&self.settings, peer, &header.headers);
    }
}

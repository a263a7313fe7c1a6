//! Reads a form: its files go to the spool, and the few fields that decide where it goes are read
//! on the way.

use super::{FailureKind, Incoming, Refusal, declared_length};
use crate::desk::{Desk, planning};
use crate::exchange::producer::Sent;
use crate::exchange::upload::Upload;
use crate::limits::KeyScopes;
use bytes::Bytes;
use dialects::front::form::{self, FormRead};
use dialects::front::{Envelope, Front, PathRequest};
use dialects::wire::multipart::{self, FormScanner};
use http::header;
use pingora_proxy::Session;

impl Desk {
    /// Reads a form, and what decides where it goes. `asked` is what the path says of it. The key
    /// and the limits were checked before: an upload is long.
    pub(super) async fn read_form(
        &self,
        session: &mut Session,
        scopes: &KeyScopes,
        front: &'static Front,
        asked: PathRequest,
    ) -> Result<(Envelope, Sent), Refusal> {
        let headers = &session.req_header().headers;
        if headers
            .get(header::CONTENT_ENCODING)
            .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
        {
            return Err(Refusal::new(
                FailureKind::UnsupportedMedia,
                "A form must be sent uncompressed.",
            ));
        }
        let kind = headers
            .get(header::CONTENT_TYPE)
            .map(|kind| kind.as_bytes())
            .unwrap_or_default();
        let boundary = multipart::form_boundary(kind).ok_or_else(|| {
            let message = "Send a form here, with the header `content-type: multipart/form-data; boundary=…`.";
            Refusal::new(FailureKind::UnsupportedMedia, message)
        })?;
        let boundary = boundary
            .map_err(|why| planning::bad_request(form::broken_form(why)))?
            .to_owned();
        let limit = self.spool.largest_body(self.settings.limits.upload);
        let declared = declared_length(session, limit)?;
        let mut held = self.memory.open(&scopes.purse);
        let (mut spooling, mut room) = self.spool.begin_body(&scopes.spool);
        if !room.grow(declared) {
            return Err(no_room());
        }
        let mut incoming = Incoming::start_reading(self, session, limit).await?;
        let mut scanner = FormScanner::new(&boundary, form::form_field_reading);
        while let Some(chunk) = incoming.next_piece().await? {
            scanner
                .feed(&chunk)
                .map_err(|fault| planning::bad_request(form::form_fault(fault)))?;
            if !room.hold(declared.max(incoming.so_far)) {
                return Err(no_room());
            }
            spooling.put(&chunk).await.map_err(|why| {
                log::error!("an upload could not be written to the spool: {why}");
                no_room()
            })?;
            if !held.hold(spooling.in_memory() + scanner.in_memory()) {
                return Err(Refusal::no_room());
            }
        }
        let fields = scanner
            .finish()
            .map_err(|fault| planning::bad_request(form::form_fault(fault)))?;
        let FormRead {
            envelope,
            texts,
            places,
            names_model,
        } = form::read_form(front, &fields, &asked, incoming.so_far)
            .map_err(planning::bad_request)?;
        let upload = Upload::new(spooling.end(), &boundary, (places, names_model), room);
        let body = Bytes::from(texts);
        Ok((
            envelope,
            Sent {
                body,
                upload: Some(upload),
                memory: held,
            },
        ))
    }
}

fn no_room() -> Refusal {
    let message = "The gateway has no room left for this upload, or this caller's part of the room is used up. Try again shortly.";
    Refusal::new(FailureKind::NoCapacity, message).retry_after(1)
}

//! The stage of dispatch: the door says what is asked for. Most of it is answered here. A request
//! to a model is planned, and answered by an exchange.

use super::door::{self, Door};
use super::record::Record;
use super::{Desk, Planned, checks, own, planning};
use crate::error::{FailureKind, Refusal};
use crate::exchange;
use crate::models;
use bytes::Bytes;
use pingora_proxy::Session;

/// The page for browsers at the callers' address. It names no other address.
const WELCOME: &str = "\
This is Portcullis, a gateway for language models. There is nothing more to look at here.
Programs use it as OpenAI's API (base URL: this address with /v1), Anthropic's API, or Gemini's API (this address).
Each request needs a key of this gateway, which its operator gives out.
With a key, GET /v1/models lists the models, and GET /portcullis/key says what the key may use.
The book is in the folder docs/src of the program's source: first-hour.md for the first request, operate.md for operators.
";

impl Desk {
    /// Answers a request, or returns the plan for it.
    pub(super) async fn answer_or_plan(
        &self,
        session: &mut Session,
        record: &mut Record,
    ) -> Result<Option<Box<Planned>>, Refusal> {
        let header = session.req_header();
        let (path, query) = (header.uri.path(), header.uri.query());
        record.front = door::front_for_path(path, query, &|name| header.headers.contains_key(name));
        checks::check_sizes(session, self.settings.limits.header_bytes)?;
        checks::check_coding(session)?;
        checks::check_connection(session)?;
        let header = session.req_header();
        let (path, query) = (header.uri.path(), header.uri.query());
        let cors = !self.settings.cors.is_empty();
        let is_browser = path == "/" && checks::wants_page(header);
        let door =
            match door::door_for_path(header.method.as_str(), path, query, cors, record.front) {
                Err(_) if is_browser => Door::Welcome,
                found => found?,
            };
        record.facts.request.door = door.name();
        exchange::panic_if_asked(session, "door");
        let written = match door {
            Door::Live | Door::Ready => {
                record.is_exchange = false;
                let status = if door == Door::Live || self.books.drain.ready() {
                    200
                } else {
                    503
                };
                self.reply(session, record)
                    .write_plain(status, "text/plain", Bytes::new())
                    .await
            }
            Door::Welcome => {
                self.reply(session, record)
                    .write_plain(200, "text/plain; charset=utf-8", WELCOME.into())
                    .await
            }
            Door::Hello => {
                self.reply(session, record)
                    .write_plain(200, "text/plain", Bytes::new())
                    .await
            }
            Door::Preflight { methods } => {
                self.reply(session, record).write_preflight(methods).await
            }
            Door::Models => {
                let (snapshot, key) = self.authenticate(session, record).await?;
                let list = snapshot.lists.list(&snapshot.catalog, &key, record.front);
                self.reply(session, record)
                    .write_plain(200, "application/json", list)
                    .await
            }
            Door::Model(id) => {
                let (snapshot, key) = self.authenticate(session, record).await?;
                let one = models::render_one(&snapshot.catalog, &key, &id, record.front);
                let one = one.ok_or_else(|| planning::unknown_model(&snapshot, &key, &id))?;
                self.reply(session, record)
                    .write_plain(200, "application/json", one)
                    .await
            }
            Door::Own(question) => {
                let (snapshot, key) = self.authenticate(session, record).await?;
                // A question that comes too often is no request of a caller that failed.
                own::not_too_often(&snapshot, &key).inspect_err(|_| record.is_figured = false)?;
                // The future is boxed, since few ask this, and every request would hold its memory.
                let own_answer =
                    Box::pin(self.answer_about_key(session, &snapshot, &key, question)).await?;
                self.reply(session, record)
                    .write_plain(200, "application/json", own_answer)
                    .await
            }
            Door::Count(front, asked) => {
                record.front = front;
                let (snapshot, key) = self.authenticate(session, record).await?;
                // The future is boxed, since a count is rare, and every request would hold its
                // memory.
                let (answer, notes) =
                    Box::pin(self.count_tokens(session, record, snapshot, &key, asked)).await?;
                self.reply(session, record)
                    .write_answer(answer, &notes)
                    .await
            }
            Door::Exchange(front, asked) => {
                record.front = front;
                let (snapshot, key) = self.authenticate(session, record).await?;
                return self
                    .plan_request(session, record, snapshot, &key, asked)
                    .await
                    .map(Some);
            }
        };
        written
            .map(|()| None)
            .map_err(|()| Refusal::new(FailureKind::CallerLeft, "The caller left."))
    }
}

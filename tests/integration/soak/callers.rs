//! The callers of the soak: most ask, read and judge what they get to its last byte; the others
//! misbehave in every way that callers do.
//!
//! **Invariant:** who behaves well gets one whole answer that is its own, or a stream with one
//! error event at its end, or a standard error with a status that is allowed, within [`BOUND`]; all
//! else is a failure of the run. What is drawn depends on the request's number alone.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::net::TcpSocket;

use super::books::{Books, Seen};
use super::draw;
use super::speech::Text;
use crate::support::H2;
use crate::support::canary::KEY;
use crate::support::client::{Connection, End, Response, content_of, request};
use crate::support::wire::Io;

/// No request takes longer: all its attempts have 3 s together, and who is silent is told so after
/// 10 s. The rest is for a busy machine.
pub const BOUND: Duration = Duration::from_secs(90);
/// What a request's body may have.
pub const REQUEST_BODY: usize = 512 * 1024;
/// A connection that idled longer is not used again.
const FRESH: Duration = Duration::from_secs(2);
/// Requests on one connection of HTTP/2, and such connections.
const H2_USES: usize = 200;
const H2_CONNECTIONS: usize = 4;

/// What misbehaving is.
const RUDE: &[&str] = &[
    "leaves before the head",
    "leaves before the head",
    "resets before the head",
    "leaves in the middle",
    "leaves in the middle",
    "resets in the middle",
    "half a body, then leaves",
    "half a body, then resets",
    "half a body, then silence",
    "half a head",
    "connects and resets",
    "reads slowly",
    "stops reading",
    "a stream of HTTP/2 reset",
    "many streams of HTTP/2 reset",
];
/// What is refused, and how.
const REFUSED: &[(&str, u16)] = &[
    ("no such model", 404),
    ("a wrong key", 401),
    ("no JSON", 400),
    ("too large", 413),
    ("no such path", 404),
];
/// What an upstream's trouble may be shown as.
const ALLOWED: &[u16] = &[400, 413, 422, 429, 502, 503, 504];

pub struct Callers {
    pub http1: SocketAddr,
    pub h2c: SocketAddr,
    pub seed: u64,
    pub models: &'static [&'static str],
    pub books: Arc<Books>,
    idle: Mutex<Vec<(Connection, Instant)>>,
    shared: Mutex<[Option<(Arc<H2>, usize)>; H2_CONNECTIONS]>,
}

/// What is asked.
pub struct Ask {
    pub number: u64,
    pub model: &'static str,
    pub stream: bool,
    pub body: String,
}

impl Callers {
    pub fn new(
        http1: SocketAddr,
        h2c: SocketAddr,
        seed: u64,
        models: &'static [&'static str],
        books: Arc<Books>,
    ) -> Callers {
        Callers {
            http1,
            h2c,
            seed,
            models,
            books,
            idle: Mutex::default(),
            shared: Mutex::default(),
        }
    }

    /// Leaves no connection open.
    pub fn hang_up(&self) {
        self.idle.lock().expect("idle").clear();
        *self.shared.lock().expect("shared") = Default::default();
    }

    /// One request of this number, from its first byte to its last, well behaved or not.
    pub async fn call(&self, number: u64) {
        let mut rng = draw(self.seed, "caller", number);
        let (what, done) = match rng.u64(0..100) {
            0..75 => (
                "well behaved",
                tokio::time::timeout(BOUND, self.ask(number, &mut rng)).await,
            ),
            75..79 => (
                "refused",
                tokio::time::timeout(BOUND, self.refused(number, &mut rng)).await,
            ),
            _ => {
                let what = RUDE[rng.usize(0..RUDE.len())];
                (
                    what,
                    tokio::time::timeout(BOUND, self.misbehave(number, what, &mut rng)).await,
                )
            }
        };
        match done {
            Ok(Ok(seen)) => self.books.saw(number, what, seen),
            Ok(Err(why)) => self.books.fail(format!("request {number}, {what}: {why}")),
            Err(_) => self
                .books
                .fail(format!("request {number}, {what}: it hung for {BOUND:?}")),
        }
    }

    fn draw_ask(&self, number: u64, rng: &mut fastrand::Rng) -> Ask {
        let model = self.models[rng.usize(0..self.models.len())];
        let stream = rng.u8(0..10) < 6;
        let pad = if rng.u8(0..40) == 0 {
            rng.usize(10_000..200_000)
        } else {
            rng.usize(0..200)
        };
        let usage = if stream && rng.bool() {
            ",\"stream_options\":{\"include_usage\":true}"
        } else {
            ""
        };
        let body = ask_body(model, number, &"p".repeat(pad), stream, usage);
        Ask {
            number,
            model,
            stream,
            body,
        }
    }

    async fn ask(&self, number: u64, rng: &mut fastrand::Rng) -> Result<Seen, String> {
        let ask = self.draw_ask(number, rng);
        let id = format!("soak-{number}");
        let bearer = format!("Bearer {KEY}");
        let mut fields = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("x-request-id", id.as_str()),
        ];
        match rng.u8(0..8) {
            0 => fields.push(("x-portcullis-session", "one of the sessions")),
            1 => fields.push(("x-portcullis-timeout", "2.5")),
            _ => {}
        }
        let began = Instant::now();
        let answer = match rng.u8(0..10) {
            0..3 => {
                let h2 = self.shared_h2(number).await;
                let (mut response, mut body) = h2
                    .open("POST", PATH, &fields, ask.body.as_bytes())
                    .await
                    .map_err(|e| format!("no answer over HTTP/2: {e}"))?;
                while h2.piece(&mut response, &mut body).await.is_some() {}
                response
            }
            way => {
                let reused = if way < 8 { self.idle() } else { None };
                let is_reused = reused.is_some();
                let mut connection = match reused {
                    Some(connection) => connection,
                    None => Connection::plain(self.http1, None).await,
                };
                connection
                    .send(request("POST", PATH, &fields, ask.body.as_bytes()))
                    .await;
                let answer = connection
                    .try_response("POST")
                    .await
                    .ok_or_else(|| format!("no answer (reused: {is_reused})"))?;
                if answer.end == Some(End::Whole)
                    && !answer
                        .field("connection")
                        .is_some_and(|v| v.eq_ignore_ascii_case("close"))
                {
                    self.idle
                        .lock()
                        .expect("idle")
                        .push((connection, Instant::now()));
                }
                answer
            }
        };
        let took = began.elapsed();
        let seen = judge(&ask, &answer)
            .map_err(|why| format!("{why}\n{:?}\n{}", answer.fields, cut_short(&answer.text())))?;
        self.books.took(took);
        Ok(seen)
    }

    async fn refused(&self, number: u64, rng: &mut fastrand::Rng) -> Result<Seen, String> {
        let (what, status) = REFUSED[rng.usize(0..REFUSED.len())];
        let ask = self.draw_ask(number, rng);
        let id = format!("soak-{number}");
        let key = if what == "a wrong key" {
            "Bearer sk-none-of-ours".to_owned()
        } else {
            format!("Bearer {KEY}")
        };
        let body = match what {
            "no such model" => ask_body("none", number, "", ask.stream, ""),
            "no JSON" => ask.body[..ask.body.len() / 2].to_owned(),
            "too large" => ask_body(ask.model, number, &"p".repeat(REQUEST_BODY), ask.stream, ""),
            _ => ask.body,
        };
        let path = if what == "no such path" {
            "/v1/soak"
        } else {
            PATH
        };
        let fields = [
            ("authorization", key.as_str()),
            ("content-type", "application/json"),
            ("x-request-id", id.as_str()),
        ];
        let mut connection = Connection::plain(self.http1, None).await;
        connection
            .send(request("POST", path, &fields, body.as_bytes()))
            .await;
        let answer = connection
            .try_response("POST")
            .await
            .ok_or_else(|| format!("{what}: no answer"))?;
        if answer.status != status {
            return Err(format!(
                "{what}: {} instead of {status}: {}",
                answer.status,
                cut_short(&answer.text())
            ));
        }
        standard_error(&answer).map_err(|why| format!("{what}: {why}"))?;
        Ok(Seen::Status(status))
    }

    async fn misbehave(
        &self,
        number: u64,
        what: &'static str,
        rng: &mut fastrand::Rng,
    ) -> Result<Seen, String> {
        let pause = Duration::from_millis(rng.u64(0..300));
        let mut ask = self.draw_ask(number, rng);
        let bytes = post(&ask);
        let half = bytes.len() - ask.body.len() / 2;
        match what {
            "connects and resets" => {
                Connection::plain(self.http1, None).await.reset();
                return Ok(Seen::Nothing);
            }
            "half a head" => {
                let mut connection = Connection::plain(self.http1, None).await;
                connection.send(&bytes[..40]).await;
                tokio::time::sleep(pause).await;
                return Ok(Seen::Nothing);
            }
            "a stream of HTTP/2 reset" | "many streams of HTTP/2 reset" => {
                return self
                    .reset_streams(&ask, what.starts_with("many"), pause)
                    .await;
            }
            "reads slowly" | "stops reading" => {
                ask.stream = true;
                ask.body = ask_body(ask.model, number, "soak-big", true, "");
                return self.read_slowly(&ask, what == "stops reading").await;
            }
            _ => {}
        }
        let mut connection = Connection::plain(self.http1, None).await;
        let is_half = what.starts_with("half a body");
        connection
            .send(if is_half { &bytes[..half] } else { &bytes })
            .await;
        match what {
            "half a body, then silence" => {
                let answer = connection.try_response("POST").await.ok_or("no answer")?;
                standard_error(&answer)?;
                return if answer.status == 408 {
                    Ok(Seen::Status(408))
                } else {
                    Err(format!("{} instead of 408", answer.status))
                };
            }
            "leaves in the middle" | "resets in the middle" => {
                let mut head = connection.head().await.ok_or("no head")?;
                for _ in 0..3 {
                    if connection.piece(&mut head).await.is_none() {
                        break;
                    }
                }
            }
            _ => tokio::time::sleep(pause).await,
        }
        let resets = what.contains("resets");
        if resets {
            connection.reset();
        }
        // What a reset overtakes on its way was never there, for the gateway.
        Ok(if resets && !what.contains("middle") {
            Seen::Perhaps
        } else {
            Seen::Left
        })
    }

    /// On a connection of its own, since those who reset much are sent away.
    async fn reset_streams(&self, ask: &Ask, many: bool, pause: Duration) -> Result<Seen, String> {
        let h2 = H2::clear(self.h2c, None).await;
        let bearer = format!("Bearer {KEY}");
        for extra in 0..if many { 20 } else { 0 } {
            let id = format!("soak-{}-{extra}", ask.number);
            let fields = [
                ("authorization", bearer.as_str()),
                ("content-type", "application/json"),
                ("x-request-id", id.as_str()),
            ];
            let opened = h2.open("POST", PATH, &fields, ask.body.as_bytes());
            drop(tokio::time::timeout(Duration::from_millis(1), opened).await);
        }
        let id = format!("soak-{}", ask.number);
        let fields = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("x-request-id", id.as_str()),
        ];
        let opened = h2.open("POST", PATH, &fields, ask.body.as_bytes());
        if let Ok(Ok((mut head, mut body))) = tokio::time::timeout(pause, opened).await {
            h2.piece(&mut head, &mut body).await;
            return Ok(Seen::Left);
        }
        Ok(Seen::Perhaps)
    }

    async fn read_slowly(&self, ask: &Ask, stops: bool) -> Result<Seen, String> {
        let socket = TcpSocket::new_v4().map_err(|e| e.to_string())?;
        socket
            .set_recv_buffer_size(4096)
            .map_err(|e| e.to_string())?;
        let tcp = socket
            .connect(self.http1)
            .await
            .map_err(|e| e.to_string())?;
        let mut connection = Connection::over(Io::Tcp(tcp), None);
        connection.send(post(ask)).await;
        let mut head = connection.head().await.ok_or("no head")?;
        // Longer than the gateway waits for a caller to read on; or slowly, until it has enough of
        // it.
        let (pause, until) = if stops { (12_000, 12) } else { (50, 4) };
        let (pause, until) = (
            Duration::from_millis(pause),
            Instant::now() + Duration::from_secs(until),
        );
        while Instant::now() < until && connection.piece(&mut head).await.is_some() {
            tokio::time::sleep(pause).await;
        }
        Ok(Seen::Left)
    }

    fn idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().expect("idle");
        idle.retain(|(_, since)| since.elapsed() < FRESH);
        idle.pop().map(|(connection, _)| connection)
    }

    /// One of few connections of HTTP/2 that many share.
    async fn shared_h2(&self, number: u64) -> Arc<H2> {
        let slot = number as usize % H2_CONNECTIONS;
        if let Some((h2, uses)) = &mut self.shared.lock().expect("shared")[slot]
            && *uses < H2_USES
        {
            *uses += 1;
            return h2.clone();
        }
        let h2 = Arc::new(H2::clear(self.h2c, None).await);
        self.shared.lock().expect("shared")[slot] = Some((h2.clone(), 1));
        h2
    }
}

const PATH: &str = "/v1/chat/completions";

fn ask_body(model: &str, number: u64, pad: &str, stream: bool, more: &str) -> String {
    format!(
        r#"{{"model":"{model}","messages":[{{"role":"user","content":"soak#{number}# {pad}"}}],"max_tokens":100,"stream":{stream}{more}}}"#
    )
}

fn post(ask: &Ask) -> Vec<u8> {
    let (bearer, id) = (format!("Bearer {KEY}"), format!("soak-{}", ask.number));
    let fields = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("x-request-id", id.as_str()),
    ];
    request("POST", PATH, &fields, ask.body.as_bytes())
}

/// What a caller who read it all has seen, or why nobody should ever see that.
pub fn judge(ask: &Ask, answer: &Response) -> Result<Seen, String> {
    if answer.end != Some(End::Whole) {
        return Err(format!(
            "the body ended with {:?}, status {}",
            answer.end, answer.status
        ));
    }
    let id = format!("soak-{}", ask.number);
    if answer.field("x-request-id") != Some(&id) {
        return Err("another request's id".to_owned());
    }
    match answer.status {
        200 if ask.stream => judge_stream(ask, answer),
        200 => {
            let body: Value = serde_json::from_slice(&answer.body).map_err(|e| e.to_string())?;
            let choice = &body["choices"][0];
            if choice["finish_reason"] != "stop"
                || body["model"] != ask.model
                || !body["usage"]["total_tokens"].is_u64()
            {
                return Err("not a whole answer of that model".to_owned());
            }
            is_own(
                ask,
                choice["message"]["content"].as_str().unwrap_or_default(),
                true,
            )?;
            Ok(Seen::Whole)
        }
        status if ALLOWED.contains(&status) => {
            let error = standard_error(answer)?;
            if status < 429
                && !error["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("injected"))
            {
                return Err(format!("{status}, which no upstream said"));
            }
            if matches!(status, 429 | 503)
                && answer.field("retry-after").is_none()
                && answer.field("x-should-retry") != Some("false")
            {
                return Err(format!("{status} without retry-after"));
            }
            Ok(Seen::Status(status))
        }
        status => Err(format!("status {status}")),
    }
}

fn judge_stream(ask: &Ask, answer: &Response) -> Result<Seen, String> {
    let text = std::str::from_utf8(&answer.body).map_err(|e| e.to_string())?;
    let (mut content, mut finishes, mut last) = (String::new(), 0, None);
    for block in text.split_terminator("\n\n") {
        if block.starts_with(':') {
            continue;
        }
        let data = block
            .strip_prefix("data: ")
            .ok_or_else(|| format!("no event: {block:?}"))?;
        match last {
            Some(Seen::Whole) => return Err("an event after [DONE]".to_owned()),
            Some(_) => return Err("an event after the error".to_owned()),
            None => {}
        }
        if data == "[DONE]" {
            last = Some(Seen::Whole);
            continue;
        }
        let event: Value = serde_json::from_str(data).map_err(|e| format!("{e} in {data:?}"))?;
        if event.get("error").is_some() {
            is_error(&event)?;
            last = Some(Seen::ErrorEvent);
            continue;
        }
        if event["model"] != ask.model {
            return Err(format!("a chunk of another model: {data}"));
        }
        content.push_str(&content_of(data));
        finishes += usize::from(event["choices"][0]["finish_reason"].is_string());
    }
    match (last, finishes) {
        (Some(Seen::Whole), 1) => is_own(ask, &content, true).map(|()| Seen::Whole),
        (Some(Seen::ErrorEvent), 0) => is_own(ask, &content, false).map(|()| Seen::ErrorEvent),
        (last, finishes) => Err(format!(
            "the stream ended with {last:?} and {finishes} finishes"
        )),
    }
}

/// Exactly what one upstream said to this request, or of a stream that broke its beginning.
fn is_own(ask: &Ask, content: &str, whole: bool) -> Result<(), String> {
    if content.is_empty() && !whole {
        return Ok(());
    }
    let text = Text::of(content).ok_or_else(|| format!("not an upstream's words: {content:?}"))?;
    let wanted = text.whole();
    if text.request != ask.number {
        return Err(format!("the answer to request {}", text.request));
    }
    match if whole {
        content == wanted
    } else {
        wanted.starts_with(content)
    } {
        true => Ok(()),
        false => Err(format!(
            "the text is not what {} said: {content:?}",
            text.upstream
        )),
    }
}

fn standard_error(answer: &Response) -> Result<Value, String> {
    if answer.end != Some(End::Whole)
        || answer.field("content-type") != Some("application/json")
        || answer.field("x-request-id").is_none()
    {
        return Err(format!("no standard error: {answer:?}"));
    }
    let body: Value = serde_json::from_slice(&answer.body).map_err(|e| e.to_string())?;
    is_error(&body)
}

fn is_error(body: &Value) -> Result<Value, String> {
    let error = &body["error"];
    let has_all = ["message", "type", "param", "code"]
        .iter()
        .all(|key| error.get(key).is_some());
    if has_all && error["message"].is_string() && error["type"].is_string() {
        Ok(error.clone())
    } else {
        Err(format!("no standard error: {body}"))
    }
}

fn cut_short(text: &str) -> String {
    text.chars().take(2000).collect()
}

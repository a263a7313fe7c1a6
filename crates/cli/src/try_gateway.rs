//! `portcullis try` asks a server as every client should: it lists the models, takes one, sends it
//! a small request, whole and as a stream, and holds the answers against the contract of the door.
//!
//! **Invariant:** the key is never an argument, and nothing that is printed has it. No request
//! waits longer than its bound.

mod call;
mod contract;
mod door;
mod key;

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::{environment_proxies, key::parse_span, print_error};
use crate::doctor::accounts::made_for;
use crate::doctor::report::{CheckState, Checked, Finding, Findings, Subject};
use crate::doctor::words::{failure_words, redact_long_secrets};
use call::{Answer, Server};
use contract::{Contents, find_first, find_member, find_text};
use dialects::neutral::ModelKind;
use dialects::wire::sse::Decoder;
use door::{Format, TryDoor};
use portcullis::account::failure::Failure;
use portcullis::base::host::is_this_machine;
use portcullis::base::problem::unless_secret;
use portcullis::base::secret::Secret;
use portcullis::base::units::cut_text;
use portcullis::catalog::resolve::parse_base;

/// The longest `--timeout`.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// The most characters that are shown of an answer.
const MAX_SHOWN: usize = 40;
/// The most models that are named.
const MAX_NAMED: usize = 5;

/// `try`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 if all is well, 1 if the server answers and something deviates from the format, 2 if a request or the command \
                  failed."
)]
pub struct TryArgs {
    /// The address of the server, as its clients write it, such as `https://llm.example.com/v1`
    /// [default: http://127.0.0.1:8080]
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// The model to ask. It may stand without a URL [default: the first of the list that is for
    /// chat]
    #[arg(value_name = "MODEL")]
    pub model: Option<String>,
    /// The file with the key; - is standard input [default: PORTCULLIS_KEY in the
    /// environment; or else portcullis.key, for a server of this machine]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// The format to ask in
    #[arg(long, value_enum, default_value_t = TryDoor::Chat)]
    pub door: TryDoor,
    /// The longest time for each answer
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "60s")]
    pub timeout: Duration,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. Exits with 0 if all is well, with 1 if something deviates, and with 2 if a
/// request failed.
pub(super) fn run(args: &TryArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ran = runtime
        .map_err(|why| format!("no request can be sent: {why}"))
        .and_then(|runtime| {
            let (mut trial, model) = Trial::prepare(args)?;
            runtime.block_on(trial.run(model));
            // A look-up of a name that hangs is left behind.
            runtime.shutdown_background();
            Ok(trial.report.finish())
        });
    ran.unwrap_or_else(|why| {
        print_error(&why);
        ExitCode::from(2)
    })
}

/// A server, and what is known of it so far.
struct Trial {
    door: TryDoor,
    server: Server,
    /// What is asked. It is added once the server answers.
    address: Option<Finding>,
    report: Findings,
    is_loopback: bool,
    request: Request,
    /// The models of the list that have plain names.
    listed: Vec<String>,
}

/// The request that findings are about.
struct Request {
    name: &'static str,
    key: Option<Secret>,
}

impl Request {
    fn redact(&self, text: &str) -> String {
        let key = self.key.iter().map(Secret::expose);
        redact_long_secrets(text, key.collect())
    }
}

impl Checked for Request {
    fn finding(
        &self,
        state: CheckState,
        check: impl Into<Cow<'static, str>>,
        seen: impl Into<String>,
    ) -> Finding {
        Subject::single(self.name).finding(state, check, self.redact(&seen.into()))
    }
}

impl Trial {
    /// Reads the arguments. Returns also the model that they name.
    fn prepare(args: &TryArgs) -> Result<(Trial, Option<String>), String> {
        let (url, model) = match (&args.url, &args.model) {
            (Some(word), None) if !is_address(word) => (None, Some(word)),
            (url, model) => (url.as_deref(), model.as_ref()),
        };
        if model.is_some_and(|model| unless_secret(model) != model) {
            return Err(key::NO_ARGUMENT.to_owned());
        }
        if model.is_some_and(|model| !is_plain_name(model)) {
            return Err("the name of a model has no space, `?`, `#` or `..`".to_owned());
        }
        if args.timeout.is_zero() {
            return Err("--timeout: an answer needs more time than none".to_owned());
        }
        let url = url.unwrap_or("http://127.0.0.1:8080");
        let mut base = parse_base(url, true).map_err(|why| format!("the URL {why}"))?;
        parse_base(url, false).map_err(|_| "the URL is http: to an address that may be public: use https:, so that nobody else reads the key")?;
        let format = args.door.format();
        // Clients of OpenAI's write the version into the URL, and others add it.
        let adds_version = matches!(args.door, TryDoor::Messages | TryDoor::Gemini);
        if base.path.is_empty() || adds_version && !base.path.contains("/v1") {
            base.path = format!("{}{}", base.path, format.version).into();
        }
        let proxies = environment_proxies()?;
        let is_loopback = is_this_machine(&base.host);
        let (key, origin) = key::read_key(args.key.as_deref(), is_loopback)?;
        let request = Request {
            name: "server",
            key: key.clone(),
        };
        let seen = format!("{}, door {}; {origin}", base.url(), format.name);
        let trial = Trial {
            door: args.door,
            server: Server::new(base, format, key, args.timeout.min(MAX_TIMEOUT), &proxies),
            address: Some(request.ok("address", seen)),
            report: Findings::new(args.json),
            is_loopback,
            request,
            listed: Vec::new(),
        };
        Ok((trial, model.cloned()))
    }

    async fn run(&mut self, given: Option<String>) {
        if let Some(model) = self.list_models(given).await
            && self.ask_model(&model, false).await
        {
            self.ask_model(&model, true).await;
        }
    }

    /// Lists the models, and returns the one to ask.
    async fn list_models(&mut self, given: Option<String>) -> Option<String> {
        self.request.name = "models";
        let (answer, mut contents) = match self.send("/models", None).await {
            Ok(answer) => (answer, Contents::default()),
            // A server without a list may still answer.
            Err(status) => return given.filter(|_| status == 404),
        };
        if let Some(failure) = &answer.cut {
            self.add_failure(failure);
            return None;
        }
        let [rules, entries, entry_rules, id] = self.door.format().list;
        let list = read_json(&answer, &mut contents).unwrap_or_default();
        contents.check(&list, rules);
        let models = find_member(&list, entries)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        for entry in models {
            contents.check(entry, entry_rules);
        }
        let mut names = models
            .iter()
            .map(|entry| (entry, find_text(entry, id).trim_start_matches("models/")));
        let first = names
            .clone()
            .find(|(entry, name)| is_plain_name(name) && is_for_chat(entry, name));
        let (model, reason) = match (given, first) {
            (Some(given), _) if names.any(|(_, name)| name == given) => {
                (Some(given), "as you wrote")
            }
            (Some(given), _) => (Some(given), "as you wrote, though it is not among them"),
            (None, Some((_, name))) => (Some(name.to_owned()), "the first that is for chat"),
            (None, None) => (None, ""),
        };
        let count = models.len();
        let plain_names = models
            .iter()
            .map(|entry| find_text(entry, id).trim_start_matches("models/"))
            .filter(|name| !name.is_empty() && is_plain_name(name));
        self.listed = plain_names.map(str::to_owned).collect();
        match &model {
            Some(model) => self.add("models", format!("{count} in all; asks {model}, {reason}")),
            None => self.fail(
                "models",
                format!("{count} in all, none for chat"),
                "name a MODEL. Or the key may use none, or no account lists one: run `portcullis doctor` where the gateway runs",
            ),
        }
        self.add_deviations(&contents);
        model
    }

    /// Asks a model, whole or as a stream. Returns whether it answers.
    async fn ask_model(&mut self, model: &str, is_stream: bool) -> bool {
        self.request.name = if is_stream { "stream" } else { "whole" };
        let (path, body) = self.door.request(model, is_stream);
        let Ok(answer) = self.send(&path, Some(&body)).await else {
            return false;
        };
        let mut contents = Contents::default();
        if is_stream {
            read_events(self.door.format(), &answer, &mut contents);
        } else if answer.cut.is_none()
            && let Some(json) = read_json(&answer, &mut contents)
        {
            contents.take_whole(self.door.format(), &json);
        }
        self.add_contents(&answer, &contents);
        if let Some(error) = &contents.error {
            let seen = error_text(&error.to_string());
            self.fail("error", seen, SEE_LOG);
        } else if let Some(failure) = &answer.cut {
            self.add_failure(failure);
        } else {
            self.add_deviations(&contents);
            return true;
        }
        false
    }

    /// Adds what an answer has.
    fn add_contents(&mut self, answer: &Answer, contents: &Contents) {
        self.add(
            "model",
            match answer.header("x-portcullis-model") {
                "" => contents.model.clone(),
                other => format!("{other}, as a fallback or by another name"),
            },
        );
        let text = self.request.redact(&contents.text);
        let text = cut_text(&text, MAX_SHOWN);
        self.add(
            "answer",
            format!("{text:?}, ends with {:?}", contents.finish),
        );
        let end = answer.pieces.last().map(|(time, _)| time.as_millis());
        self.add(
            "time",
            match contents.times {
                Some((first, last)) => {
                    let (first, last) = (first.as_millis(), last.as_millis());
                    format!("first token after {first} ms, last token after {last} ms")
                }
                None if answer.cut.is_some() => String::new(),
                None => format!("all of it after {} ms", end.unwrap_or(0)),
            },
        );
        let [input, output] = self.door.format().counts.map(|name| {
            let count = contents.usage.get(name);
            count.map_or("?".to_owned(), Value::to_string)
        });
        let cost = contents
            .usage
            .get("cost")
            .map_or(String::new(), |cost| format!("; cost {cost} USD"));
        self.add("tokens", format!("{input} in, {output} out{cost}"));
        self.add("dropped", answer.header("x-portcullis-dropped"));
    }

    /// Sends a request. Returns a good answer, or the status of another one.
    async fn send(&mut self, path: &str, body: Option<&Value>) -> Result<Answer, u16> {
        let sent = self.server.send(path, body).await;
        let answer = sent.map_err(|failure| {
            self.add_failure(&failure);
            0_u16
        })?;
        if let Some(address) = self.address.take() {
            self.report.add(address);
        }
        let id = match answer.request_id() {
            // The format does not ask for it. Google's servers send none.
            "" => "without an id (x-request-id), by which logs find it",
            id => id,
        };
        let seen = format!("HTTP {}, request {id}", answer.status);
        if answer.status == 200 {
            self.add("status", seen);
            return Ok(answer);
        }
        let usable_models = self.usable_models();
        let advice = match answer.status {
            401 if self.request.key.is_some() => {
                "this key is wrong, disabled, expired, or of another gateway: is the address right? `portcullis key list` where the \
                 gateway runs shows its keys, and `key new` makes one"
            }
            401 => {
                "give a key: --key FILE, --key -, or PORTCULLIS_KEY. `portcullis init` and `portcullis key new` make one; that of the \
                 shipped conf/ (`make run`) is sk-demo-portcullis-published"
            }
            403 => "this key may not do this, or not from here",
            300..400 => "it sends you to another address: try that one",
            404 | 405 if body.is_some() => &usable_models,
            404 | 405 => "is the URL right? Often it ends with /v1",
            429 if answer.is_final() => {
                "to wait does not help: the request is larger than the whole limit. Raise the limit, or use another key or model"
            }
            429 => "a limit is reached: wait",
            400..500 => "is it a model for chat, and the right --door?",
            503 if error_text(&answer.body()).starts_with("no_capacity:") => SEE_STATUS,
            _ => SEE_LOG,
        };
        let wait = match answer.header("retry-after") {
            "" => String::new(),
            seconds => format!(" (retry-after: {seconds})"),
        };
        let seen = format!("{seen}: {}{wait}", error_text(&answer.body()));
        self.fail("status", seen, advice);
        Err(answer.status)
    }

    /// Writes which models may be named instead: a few of the list.
    fn usable_models(&self) -> String {
        let names: Vec<String> = self
            .listed
            .iter()
            .take(MAX_NAMED)
            .map(|name| cut_text(&self.request.redact(name), MAX_SHOWN))
            .collect();
        match self.listed.len().saturating_sub(names.len()) {
            _ if names.is_empty() => "name a MODEL that the server has".to_owned(),
            0 => format!(
                "name a MODEL of the list: this key may use {}",
                names.join(", ")
            ),
            more => format!(
                "name a MODEL of the list: this key may use {} and {more} more",
                names.join(", ")
            ),
        }
    }

    /// Adds what was seen, if there is anything.
    fn add(&mut self, check: &'static str, seen: impl Into<String>) {
        let seen = seen.into();
        if !seen.is_empty() {
            self.report.add(self.request.ok(check, seen));
        }
    }

    fn fail(&mut self, check: &'static str, seen: String, advice: &str) {
        self.report.add(self.request.fail(check, seen, advice));
    }

    fn add_deviations(&mut self, contents: &Contents) {
        if contents.deviations.is_empty() {
            self.add("format", "as it should be");
        }
        for one in &contents.deviations {
            let seen = format!("{}: {}", one.member, one.seen);
            self.report.add(self.request.warn(
                "format",
                seen,
                format!("expected: {}", one.expected),
            ));
        }
    }

    fn add_failure(&mut self, failure: &Failure) {
        let advice = match failure.facts().name {
            "unreachable" if self.is_loopback => {
                "is the gateway running? `portcullis serve` starts it"
            }
            "unreachable" | "connect_timeout" => {
                "is the URL right, and can it be reached from here?"
            }
            "tls" => {
                "who signed the certificate must be known to this system, or be in the file of SSL_CERT_FILE"
            }
            "proxy" => "look at HTTPS_PROXY, HTTP_PROXY and NO_PROXY",
            name if name.ends_with("timeout") => {
                "the server hangs, or needs more time: `--timeout 5m`"
            }
            _ => SEE_LOG,
        };
        let authority = &self.server.ready_account.account.base.authority;
        let mut seen = failure_words(failure, &[]);
        if seen.starts_with("ConnectRefused") {
            seen = format!("nothing listens at {authority}");
        } else if self.address.is_some() {
            seen = format!("{authority}: {seen}");
        }
        self.fail("answer", seen, advice);
    }
}

/// What to do where only the server knows more.
const SEE_LOG: &str = "the log of the server has the reason";
/// What to do where no account of the gateway answers.
const SEE_STATUS: &str = "the gateway's /status names the cause (`problems`): `curl -s http://127.0.0.1:9090/status` where the gateway runs, or \
                          the address of `admin` in its server.yaml";

/// Returns whether a word is an address, and no model.
fn is_address(word: &str) -> bool {
    let port = word.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    word.contains("://") || port.is_some_and(|port| port.is_ok())
}

/// Returns whether a name can stand in a path. A list is foreign text.
fn is_plain_name(name: &str) -> bool {
    key::is_word_without(b"?#", name) && !name.contains("..")
}

/// Returns whether a model is for chat: by the list, or else by its name.
fn is_for_chat(entry: &Value, name: &str) -> bool {
    let listed = [
        ("kinds", "chat"),
        ("supportedGenerationMethods", "generateContent"),
    ]
    .iter()
    .find_map(|(member, kind)| Some(entry.get(member)?.as_array()?.iter().any(|one| one == kind)));
    !name.is_empty() && listed.unwrap_or_else(|| made_for(None, name) == ModelKind::Chat)
}

/// Reads a stream. What must be in its end is not missed if it broke off.
fn read_events(format: &Format, answer: &Answer, contents: &mut Contents) {
    check_content_type(answer, "text/event-stream", contents);
    let mut decoder = Decoder::new(usize::MAX);
    for (time, bytes) in &answer.pieces {
        let fed = decoder.feed(bytes, |event| {
            let [name, data] = [event.name, event.data].map(String::from_utf8_lossy);
            contents.take_event(format, &name, &data, *time);
            ControlFlow::<()>::Continue(())
        });
        // No event is too long: the whole body has a limit.
        debug_assert!(fed.is_ok());
    }
    if answer.cut.is_none() {
        contents.check_end(format);
    }
}

fn read_json(answer: &Answer, contents: &mut Contents) -> Option<Value> {
    check_content_type(answer, "application/json", contents);
    let body = answer.body();
    let json = serde_json::from_str(&body).ok();
    if json.is_none() {
        contents.note("body", format!("{body:?}"), "JSON");
    }
    json
}

fn check_content_type(answer: &Answer, expected: &str, contents: &mut Contents) {
    let kind = answer.header("content-type");
    if !kind.starts_with(expected) {
        contents.note("content-type", format!("{kind:?}"), expected);
    }
}

/// Returns the code and the message of an error, in the form of any door.
fn error_text(body: &str) -> String {
    let json: Value = serde_json::from_str(body).unwrap_or_default();
    let error = find_first(&json, &["error", "response.error"]).unwrap_or(&json);
    let codes = ["code", "status", "type"].map(|member| find_text(error, member));
    let code = codes
        .into_iter()
        .find(|code| !code.is_empty())
        .unwrap_or("error");
    match error
        .as_str()
        .unwrap_or_else(|| find_text(error, "message"))
    {
        "" => format!("no standard error body, but {body:?}"),
        message => format!("{code}: {message}"),
    }
}

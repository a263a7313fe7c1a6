//! The book's tables of access lines, metrics and headers.
//!
//! **Invariant:** at the end of every test, the access lines, the `/metrics` and all heads of
//! answers of its gateway are compared with these tables. So the gateway writes nothing that the
//! book does not name. `reference` writes the tables into the book, and shows that they name
//! nothing that the code does not write.

use serde_json::Value;

/// A field of the access line.
pub struct Field {
    pub name: &'static str,
    /// The condition under which the field is there; empty = always.
    pub when: &'static str,
    pub example: &'static str,
    pub meaning: &'static str,
}

const fn always(name: &'static str, example: &'static str, meaning: &'static str) -> Field {
    Field {
        name,
        when: "",
        example,
        meaning,
    }
}

const fn only(
    name: &'static str,
    when: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Field {
    Field {
        name,
        when,
        example,
        meaning,
    }
}

#[rustfmt::skip]
pub const LINE: &[Field] = &[
    always("time", r#""2026-11-21T03:23:09.423Z""#, "The time at which the request's head was there, in UTC."),
    always("request_id", r#""01a1fc21-16ef-7125-9927-cd7456b5286e""#, "The id of the request, which the caller sees as `x-request-id`: the caller's own if it sent a well-formed one, else one that was made."),
    only("trace_id", "with `traces` in server.yaml, or if the caller sends a `traceparent`", r#""01a1fc2116ef71259927cd7456b5286e""#, "The trace of the request: see [Traces](../traces.md). Without a `traceparent` it is the digits of the `request_id` that was made."),
    always("caller", r#""acme""#, "Who called; null if the key is not known. A key that is disabled, has expired or may not be used from that address is known."),
    always("key", r#""acme/prod""#, "The name of the key, never its secret; null if it is not known."),
    always("address", r#""10.1.2.3""#, "The caller's address; behind a proxy that `trusted_proxies` names, the address that the proxy sends."),
    only("end_user", "if the caller names it", r#""b5bb9d8014a0f9b1""#, "The caller's own name for its end user, as the first 16 hexadecimal digits of its SHA-256: of `safety_identifier` or `user`, and of Anthropic's `metadata.user_id`."),
    always("door", r#""chat""#, "What was asked for: `chat`, `messages`, `responses`, `gemini`, `gemini_array`, `models` (the list), `model` (one of them), `count` (the tokens of a request), `key` and `usage` (what a key asks about itself), `preflight` (a browser's question before a call), `none` (nothing that there is)."),
    always("method", r#""POST""#, "The HTTP method, cut short."),
    always("path", r#""/v1/chat/completions""#, "The path without the query, cut short."),
    only("session", "if the client names it", r#""01a201b3-f2cc-74d0-8abe-d6e8e7e2da84""#, "The client's own name for the conversation, cut short: `x-portcullis-session`, or the header in which clients of this door send it."),
    always("model", r#""fast""#, "The model's id from the catalog; null if there is no such model."),
    only("asked_model", "if `model` is null and the request named a model", r#""gpt-5-mini""#, "The model that was asked for, cut short: the catalog has no such model for this key."),
    always("account", r#""openai-main""#, "The account that answered, or was tried last; null if none was."),
    always("upstream_model", r#""gpt-4o-mini""#, "The name by which that account knows the model."),
    always("stream", "false", "Whether a stream was asked for."),
    always("status", "200", "The HTTP status that the caller saw; 499 if the caller left."),
    always("outcome", r#""ok""#, "How the request ended: see [Outcomes of requests](#outcomes-of-requests)."),
    always("attempts", "[…]", "Every try at an upstream: see [Attempts](#attempts)."),
    always("first_byte_ms", "423", "Milliseconds from the request's head to the first byte of data of the answer; null if there was none."),
    always("total_ms", "423", "Milliseconds from the request's head to the end of the answer."),
    always("own_us", "290", "Microseconds that Portcullis itself worked on the request, as opposed to waited."),
    always("auth_us", "41", "Microseconds from the head until the key was known; null if it never was."),
    always("plan_us", "38", "Microseconds from the end of the body until it was known which targets may be asked; null if it never was."),
    only("queued_ms", "if it waited", "120", "Milliseconds that the request waited for a place at an account."),
    only("not_retried", "if there was another target", r#""budget""#, "Why no further target was asked: `budget` (the retry budget is used up), `deadline` (no time is left), `nobody_fit` (the targets that are left were full, resting or left alone)."),
    always("prompt_tokens", "9", "Tokens that were read."),
    always("completion_tokens", "3", "Tokens that were written."),
    always("cached_tokens", "0", "Tokens that were read out of the upstream's cache; they are part of `prompt_tokens`."),
    only("images", "if there are any", "1", "Pictures that were made."),
    only("audio_ms", "if it is known", "2500", "The length of the sound that was read or made, in milliseconds."),
    only("characters", "if text was spoken", "240", "Characters of that text."),
    always("usage", r#""reported""#, "Who counted the tokens: `reported` (the upstream), `estimated` (Portcullis), `none` (there are none)."),
    always("cost_usd", "3.15e-6", "US dollars that the answer cost; null if the price is unknown, or the request was not admitted."),
    only("limited_by", "if a limit refused it", r#""key requests_per_minute""#, "The level (`caller`, `key`, `key_model`) and the limit that refused the request."),
    always("bytes_in", "63", "Bytes of the request's body."),
    always("bytes_out", "262", "Bytes of the answer's body."),
    always("upstream_request_id", r#""req_123""#, "The upstream's own id of the request; null if it sent none."),
    always("maybe_billed", "false", "Whether an upstream may charge for an answer that the caller did not get in full."),
    only("dropped", "if there is one", r#"["seed"]"#, "Fields of the request that were not sent to the upstream or that it did not heed; and `tool_calls[].function.arguments` or `response_format` if the answer breaks them."),
    only("broken_calls", "if there is one", "1", "How many tool calls of a whole answer have arguments that are no JSON object; with `on_broken_call: error`, those of the last answer."),
    only("not_json", "if it is so", "true", "JSON was asked for, and the content of the whole answer is not JSON."),
    only("error", "if it is an error", r#""The body did not come in time.""#, "The message of the error that the caller got, cut short. If the upstream refused the request, the text only says that."),
];

/// The fields of each of `attempts`.
#[rustfmt::skip]
pub const ATTEMPT: &[Field] = &[
    always("account", r#""gpu-1""#, "The account."),
    always("model", r#""qwen3-4b""#, "The name by which the account knows the model."),
    only("endpoint", "if it is not `chat`", r#""responses""#, "The kind of endpoint that was asked."),
    always("outcome", r#""unreachable""#, "How the attempt ended: see [Outcomes of attempts](#outcomes-of-attempts)."),
    always("at_ms", "3", "Milliseconds from the request's head until the attempt began."),
    always("ms", "422", "Milliseconds that it took."),
    only("status", "if it answered", "200", "The upstream's HTTP status."),
    only("connect_ms", "if a connection was made", "12", "Milliseconds until there was a connection."),
    only("resent", "if it was", "true", "The request was sent a second time, since a connection that had been used before ended before an answer. The upstream may have got the first one."),
    only("times", "if they were several", "21", "How many slices of one request ended in this way. The beginning is the first slice's, the times are the longest, the tokens and the cost are sums."),
    only("first_ms", "if it began to answer", "380", "Milliseconds until it began to answer."),
    only("prompt_tokens", "if no caller got the answer", "9", "Tokens that may be charged for reading, although no caller got the answer."),
    only("completion_tokens", "if no caller got the answer", "3", "Tokens that may be charged for writing, although no caller got the answer."),
    only("cost_usd", "if no caller got the answer", "3.15e-6", "US dollars that these tokens cost; null if the price is unknown."),
    only("detail", "if there is one", r#""ConnectRefused: Connection refused (os error 111)""#, "The error of the network, or `type`, `code` and `param` of the upstream's error."),
];

/// The outcomes of requests.
pub const OUTCOMES: &[(&str, &str)] = &[
    ("ok", "The caller got a whole answer."),
    (
        "refused",
        "The request is at fault, or names something that is not there.",
    ),
    (
        "unauthorized",
        "There is no good key. If `key` names one, it is disabled, has expired, may not be used from that address, or its secret is an old one whose time is over.",
    ),
    (
        "limited",
        "A limit of the caller's has no room: `limited_by` names it.",
    ),
    (
        "no_capacity",
        "The gateway has no room, its store or its ledger does not answer, or no account can take the request.",
    ),
    ("unsupported", "No target can do what the request asks for."),
    ("upstream_error", "The upstream failed."),
    ("upstream_timeout", "The upstream was too slow."),
    (
        "upstream_cut",
        "The upstream ended in the middle of the answer.",
    ),
    ("client_left", "The caller left."),
    ("shutdown", "The process ended first."),
    ("internal", "A fault of Portcullis."),
];

/// The outcomes of attempts.
pub const ATTEMPT_OUTCOMES: &[(&str, &str)] = &[
    ("ok", "It answered."),
    ("unreachable", "There was no connection."),
    ("connect_timeout", "`timeouts.connect` was over."),
    (
        "proxy",
        "The account's proxy gave no connection: `detail` has its host and the reason.",
    ),
    (
        "tls",
        "TLS failed, such as for a certificate that is not good.",
    ),
    (
        "send_timeout",
        "The upstream did not take the request in time.",
    ),
    ("reset", "The connection broke."),
    ("first_byte_timeout", "`timeouts.first_byte` was over."),
    ("first_token_timeout", "`timeouts.first_token` was over."),
    ("idle_timeout", "`timeouts.idle` was over."),
    ("total_timeout", "`timeouts.total` was over."),
    ("slower", "Another attempt began to answer first."),
    ("not_needed", "Another attempt has decided."),
    (
        "declined",
        "The model refused to answer, and another model was asked (`fallbacks_on.refusal`).",
    ),
    ("nonsense", "The answer cannot be understood."),
    (
        "broken_call",
        "The answer calls a tool with broken JSON (`on_broken_call: error`).",
    ),
    ("cut", "The answer ended in its middle."),
    (
        "error_in_answer",
        "There was an error inside a 200 or inside a stream.",
    ),
    (
        "status",
        "A status of 500 or above, or another one that may pass, such as 408.",
    ),
    ("rate_limited", "429."),
    (
        "overloaded",
        "The provider is overloaded, for all its callers: 529, a 503 with such an error, or such an error inside a 200 or a stream.",
    ),
    (
        "credential",
        "The account's credential or money: 401, 402, `insufficient_quota`.",
    ),
    (
        "refused",
        "403, 404, another status from 400 on, or a redirect.",
    ),
    (
        "callers_fault",
        "The upstream finds fault with the request itself.",
    ),
    ("no_room", "`limits.buffered_total` is used up."),
    (
        "no_descriptors",
        "The gateway has no [file descriptor](../operate.md#file-descriptors) for a connection.",
    ),
    ("client_left", "The caller left."),
    (
        "given_up",
        "The caller left before the first byte, after much more than the account's usual time.",
    ),
    ("shutdown", "The process ended first."),
    ("internal", "A fault of Portcullis."),
];

/// Compares an access line with the tables.
pub fn check_line(line: &Value) -> Result<(), String> {
    fields(line, LINE)?;
    word(&line["outcome"], OUTCOMES)?;
    for attempt in line["attempts"].as_array().ok_or("`attempts` is no list")? {
        fields(attempt, ATTEMPT)?;
        word(&attempt["outcome"], ATTEMPT_OUTCOMES)?;
    }
    Ok(())
}

fn fields(written: &Value, table: &[Field]) -> Result<(), String> {
    let object = written
        .as_object()
        .ok_or_else(|| format!("{written} is no object"))?;
    let unknown = object
        .keys()
        .find(|name| table.iter().all(|field| field.name != *name));
    let missing = table
        .iter()
        .find(|field| field.when.is_empty() && !object.contains_key(field.name));
    match (unknown, missing) {
        (Some(name), _) => Err(format!(
            "the book does not name the field {name:?} of the access line: {written}"
        )),
        (_, Some(field)) => Err(format!(
            "the book names the field {:?}, which is not in {written}",
            field.name
        )),
        (None, None) => Ok(()),
    }
}

fn word(written: &Value, table: &[(&str, &str)]) -> Result<(), String> {
    match written.as_str() {
        Some(word) if table.iter().any(|(known, _)| *known == word) => Ok(()),
        _ => Err(format!("the book does not name the outcome {written}")),
    }
}

/// A metric. Its help is the code's own text; `more` is what the book adds.
pub struct Metric {
    pub name: &'static str,
    pub kind: &'static str,
    pub labels: &'static [&'static str],
    pub help: &'static str,
    pub more: &'static str,
}

const fn metric(
    name: &'static str,
    kind: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    more: &'static str,
) -> Metric {
    Metric {
        name,
        kind,
        labels,
        help,
        more,
    }
}

#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    metric("portcullis_requests_total", "counter", &["door", "model", "account", "caller", "outcome"], "Exchanges by how they ended", "`door` and `outcome` are those of the [access line](access-line.md)."),
    metric("portcullis_request_seconds", "histogram", &["door", "model"], "From the request's head to the answer's last byte", "`total_ms` of the access line."),
    metric("portcullis_first_byte_seconds", "histogram", &["door", "model"], "From the request's head to the answer's first byte", "`first_byte_ms` of the access line."),
    metric("portcullis_own_seconds", "histogram", &["door", "model"], "Time that an exchange spent running in Portcullis itself", "`own_us` of the access line."),
    metric("portcullis_tokens_total", "counter", &["model", "account", "caller", "kind"], "Tokens, as counted or estimated", "`kind` is `prompt` or `completion`; `cached`, `cache_write` and `reasoning` are parts of these."),
    metric("portcullis_cost_usd_total", "counter", &["model", "account", "caller"], "US dollars that tokens cost, where their price is known", ""),
    metric("portcullis_cost_unknown_total", "counter", &["model", "account"], "Answers whose price is not known", ""),
    metric("portcullis_limited_total", "counter", &["caller", "level", "limit"], "Requests refused by a limit of their caller, key or key's model", "`level` is `caller`, `key` or `key_model`; `limit` is its name, such as `requests_per_minute`."),
    metric("portcullis_attempts_total", "counter", &["model", "account", "outcome"], "Attempts at upstream accounts by how they ended", "`model` is the model that the caller asked for; `outcome` is the outcome of an attempt in the access line."),
    metric("portcullis_resent_total", "counter", &["account"], "Attempts that sent their request once more, since a connection that was used before ended", "`attempts[].resent` of the access line. Many mean that something between closes idle connections early."),
    metric("portcullis_given_up_total", "counter", &["model", "account"], "Attempts whose caller left before the first byte, after much more than the usual time", "The account may [hang](../problems.md#given_up)."),
    metric("portcullis_first_token_seconds", "histogram", &["model", "account"], "From the start of an attempt at an account to the first piece of its streamed answer", "Only of streams: other answers have no first token. `attempts[].first_ms` of the access line."),
    metric("portcullis_usage_estimated_total", "counter", &["door", "model"], "Exchanges whose tokens had to be estimated", ""),
    metric("portcullis_dropped_params_total", "counter", &["model", "account", "param"], "Fields of requests that the upstream's format cannot express", "A field that only the caller knows is `other`."),
    metric("portcullis_in_flight", "gauge", &["account"], "Requests in flight at an account", ""),
    metric("portcullis_account_state", "gauge", &["account", "state"], "1 for the state that an account is in", "`state` is `ok`, `partly`, `out` or `off`: see [States](../page.md#states-of-targets-and-accounts)."),
    metric("portcullis_account_reason", "gauge", &["account", "reason"], "1 for the reason why an account is not ok", "`reason` is `credential`, `breaker`, `unfit`, `rate` or `off`. All are 0 while the account is `ok`."),
    metric("portcullis_target_state", "gauge", &["account", "model", "endpoint", "state"], "1 for the state that a target is in", "`endpoint` is `chat` or `responses`; `state` is `ok`, `open`, `half_open`, `resting` or `off`."),
    metric("portcullis_target_probing", "gauge", &["account", "model", "endpoint"], "1 while a request tests whether a target works again", "Only of targets that are `half_open`."),
    metric("portcullis_headroom_ratio", "gauge", &["account"], "Share that is left of an account's tightest quota, as its provider last reported", "From 0 to 1."),
    metric("portcullis_hedges_total", "counter", &["model", "outcome"], "Second attempts while a slow first one runs, by whether they were faster", "`outcome` is `won` or `lost`."),
    metric("portcullis_waiting", "gauge", &["model"], "Requests that wait in the queue of a model", ""),
    metric("portcullis_queue_seconds", "histogram", &["model"], "Time in the queue of a model, of the requests that waited", "`queued_ms` of the access line."),
    metric("portcullis_shed_total", "counter", &["model"], "Requests refused because all accounts were busy and the queue was full", ""),
    metric("portcullis_retries_spared_total", "counter", &["model"], "Requests that failed and were not tried again because of the retry budget", ""),
    metric("portcullis_unused_tokens_total", "counter", &["model", "account", "kind"], "Tokens that a provider may charge for attempts whose answer no caller got", "`kind` is `prompt` or `completion`."),
    metric("portcullis_limit_used_ratio", "gauge", &["caller", "level", "limit"], "Share of a caller's limit that is used, as this instance counts it; the highest of its keys", "From 0 to 1; higher if an answer used more than was expected. If `metrics.labels` leaves `caller` out, it is the highest of all callers. Only of callers with limits; if there are more than 1,000 of them, the most used ones. `level` and `limit` are those of `portcullis_limited_total`. With a `store`, the sum over all instances is the share that is used; without one, each instance allows the whole limit."),
    metric("portcullis_old_hash_uses_total", "counter", &["key"], "Requests with a secret that is being replaced", "Only of keys that are being rotated: a secret that ends before the newest does."),
    metric("portcullis_tokens_refused_total", "counter", &["identity", "reason"], "Requests with a token of an issuer that was not taken, by why", "The identity is empty if the issuer is unknown. A genuine token has the claim's reason, such as `expired`, `audience` or `no_caller`."),
    metric("portcullis_catalog_generation", "gauge", &[], "Number of catalogs that were taken since the start", ""),
    metric("portcullis_catalog_last_success_seconds", "gauge", &[], "Unix time at which the present catalog was taken", ""),
    metric("portcullis_catalog_refusals_total", "counter", &[], "Changes of the catalog that were refused", ""),
    metric("portcullis_reload_failed", "gauge", &[], "1 while the files hold a catalog that was refused", ""),
    metric("portcullis_catalog_shrunk_total", "counter", &[], "Changes taken although they removed more than half of the accounts, models or callers", "They were taken after the hold of 5 s."),
    metric("portcullis_catalog_waiting_seconds", "gauge", &[], "Seconds that the oldest change of the files waits to be live; 0 if no change waits", ""),
    metric("portcullis_access_lines_dropped", "gauge", &[], "Access lines dropped because they could not be written, or not fast enough", "Should stay 0."),
    metric("portcullis_connections_refused_total", "counter", &[], "Connections closed at once because callers had as many as they may have", "That is `limits.connections`, or fewer if the process may have [few files open](../operate.md#file-descriptors). Should stay 0."),
    metric("portcullis_descriptors_lacking_total", "counter", &[], "Connections that were not made because no file descriptor was free for them", "Should stay 0: see [no_descriptors](../problems.md#no_descriptors)."),
    metric("portcullis_panics_total", "counter", &[], "Exchanges that ended in a panic, which is a bug of Portcullis", "Should stay 0."),
    metric("portcullis_problems", "gauge", &["rule", "severity"], "Problems that the gateway sees now, as the page and /status list them", "`severity` is `critical` or `warning`. Each rule has [its heading in this book](../problems.md)."),
    metric("portcullis_label_sets", "gauge", &[], "Sets of a model, an account and a caller that have series; at metrics.series, further ones count as other", "See [How many series](../logs.md#how-many-series)."),
    metric("portcullis_ledger_rows_total", "counter", &[], "Rows written to the ledger", ""),
    metric("portcullis_ledger_dropped_total", "counter", &[], "Rows dropped because the ledger could not be written for long", "Should stay 0."),
    metric("portcullis_ledger_up", "gauge", &[], "1 while the ledger can be written; 0 if not, or if it is switched off", ""),
    metric("portcullis_store_up", "gauge", &[], "1 while the store that gateways share decides over limits", "Only with a `store`."),
    metric("portcullis_store_errors_total", "counter", &[], "Admissions that the store did not answer in time, and its connections that failed", "Only with a `store`."),
    metric("portcullis_store_seconds", "histogram", &[], "Time that the store takes to answer an admission", "Only with a `store`."),
    metric("portcullis_spans_exported_total", "counter", &[], "Spans that the receiver of traces has taken", "Only with [`traces`](../traces.md)."),
    metric("portcullis_spans_dropped_total", "counter", &["reason"], "Spans that were not sent, by why", "`reason` is `queue_full` (too many wait), `failed` (the receiver cannot be reached, or does not answer), `refused` (it answers with an error), `rejected` (it takes some spans of a message and not others) or `ended` (the process ended before they were sent). Only with [`traces`](../traces.md). Should stay 0."),
    metric("portcullis_build_info", "gauge", &["version"], "1, with the version of Portcullis as its label", ""),
    metric("portcullis_certificate_expiry_seconds", "gauge", &["listener"], "Unix time at which the certificate of a TLS listener ends", "`portcullis_certificate_expiry_seconds - time()` is how long it is still valid. Only of listeners with TLS; `listener` is the address as in server.yaml. After SIGHUP it is the time of the new certificate."),
    metric("process_cpu_seconds_total", "counter", &[], "Time that the process used processors", ""),
    metric("process_resident_memory_bytes", "gauge", &[], "Memory of the process that is in RAM", ""),
    metric("process_open_fds", "gauge", &[], "File descriptors that the process has open, connections included", ""),
    metric("process_max_fds", "gauge", &[], "File descriptors that the process may have open", ""),
    metric("process_threads", "gauge", &[], "Threads of the process", ""),
    metric("process_start_time_seconds", "gauge", &[], "Unix time at which the process started", ""),
];

/// Compares the text of `/metrics` with the table.
pub fn check_metrics(text: &str) -> Result<(), String> {
    let mut present: Option<&Metric> = None;
    for line in text.lines() {
        if let Some((family, help)) = line
            .strip_prefix("# HELP ")
            .and_then(|rest| rest.split_once(' '))
        {
            let is_it = |metric: &&Metric| {
                metric.name == family || metric.name.strip_suffix("_total") == Some(family)
            };
            let metric = METRICS
                .iter()
                .find(is_it)
                .ok_or_else(|| format!("the book does not name {family}"))?;
            if metric.help != help.trim_end_matches('.') {
                return Err(format!(
                    "the help of {family} is {help:?}, and the book says {:?}",
                    metric.help
                ));
            }
            present = Some(metric);
        } else if let Some((_, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.rsplit_once(' '))
        {
            let metric = present.ok_or("a type without a help")?;
            if metric.kind != kind {
                return Err(format!(
                    "{} is a {kind}, and the book says {}",
                    metric.name, metric.kind
                ));
            }
        } else if !line.starts_with('#') {
            let metric = present.ok_or("a sample without a help")?;
            let labels: Vec<String> = labels(line)
                .into_iter()
                .filter(|label| label != "le")
                .collect();
            if labels != metric.labels {
                return Err(format!(
                    "{} has the labels {labels:?}, and the book says {:?}",
                    metric.name, metric.labels
                ));
            }
        }
    }
    Ok(())
}

/// Returns the names of a sample's labels.
fn labels(sample: &str) -> Vec<String> {
    let sample = sample.replace("\\\\", "").replace("\\\"", "");
    let Some((_, rest)) = sample.split_once('{') else {
        return Vec::new();
    };
    let outside = rest.split('"').step_by(2);
    outside
        .filter_map(|piece| piece.trim_start_matches(',').strip_suffix('='))
        .map(str::to_owned)
        .collect()
}

/// A header and its meaning.
pub type Header = (&'static str, &'static str);

/// The headers of a caller's request that the gateway reads.
#[rustfmt::skip]
pub const READ: &[Header] = &[
    ("authorization", "The key, as `Bearer sk-…`."),
    ("x-api-key", "The key, as clients of Anthropic's send it. Several of these four may be sent if they agree."),
    ("api-key", "The key, as clients of Azure's send it."),
    ("x-goog-api-key", "The key, as clients of Google's send it."),
    ("x-request-id", "The id of the request, if it is well formed; else one is made."),
    ("x-claude-code-session-id", "The conversation, from Claude Code, if `x-portcullis-session` is not there."),
    ("session-id", "The conversation, from Codex, if `x-portcullis-session` is not there."),
    ("session_id", "The conversation, from older versions of Codex."),
    ("thread-id", "The conversation, from Codex, if it sends none of the others."),
    ("x-goog-api-client", "Which list of models is meant: Google's. So does `x-goog-api-key`, or `?key=`."),
    ("anthropic-version", "Which list of models is meant: Anthropic's."),
    ("anthropic-beta", "The betas that a Messages request uses. Anthropic's own API gets it; it means nothing to others."),
    ("x-portcullis-session", "The conversation, for models with `sticky: true`: 512 bytes at most."),
    ("x-portcullis-input-type", "What the vectors are for, if the request has no field that says it."),
    ("x-portcullis-timeout", "A shorter `timeouts.total` for this request: in seconds (`2.5`) or with a unit (`2500ms`, `30s`)."),
    ("x-forwarded-for", "The caller's address, if the connection comes from one of `trusted_proxies`."),
    ("content-type", "Must be JSON, or be left out; what `curl -d` sends by itself is taken too, if the body is JSON."),
    ("content-encoding", "`gzip` is unpacked; another one is refused with 415."),
    ("content-length", "The length of the body."),
    ("transfer-encoding", "`chunked`, once, and nothing else."),
    ("expect", "`100-continue` is answered when the body is wanted."),
    ("connection", "May not name one of the headers that decide who asks and what."),
    ("origin", "A web page's origin, held against `cors.origins`."),
    ("access-control-request-headers", "The headers that a web page wants to send: all are allowed to a page of `cors.origins`."),
];

/// The headers that the gateway sends to an upstream.
#[rustfmt::skip]
pub const SENT: &[Header] = &[
    ("host", "The host of `base_url`."),
    ("content-type", "`application/json`."),
    ("content-length", "The length of the body."),
    ("accept", "The form in which the dialect answers."),
    ("accept-encoding", "`identity`."),
    ("user-agent", "`portcullis/` and its version."),
    ("x-request-id", "The id of the request."),
    ("authorization", "The account's credential: a bearer, or AWS's signature."),
    ("x-api-key", "The account's credential, to Anthropic."),
    ("api-key", "The account's credential, to Azure."),
    ("x-goog-api-key", "The account's credential, to Gemini."),
    ("anthropic-version", "The version of Anthropic's API."),
    ("anthropic-beta", "A feature of Anthropic's that the request needs."),
    ("x-amz-date", "To Bedrock, if requests are signed: the time of the signature."),
    ("x-amz-security-token", "To Bedrock, if requests are signed with a temporary key: its token."),
];

/// The headers of an upstream's answer that the gateway reads.
#[rustfmt::skip]
pub const HEARD: &[Header] = &[
    ("content-type", "Whether the answer is JSON, a stream of events, or neither."),
    ("content-encoding", "A packed answer cannot be understood: none was asked for."),
    ("x-request-id", "The upstream's own id of the request, for the access line."),
    ("request-id", "Anthropic's id of the request."),
    ("x-amzn-requestid", "AWS's id of the request."),
    ("apim-request-id", "Azure's id of the request."),
    ("x-amzn-errortype", "The type of an error of AWS."),
    ("retry-after-ms", "How long the account gets no requests after a 429, in milliseconds."),
    ("retry-after", "How long the account gets no requests, in seconds or as a date."),
    ("ratelimit", "A quota in the newer draft of the IETF: what is left of it, and when it is whole again."),
    ("ratelimit-policy", "The size of that quota."),
];

/// The headers about a provider's quotas that the gateway reads: what is left, the quota, and the
/// time at which it is whole again.
#[rustfmt::skip]
pub const QUOTAS: &[([&str; 3], &str)] = &[
    (["x-ratelimit-remaining-requests", "x-ratelimit-limit-requests", "x-ratelimit-reset-requests"], "Requests: OpenAI, and all that copy it."),
    (["x-ratelimit-remaining-tokens", "x-ratelimit-limit-tokens", "x-ratelimit-reset-tokens"], "Tokens: OpenAI, and all that copy it."),
    (["x-ratelimit-remaining-project-tokens", "x-ratelimit-limit-project-tokens", "x-ratelimit-reset-project-tokens"], "Tokens of a project: OpenAI."),
    (["x-ratelimit-remaining-requests-day", "x-ratelimit-limit-requests-day", "x-ratelimit-reset-requests-day"], "Requests of a day: Cerebras."),
    (["x-ratelimit-remaining-tokens-minute", "x-ratelimit-limit-tokens-minute", "x-ratelimit-reset-tokens-minute"], "Tokens of a minute: Cerebras."),
    (["anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-reset"], "Requests: Anthropic."),
    (["anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-reset"], "Tokens: Anthropic."),
    (["anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-limit", "anthropic-ratelimit-input-tokens-reset"], "Tokens that are read: Anthropic."),
    (["anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-limit", "anthropic-ratelimit-output-tokens-reset"], "Tokens that are written: Anthropic."),
    (["x-ratelimit-remaining", "x-ratelimit-limit", "x-ratelimit-reset"], "No kind is named: OpenRouter and other gateways."),
    (["ratelimit-remaining", "ratelimit-limit", "ratelimit-reset"], "No kind is named: an older draft of the IETF."),
];

/// The headers of the gateway's answers to callers.
#[rustfmt::skip]
pub const ANSWERED: &[Header] = &[
    ("x-request-id", "On every answer: the id of the request. It is sent to the upstream, too."),
    ("request-id", "The `x-request-id`, on answers of `/v1/messages`: Anthropic's clients read it there."),
    ("x-portcullis-model", "The model that answered, if it was a fallback, or if only a glob among the aliases matches the name that was asked for."),
    ("x-portcullis-dropped", "Fields of the request that the account's dialect cannot express, such as `seed, logit_bias`; and what is not whole in the answer: a call whose arguments are no JSON (`tool_calls[].function.arguments`), text where JSON was asked for (`response_format`)."),
    ("x-portcullis-usage", "`estimated`: the upstream did not count all tokens, or sent an impossible number. An estimate is a quarter of the text's UTF-8 bytes, rounded up."),
    ("x-portcullis-attempts", "For keys with `debug: true`: the trail so far, such as `gpu-1;unreachable;0ms, openai-main;ok;422ms`; several of slices end with `;21 times`. It names accounts."),
    ("server-timing", "For keys with `debug: true`, in milliseconds: `auth`, `plan`, `queue`, `connect` and `first_byte` of the attempt that answers, `own`. In a stream this header and `x-portcullis-attempts` tell of the time until it began; at its end the usage chunk has both once more, as `x_portcullis.attempts` and `x_portcullis.server_timing`."),
    ("retry-after", "On a refusal: when a new try may help, in seconds."),
    ("x-should-retry", "On a refusal: `false` if a new try cannot help. The official clients obey it."),
    ("x-ratelimit-limit-requests", "The caller's limit on requests with the least left, if there is one. This header and the next five stand on every answer to a chat completion that came as far as its limits."),
    ("x-ratelimit-remaining-requests", "What is left of it."),
    ("x-ratelimit-reset-requests", "When all of it would be free again, such as `12s` or `6m0s`."),
    ("x-ratelimit-limit-tokens", "The caller's limit on tokens with the least left, if there is one."),
    ("x-ratelimit-remaining-tokens", "What is left of it."),
    ("x-ratelimit-reset-tokens", "When all of it would be free again."),
    ("allow", "On 405: the methods that are allowed."),
    ("www-authenticate", "On 401: `Bearer`."),
    ("content-type", "`application/json`, also on streams of Gemini without `alt=sse`; `text/event-stream` on all other streams; `text/plain` on `/livez` and `/readyz`."),
    ("content-length", "The length of the body, unless it is a stream."),
    ("transfer-encoding", "`chunked`, on streams by HTTP/1.1."),
    ("cache-control", "On streams: `no-cache, no-transform`."),
    ("x-accel-buffering", "On streams: `no`, so that nginx passes events on at once."),
    ("connection", "Whether the connection stays open."),
    ("date", "The time of the answer."),
    ("vary", "`origin`, if there are `cors.origins`."),
    ("access-control-allow-origin", "The web page's origin, if it is among `cors.origins`."),
    ("access-control-expose-headers", "The headers that a web page may read."),
    ("access-control-allow-methods", "To a web page's question before a call: the method."),
    ("access-control-allow-headers", "To a web page's question before a call: the headers that were asked for."),
    ("access-control-max-age", "To a web page's question before a call: for how many seconds this answer holds."),
];

/// What is sent to the servers that give credentials.
pub const TOKEN_SERVERS: &[Header] = &[
    (
        "metadata",
        "`true`, to the metadata service of Azure's machines.",
    ),
    (
        "metadata-flavor",
        "`Google`, to the metadata service of Google's machines.",
    ),
    (
        "x-aws-ec2-metadata-token",
        "The session's token, to the metadata service of AWS's machines.",
    ),
    (
        "x-aws-ec2-metadata-token-ttl-seconds",
        "How long the session may last.",
    ),
    (
        "x-identity-header",
        "The value of IDENTITY_HEADER, to the service of an App Service.",
    ),
    (
        "x-goog-cloud-target-resource",
        "Who trades an identity of AWS: in a signed request that Google sends on.",
    ),
];

/// What the gateway and a proxy tell each other.
pub const PROXY: &[Header] = &[
    ("host", "Sent: the host and the port of `base_url`."),
    ("user-agent", "Sent: `portcullis/` and its version."),
    (
        "proxy-authorization",
        "Sent: the user and the password in the proxy's URL, as `Basic`.",
    ),
    (
        "proxy-authenticate",
        "Read of a 407: whether the proxy takes `Basic`.",
    ),
];

/// The further headers that the admin listener reads and writes.
#[rustfmt::skip]
pub const ADMIN: &[Header] = &[
    ("host", "Read: must be an address, a private name, or one of `admin.hosts`; else the answer is 421."),
    ("origin", "Read: a request that a page of another origin sends cannot change anything."),
    ("x-portcullis-admin", "Read: `1` on requests of a page that this listener itself served."),
    ("x-portcullis-key", "Read: the secret of a caller's key, with which `/try` asks. The answer has the headers that callers get, too."),
    ("authorization", "Read: the key of the listener, if `admin.key` is set: `Bearer KEY`, or the password of `Basic`."),
    ("if-none-match", "Read: the `etag` of a part of the page that the browser has."),
    ("allow", "On 405: the methods that are allowed."),
    ("retry-after", "On 429: for how many seconds to wait."),
    ("content-type", "The form of the answer."),
    ("content-length", "The length of the body."),
    ("cache-control", "`no-store`; for the parts of the page `no-cache`."),
    ("etag", "On parts of the page: changes with their text."),
    ("www-authenticate", "On 401: asks for the key, so that a browser asks for it."),
    ("content-security-policy", "Allows a browser nothing but what this listener serves."),
    ("cross-origin-resource-policy", "`same-origin`."),
    ("referrer-policy", "`no-referrer`."),
    ("x-content-type-options", "`nosniff`."),
];

/// Compares the head of an answer with the table.
pub fn check_head(fields: &[(String, String)]) -> Result<(), String> {
    let known = |name: &str| {
        ANSWERED
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name))
    };
    match fields.iter().find(|(name, _)| !known(name)) {
        Some((name, _)) => Err(format!(
            "the book does not name the header {name} of an answer"
        )),
        None => Ok(()),
    }
}

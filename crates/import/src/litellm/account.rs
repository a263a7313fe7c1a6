//! An account of one entry of `model_list`: its address, its credential, its deadlines.

use super::address::{host_label, is_open};
use super::draft::{Draft, Drafting};
use super::node::{Lost, Spot};
use super::provider::Ours;
use super::world::{ENVIRON, is_word};
use crate::amount::Amount;
use crate::notes::{Finding, Grade};
use crate::write::Fields;
use portcullis::base::problem::unless_secret;
use portcullis::catalog::raw::{CREDENTIAL_HEADERS, OWN_HEADERS};

/// Credentials that have no counterpart. An entry that needs one is left out.
const UNCARRIED: [&str; 14] = [
    "azure_ad_token",
    "azure_ad_token_provider",
    "tenant_id",
    "client_id",
    "client_secret",
    "azure_username",
    "azure_password",
    "aws_role_name",
    "aws_session_name",
    "aws_profile_name",
    "aws_web_identity_token",
    "aws_sts_endpoint",
    "aws_external_id",
    "use_xai_oauth",
];

/// Parts of names of headers that may hold a secret.
const SECRET_HEADERS: [&str; 7] = [
    "key",
    "token",
    "secret",
    "auth",
    "cookie",
    "password",
    "credential",
];

impl<'a> Drafting<'_, 'a> {
    /// Makes the account of an entry.
    pub(super) fn finish(mut self) -> Result<Draft, Lost> {
        const CONCURRENCY: &str =
            "is the account's `concurrency`: a request over it goes to the next target";
        if let Some(spot) = self.take_first(&UNCARRIED) {
            let why = "Portcullis has no credential of this kind";
            return Err(spot.lost(Grade::Unsupported, why));
        }
        let base = self.find_address()?;
        self.write_server(base.as_deref())?;
        match self.row.ours {
            Ours::Dialect("bedrock") => self.write_bedrock()?,
            Ours::Dialect("vertex") => self.write_vertex()?,
            Ours::Dialect("azure") => {
                self.write_version();
                self.write_key();
            }
            Ours::Preset(_) | Ours::Dialect(_) | Ours::Server(_) => self.write_key(),
        }
        self.write_headers();
        self.write_timeouts();
        let cap = self.take("max_parallel_requests");
        if let Some(spot) = cap
            && let Some(limit) = spot.read_whole(1..=1_000_000, "concurrency")
        {
            self.set("concurrency", limit);
            self.draft.is_own = true;
            spot.approximate(CONCURRENCY);
        }
        Ok(self.draft)
    }

    /// Writes the preset or the dialect, and the address.
    fn write_server(&mut self, base: Option<&str>) -> Result<(), Lost> {
        const INSECURE: &str = "is plain http: to a host that may be public, so `insecure: true` is written: use https: if the server has it";
        let ours = self.row.ours;
        if base.is_none() && matches!(ours, Ours::Server(_) | Ours::Dialect("azure")) {
            return Err(self.without_address());
        }
        let (field, word, quirks) = match ours {
            Ours::Preset("openai") if base.is_some() => ("dialect", "openai", None),
            Ours::Preset(preset) => ("preset", preset, None),
            Ours::Dialect(dialect) => ("dialect", dialect, None),
            Ours::Server(quirks) => ("dialect", "openai", quirks),
        };
        self.draft.wish = match (ours, base.map(host_label)) {
            (Ours::Dialect(dialect), Some(label)) => format!("{dialect}-{label}"),
            (Ours::Preset("openai") | Ours::Server(_), Some(label)) => label,
            (_, _) => word.to_owned(),
        };
        self.set(field, word);
        self.draft.fields.set_some("base_url", base);
        self.draft.fields.set_some("quirks", quirks);
        if base.is_some_and(is_open) {
            self.set("insecure", true);
            self.entry.name.approximate(INSECURE);
        }
        Ok(())
    }

    /// Makes the finding about an entry whose address is neither in the file nor in the
    /// environment.
    fn without_address(&self) -> Lost {
        let mut why = "names no address (`api_base`)".to_owned();
        let variables = self.row.bases;
        if !variables.is_empty() {
            let variables = variables.join(" or ");
            why.push_str(&format!(
                ", and {variables} is not set here. Set it and run this again"
            ));
        }
        Box::new(Finding {
            unset: variables.first().map(|name| (*name).to_owned()),
            ..*self.entry.name.lost(Grade::Manual, why)
        })
    }

    /// Writes the headers that are sent with each request.
    fn write_headers(&mut self) {
        const NOT_CARRIED: &str =
            "may hold a secret, or the gateway writes it itself: the header is left out";
        let mut headers = Fields::default();
        let organization = self.take("organization");
        if let Some(spot) = organization {
            match spot.text().filter(|text| is_word(text)) {
                Some(text) => {
                    headers.set("OpenAI-Organization", text);
                    spot.exact();
                }
                None => spot.manual(
                    "write the organisation into `headers` by hand, as `OpenAI-Organization`",
                ),
            }
        }
        let lists = ["extra_headers", "headers"].map(|list| self.take(list));
        for (header, spot) in lists.iter().flatten().flat_map(Spot::entries) {
            let is_known = headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case(header));
            match spot.text().filter(|text| may_write_header(header, text)) {
                Some(text) if !is_known => {
                    headers.set(header, text);
                    spot.exact();
                }
                Some(_) | None => spot.manual(NOT_CARRIED),
            }
        }
        self.draft.fields.set_some("headers", headers.map());
    }

    /// Writes deadlines. The settings of all entries hold where the entry has none. LiteLLM's times
    /// are those of one read: of a whole answer, that is the answer, and of a stream each of its
    /// parts.
    fn write_timeouts(&mut self) {
        const OF_ALL: &str = "is `timeouts.total` of whole answers, for all attempts together, and `first_byte` and `idle` of streams: LiteLLM counts each read, and ends no stream";
        const OF_WHOLE_ANSWERS: &str = "is `timeouts.total` of whole answers, for all attempts together; streams have `stream_timeout`";
        const OF_STREAMS: &str =
            "is `timeouts.first_byte` and `idle`: LiteLLM counts each read of a stream";
        let of_streams = self.read_timeout("stream_timeout", self.world.stream_timeout());
        let of_all = self.read_timeout("timeout", self.world.timeout());
        let mut times = Fields::default();
        if let Some((_, span)) = of_streams.as_ref().or(of_all.as_ref()) {
            times.set("first_byte", span.as_str());
            times.set("idle", span.as_str());
        }
        if let Some((spot, span)) = &of_all {
            spot.approximate(if of_streams.is_some() {
                OF_WHOLE_ANSWERS
            } else {
                OF_ALL
            });
            times.set("total", span.as_str());
            times.set("total_stream", LONGEST_STREAM);
        }
        if let Some((spot, _)) = &of_streams {
            spot.approximate(OF_STREAMS);
        }
        self.draft.fields.set_some("timeouts", times.map());
    }

    /// Reads a time of the entry, or else of all entries. Also returns the place where it stands.
    fn read_timeout(
        &mut self,
        field: &str,
        of_all: Option<Spot<'a>>,
    ) -> Option<(Spot<'a>, String)> {
        let spot = self.take(field).or(of_all)?;
        let seconds = self.world.plain(&spot).ok();
        let span = seconds.and_then(|seconds| format_span(&seconds));
        if span.is_none() {
            spot.manual("must be a number of seconds: write `timeouts` by hand");
        }
        Some((spot, span?))
    }
}

/// Returns whether a header holds no secret, and is none that the gateway writes itself.
fn may_write_header(header: &str, text: &str) -> bool {
    let name = header.to_ascii_lowercase();
    let is_plain = |text: &str| unless_secret(text) == text;
    http::HeaderName::try_from(header).is_ok()
        && is_plain(header)
        && !OWN_HEADERS.contains(&&*name)
        && !CREDENTIAL_HEADERS.contains(&&*name)
        && !SECRET_HEADERS.iter().any(|part| name.contains(part))
        && (1..=200).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
        && text.trim() == text
        && is_plain(text)
        && !text.starts_with(ENVIRON)
}

/// The time after which a stream ends, which LiteLLM does not bound. It is the catalog's default.
const LONGEST_STREAM: &str = "3600s";

/// Writes seconds as a length of time.
fn format_span(seconds: &str) -> Option<String> {
    const WEEK: u64 = 168 * 3_600_000;
    let (milliseconds, _) = Amount::parse(seconds)?.units(3)?;
    match milliseconds {
        0 => None,
        ms if ms > WEEK => None,
        ms if ms.is_multiple_of(1_000) => Some(format!("{}s", ms / 1_000)),
        ms => Some(format!("{ms}ms")),
    }
}

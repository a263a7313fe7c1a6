//! An account of one entry of `model_list`: its address, its credential, its deadlines. It gets its
//! name when all of it is known.

use super::address::{dialect_url, host_label, is_open, is_plain};
use super::entry::Entry;
use super::merged_config::{ENVIRON, MergedConfig, NO_TIME, is_word, variable_name};
use super::node::{Lost, Spot};
use super::provider::{Ours, ProviderRow};
use crate::notes::{Finding, Grade};
use crate::write::Fields;
use portcullis::base::problem::looks_secret;
use portcullis::catalog::raw::{CREDENTIAL_HEADERS, OWN_HEADERS};
use portcullis::catalog::resolve::parse_base;
use portcullis::conf::yaml::edit::NewValue;

/// An account that has no name yet.
#[derive(Default)]
pub(super) struct Draft {
    /// The name that it should have.
    pub(super) wanted_name: String,
    /// Its fields. A text that begins with [`SECRET_FILE`] becomes the name of a file.
    pub(super) fields: Fields,
    /// The literal secrets, which tell accounts apart and are written nowhere.
    pub(super) literals: Vec<String>,
    /// True if no other entry may share the account.
    pub(super) is_unshared: bool,
}

/// The beginning of a text that stands for a file with a secret; the rest is the end of its name.
const SECRET_FILE: char = '\u{1}';

/// An account with all that it is made of. Findings about what is not written stand at the entry.
pub(super) struct Drafting<'d, 'a> {
    pub(super) row: ProviderRow,
    pub(super) entry: &'d mut Entry<'a>,
    pub(super) config: &'d MergedConfig<'a>,
    pub(super) draft: Draft,
}

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
    pub(super) fn take(&mut self, field: &str) -> Option<Spot<'a>> {
        self.entry.params.remove(field)
    }

    /// Takes the first of these fields that is written.
    pub(super) fn take_first(&mut self, fields: &[&str]) -> Option<Spot<'a>> {
        fields.iter().find_map(|field| self.take(field))
    }

    /// Takes a field that is not empty. An empty one counts as none, as in LiteLLM.
    pub(super) fn take_filled(&mut self, field: &str) -> Option<Spot<'a>> {
        let spot = self.take(field)?;
        if spot.is_empty() {
            spot.report(Grade::Exact, "is empty, which counts as none");
            return None;
        }
        Some(spot)
    }

    pub(super) fn set(&mut self, field: &str, value: impl Into<NewValue>) {
        self.draft.fields.set(field, value);
    }

    /// Returns the environment variable that is named, or a file to be made. The secret itself is
    /// never written.
    pub(super) fn secret(&mut self, spot: &Spot<'_>, end: &str) -> NewValue {
        let text = spot.text().unwrap_or_default();
        if let Some(name) = variable_name(text) {
            spot.report_exact();
            return env_reference(name);
        }
        spot.report_manual("is the secret itself: write it into the file that is named here");
        self.draft.literals.push(text.to_owned());
        secret_file(end)
    }

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
        match self.row.dialect() {
            "bedrock" => self.write_bedrock()?,
            "vertex" => self.write_vertex()?,
            "azure" => {
                self.write_version();
                self.write_key();
            }
            _ => self.write_key(),
        }
        self.write_headers();
        self.write_timeouts();
        let cap = self.take("max_parallel_requests");
        if let Some(spot) = cap
            && let Some(limit) = spot.read_whole(1..=1_000_000, "concurrency")
        {
            self.set("concurrency", limit);
            self.draft.is_unshared = true;
            spot.report_approximate(CONCURRENCY);
        }
        Ok(self.draft)
    }

    /// Finds the address, as the account's dialect writes it.
    fn find_address(&mut self) -> Result<Option<String>, Lost> {
        const UNUSABLE: &str =
            "must be https://HOST/PATH, without a user name, a query or a placeholder";
        let dialect = self.row.dialect();
        let written = match dialect {
            "bedrock" => ["aws_bedrock_runtime_endpoint", "api_base"]
                .into_iter()
                .find_map(|field| self.take_filled(field)),
            _ => {
                let [written, other] =
                    ["api_base", "base_url"].map(|field| self.take_filled(field));
                if let (Some(_), Some(other)) = (&written, &other) {
                    other.report_approximate("is not used, as `api_base` goes before it");
                }
                written.or(other)
            }
        };
        let text = match &written {
            Some(spot) => Some(self.config.plain(spot)?),
            None => self
                .row
                .litellm
                .bases
                .iter()
                .find_map(|name| self.config.variable(name)),
        };
        let Some(text) = text else { return Ok(None) };
        let (url, difference) = dialect_url(dialect, &text);
        // An address that cannot be used is not repeated: it may be a secret.
        if !is_plain(&text) || parse_base(&url, true).is_err() {
            let spot = written.as_ref().unwrap_or(&self.entry.spot);
            return Err(spot.lost(Grade::Manual, UNUSABLE));
        }
        if let Some(spot) = written {
            let is_variable = spot.text().is_some_and(|text| text.starts_with(ENVIRON));
            match difference {
                Some(difference) => spot.report_approximate(difference),
                None if is_variable => {
                    spot.report(
                        Grade::Exact,
                        "the address that the environment has now is written",
                    );
                }
                None => spot.report_exact(),
            }
        }
        Ok(Some(url))
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
        self.draft.wanted_name = match (ours, base.map(host_label)) {
            (Ours::Dialect(dialect), Some(label)) => format!("{dialect}-{label}"),
            (Ours::Preset("openai") | Ours::Server(_), Some(label)) => label,
            (_, _) => word.to_owned(),
        };
        self.set(field, word);
        self.draft.fields.set_some("base_url", base);
        self.draft.fields.set_some("quirks", quirks);
        if base.is_some_and(is_open) {
            self.set("insecure", true);
            self.entry.name.report_approximate(INSECURE);
        }
        Ok(())
    }

    /// Makes the finding about an entry whose address is neither in the file nor in the
    /// environment.
    fn without_address(&self) -> Lost {
        let mut why = "names no address (`api_base`)".to_owned();
        let variables = self.row.litellm.bases;
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
        const TWICE: &str = "is not used, as the same header is written already";
        let mut headers = Fields::default();
        let organization = self.take("organization");
        if let Some(spot) = organization {
            match spot.text().filter(|text| is_word(text)) {
                Some(text) => {
                    headers.set("OpenAI-Organization", text);
                    spot.report_exact();
                }
                None => spot.report_manual(
                    "write the organisation into `headers` by hand, as `OpenAI-Organization`",
                ),
            }
        }
        let lists = ["extra_headers", "headers"].map(|list| self.take(list));
        for (header, spot) in lists.iter().flatten().flat_map(Spot::entries) {
            let is_known = headers
                .0
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case(header));
            match spot.text().filter(|text| may_write_header(header, text)) {
                Some(_) if is_known => spot.report_approximate(TWICE),
                Some(text) => {
                    headers.set(header, text);
                    spot.report_exact();
                }
                None => spot.report_manual(NOT_CARRIED),
            }
        }
        self.draft.fields.set_some("headers", headers.map());
    }

    /// Writes deadlines. The settings of all entries hold where the entry has none. LiteLLM's times
    /// are those of one read, which is all of a whole answer, or a part of a stream.
    fn write_timeouts(&mut self) {
        const OF_ALL: &str = "is `timeouts.total` of whole answers, for all attempts together, and `first_byte` and `idle` of streams: LiteLLM counts each read, and ends no stream";
        const OF_WHOLE_ANSWERS: &str = "is `timeouts.total` of whole answers, for all attempts together; streams have `stream_timeout`";
        const OF_STREAMS: &str =
            "is `timeouts.first_byte` and `idle`: LiteLLM counts each read of a stream";
        let of_streams = self.read_timeout("stream_timeout", self.config.stream_timeout());
        let of_all = self.read_timeout("timeout", self.config.timeout());
        let mut times = Fields::default();
        if let Some((_, span)) = of_streams.as_ref().or(of_all.as_ref()) {
            times.set("first_byte", span.as_str());
            times.set("idle", span.as_str());
        }
        if let Some((spot, span)) = &of_all {
            spot.report_approximate(if of_streams.is_some() {
                OF_WHOLE_ANSWERS
            } else {
                OF_ALL
            });
            times.set("total", span.as_str());
            times.set("total_stream", LONGEST_STREAM);
        }
        if let Some((spot, _)) = &of_streams {
            spot.report_approximate(OF_STREAMS);
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
        let span = self.config.span(&spot);
        if span.is_none() {
            spot.report_manual(NO_TIME);
        }
        Some((spot, span?))
    }
}

/// Returns whether a header holds no secret, and is none that the gateway writes itself.
fn may_write_header(header: &str, text: &str) -> bool {
    let name = header.to_ascii_lowercase();
    http::HeaderName::try_from(header).is_ok()
        && !looks_secret(header)
        && !OWN_HEADERS.contains(&&*name)
        && !CREDENTIAL_HEADERS.contains(&&*name)
        && !SECRET_HEADERS.iter().any(|part| name.contains(part))
        && (1..=200).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
        && text.trim() == text
        && !looks_secret(text)
        && !text.starts_with(ENVIRON)
}

/// The time after which a stream ends, which LiteLLM does not bound. It is the catalog's default.
const LONGEST_STREAM: &str = "3600s";

pub(super) fn env_reference(name: &str) -> NewValue {
    NewValue::map([("env", NewValue::text(name))])
}

pub(super) fn secret_file(end: &str) -> NewValue {
    NewValue::map([("file", NewValue::text(format!("{SECRET_FILE}{end}")))])
}

/// Puts the names of files into an account that has its name now. Adds the secrets that it needs.
pub(super) fn name_files(value: &mut NewValue, account: &str, needed: &mut Vec<String>) {
    let NewValue::Map(entries) = value else {
        return;
    };
    for (key, value) in entries {
        match (key.as_str(), &mut *value) {
            ("file", NewValue::Text(text)) => {
                if let Some(end) = text.strip_prefix(SECRET_FILE) {
                    *text = format!("secrets/{account}{end}");
                }
                needed.push(format!("file {text}"));
            }
            ("env", NewValue::Text(text)) => needed.push(format!("environment variable {text}")),
            (_, value) => name_files(value, account, needed),
        }
    }
}

//! Accounts: what they speak, where they are, how long they are waited for.

use std::cell::RefCell;
use std::collections::HashSet;

use super::credential::fingerprint;
use super::{Accounts, Merged, base, known, timeouts};
use crate::catalog::{Account, Base, KeyHeader, name, raw};
use crate::scribe::Report;
use crate::scribe::Scribe;
use crate::scribe::Written;
use crate::secret_ref::placeholder::Placeholder;
use crate::yaml::read::items;
use dialects::Dialect;
use dialects::front::chat::references::{Leave, Urls};
use dialects::presets::{self, Preset};
use dialects::traits::Server;
use dialects::upstream::openai::quirks::{self, Quirks};
use dialects::upstream::{anthropic, bedrock, cohere, gemini, ollama};
use http::{HeaderName, HeaderValue};

/// Where Vertex AI runs a model if nothing else is said.
const GLOBAL: &str = "global";

/// Headers that a credential is sent in.
const CREDENTIALS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];
/// Headers that are the gateway's own to write.
const OURS: [&str; 16] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-request-id",
];

pub(super) fn resolve<'r>(written: &Merged<'r, raw::Account>, report: &RefCell<Report<'_>>) -> Accounts<'r> {
    let mut accounts = Accounts::new();
    for (index, (id, (file, raw))) in written.iter().enumerate() {
        let root = Scribe::new(report, *file);
        let section = root.key("accounts");
        let at = section.entry(id);
        if let Err(wrong) = name::of_entry(id) {
            at.problem(wrong);
        }
        let account = raw.and_then(|raw| Written { at, id, raw }.resolve(index));
        accounts.insert(id, account.map(Into::into));
    }
    accounts
}

impl Written<'_, '_, '_, raw::Account> {
    fn resolve(&self, index: usize) -> Option<Account> {
        let raw = self.raw;
        let enabled = self.enabled();
        let preset = self.preset();
        let speaks = self.speaks(preset);
        self.foreign_fields(speaks);
        let dialect = self.dialect(speaks, preset);
        let base = match speaks? {
            raw::Dialect::Demo => self.no_network(),
            raw::Dialect::OpenAi => self.base(preset.map_or("https://api.openai.com/v1", |preset| preset.base_url)),
            raw::Dialect::Azure if raw.base_url.is_none() => {
                self.at
                    .key("base_url")
                    .missing("is missing: the resource's address, such as https://NAME.openai.azure.com");
                None
            }
            raw::Dialect::Azure => self.base(""),
            raw::Dialect::Anthropic => self.base(anthropic::BASE_URL),
            raw::Dialect::Gemini => self.base(gemini::BASE_URL),
            raw::Dialect::Vertex => self.base(&gemini::vertex_base(raw.location.as_deref().unwrap_or(GLOBAL))),
            raw::Dialect::Bedrock => self.base(&bedrock::base_url(raw.region.as_deref().unwrap_or("us-east-1"))),
            raw::Dialect::Cohere => self.base(cohere::BASE_URL),
            raw::Dialect::Ollama => self.base(ollama::BASE_URL),
        };
        let ca = raw.tls.as_ref().and_then(|tls| self.ca(tls, base.as_ref()));
        let usual = preset.map_or_else(|| known::variable(speaks?), |preset| preset.key);
        let key = raw.key.as_ref().and_then(|key| self.secret(key, usual, &self.at.key("key")));
        let signer = self.signer(speaks?);
        // Of a preset that there is not, nobody knows where it is.
        if let Some(base) = base.as_ref().filter(|_| preset.is_some() == raw.preset.is_some()) {
            self.at_a_known_host(speaks?, base);
        }
        let headers = self.headers();
        let timeouts = timeouts::of_account(raw.timeouts.as_ref(), &self.at.key("timeouts"));
        if raw.concurrency == Some(0) {
            self.at
                .key("concurrency")
                .problem("must be at least 1; an account that shall take nothing has `enabled: false`");
        }
        let base = base?;
        let leave = self.leave(speaks?, &base);
        Some(Account {
            fingerprint: fingerprint(self.id, &base, key.as_ref(), signer.as_ref(), ca.as_deref()),
            id: self.id.into(),
            index,
            dialect: dialect?,
            base,
            key,
            key_header: match speaks? {
                raw::Dialect::Anthropic => KeyHeader::Named("x-api-key"),
                raw::Dialect::Gemini => KeyHeader::Named("x-goog-api-key"),
                raw::Dialect::Azure if raw.auth != Some(raw::Auth::Bearer) => KeyHeader::Named("api-key"),
                raw::Dialect::Azure
                | raw::Dialect::OpenAi
                | raw::Dialect::Vertex
                | raw::Dialect::Bedrock
                | raw::Dialect::Cohere
                | raw::Dialect::Ollama
                | raw::Dialect::Demo => KeyHeader::Bearer,
            },
            signer,
            enabled,
            concurrency: raw.concurrency.and_then(|most| usize::try_from(most).ok()),
            probe: raw.probe.unwrap_or(false),
            timeouts,
            headers,
            stream_usage: raw.stream_usage.unwrap_or(true),
            server: self.server(speaks),
            insecure: raw.insecure.unwrap_or(false),
            leave,
            ca: ca.map(|pem| pem.into_bytes().into()),
        })
    }

    fn preset(&self) -> Option<&'static Preset> {
        let name = self.raw.preset.as_deref()?;
        let found = presets::find(name);
        if found.is_none() {
            self.at.key("preset").unknown("preset", name, presets::ALL.iter().map(|preset| preset.name));
        }
        found
    }

    /// What is written, or what the preset speaks.
    fn speaks(&self, preset: Option<&'static Preset>) -> Option<raw::Dialect> {
        self.raw.dialect.or(preset.map(|_| raw::Dialect::OpenAi))
    }

    fn dialect(&self, speaks: Option<raw::Dialect>, preset: Option<&'static Preset>) -> Option<Dialect> {
        let raw = self.raw;
        let Some(dialect) = speaks else {
            // A preset that there is not is told already, and would have said it.
            if raw.preset.is_none() {
                let what = format!("is missing, and no `preset` says it; allowed: {}", Dialect::NAMES.join(", "));
                self.at.key("dialect").missing(&what);
            }
            return None;
        };
        Some(match dialect {
            raw::Dialect::OpenAi => Dialect::OpenAi(self.quirks(preset)?),
            raw::Dialect::Azure => Dialect::Azure(self.word("api_version", raw.api_version.as_deref()).map(Into::into)),
            raw::Dialect::Anthropic => Dialect::Anthropic,
            raw::Dialect::Gemini => Dialect::Gemini,
            raw::Dialect::Vertex => {
                let location = self.word("location", raw.location.as_deref()).unwrap_or(GLOBAL).into();
                if raw.project.is_none() {
                    self.at.key("project").missing("is missing: the id of the Google Cloud project");
                }
                Dialect::Vertex { project: self.word("project", raw.project.as_deref())?.into(), location }
            }
            raw::Dialect::Bedrock => {
                if raw.region.is_none() {
                    self.at.key("region").missing("is missing: an AWS region, such as us-east-1");
                }
                Dialect::Bedrock(self.word("region", raw.region.as_deref())?.into())
            }
            raw::Dialect::Cohere => Dialect::Cohere,
            raw::Dialect::Ollama => Dialect::Ollama,
            raw::Dialect::Demo => Dialect::Demo,
        })
    }

    fn quirks(&self, preset: Option<&'static Preset>) -> Option<&'static Quirks> {
        let Some(name) = self.raw.quirks.as_deref() else {
            return Some(preset.map_or(&Quirks::NONE, |preset| preset.quirks));
        };
        let found = Quirks::find(name);
        if found.is_none() {
            self.at.key("quirks").unknown("quirks", name, quirks::ALL.iter().map(|quirks| quirks.name));
        }
        found
    }

    /// A word that becomes part of an address.
    fn word<'w>(&self, field: &str, written: Option<&'w str>) -> Option<&'w str> {
        let written = written?;
        let good = !written.is_empty()
            && written.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
            && !written.contains("..");
        if !good {
            self.at.key(field).problem("may hold letters, digits, `-`, `_`, `.` and `:` only");
        }
        good.then_some(written)
    }

    /// What its server reads. A trait of another dialect's servers is a mistake.
    fn server(&self, speaks: Option<raw::Dialect>) -> Server {
        use raw::Dialect as D;
        let Some(written) = &self.raw.traits else { return Server::OWN };
        for (field, is_written, of, names) in [
            ("output_config", written.output_config.is_some(), [D::Anthropic, D::Bedrock], "anthropic and bedrock"),
            (
                "response_json_schema",
                written.response_json_schema.is_some(),
                [D::Gemini, D::Vertex],
                "gemini and vertex",
            ),
            (
                "parameters_json_schema",
                written.parameters_json_schema.is_some(),
                [D::Gemini, D::Vertex],
                "gemini and vertex",
            ),
        ] {
            if is_written && speaks.is_some_and(|dialect| !of.contains(&dialect)) {
                let at = self.at.key("traits");
                at.key(field).problem(&format!("has a meaning for the dialects {names} only: leave it out"));
            }
        }
        Server {
            output_config: written.output_config.unwrap_or(true),
            response_json_schema: written.response_json_schema.unwrap_or(true),
            parameters_json_schema: written.parameters_json_schema.unwrap_or(true),
        }
    }

    /// Fields that only another dialect has.
    fn foreign_fields(&self, speaks: Option<raw::Dialect>) {
        use raw::Dialect as D;
        let raw = self.raw;
        let Some(dialect) = speaks else { return };
        for (field, written, of, name) in [
            ("preset", raw.preset.is_some(), D::OpenAi, "openai"),
            ("quirks", raw.quirks.is_some(), D::OpenAi, "openai"),
            ("api_version", raw.api_version.is_some(), D::Azure, "azure"),
            ("auth", raw.auth.is_some(), D::Azure, "azure"),
            ("project", raw.project.is_some(), D::Vertex, "vertex"),
            ("location", raw.location.is_some(), D::Vertex, "vertex"),
            ("service_account", raw.service_account.is_some(), D::Vertex, "vertex"),
            ("region", raw.region.is_some(), D::Bedrock, "bedrock"),
            ("aws", raw.aws.is_some(), D::Bedrock, "bedrock"),
        ] {
            if written && dialect != of {
                self.at.key(field).problem(&format!("has a meaning for the dialect {name} only: leave it out"));
            }
        }
        if raw.key.is_some() {
            for (field, written) in [("service_account", raw.service_account.is_some()), ("aws", raw.aws.is_some())] {
                if written {
                    self.at.key(field).problem("stands beside `key`: keep one of the two");
                }
            }
        }
    }

    fn base(&self, default: &str) -> Option<Base> {
        let insecure = self.raw.insecure.unwrap_or(false);
        let at = self.at.key("base_url");
        let base = base::read(self.raw.base_url.as_deref().unwrap_or(default), insecure)
            .map_err(|wrong| at.problem(&wrong))
            .ok()?;
        if !base.tls && insecure && base::read(self.raw.base_url.as_deref().unwrap_or(default), false).is_err() {
            at.warn("is http: to a public address: key, prompts and answers can be read on the way");
        }
        Some(base)
    }

    /// What is known of the server there: that it answers nobody without a credential, and under
    /// which path it is asked.
    fn at_a_known_host(&self, dialect: raw::Dialect, base: &Base) {
        let Some(known) = known::find(dialect, base) else { return };
        let raw = self.raw;
        let pays =
            raw.key.is_some() || raw.aws.is_some() || raw.service_account.is_some() || self.has_credential_header();
        // One that stands there under another name is told already.
        let misnamed = || self.at.tells("write `key:");
        if let Some(variable) = known.variable.filter(|_| self.enabled() && !pays && !misnamed()) {
            let what = format!(
                "is missing: {} answers nobody without one. Write `key: {{ env: {variable} }}`, or `{{ file: /path }}`",
                known.host(base)
            );
            self.at.key("key").missing(&what);
        }
        if let Some(what) = raw.base_url.as_ref().and_then(|_| known.other_path(base)) {
            self.at.key("base_url").warn(&what);
        }
    }

    fn has_credential_header(&self) -> bool {
        let mut names = self.raw.headers.iter().flat_map(|headers| &headers.0).map(|(name, _)| name);
        names.any(|name| CREDENTIALS.iter().any(|header| name.eq_ignore_ascii_case(header)))
    }

    /// A demo account calls nobody: whatever says how is a mistake.
    fn no_network(&self) -> Option<Base> {
        let raw = self.raw;
        for (field, written) in [
            ("base_url", raw.base_url.is_some()),
            ("key", raw.key.is_some()),
            ("headers", raw.headers.is_some()),
            ("stream_usage", raw.stream_usage.is_some()),
            ("traits", raw.traits.is_some()),
            ("caller_references", raw.caller_references.is_some()),
            ("media_urls", raw.media_urls.is_some()),
            ("tls", raw.tls.is_some()),
            ("insecure", raw.insecure.is_some()),
        ] {
            if written {
                self.at.key(field).problem("has no meaning for a demo account, which calls nobody: leave it out");
            }
        }
        if raw.probe == Some(true) {
            self.at.key("probe").warn("has no effect on a demo account, which is never out: leave it out");
        }
        Some(Base { tls: false, host: "".into(), port: 0, path: "".into(), authority: String::new() })
    }

    /// What its callers may refer to.
    fn leave(&self, dialect: raw::Dialect, base: &Base) -> Leave {
        use raw::CallerReference as R;
        use raw::Dialect as D;
        let may = |reference: R| items(self.raw.caller_references.as_ref()).any(|(_, written)| *written == reference);
        let urls = match self.raw.media_urls.unwrap_or(raw::MediaUrls::Public) {
            raw::MediaUrls::Pass => Urls::Any,
            raw::MediaUrls::Refuse => Urls::None,
            raw::MediaUrls::Public if base::is_near(base) => Urls::NoneSinceNear,
            raw::MediaUrls::Public => Urls::Public,
        };
        match dialect {
            // It reads nothing but texts.
            D::Demo => Leave::ALL,
            D::OpenAi | D::Azure => {
                let (files, data_sources) = (may(R::Files), may(R::DataSources));
                Leave { gs: may(R::Gs), s3: may(R::S3), files, data_sources, cached: files, urls }
            }
            // They leave out what is not in their own words.
            D::Anthropic | D::Gemini | D::Vertex | D::Bedrock | D::Cohere | D::Ollama => {
                Leave { gs: may(R::Gs), s3: may(R::S3), files: may(R::Files), data_sources: true, cached: true, urls }
            }
        }
    }

    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let section = self.at.key("headers");
        let mut headers = Vec::new();
        let mut seen = HashSet::new();
        for (name, value) in self.raw.headers.iter().flat_map(|headers| &headers.0) {
            let at = section.entry(name);
            let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
                at.problem("is not the name of a header");
                continue;
            };
            if OURS.contains(&header.as_str()) {
                at.problem("is written by the gateway itself and cannot be set");
            } else if header == http::header::AUTHORIZATION && self.raw.aws.is_some() {
                at.problem("is made of `aws`: keep one of the two");
            } else if header == http::header::AUTHORIZATION && self.raw.service_account.is_some() {
                at.problem("is made of `service_account`: keep one of the two");
            } else if self.raw.key.is_some() && CREDENTIALS.contains(&header.as_str()) {
                at.problem("is made of `key`: keep one of the two");
            } else if !seen.insert(header.clone()) {
                at.problem("stands here a second time in other letters: keep one");
            }
            let Some(value) = value else { continue };
            let text = value.0.expose();
            // Some headers are quoted by their own rules.
            if Placeholder::of(text.strip_prefix("Bearer ").unwrap_or(text))
                .is_some_and(|placeholder| placeholder != Placeholder::Quoted)
            {
                let what = "is a template or a placeholder, and nothing fills it in: write the value itself, or the credential as `key: { env: NAME }`";
                at.withheld(what);
                continue;
            }
            match HeaderValue::from_str(text) {
                Ok(mut value) => {
                    value.set_sensitive(true);
                    headers.push((header, value));
                }
                Err(_) => at.problem("may hold printable ASCII only"),
            }
        }
        headers
    }
}

//! Resolving accounts: their dialects, their addresses, their timeouts, and all their other fields.

use std::collections::{BTreeSet, HashSet};
use std::sync::OnceLock;

use super::credential::account_fingerprint;
use super::{Accounts, Merged, base, known, timeouts};
use crate::base::host::is_this_machine;
use crate::base::trace_context::{TRACEPARENT, TRACESTATE};
use crate::catalog::raw::{self, CREDENTIAL_HEADERS, OWN_HEADERS};
use crate::catalog::{Account, Added, Base, KeyHeader, Network, Signer, name};
use crate::conf::proxy::{Proxy, ProxyChoice};
use crate::conf::scribe::{Report, Scribe, WrittenEntry};
use crate::conf::secret_ref::placeholder::Placeholder;
use crate::conf::yaml::read::list_items;
use dialects::front::references::{AllowedReferences, Urls};
use dialects::presets::{self, Preset};
use dialects::traits::Server;
use dialects::upstream::quirks::{self, Quirks};
use dialects::upstream::{self, AccountField, BaseUrl, NAMES, openai};
use dialects::{Dialect, Endpoint, Protocol, Settings};
use http::{HeaderName, HeaderValue};

pub(super) fn resolve_accounts<'r>(
    written: &Merged<'r, raw::Account>,
    report: &Report<'_>,
) -> Accounts<'r> {
    let mut accounts = Accounts::new();
    for (index, (id, (file, raw))) in written.iter().enumerate() {
        let root = Scribe::new(report, *file);
        let section = root.key("accounts");
        let scribe = section.entry(id);
        scribe.read_or_noted(name::of_entry(id));
        let account = raw.and_then(|raw| WrittenEntry { scribe, id, raw }.resolve_account(index));
        accounts.insert(id, account.map(Into::into));
    }
    accounts
}

impl WrittenEntry<'_, '_, '_, raw::Account> {
    fn resolve_account(&self, index: usize) -> Option<Account> {
        let raw = self.raw;
        let enabled = self.enabled();
        let preset = self.preset();
        let protocol = self.named_protocol(preset);
        self.refuse_foreign_fields(protocol);
        let dialect = self.dialect(protocol, preset);
        let base = self.resolve_base(protocol?, preset);
        let ca = raw.tls.as_ref().and_then(|tls| self.ca(tls, base.as_ref()));
        let default_variable = preset.map_or_else(|| protocol?.key_variable, |preset| preset.key);
        let key = raw
            .key
            .as_ref()
            .and_then(|key| self.secret(key, default_variable, &self.scribe.key("key")));
        let signer = self.signer(protocol?);
        // If the preset does not exist, the account's address is unknown.
        if let Some(base) = base
            .as_ref()
            .filter(|_| preset.is_some() == raw.preset.is_some())
        {
            self.check_known_server(protocol?, base);
        }
        let headers = self.headers();
        let timeouts = timeouts::of_account(raw.timeouts.as_ref(), &self.scribe.key("timeouts"));
        let message = "must be at least 1; to switch the account off write `enabled: false`";
        self.scribe
            .key("concurrency")
            .note_problem_if(raw.concurrency == Some(0), message);
        let proxy = self.proxy();
        let base = base?;
        if let Some(proxy) = proxy.as_ref().and_then(ProxyChoice::account_proxy) {
            self.check_proxy_path(&proxy, &base, signer.as_ref());
        }
        let allowed_references = self.allowed_references(protocol?, &base);
        let dialect = dialect?;
        let serves = self.served_endpoints(&dialect, &base);
        let network = Network {
            insecure: raw.insecure.unwrap_or(false),
            ca: ca.map(|pem| pem.into_bytes().into()),
            proxy: proxy?,
            reaches_metadata: false,
        };
        Some(Account {
            fingerprint: account_fingerprint(
                self.id,
                &base,
                key.as_ref(),
                signer.as_ref(),
                &network,
            ),
            id: self.id.into(),
            index,
            serves: serves
                .into_iter()
                .map(|kind| (kind, dialect.for_endpoint(kind)))
                .collect(),
            dialect,
            base,
            has_written_base: raw.base_url.is_some(),
            key,
            key_header: match protocol?.key_header {
                Some(name) if raw.auth != Some(raw::Auth::Bearer) => KeyHeader::Named(name),
                Some(_) | None => KeyHeader::Bearer,
            },
            signer,
            enabled,
            concurrency: raw.concurrency.and_then(|cap| usize::try_from(cap).ok()),
            probe: raw.probe.unwrap_or(false),
            timeouts,
            headers,
            added_fields: Added {
                stream_usage: raw.stream_usage.unwrap_or(true),
                trace: raw.trace.unwrap_or(false),
            },
            server: self.server(protocol),
            network,
            allowed_references,
            boundary: OnceLock::new(),
        })
    }

    fn preset(&self) -> Option<&'static Preset> {
        let name = self.raw.preset.as_deref()?;
        let names = presets::ALL.iter().map(|preset| preset.name);
        self.scribe
            .key("preset")
            .found_or_noted(presets::find_preset(name), "preset", name, names)
    }

    /// Returns the dialect that is written, or the dialect of the preset.
    fn named_protocol(&self, preset: Option<&'static Preset>) -> Option<&'static Protocol> {
        self.raw
            .dialect
            .map(|raw::Dialect(protocol)| protocol)
            .or(preset.map(|_| &openai::PROTOCOL))
    }

    fn dialect(
        &self,
        protocol: Option<&'static Protocol>,
        preset: Option<&'static Preset>,
    ) -> Option<Dialect> {
        let raw = self.raw;
        let Some(protocol) = protocol else {
            // A preset that does not exist is reported already; it would have named the dialect.
            if raw.preset.is_none() {
                let message = format!(
                    "is missing, and there is no `preset` that sets it; allowed: {}",
                    NAMES.join(", ")
                );
                self.scribe.key("dialect").note_missing(&message);
            }
            return None;
        };
        let mut settings = Settings::NONE;
        if protocol.has(AccountField::Quirks) {
            settings.quirks = self.quirks(preset)?;
        }
        if protocol.has(AccountField::ApiVersion) {
            settings.version = self
                .address_word("api_version", raw.api_version.as_deref())
                .map(Into::into);
        }
        if protocol.has(AccountField::Location) {
            settings.region = self
                .address_word("location", raw.location.as_deref())
                .map(Into::into);
        }
        if protocol.has(AccountField::Project) {
            let message = "is missing: the id of the Google Cloud project";
            let project = self
                .scribe
                .key("project")
                .required(raw.project.as_deref(), message);
            settings.project = Some(self.address_word("project", project)?.into());
        }
        if protocol.has(AccountField::Region) {
            let message = "is missing: an AWS region, such as us-east-1";
            let region = self
                .scribe
                .key("region")
                .required(raw.region.as_deref(), message);
            settings.region = Some(self.address_word("region", region)?.into());
        }
        Some(Dialect::new(protocol, settings))
    }

    /// Returns the kinds of endpoint that the account serves.
    fn served_endpoints(&self, dialect: &Dialect, base: &Base) -> Vec<Endpoint> {
        let Some(written) = &self.raw.serves else {
            return dialect.serves(&base.host).to_vec();
        };
        let list = self.scribe.key("serves");
        if dialect.protocol.endpoints.protocols.is_empty() {
            list.note_problem(
                "only applies to dialects that have several kinds of endpoint: remove it",
            );
        }
        list.note_problem_if(
            written.is_empty(),
            "must list at least one kind of endpoint, such as `chat`",
        );
        let mut kinds = Vec::new();
        let is_known = |kind: &Endpoint| dialect.protocol.for_endpoint(*kind).is_some();
        for (index, name) in list_items(Some(written)) {
            let (scribe, names) = (
                list.index(index),
                Endpoint::ALL
                    .into_iter()
                    .filter(is_known)
                    .map(Endpoint::name),
            );
            let found = Endpoint::find(name).filter(is_known);
            let Some(kind) = scribe.found_or_noted(found, "kind of endpoint", name, names) else {
                continue;
            };
            scribe.note_problem_if(kinds.contains(&kind), "is written twice: keep only one");
            kinds.push(kind);
        }
        kinds.sort();
        kinds
    }

    fn quirks(&self, preset: Option<&'static Preset>) -> Option<&'static Quirks> {
        let Some(name) = self.raw.quirks.as_deref() else {
            return Some(preset.map_or(&Quirks::NONE, |preset| preset.quirks));
        };
        let names = quirks::ALL.iter().map(|quirks| quirks.name);
        self.scribe
            .key("quirks")
            .found_or_noted(Quirks::find(name), "quirks", name, names)
    }

    /// Checks a word that becomes part of an address.
    fn address_word<'w>(&self, field: &str, written: Option<&'w str>) -> Option<&'w str> {
        let written = written?;
        let good = !written.is_empty()
            && written
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
            && !written.contains("..");
        self.scribe.key(field).note_problem_if(
            !good,
            "may only hold letters, digits, `-`, `_`, `.` and `:`",
        );
        good.then_some(written)
    }

    /// Returns the features of the account's server. A trait that belongs to another dialect's
    /// servers is an error.
    fn server(&self, protocol: Option<&'static Protocol>) -> Server {
        let Some(written) = &self.raw.traits else {
            return Server::OWN;
        };
        let has = |field, name, written| self.has_trait(field, name, written, protocol);
        Server {
            output_config: has(
                AccountField::OutputConfig,
                "output_config",
                written.output_config,
            ),
            response_json_schema: has(
                AccountField::ResponseJsonSchema,
                "response_json_schema",
                written.response_json_schema,
            ),
            parameters_json_schema: has(
                AccountField::ParametersJsonSchema,
                "parameters_json_schema",
                written.parameters_json_schema,
            ),
        }
    }

    /// Returns a trait that only the servers of some dialects have.
    fn has_trait(
        &self,
        field: AccountField,
        name: &str,
        written: Option<bool>,
        protocol: Option<&'static Protocol>,
    ) -> bool {
        if written.is_some() && protocol.is_some_and(|protocol| !protocol.has(field)) {
            self.scribe
                .key("traits")
                .key(name)
                .note_problem(&only_applies(field));
        }
        written.unwrap_or(true)
    }

    /// Returns the name of a field that not every dialect has, and whether it is written.
    fn own_field(&self, field: AccountField) -> (&'static str, bool) {
        let raw = self.raw;
        match field {
            AccountField::Preset => ("preset", raw.preset.is_some()),
            AccountField::Quirks => ("quirks", raw.quirks.is_some()),
            AccountField::ApiVersion => ("api_version", raw.api_version.is_some()),
            AccountField::Auth => ("auth", raw.auth.is_some()),
            AccountField::Project => ("project", raw.project.is_some()),
            AccountField::Location => ("location", raw.location.is_some()),
            AccountField::ServiceAccount => ("service_account", raw.service_account.is_some()),
            AccountField::Identity => ("identity", raw.identity.is_some()),
            AccountField::Region => ("region", raw.region.is_some()),
            AccountField::Aws => ("aws", raw.aws.is_some()),
            // The fields of `traits` are checked where they are read.
            AccountField::OutputConfig
            | AccountField::ResponseJsonSchema
            | AccountField::ParametersJsonSchema => ("traits", false),
        }
    }

    /// Refuses fields that only another dialect has.
    fn refuse_foreign_fields(&self, protocol: Option<&'static Protocol>) {
        let raw = self.raw;
        let Some(protocol) = protocol else { return };
        let fields = upstream::ALL.iter().flat_map(|other| other.own_fields);
        for field in fields.copied().collect::<BTreeSet<_>>() {
            let (name, is_written) = self.own_field(field);
            if is_written && !protocol.has(field) {
                self.scribe.key(name).note_problem(&only_applies(field));
            }
        }
        let message = "says how `key` is sent, and `identity` sends a bearer: remove it";
        let has_both = raw.identity.is_some() && raw.auth.is_some();
        self.scribe.key("auth").note_problem_if(has_both, message);
        if raw.key.is_some() {
            for (field, written) in [
                ("service_account", raw.service_account.is_some()),
                ("identity", raw.identity.is_some()),
                ("aws", raw.aws.is_some()),
            ] {
                self.scribe.key(field).note_problem_if(
                    written,
                    "cannot be used together with `key`: keep only one of the two",
                );
            }
        }
    }

    /// Returns the address of the account's server: the one that is written, else the preset's,
    /// else the dialect's.
    fn resolve_base(
        &self,
        protocol: &'static Protocol,
        preset: Option<&'static Preset>,
    ) -> Option<Base> {
        let raw = self.raw;
        match protocol.base_url {
            BaseUrl::Nowhere => self.no_network(),
            BaseUrl::Own => {
                let message =
                    "is missing: the resource's address, such as https://NAME.openai.azure.com";
                self.scribe
                    .key("base_url")
                    .required(raw.base_url.as_ref(), message)
                    .and_then(|_| self.read_base_url(""))
            }
            BaseUrl::Fixed(default_url) => {
                let preset = preset.filter(|_| protocol.has(AccountField::Preset));
                self.read_base_url(preset.map_or(default_url, |preset| preset.base_url))
            }
            BaseUrl::PerRegion {
                default_region,
                address_in,
            } => {
                let field = if protocol.has(AccountField::Location) {
                    &raw.location
                } else {
                    &raw.region
                };
                self.read_base_url(&address_in(field.as_deref().unwrap_or(default_region)))
            }
        }
    }

    fn read_base_url(&self, default: &str) -> Option<Base> {
        let insecure = self.raw.insecure.unwrap_or(false);
        let scribe = self.scribe.key("base_url");
        let url = self.raw.base_url.as_deref().unwrap_or(default);
        let base = scribe.read_or_noted(base::parse_base(url, insecure))?;
        let message = "is http: to a public address: others on the network path can read the key, the prompts and the answers";
        scribe.warn_if(
            !base.tls && insecure && base::parse_base(url, false).is_err(),
            message,
        );
        Some(base)
    }

    /// Checks the account's addresses against the proxy that it names. Where secrets are not read,
    /// it is unknown whether there is one.
    fn check_proxy_path(&self, proxy: &Proxy, base: &Base, signer: Option<&Signer>) {
        if proxy.is_assumed() {
            return;
        }
        let (scribe, insecure) = (self.scribe.key("proxy"), self.raw.insecure.unwrap_or(false));
        let token_uri = match signer {
            Some(Signer::Source(source)) => source.issuer(),
            Some(Signer::Aws(_)) | None => None,
        };
        let issuer = token_uri.and_then(|url| base::parse_base(url, insecure).ok());
        for (base, field_name) in [
            (Some(base), "`base_url`"),
            (issuer.as_ref(), "`token_uri` of `service_account`"),
        ] {
            let message = format!(
                "is a proxy to an http: address ({field_name}), so it and others on the network path could read the key and \
                 the prompts: use https:, or write `insecure: true` to allow it"
            );
            scribe.note_problem_if(base.is_some_and(|base| !base.tls && !insecure), &message);
        }
        if is_this_machine(&base.host) && !is_this_machine(&proxy.host) {
            scribe.warn(&format!(
                "makes {} in `base_url` the proxy's own machine: for a server on this machine write `proxy: none`",
                base.host
            ));
        }
    }

    /// Checks an account against what is known of its server: whether it answers anybody without a
    /// credential, and the path under which it is called.
    fn check_known_server(&self, protocol: &Protocol, base: &Base) {
        let Some(known) = known::find_server(protocol, base) else {
            return;
        };
        let raw = self.raw;
        let pays = raw.key.is_some()
            || raw.aws.is_some()
            || raw.service_account.is_some()
            || raw.identity.is_some()
            || self.has_header(&CREDENTIAL_HEADERS);
        // A key that is written under another name is reported already.
        let misnamed = || self.scribe.has_error_with("write `key:");
        if let Some(variable) = known
            .variable
            .filter(|_| self.enabled() && !pays && !misnamed())
        {
            let message = format!(
                "is missing: {} refuses requests without a key. Write `key: {{ env: {variable} }}`, or `{{ file: /path }}`",
                known::display_host(known, base)
            );
            self.scribe.key("key").note_missing(&message);
        }
        if let Some(message) = raw
            .base_url
            .as_ref()
            .and_then(|_| known::describe_wrong_path(known, base))
        {
            self.scribe.key("base_url").warn(&message);
        }
    }

    /// Returns whether one of these headers is written.
    pub(super) fn has_header(&self, names: &[&str]) -> bool {
        let mut written = self.raw.headers.iter().flat_map(|headers| &headers.0);
        written.any(|(name, _)| names.iter().any(|header| name.eq_ignore_ascii_case(header)))
    }

    /// Refuses the fields about calls of an account: a demo account makes no calls.
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
            ("proxy", raw.proxy.is_some()),
        ] {
            let message = "does not apply to a demo account, which calls no server: remove it";
            self.scribe.key(field).note_problem_if(written, message);
        }
        let message = "has no effect on a demo account, which calls no server: remove it";
        self.scribe
            .key("probe")
            .warn_if(raw.probe == Some(true), message);
        self.scribe
            .key("trace")
            .warn_if(raw.trace == Some(true), message);
        Some(Base {
            tls: false,
            host: "".into(),
            port: 0,
            path: "".into(),
            authority: String::new(),
        })
    }

    /// Returns the references that callers of the account may write.
    fn allowed_references(&self, protocol: &Protocol, base: &Base) -> AllowedReferences {
        use raw::CallerReference as R;
        let list = || list_items(self.raw.caller_references.as_ref());
        let written = || list().map(|(_, written)| *written);
        let may = |reference: R| written().any(|written| written == reference);
        let urls = match self.raw.media_urls.unwrap_or(raw::MediaUrls::Public) {
            raw::MediaUrls::Pass => Urls::Any,
            raw::MediaUrls::Refuse => Urls::None,
            raw::MediaUrls::Public if base::is_near(base) => Urls::NoneForNearServer,
            raw::MediaUrls::Public => Urls::Public,
        };
        // A demo account reads nothing but texts.
        if protocol.calls_nobody() {
            return AllowedReferences::ALL;
        }
        // If all requests are translated, everything that is not in the dialect's own words is left
        // out.
        let (files, passes) = (may(R::Files), protocol.may_pass());
        let (data_sources, cached) = (!passes || may(R::DataSources), !passes || files);
        AllowedReferences {
            gs: may(R::Gs),
            s3: may(R::S3),
            files,
            data_sources,
            cached,
            urls,
        }
    }

    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let section = self.scribe.key("headers");
        let mut headers = Vec::new();
        let mut seen = HashSet::new();
        for (name, value) in self.raw.headers.iter().flat_map(|headers| &headers.0) {
            let scribe = section.entry(name);
            let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
                scribe.note_problem("is not the name of a header");
                continue;
            };
            let is_traced =
                self.raw.trace == Some(true) && (header == TRACEPARENT || header == TRACESTATE);
            if is_traced {
                scribe.note_problem("is also made by `trace: true`: keep only one of the two");
            } else if OWN_HEADERS.contains(&header.as_str()) {
                scribe.note_problem("cannot be set here: the gateway itself writes this header");
            } else if header == http::header::AUTHORIZATION && self.raw.aws.is_some() {
                scribe.note_problem("is also made from `aws`: keep only one of the two");
            } else if header == http::header::AUTHORIZATION && self.raw.service_account.is_some() {
                scribe
                    .note_problem("is also made from `service_account`: keep only one of the two");
            } else if header == http::header::AUTHORIZATION && self.raw.identity.is_some() {
                scribe.note_problem("is also made from `identity`: keep only one of the two");
            } else if self.raw.key.is_some() && CREDENTIAL_HEADERS.contains(&header.as_str()) {
                scribe.note_problem("is also made from `key`: keep only one of the two");
            } else if !seen.insert(header.clone()) {
                scribe.note_problem(
                    "is written twice, with other upper and lower case: keep only one",
                );
            }
            let Some(value) = value else { continue };
            let text = value.expose();
            // The values of some headers are quoted by the headers' own rules.
            if Placeholder::detect(text.strip_prefix("Bearer ").unwrap_or(text))
                .is_some_and(|placeholder| placeholder != Placeholder::Quoted)
            {
                let message = "is a template or a placeholder, which Portcullis does not fill in: write \
                            the value itself, or the credential as `key: { env: NAME }`";
                scribe.note_problem_unquoted(message);
                continue;
            }
            match HeaderValue::from_str(text) {
                Ok(mut value) => {
                    value.set_sensitive(true);
                    headers.push((header, value));
                }
                Err(_) => scribe.note_problem("may only hold printable ASCII characters"),
            }
        }
        headers
    }
}

/// Returns the problem of a field that another dialect has.
fn only_applies(field: AccountField) -> String {
    let dialects = upstream::ALL.iter().filter(|protocol| protocol.has(field));
    let names: Vec<_> = dialects.map(|protocol| protocol.name).collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    format!(
        "only applies to the dialect{plural} {}: remove it",
        names.join(" and ")
    )
}

//! Resolves `identity` of an account: the one source of its tokens, at Microsoft or Google.
//!
//! What is not written comes from the standard environment variables. What is missing is named; no
//! other source takes its place.

use super::aws::{check_path, variable, written_or_variable};
use super::{base, parse_service};
use crate::base::secret::Secret;
use crate::catalog::raw::{AzureCloud, IdentityFields, IdentityFrom};
use crate::catalog::{Signer, raw};
use crate::conf::scribe::{Scribe, WrittenEntry};
use crate::conf::secret_ref::{Reference, STAND_IN};
use crate::signers::azure::{self, Application, AzureSource, Certificate, Proof};
use crate::signers::google::ServiceAccount;
use crate::signers::google_source::{
    self, AwsEnvironment, ExternalAccount, From, GoogleSource, IMPERSONATION, Impersonate,
};
use crate::signers::{Source, sigv4};
use dialects::upstream::SignsWith;

use IdentityFrom::{
    ClientCertificate, ClientSecret, ExternalAccount as External, Managed, Metadata, Workload,
};

/// The addresses of a cloud of Microsoft's.
struct Cloud {
    authority: &'static str,
    resource: &'static str,
}

fn cloud_addresses(cloud: AzureCloud) -> Cloud {
    let (authority, resource) = match cloud {
        AzureCloud::Public => (
            "https://login.microsoftonline.com",
            "https://cognitiveservices.azure.com",
        ),
        AzureCloud::UsGovernment => (
            "https://login.microsoftonline.us",
            "https://cognitiveservices.azure.us",
        ),
        AzureCloud::China => (
            "https://login.chinacloudapi.cn",
            "https://cognitiveservices.azure.cn",
        ),
    };
    Cloud {
        authority,
        resource,
    }
}

impl WrittenEntry<'_, '_, '_, raw::Account> {
    /// Resolves the source of an account of Microsoft's.
    pub(super) fn azure_signer(&self) -> Option<Signer> {
        let raw::AccountIdentity(written) = self.raw.identity.as_ref()?;
        let scribe = self.scribe.key("identity");
        let message = "is missing: one of workload, managed, client_secret and client_certificate";
        let from = scribe.key("from").required(written.from, message)?;
        if !self.check_identity(written, SignsWith::Entra, &scribe) || !self.enabled() {
            return None;
        }
        let cloud = cloud_addresses(written.cloud.unwrap_or(AzureCloud::Public));
        let source = match from {
            Workload | ClientSecret | ClientCertificate => {
                AzureSource::Application(self.application(written, from, &cloud, &scribe)?)
            }
            Managed => self.managed(written, &cloud, &scribe)?,
            Metadata | External => return None,
        };
        Some(Signer::Source(Box::new(Source::Azure(source))))
    }

    fn application(
        &self,
        written: &IdentityFields,
        from: IdentityFrom,
        cloud: &Cloud,
        scribe: &Scribe<'_, '_>,
    ) -> Option<Application> {
        let tenant = written_or_variable(
            &scribe.key("tenant"),
            written.tenant.as_deref(),
            "AZURE_TENANT_ID",
            "the id of the tenant",
        );
        let client_id = written_or_variable(
            &scribe.key("client_id"),
            written.client_id.as_deref(),
            "AZURE_CLIENT_ID",
            "the client id of the application",
        );
        let proof = match from {
            Workload => {
                let scribe = scribe.key("token_file");
                let path = written_or_variable(
                    &scribe,
                    written.token_file.as_deref(),
                    "AZURE_FEDERATED_TOKEN_FILE",
                    "the path of the file with the token",
                );
                path.and_then(|path| check_path(&scribe, path))
                    .map(Proof::File)
            }
            ClientSecret => self.client_secret(written, scribe).map(Proof::Secret),
            ClientCertificate => self.certificate(written, scribe).map(Proof::Certificate),
            Managed | Metadata | External => None,
        };
        let authority = written.authority_url.clone();
        let authority = authority.or_else(|| variable(scribe, "AZURE_AUTHORITY_HOST"));
        let authority = authority.filter(|url| url != STAND_IN);
        let scribe_of_url = scribe.key("authority_url");
        let default = || cloud.authority.to_owned();
        let authority = self.service_url(&scribe_of_url, authority.as_deref(), default, false);
        let (tenant, client_id) = (tenant?, client_id?);
        for (field, text) in [("tenant", &tenant), ("client_id", &client_id)] {
            let message = "may only hold letters, digits, `-`, `.` and `_`";
            scribe.key(field).note_problem_if(!is_id(text), message);
        }
        Some(Application {
            authority: authority?,
            tenant: tenant.clone(),
            client_id,
            proof: proof.filter(|_| is_id(&tenant))?,
            resource: cloud.resource,
        })
    }

    fn client_secret(&self, written: &IdentityFields, scribe: &Scribe<'_, '_>) -> Option<Secret> {
        const NAME: &str = "AZURE_CLIENT_SECRET";
        let scribe_of_secret = scribe.key("client_secret");
        if let Some(written) = &written.client_secret {
            return self.secret(written, Some(NAME), &scribe_of_secret);
        }
        let meaning = "the secret of the application";
        written_or_variable(&scribe_of_secret, None, NAME, meaning).map(Secret::new)
    }

    fn certificate(
        &self,
        written: &IdentityFields,
        scribe: &Scribe<'_, '_>,
    ) -> Option<Certificate> {
        const NAME: &str = "AZURE_CLIENT_CERTIFICATE_PATH";
        let scribe = scribe.key("certificate");
        let pem = match &written.certificate {
            Some(written) => self.multiline_secret(written, NAME, &scribe)?,
            None => {
                let meaning = "a file with the certificate and its key";
                let path = written_or_variable(&scribe, None, NAME, meaning)?;
                Secret::new(scribe.read_or_noted(scribe.look_up(Reference::File(&path)))?)
            }
        };
        if pem.expose() == STAND_IN {
            return None;
        }
        let read = Certificate::parse(pem.expose());
        scribe.read_or_noted(read.map_err(|wrong| format!("cannot be used: the file {wrong}")))
    }

    fn managed(
        &self,
        written: &IdentityFields,
        cloud: &Cloud,
        scribe: &Scribe<'_, '_>,
    ) -> Option<AzureSource> {
        let client_id = written.client_id.clone();
        let resource = cloud.resource;
        let endpoint = variable(scribe, "IDENTITY_ENDPOINT").filter(|url| url != STAND_IN);
        let from = scribe.key("from");
        let Some(endpoint) = endpoint.filter(|_| written.metadata_url.is_none()) else {
            let scribe = scribe.key("metadata_url");
            let default = || azure::METADATA.to_owned();
            return Some(AzureSource::Managed {
                metadata: self.service_url(
                    &scribe,
                    written.metadata_url.as_deref(),
                    default,
                    true,
                )?,
                client_id,
                resource,
            });
        };
        for (name, product) in [
            ("IMDS_ENDPOINT", "Azure Arc"),
            ("IDENTITY_SERVER_THUMBPRINT", "Service Fabric"),
        ] {
            if variable(scribe, name).is_some() {
                let message = format!(
                    "is not supported with {product}, which the environment variable {name} shows: use client_certificate or \
                     client_secret"
                );
                from.note_problem(&message);
                return None;
            }
        }
        let Some(header) = variable(scribe, "IDENTITY_HEADER") else {
            from.note_problem(
                "needs the environment variable IDENTITY_HEADER beside IDENTITY_ENDPOINT, and it is not set",
            );
            return None;
        };
        let checked = parse_service(&endpoint, true, true);
        from.read_or_noted(checked.map_err(|wrong| {
            format!("cannot be used: the URL in the environment variable IDENTITY_ENDPOINT {wrong}")
        }))?;
        Some(AzureSource::AppService {
            endpoint,
            header: Secret::new(header),
            client_id,
            resource,
        })
    }

    /// Resolves the source of an account of Google's.
    pub(super) fn google_signer(&self) -> Option<Signer> {
        let fields = self
            .raw
            .identity
            .as_ref()
            .map(|raw::AccountIdentity(fields)| fields);
        let scribe = self.scribe.key("identity");
        if let Some(written) = fields {
            let from = scribe.key("from");
            let both = "cannot be used together with `service_account`: keep only one of the two";
            let is_double = written.from.is_some() && self.raw.service_account.is_some();
            from.note_problem_if(is_double, both);
            let needs_one = written.from.is_none() && self.raw.service_account.is_none();
            let message = "is missing: one of metadata and external_account, or a `service_account` beside `identity`";
            from.note_missing_if(needs_one, message);
            if !self.check_identity(written, SignsWith::ServiceAccount, &scribe) {
                return None;
            }
        }
        let from = match fields.and_then(|written| Some((written.from?, written))) {
            None => From::Key(self.service_account()?),
            Some(_) if !self.enabled() => return None,
            Some((External, written)) => {
                From::External(Box::new(self.external_account(written, &scribe)?))
            }
            Some((Metadata, written)) => {
                let scribe_of_url = scribe.key("metadata_url");
                let host = variable(&scribe, "GCE_METADATA_HOST").filter(|host| host != STAND_IN);
                let address = host.map(|host| format!("http://{host}"));
                let address = address.unwrap_or_else(|| google_source::METADATA.to_owned());
                let default = || address.clone();
                let url = written.metadata_url.as_deref();
                let metadata = self.service_url(&scribe_of_url, url, default, true)?;
                From::Metadata { metadata }
            }
            Some((Workload | Managed | ClientSecret | ClientCertificate, _)) => return None,
        };
        let impersonate = match fields {
            Some(written) => self.impersonated(written, &scribe)?,
            None => None,
        };
        Some(Signer::Source(Box::new(Source::Google(Box::new(
            GoogleSource { from, impersonate },
        )))))
    }

    fn service_account(&self) -> Option<ServiceAccount> {
        let scribe = self.scribe.key("service_account");
        let written = self.raw.service_account.as_ref()?;
        let json = self
            .multiline_secret(written, "GOOGLE_CREDENTIALS", &scribe)
            .filter(|json| json.expose() != STAND_IN)?;
        let account = ServiceAccount::parse(json.expose())
            .map_err(|wrong| format!("cannot be used: {wrong}"));
        let account = scribe.read_or_noted(account)?;
        let insecure = self.raw.insecure.unwrap_or(false);
        let issuer = base::parse_base(&account.token_uri, insecure);
        scribe.read_or_noted(issuer.map_err(|wrong| format!("its `token_uri` {wrong}")))?;
        Some(account)
    }

    fn external_account(
        &self,
        written: &IdentityFields,
        scribe: &Scribe<'_, '_>,
    ) -> Option<ExternalAccount> {
        let scribe = scribe.key("file");
        let path = written_or_variable(
            &scribe,
            written.file.as_deref(),
            "GOOGLE_APPLICATION_CREDENTIALS",
            "the file of the external account",
        )?;
        let found = scribe.look_up(Reference::File(&path));
        let json = scribe.read_or_noted(found)?;
        if json == STAND_IN {
            return None;
        }
        let read = ExternalAccount::parse(&json, aws_environment(&scribe));
        let read = read.map_err(|wrong| format!("cannot be used: the file {wrong}"));
        let external = scribe.read_or_noted(read)?;
        let insecure = self.raw.insecure.unwrap_or(false);
        for (url, is_nearby) in external.urls() {
            let checked = parse_service(url, is_nearby, insecure);
            scribe.read_or_noted(checked.map_err(|wrong| format!("has a URL that {wrong}")))?;
        }
        Some(external)
    }

    /// Returns the service account that is impersonated, if one is; `None` if it is wrong.
    fn impersonated(
        &self,
        written: &IdentityFields,
        scribe: &Scribe<'_, '_>,
    ) -> Option<Option<Impersonate>> {
        let Some(email) = &written.impersonate else {
            return Some(None);
        };
        let is_email = email.contains('@')
            && email
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"@.-_".contains(&b));
        if !is_email {
            let message = "must be the email of a service account, such as NAME@PROJECT.iam.gserviceaccount.com";
            scribe.key("impersonate").note_problem(message);
            return None;
        }
        let scribe = scribe.key("impersonate_url");
        let default = || IMPERSONATION.to_owned();
        let url = self.service_url(&scribe, written.impersonate_url.as_deref(), default, false)?;
        Some(Some(Impersonate::of_email(email, &url)))
    }

    /// Refuses fields that do not belong to the source. Returns whether it fits the dialect.
    fn check_identity(
        &self,
        written: &IdentityFields,
        signs_with: SignsWith,
        scribe: &Scribe<'_, '_>,
    ) -> bool {
        let from = written.from;
        let is_azure = signs_with == SignsWith::Entra;
        let (fits, sources) = match from {
            Some(Workload | Managed | ClientSecret | ClientCertificate) => {
                (is_azure, "metadata and external_account")
            }
            Some(Metadata | External) => (
                !is_azure,
                "workload, managed, client_secret and client_certificate",
            ),
            None => (true, ""),
        };
        let message = format!("is not a source of this dialect: write one of {sources}");
        scribe.key("from").note_problem_if(!fits, &message);
        let is_application = matches!(from, Some(Workload | ClientSecret | ClientCertificate));
        let any_azure = is_application || from == Some(Managed);
        let google = !is_azure;
        for (field, is_written, fits) in [
            ("tenant", written.tenant.is_some(), is_application),
            ("client_id", written.client_id.is_some(), any_azure),
            (
                "client_secret",
                written.client_secret.is_some(),
                from == Some(ClientSecret),
            ),
            (
                "certificate",
                written.certificate.is_some(),
                from == Some(ClientCertificate),
            ),
            (
                "token_file",
                written.token_file.is_some(),
                from == Some(Workload),
            ),
            ("cloud", written.cloud.is_some(), any_azure),
            (
                "authority_url",
                written.authority_url.is_some(),
                is_application,
            ),
            (
                "metadata_url",
                written.metadata_url.is_some(),
                matches!(from, Some(Managed | Metadata)),
            ),
            ("file", written.file.is_some(), from == Some(External)),
            ("impersonate", written.impersonate.is_some(), google),
            (
                "impersonate_url",
                written.impersonate_url.is_some(),
                google && written.impersonate.is_some(),
            ),
        ] {
            let is_wrong = is_written && !fits;
            let message = "does not apply to this source: remove it";
            scribe.key(field).note_problem_if(is_wrong, message);
        }
        fits
    }
}

/// Returns whether a text can be the id of a tenant or a client: it becomes part of an address.
fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
}

/// Returns what the environment says of AWS, for an external account.
fn aws_environment(scribe: &Scribe<'_, '_>) -> AwsEnvironment {
    let found = |name| variable(scribe, name);
    let keys = found("AWS_ACCESS_KEY_ID").zip(found("AWS_SECRET_ACCESS_KEY"));
    AwsEnvironment {
        keys: keys.map(|(id, secret)| sigv4::Keys {
            access_key_id: Secret::new(id),
            secret_access_key: Secret::new(secret),
            session_token: found("AWS_SESSION_TOKEN").map(Secret::new),
        }),
        region: found("AWS_REGION").or_else(|| found("AWS_DEFAULT_REGION")),
    }
}

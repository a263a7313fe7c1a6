//! Resolves `aws` of an account: static keys, or the one source that gives temporary keys.
//!
//! What is not written comes from the environment variables that AWS sets up. What is missing is
//! named; no other source takes its place.

use crate::base::host::is_this_machine;
use crate::base::secret::Secret;
use crate::catalog::resolve::parse_service;
use crate::catalog::{AwsKeys, Signer, raw};
use crate::conf::scribe::{Scribe, WrittenEntry};
use crate::conf::secret_ref::{Reference, STAND_IN, SecretRef};
use crate::signers::aws::{
    Assume, AwsSource, CONTAINER, ContainerToken, From, METADATA, SESSION, WebIdentity,
    token_service,
};
use crate::signers::{Source, sigv4};

/// Whether a value must be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

/// The hosts of containers' services that a full URI may name, besides this machine.
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];

impl WrittenEntry<'_, '_, '_, raw::Account> {
    /// Resolves the keys of AWS, or their source.
    pub(super) fn aws_signer(&self, written: &raw::Aws) -> Option<Signer> {
        let scribe = self.scribe.key("aws");
        self.refuse_aws_fields(written, &scribe);
        let region = self.raw.region.as_deref()?;
        let Some(from) = written.from else {
            let keys = self.static_keys(written)?;
            let Some(assume) = &written.assume else {
                return Some(Signer::Aws(AwsKeys {
                    signer: sigv4::Signer::for_keys(region, &keys),
                    access_key_id: keys.access_key_id,
                    secret_access_key: keys.secret_access_key,
                    session_token: keys.session_token,
                }));
            };
            let assume = self.assumed_role(written, assume, region)?;
            return Some(Signer::Source(Box::new(Source::Aws(AwsSource {
                from: From::Static(keys),
                assume: Some(assume),
            }))));
        };
        if !self.enabled() {
            return None;
        }
        let from = match from {
            raw::AwsFrom::WebIdentity => From::WebIdentity(self.web_identity(written, region)?),
            raw::AwsFrom::Container => container(&scribe)?,
            raw::AwsFrom::Instance => From::Instance {
                metadata: self.service_url(
                    &scribe.key("metadata_url"),
                    written.metadata_url.as_deref(),
                    || METADATA.to_owned(),
                    true,
                )?,
            },
        };
        let assume = written.assume.as_ref();
        let assume = match assume.map(|assume| self.assumed_role(written, assume, region)) {
            Some(None) => return None,
            Some(assume) => assume,
            None => None,
        };
        Some(Signer::Source(Box::new(Source::Aws(AwsSource {
            from,
            assume,
        }))))
    }

    /// Refuses fields that do not belong together.
    fn refuse_aws_fields(&self, written: &raw::Aws, scribe: &Scribe<'_, '_>) {
        let is_static = written.from.is_none();
        let is_web = written.from == Some(raw::AwsFrom::WebIdentity);
        let is_instance = written.from == Some(raw::AwsFrom::Instance);
        let has_service = is_web || written.assume.is_some();
        let keys = "cannot be used together with `from`: keep only one of the two";
        let web = "only applies with `from: web_identity`: remove it, or add that";
        let sts = "only applies with `from: web_identity` or with `assume`: remove it";
        let instance = "only applies with `from: instance`: remove it, or add that";
        for (field, is_written, fits, message) in [
            (
                "access_key_id",
                written.access_key_id.is_some(),
                is_static,
                keys,
            ),
            (
                "secret_access_key",
                written.secret_access_key.is_some(),
                is_static,
                keys,
            ),
            (
                "session_token",
                written.session_token.is_some(),
                is_static,
                keys,
            ),
            ("role", written.role.is_some(), is_web, web),
            ("token_file", written.token_file.is_some(), is_web, web),
            ("session_name", written.session_name.is_some(), is_web, web),
            ("sts_url", written.sts_url.is_some(), has_service, sts),
            (
                "metadata_url",
                written.metadata_url.is_some(),
                is_instance,
                instance,
            ),
        ] {
            let is_wrong = is_written && !fits;
            scribe.key(field).note_problem_if(is_wrong, message);
        }
    }

    fn static_keys(&self, written: &raw::Aws) -> Option<sigv4::Keys> {
        let access_key_id = self.aws_secret(
            "access_key_id",
            "AWS_ACCESS_KEY_ID",
            written.access_key_id.as_ref(),
            Need::Required,
        );
        let secret_access_key = self.aws_secret(
            "secret_access_key",
            "AWS_SECRET_ACCESS_KEY",
            written.secret_access_key.as_ref(),
            Need::Required,
        );
        let session_token = self.aws_secret(
            "session_token",
            "AWS_SESSION_TOKEN",
            written.session_token.as_ref(),
            Need::Optional,
        );
        Some(sigv4::Keys {
            access_key_id: access_key_id?,
            secret_access_key: secret_access_key?,
            session_token,
        })
    }

    /// Finds one of the values of `aws`.
    fn aws_secret(
        &self,
        field: &str,
        default_variable: &str,
        written: Option<&SecretRef>,
        need: Need,
    ) -> Option<Secret> {
        let aws = self.scribe.key("aws");
        let scribe = aws.key(field);
        let message = "is missing: write it, or `from: …` in place of static keys";
        scribe.note_missing_if(written.is_none() && need == Need::Required, message);
        self.secret(written?, Some(default_variable), &scribe)
    }

    fn web_identity(&self, written: &raw::Aws, region: &str) -> Option<WebIdentity> {
        let scribe = self.scribe.key("aws");
        let role = written_or_variable(
            &scribe.key("role"),
            written.role.as_deref(),
            "AWS_ROLE_ARN",
            "the ARN of the role",
        );
        let token_file = written_or_variable(
            &scribe.key("token_file"),
            written.token_file.as_deref(),
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "the path of the file with the token",
        );
        let session = written.session_name.clone();
        let session = session.or_else(|| variable(&scribe, "AWS_ROLE_SESSION_NAME"));
        let session = session.unwrap_or_else(|| SESSION.to_owned());
        let sts = self.service_url(
            &scribe.key("sts_url"),
            written.sts_url.as_deref(),
            || token_service(region),
            false,
        );
        let role = role.and_then(|role| check_role(&scribe.key("role"), role));
        let token_file = token_file.and_then(|path| check_path(&scribe.key("token_file"), path));
        Some(WebIdentity {
            role: role?,
            token_file: token_file?,
            session: check_session(&scribe.key("session_name"), session)?,
            sts: sts?,
        })
    }

    fn assumed_role(
        &self,
        written: &raw::Aws,
        assume: &raw::AwsAssume,
        region: &str,
    ) -> Option<Assume> {
        let aws = self.scribe.key("aws");
        let scribe = aws.key("assume");
        let message =
            "is missing: the ARN of the role, such as arn:aws:iam::123456789012:role/NAME";
        let role = scribe.key("role").required(assume.role.clone(), message);
        let region = assume.region.as_deref().unwrap_or(region);
        let is_region = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        if region.is_empty() || !region.bytes().all(is_region) {
            let message = "must be a region, such as us-east-1";
            scribe.key("region").note_problem(message);
            return None;
        }
        let session = assume.session_name.clone();
        let session = session.unwrap_or_else(|| SESSION.to_owned());
        let sts = self.service_url(
            &aws.key("sts_url"),
            written.sts_url.as_deref(),
            || token_service(region),
            false,
        );
        Some(Assume {
            role: check_role(&scribe.key("role"), role?)?,
            external_id: assume.external_id.clone(),
            session: check_session(&scribe.key("session_name"), session)?,
            region: region.to_owned(),
            sts: sts?,
        })
    }

    /// Returns the address of a service: the one that is written, or the default. It has no slash
    /// at its end.
    pub(super) fn service_url(
        &self,
        scribe: &Scribe<'_, '_>,
        written: Option<&str>,
        default: impl Fn() -> String,
        is_nearby: bool,
    ) -> Option<String> {
        let Some(url) = written else {
            return Some(default());
        };
        let insecure = self.raw.insecure.unwrap_or(false);
        scribe.read_or_noted(parse_service(url, is_nearby, insecure))?;
        if url.contains('?') {
            scribe.note_problem("must have no query");
            return None;
        }
        Some(url.trim_end_matches('/').to_owned())
    }
}

/// Returns the value of an environment variable, if it is set.
pub(super) fn variable(scribe: &Scribe<'_, '_>, name: &str) -> Option<String> {
    let found = scribe.look_up(Reference::Optional(name)).ok();
    found.filter(|text| !text.is_empty())
}

/// Returns what is written, or the value of a variable. Notes that both are missing, if they are.
pub(super) fn written_or_variable(
    scribe: &Scribe<'_, '_>,
    written: Option<&str>,
    name: &str,
    meaning: &str,
) -> Option<String> {
    let found = written
        .map(str::to_owned)
        .or_else(|| variable(scribe, name));
    let message = format!(
        "is missing: {meaning}, since the environment variable {name} is not set: write it here, or set the variable"
    );
    scribe.required(found, &message)
}

/// Checks the full path of a file that is read for each new credential.
pub(super) fn check_path(scribe: &Scribe<'_, '_>, path: String) -> Option<String> {
    let is_good = path.starts_with('/') || path == STAND_IN;
    let message = "must be a full path, since it is read again and again: begin it with /";
    scribe.note_problem_if(!is_good, message);
    is_good.then_some(path)
}

fn check_role(scribe: &Scribe<'_, '_>, role: String) -> Option<String> {
    let is_good = (role.starts_with("arn:") && role.contains(":role/")) || role == STAND_IN;
    let message = "must be the ARN of a role, such as arn:aws:iam::123456789012:role/NAME";
    scribe.note_problem_if(!is_good, message);
    is_good.then_some(role)
}

fn check_session(scribe: &Scribe<'_, '_>, name: String) -> Option<String> {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"_=,.@-".contains(&b);
    let is_good = (2..=64).contains(&name.len()) && name.bytes().all(is_allowed);
    let message = "must have 2 to 64 letters, digits and `_=,.@-`";
    scribe.note_problem_if(!is_good, message);
    is_good.then_some(name)
}

/// Finds the service of the container in the environment.
fn container(scribe: &Scribe<'_, '_>) -> Option<From> {
    const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    let from = scribe.key("from");
    let url = match (variable(scribe, RELATIVE), variable(scribe, FULL)) {
        (Some(text), _) if text == STAND_IN => format!("{CONTAINER}/{text}"),
        (Some(path), _) if path.starts_with('/') => format!("{CONTAINER}{path}"),
        (Some(_), _) => {
            from.note_problem(&format!(
                "needs a path that begins with / in the environment variable {RELATIVE}"
            ));
            return None;
        }
        (None, Some(url)) => {
            from.read_or_noted(check_container_url(&url).map_err(|wrong| {
                format!("cannot be used: the URL in the environment variable {FULL} {wrong}")
            }))?;
            url
        }
        (None, None) => {
            from.note_problem(&format!(
                "needs the environment variable {RELATIVE} (ECS) or {FULL} (EKS Pod Identity), and neither is set: is this \
                 a task with a role, or a pod with an association?"
            ));
            return None;
        }
    };
    let file = variable(scribe, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    let text = || variable(scribe, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
    let token = match file {
        Some(path) => Some(ContainerToken::File(check_path(&from, path)?)),
        None => text().map(|text| ContainerToken::Text(Secret::new(text))),
    };
    Some(From::Container { url, token })
}

/// Checks the full URI of a container's service.
fn check_container_url(url: &str) -> Result<(), String> {
    let (base, _) = parse_service(url, true, true)?;
    let is_known = CONTAINER_HOSTS.contains(&&*base.host) || is_this_machine(&base.host);
    if base.tls || is_known {
        return Ok(());
    }
    Err("is http: to another host than this machine, 169.254.170.2, 169.254.170.23 and [fd00:ec2::23]".to_owned())
}

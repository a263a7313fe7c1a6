"""google-auth: the sources of Google."""

import json
import pathlib
from unittest import mock

import google.auth
import google.auth.aws
import google.auth.compute_engine
import google.auth.identity_pool
import google.auth.impersonated_credentials
import google.auth.transport.requests
import google.oauth2.service_account

from . import CLOCK, Source

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
AUDIENCE = "//iam.googleapis.com/projects/123456/locations/global/workloadIdentityPools/pool/providers/provider"
IMPERSONATED = "vertex@project.iam.gserviceaccount.com"
GENERATE = f"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{IMPERSONATED}:generateAccessToken"
METADATA = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts"
AWS_METADATA = "http://169.254.169.254/latest"
ACCOUNT = json.loads(
    (pathlib.Path(__file__).resolve().parents[2] / "support" / "service_account.json").read_text(encoding="utf-8")
)

TOKEN = {"json": {"access_token": "token-of-google", "expires_in": 3599, "token_type": "Bearer"}}
EXCHANGED = {
    "POST https://sts.googleapis.com/v1/token": {
        "json": {
            "access_token": "token-of-federation",
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer",
            "expires_in": 3599,
        }
    }
}
GENERATED = {f"POST {GENERATE}": {"json": {"accessToken": "token-of-impersonated", "expireTime": "<now+3600:rfc3339>"}}}


class FixedTime:
    """The helpers of google-auth, with the time at which requests of AWS are signed."""

    def __getattr__(self, name):
        return getattr(google.auth._helpers, name)

    def utcnow(self):
        return CLOCK.replace(tzinfo=None)


def obtain(make_credentials):
    def from_credentials(folder):
        credentials = make_credentials(folder)
        with mock.patch.object(google.auth.aws, "_helpers", FixedTime()):
            credentials.refresh(google.auth.transport.requests.Request())
        assert credentials.valid
        email = getattr(credentials, "service_account_email", None)
        return {
            "token": credentials.token,
            "expires_at": credentials.expiry.replace(tzinfo=CLOCK.tzinfo).timestamp(),
            **({"service_account": email} if email else {}),
        }

    return from_credentials


def from_file(folder):
    """The credentials of a file. `google.auth.default` would also ask for the name of a project."""
    path = f"{folder}/credentials.json"
    source = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["credential_source"]
    module = google.auth.aws if "environment_id" in source else google.auth.identity_pool
    return module.Credentials.from_file(path, scopes=[SCOPE])


def service_account(token_uri=ACCOUNT["token_uri"]):
    def make(_):
        account = {**ACCOUNT, "token_uri": token_uri}
        return google.oauth2.service_account.Credentials.from_service_account_info(account, scopes=[SCOPE])

    return make


def metadata(email=None, scopes=None):
    def make(_):
        names = {"service_account_email": email} if email else {}
        return google.auth.compute_engine.Credentials(scopes=scopes, **names)

    return make


def impersonated(source, **options):
    def make(folder):
        return google.auth.impersonated_credentials.Credentials(
            source_credentials=source(folder), target_principal=IMPERSONATED, target_scopes=[SCOPE], **options
        )

    return make


def federated(about, credential_source, answers=None, files=None, environment=None, token_type="jwt", lifetime=None):
    """An external account: alone, and with the impersonation of a service account. Only the latter has a lifetime."""
    signed = token_type == "aws4_request"
    prefix = "urn:ietf:params:aws:token-type:" if signed else "urn:ietf:params:oauth:token-type:"
    credentials = {
        "type": "external_account",
        "audience": AUDIENCE,
        "subject_token_type": prefix + token_type,
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": credential_source,
    }
    impersonation = {"service_account_impersonation_url": GENERATE}
    if lifetime:
        impersonation["service_account_impersonation"] = {"token_lifetime_seconds": lifetime}
    else:
        yield "", external_account(about, credentials, {**(answers or {}), **EXCHANGED}, files, environment, signed)
    about += ", with a service account"
    credentials |= impersonation
    yield "-impersonate", external_account(
        about, credentials, {**(answers or {}), **EXCHANGED, **GENERATED}, files, environment, signed
    )


def external_account(about, credentials, answers, files, environment, signed):
    return Source(
        library="google-auth",
        about=about,
        obtain=obtain(from_file),
        environment=environment or {},
        files={"credentials.json": json.dumps(credentials, indent=2), **(files or {})},
        arguments={"scopes": [SCOPE]},
        answers=answers,
        signed=signed,
    )


def plain(about, make, answers, **arguments):
    return Source(library="google-auth", about=about, obtain=obtain(make), answers=answers, arguments=arguments)


def metadata_answers(email="default"):
    return {
        # The library asks for the token of `default`, whatever the name is.
        f"GET {METADATA}/default/token": TOKEN,
        "GET http://metadata.google.internal/computeMetadata/v1/universe/universe-domain": {"text": "googleapis.com"},
        f"GET {METADATA}/{email}/": {
            "json": {"aliases": ["default"], "email": "node@project.iam.gserviceaccount.com", "scopes": [SCOPE]}
        },
    }


AWS_SOURCE = {
    "environment_id": "aws1",
    "region_url": f"{AWS_METADATA}/meta-data/placement/availability-zone",
    "url": f"{AWS_METADATA}/meta-data/iam/security-credentials",
    "regional_cred_verification_url": "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15",
    "imdsv2_session_token_url": f"{AWS_METADATA}/api/token",
}
AWS_ANSWERS = {
    f"PUT {AWS_METADATA}/api/token": {"text": "token-of-metadata"},
    f"GET {AWS_METADATA}/meta-data/placement/availability-zone": {"text": "us-east-2b"},
    f"GET {AWS_METADATA}/meta-data/iam/security-credentials": {"text": "gateway"},
    f"GET {AWS_METADATA}/meta-data/iam/security-credentials/gateway": {
        "json": {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "AccessKeyId": "ASIAINSTANCE",
            "SecretAccessKey": "secret-of-instance",
            "Token": "token-of+instance/==",
            "Expiration": "<now+21600:rfc3339>",
        }
    },
}
AWS_STATIC = {"AWS_ACCESS_KEY_ID": "AKIASTATIC", "AWS_SECRET_ACCESS_KEY": "secret-of-static", "AWS_REGION": "eu-west-1"}
URL_SOURCE = "http://127.0.0.1:8082/token"
JSON_TOKEN = {"subject": {"ignored": True}, "id_token": "header.claims.of-the-platform"}

FEDERATED = {
    "google-external-file-text": federated(
        "a file with a token", {"file": "<folder>/token"}, files={"token": "header.claims.of-the-platform"}
    ),
    "google-external-file-json": federated(
        "a file with a token in JSON",
        {"file": "<folder>/token.json", "format": {"type": "json", "subject_token_field_name": "id_token"}},
        files={"token.json": json.dumps(JSON_TOKEN)},
    ),
    "google-external-file-text-lifetime": federated(
        "a file with a token, and a lifetime",
        {"file": "<folder>/token"},
        files={"token": "header.claims.of-the-platform"},
        lifetime=900,
    ),
    "google-external-url-text": federated(
        "an URL of a token", {"url": URL_SOURCE}, {f"GET {URL_SOURCE}": {"text": "header.claims.of-the-platform"}}
    ),
    "google-external-url-json": federated(
        "an URL of a token in JSON, with headers",
        {
            "url": URL_SOURCE + "?api-version=2018-02-01&resource=api://pool",
            "headers": {"Metadata": "True"},
            "format": {"type": "json", "subject_token_field_name": "id_token"},
        },
        {f"GET {URL_SOURCE}": {"json": JSON_TOKEN}},
    ),
    "google-external-aws-instance": federated(
        "an instance of EC2", AWS_SOURCE, AWS_ANSWERS, token_type="aws4_request"
    ),
    "google-external-aws-environment": federated(
        "keys of AWS in the environment",
        AWS_SOURCE,
        environment=AWS_STATIC,
        token_type="aws4_request",
    ),
    "google-external-aws-session": federated(
        "keys of AWS with a session token in the environment",
        AWS_SOURCE,
        environment={**AWS_STATIC, "AWS_SESSION_TOKEN": "token-of+session/=="},
        token_type="aws4_request",
    ),
}

SOURCES = {
    "google-service-account": plain(
        "a service account's key (tests/support/service_account.json)",
        service_account(),
        {"POST https://oauth2.googleapis.com/token": TOKEN},
        scopes=[SCOPE],
    ),
    "google-service-account-other-uri": plain(
        "the same key, with a `token_uri` that is another",
        service_account("https://oauth2.example/token"),
        {"POST https://oauth2.example/token": TOKEN},
        scopes=[SCOPE],
        token_uri="https://oauth2.example/token",
    ),
    "google-metadata": plain("the default service account", metadata(), metadata_answers()),
    "google-metadata-scopes": plain(
        "the default service account, with scopes",
        metadata(scopes=[SCOPE, "openid"]),
        metadata_answers(),
        scopes=[SCOPE, "openid"],
    ),
    "google-metadata-account": plain(
        "a service account by its name",
        metadata(email="node@project.iam.gserviceaccount.com"),
        metadata_answers("node@project.iam.gserviceaccount.com"),
        service_account_email="node@project.iam.gserviceaccount.com",
    ),
    "google-impersonate-service-account": plain(
        "a service account on top of a service account's key",
        impersonated(service_account()),
        {"POST https://oauth2.googleapis.com/token": TOKEN, **GENERATED},
        target_principal=IMPERSONATED,
        target_scopes=[SCOPE],
    ),
    "google-impersonate-metadata": plain(
        "a service account on top of the metadata server, with a lifetime and delegates",
        impersonated(metadata(), lifetime=1800, delegates=["middle@project.iam.gserviceaccount.com"]),
        {**metadata_answers(), **GENERATED},
        target_principal=IMPERSONATED,
        target_scopes=[SCOPE],
        lifetime=1800,
        delegates=["middle@project.iam.gserviceaccount.com"],
    ),
    **{name + end: source for name, sources in FEDERATED.items() for end, source in sources},
}

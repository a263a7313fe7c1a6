"""botocore: the sources of AWS."""

import types
from unittest import mock

import botocore.auth
import botocore.credentials
import botocore.session

from . import CLOCK, Source

METADATA = "http://169.254.169.254"
METADATA_V6 = "http://[fd00:ec2::254]"
TOKEN_FILE = {"token": "header.claims.of-the-platform"}
ROLE = "arn:aws:iam::111122223333:role/gateway"
SECOND_ROLE = "arn:aws:iam::444455556666:role/bedrock"

WEB_IDENTITY = {
    "AWS_WEB_IDENTITY_TOKEN_FILE": "<folder>/token",
    "AWS_ROLE_ARN": ROLE,
    "AWS_ROLE_SESSION_NAME": "portcullis",
}

CONTAINER = {
    "json": {
        "RoleArn": ROLE,
        "AccessKeyId": "ASIACONTAINER",
        "SecretAccessKey": "secret-of-container",
        "Token": "token-of-container",
        "Expiration": "<now+21600:rfc3339>",
    }
}

INSTANCE = {
    "json": {
        "Code": "Success",
        "LastUpdated": "<now+0:rfc3339>",
        "Type": "AWS-HMAC",
        "AccessKeyId": "ASIAINSTANCE",
        "SecretAccessKey": "secret-of-instance",
        "Token": "token-of-instance",
        "Expiration": "<now+21600:rfc3339>",
    }
}


def sts_answer(action, access_key, role, session="portcullis"):
    """What STS says to one of both actions."""
    account, name = role.split(":")[4], role.split("/")[1]
    extra = ""
    if action == "AssumeRoleWithWebIdentity":
        extra = (
            "<SubjectFromWebIdentityToken>system:serviceaccount:gateway:portcullis</SubjectFromWebIdentityToken>"
            "<Audience>sts.amazonaws.com</Audience>"
            "<Provider>arn:aws:iam::111122223333:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLE</Provider>"
        )
    return {
        "text": f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>{extra}'
        f"<AssumedRoleUser><AssumedRoleId>AROAEXAMPLE:{session}</AssumedRoleId>"
        f"<Arn>arn:aws:sts::{account}:assumed-role/{name}/{session}</Arn></AssumedRoleUser>"
        f"<Credentials><AccessKeyId>{access_key}</AccessKeyId><SecretAccessKey>secret-of-role</SecretAccessKey>"
        "<SessionToken>token+of/role==</SessionToken><Expiration><now+3600:rfc3339></Expiration></Credentials>"
        f"</{action}Result><ResponseMetadata><RequestId>01234567-89ab-cdef-0123-456789abcdef</RequestId>"
        f"</ResponseMetadata></{action}Response>"
    }


def web_identity_answer():
    return sts_answer("AssumeRoleWithWebIdentity", "ASIAWEBIDENTITY", ROLE)


def obtain(profile=None):
    def from_session(_):
        session = botocore.session.Session(profile=profile)
        with (
            mock.patch.object(botocore.auth, "get_current_datetime", lambda *_: CLOCK.replace(tzinfo=None)),
            # The name of a session that has none ends with the time.
            mock.patch.object(botocore.credentials, "time", types.SimpleNamespace(time=CLOCK.timestamp)),
        ):
            credentials = session.get_credentials()
            frozen = credentials.get_frozen_credentials()
        return {
            "method": credentials.method,
            "access_key": frozen.access_key,
            "secret_key": frozen.secret_key,
            "token": frozen.token,
            "account_id": frozen.account_id,
            "expires_at": credentials._expiry_time.timestamp(),
        }

    return from_session


def web_identity(about, environment, sts="https://sts.eu-west-1.amazonaws.com/"):
    return Source(
        library="botocore",
        about=about,
        obtain=obtain(),
        environment=environment,
        files=TOKEN_FILE,
        answers={f"POST {sts}": web_identity_answer()},
    )


def container(about, environment, url, files=None):
    return Source(
        library="botocore",
        about=about,
        obtain=obtain(),
        environment=environment,
        files=files or {},
        answers={f"GET {url}": CONTAINER},
    )


def instance(about, environment, url=METADATA):
    return Source(
        library="botocore",
        about=about,
        obtain=obtain(),
        environment=environment,
        answers={
            f"PUT {url}/latest/api/token": {"text": "token-of-metadata"},
            f"GET {url}/latest/meta-data/iam/security-credentials/": {"text": "gateway"},
            f"GET {url}/latest/meta-data/iam/security-credentials/gateway": INSTANCE,
        },
    )


def assumed(about, profiles, answers, environment=None, files=None):
    """A profile `assumed` on top of another source."""
    return Source(
        library="botocore",
        about=about,
        obtain=obtain("assumed"),
        environment={"AWS_CONFIG_FILE": "<folder>/config", "AWS_EC2_METADATA_DISABLED": "true", **(environment or {})},
        files={"config": profiles, **(files or {})},
        answers=answers,
        signed=True,
    )


REGION = {"AWS_DEFAULT_REGION": "eu-west-1"}
STATIC_PROFILE = "[profile base]\naws_access_key_id = AKIASTATIC\naws_secret_access_key = secret-of-static\n"
ASSUMED_PROFILE = (
    f"[profile assumed]\nrole_arn = {SECOND_ROLE}\nsource_profile = base\nregion = eu-west-1\n"
    "external_id = customer 7/=+\nrole_session_name = portcullis@example\n"
)
ASSUME_ROLE = {
    "POST https://sts.eu-west-1.amazonaws.com/": sts_answer("AssumeRole", "ASIAASSUMED", SECOND_ROLE, "portcullis@example")
}

SOURCES = {
    "aws-web-identity": web_identity("a role by a token file, in the region of the environment", {**WEB_IDENTITY, **REGION}),
    "aws-web-identity-unnamed": web_identity(
        "without a name of the session",
        {name: value for name, value in {**WEB_IDENTITY, **REGION}.items() if name != "AWS_ROLE_SESSION_NAME"},
    ),
    "aws-web-identity-no-region": web_identity(
        "no region is known: botocore does not read AWS_REGION",
        {**WEB_IDENTITY, "AWS_REGION": "eu-west-1"},
        "https://sts.amazonaws.com/",
    ),
    "aws-web-identity-china": web_identity(
        "a region of China",
        {**WEB_IDENTITY, "AWS_DEFAULT_REGION": "cn-north-1"},
        "https://sts.cn-north-1.amazonaws.com.cn/",
    ),
    "aws-web-identity-government": web_identity(
        "a region of the US government",
        {**WEB_IDENTITY, "AWS_DEFAULT_REGION": "us-gov-west-1"},
        "https://sts.us-gov-west-1.amazonaws.com/",
    ),
    "aws-web-identity-endpoint": web_identity(
        "an address of STS that is written, as of a VPC endpoint",
        {**WEB_IDENTITY, **REGION, "AWS_ENDPOINT_URL_STS": "https://vpce-1.sts.eu-west-1.vpce.amazonaws.com"},
        "https://vpce-1.sts.eu-west-1.vpce.amazonaws.com/",
    ),
    "aws-container-relative": container(
        "a task of ECS",
        {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/0b1c?task=7"},
        "http://169.254.170.2/v2/credentials/0b1c",
    ),
    "aws-container-full": container(
        "a full URI on loopback, without a token",
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:8081/credentials"},
        "http://127.0.0.1:8081/credentials",
    ),
    "aws-container-token": container(
        "a full URI with a token in the environment",
        {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://localhost:8081/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "Basic token-of-task",
        },
        "http://localhost:8081/credentials",
    ),
    "aws-container-token-file": container(
        "a pod identity of EKS",
        {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "the file is used",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "<folder>/token",
        },
        "http://169.254.170.23/v1/credentials",
        TOKEN_FILE,
    ),
    "aws-container-relative-and-full": container(
        "both URIs and a token: the relative URI is asked, with the token",
        {
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/0b1c",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:8081/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "token-of-task",
        },
        "http://169.254.170.2/v2/credentials/0b1c",
    ),
    "aws-instance": instance("an instance of EC2, by IMDSv2", {}),
    "aws-instance-v6": instance(
        "by the address of IPv6", {"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": "IPv6"}, METADATA_V6
    ),
    "aws-instance-endpoint": instance(
        "an address that is written",
        {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1338"},
        "http://127.0.0.1:1338",
    ),
    "aws-assume-static": assumed(
        "a role on top of static keys, with an external id and a name of the session",
        STATIC_PROFILE + ASSUMED_PROFILE,
        ASSUME_ROLE,
    ),
    "aws-assume-unnamed": assumed(
        "a role on top of static keys, without either",
        STATIC_PROFILE + f"[profile assumed]\nrole_arn = {SECOND_ROLE}\nsource_profile = base\nregion = eu-west-1\n",
        ASSUME_ROLE,
    ),
    "aws-assume-no-region": assumed(
        "a role on top of static keys, no region is known",
        (STATIC_PROFILE + ASSUMED_PROFILE).replace("region = eu-west-1\n", ""),
        {"POST https://sts.amazonaws.com/": sts_answer("AssumeRole", "ASIAASSUMED", SECOND_ROLE, "portcullis@example")},
    ),
    "aws-assume-web-identity": assumed(
        "a role on top of a role by a token file",
        f"[profile base]\nweb_identity_token_file = <folder>/token\nrole_arn = {ROLE}\nrole_session_name = portcullis\n"
        "region = eu-west-1\n" + ASSUMED_PROFILE,
        {
            # The same address is asked twice, by two actions.
            "POST https://sts.eu-west-1.amazonaws.com/": [
                web_identity_answer(),
                sts_answer("AssumeRole", "ASIAASSUMED", SECOND_ROLE, "portcullis@example"),
            ],
        },
        files=TOKEN_FILE,
    ),
    "aws-assume-container": assumed(
        "a role on top of a task's role",
        f"[profile assumed]\nrole_arn = {SECOND_ROLE}\ncredential_source = EcsContainer\nregion = eu-west-1\n"
        "role_session_name = portcullis@example\nduration_seconds = 900\n",
        {"GET http://169.254.170.2/v2/credentials/0b1c": CONTAINER, **ASSUME_ROLE},
        {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/0b1c"},
    ),
}

"""The issuers: how each publishes its keys, and which claims it writes. Names are invented, the shapes are not."""

import base64
import dataclasses
import json

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
# 2026-11-30T12:00:00Z. Tokens of this file were made a minute before.
NOW = 1796040000
MADE = NOW - 60
# The claims that make a token last from the year 2026 to 2100.
LASTING = {"iat": 1767225600, "nbf": 1767225600, "exp": 4102444800}


def encode(data):
    """Base64url without padding, as in a token."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def sign(key, algorithm, header, claims):
    """A token with this header and these claims, each a text or an object, whatever they say."""
    parts = [part if isinstance(part, (str, bytes)) else json.dumps(part, separators=(",", ":")) for part in (header, claims)]
    signed = ".".join(encode(part if isinstance(part, bytes) else part.encode()) for part in parts)
    return f"{signed}.{encode(signature(key, algorithm, signed.encode()))}"


def signature(key, algorithm, message):
    return jwt.get_algorithm_by_name(algorithm).sign(message, key)


def make_key(algorithm, bits=2048):
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm.startswith("ES"):
        return ec.generate_private_key({"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1()}[algorithm])
    return rsa.generate_private_key(65537, bits)


def public_jwk(key, algorithm, **members):
    written = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    written.pop("key_ops", None)
    return {**written, **members}


@dataclasses.dataclass
class Shape:
    """A genuine token, and whose it is by the settings of its issuer."""

    name: str
    claims: dict
    # The claim that names the subject, and the caller that it belongs to.
    subject: str | None = None
    caller: str | None = None
    # Or why it is refused after its signature was verified: the claim, and words.
    refused: tuple | None = None
    kid: str | None = None
    header: dict = dataclasses.field(default_factory=dict)


class Issuer:
    """An issuer with its keys. `identity` is what the catalog says of it."""

    def __init__(self, name, identity, header, shapes, keys):
        self.name = name
        self.identity = identity
        self.header = header
        self.shapes = shapes
        # From the name of a key to its algorithm, its private key and the members that are published beside it.
        self.keys = keys

    def published(self):
        keys = [
            members if private is None else public_jwk(private, algorithm, kid=kid, **members)
            for kid, (algorithm, private, members) in self.keys.items()
        ]
        return {"identity": self.identity, "jwks": {"keys": keys}}

    def first_kid(self):
        return next(kid for kid, (_, private, _) in self.keys.items() if private)

    def make(self, claims, kid=None, header=None):
        kid = kid or self.first_kid()
        algorithm, private, _ = self.keys[kid]
        return sign(private, algorithm, {"alg": algorithm, "kid": kid, **self.header, **(header or {})}, claims)

    def genuine_tokens(self):
        for shape in self.shapes:
            entry = {
                "name": shape.name,
                "issuer": self.name,
                "token": self.make(shape.claims, shape.kid, shape.header),
                "claims": shape.claims,
            }
            if shape.refused:
                claim, words = shape.refused
                entry["expected"] = {"verdict": "refused", "stage": "claims", "claim": claim, "reason": words}
            else:
                lasting = {name: LASTING.get(name, value) for name, value in shape.claims.items()}
                entry["lasting_token"] = self.make(lasting, shape.kid, shape.header)
                key_name = f"{self.name}:{percent_encode(shape.subject)}"
                entry["expected"] = {"verdict": "accepted", "subject": shape.subject, "key": key_name, "caller": shape.caller}
            yield entry


def percent_encode(text):
    kept = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@+-"
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in text.encode())


def times(life, before=None):
    """`iat` and `exp`, and `nbf` some seconds before."""
    return {"iat": MADE, **({} if before is None else {"nbf": MADE - before}), "exp": MADE + life}


def rsa_keys(*kids, **members):
    return {kid: ("RS256", make_key("RS256"), {"use": "sig", **members}) for kid in kids}


OKTA = {
    "ver": 1,
    "jti": "AT.kT6b0AQLzp3vXk9cM3wq1hWb3fUe6vW4hQ2mM1yYk1A",
    "iss": "https://acme.okta.com/oauth2/default",
    "aud": "portcullis",
    **times(3600),
    "cid": "0oa1b2c3d4e5f6g7h8i9",
    "uid": "00u1a2b3c4d5e6f7g8h9",
    "scp": ["openid", "profile", "offline_access"],
    "auth_time": MADE - 7,
    "sub": "alice@acme.com",
    "groups": ["Everyone", "ml-team"],
}

TENANT = "11111111-2222-3333-4444-555555555555"
ENTRA = {
    "aud": "66666666-7777-8888-9999-000000000000",
    "iss": f"https://login.microsoftonline.com/{TENANT}/v2.0",
    **times(4913, before=0),
    "aio": "AXQAi/8TAAAAexample+base64/==",
    "azp": "04b07795-8ddb-461a-bbee-02f9e1bf7b46",
    "azpacr": "0",
    "groups": ["aaaaaaaa-0000-1111-2222-bbbbbbbbbbbb", "cccccccc-3333-4444-5555-dddddddddddd"],
    "name": "Alice Müller",
    "oid": "eeeeeeee-6666-7777-8888-ffffffffffff",
    "preferred_username": "alice@acme.com",
    "rh": "1.AXEAexample.",
    "scp": "access_as_user",
    "sid": "99999999-8888-7777-6666-555555555555",
    "sub": "Pairwise-4oO0_example",
    "tid": TENANT,
    "uti": "exampleUTI_0AA",
    "ver": "2.0",
    "xms_ftd": "example",
}
ENTRA_SOURCES = {
    "_claim_names": {"groups": "src1"},
    "_claim_sources": {"src1": {"endpoint": f"https://graph.microsoft.com/v1.0/users/{ENTRA['oid']}/getMemberObjects"}},
}

KEYCLOAK = {
    **times(300),
    "auth_time": MADE - 2,
    "jti": "onrtac:2f1d3c4b-5a69-4788-9a6b-7c8d9e0f1a2b",
    "iss": "https://sso.acme.example/realms/acme",
    "aud": ["portcullis", "account"],
    "sub": "5d3f1c2b-4a59-4687-8796-a5b4c3d2e1f0",
    "typ": "Bearer",
    "azp": "laptop",
    "sid": "0f1e2d3c-4b5a-4697-8879-6a5b4c3d2e1f",
    "acr": "1",
    "allowed-origins": ["https://laptop.acme.example"],
    "realm_access": {"roles": ["offline_access", "default-roles-acme", "ml-team", "uma_authorization"]},
    "resource_access": {"account": {"roles": ["manage-account", "view-profile"]}},
    "scope": "openid email profile",
    "email_verified": True,
    "name": "Alice Müller",
    "preferred_username": "alice",
    "given_name": "Alice",
    "family_name": "Müller",
    "email": "alice@acme.com",
}

GITHUB = {
    "jti": "7b1e2f30-1c2d-4e5f-8a9b-0c1d2e3f4a5b",
    "sub": "repo:acme/app:environment:production",
    "aud": "https://portcullis.acme.example",
    "ref": "refs/heads/main",
    "sha": "5d3a3aad0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "repository": "acme/app",
    "repository_owner": "acme",
    "repository_owner_id": "65",
    "run_id": "1234567890",
    "run_number": "10",
    "run_attempt": "2",
    "repository_visibility": "private",
    "repository_id": "74",
    "actor_id": "12",
    "actor": "alice",
    "workflow": "release",
    "head_ref": "",
    "base_ref": "",
    "event_name": "workflow_dispatch",
    "ref_protected": "true",
    "ref_type": "branch",
    "workflow_ref": "acme/app/.github/workflows/release.yml@refs/heads/main",
    "workflow_sha": "5d3a3aad0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "job_workflow_ref": "acme/automation/.github/workflows/oidc.yml@refs/heads/main",
    "job_workflow_sha": "0f1e2d3c4b5a69788796a5b4c3d2e1f05d3a3aad",
    "runner_environment": "github-hosted",
    "environment": "production",
    "iss": "https://token.actions.githubusercontent.com",
    "nbf": MADE - 300,
    "exp": MADE + 21300,
    "iat": MADE,
}

GITLAB = {
    "namespace_id": "72",
    "namespace_path": "acme",
    "project_id": "20",
    "project_path": "acme/app",
    "user_id": "1",
    "user_login": "alice",
    "user_email": "alice@acme.com",
    "user_access_level": "developer",
    "pipeline_id": "574",
    "pipeline_source": "push",
    "job_id": "302",
    "ref": "feature/ä-branch",
    "ref_type": "branch",
    "ref_path": "refs/heads/feature/ä-branch",
    "ref_protected": "false",
    "groups_direct": ["acme/ml-team"],
    "runner_id": 1,
    "runner_environment": "self-hosted",
    "sha": "714a629c0b401fdce83e847fc9589983fc6f46bc",
    "project_visibility": "internal",
    "ci_config_ref_uri": "gitlab.com/acme/app//.gitlab-ci.yml@refs/heads/feature/ä-branch",
    "ci_config_sha": "714a629c0b401fdce83e847fc9589983fc6f46bc",
    "jti": "235b3a54-b797-45c7-ae9a-f72d7bc6ef5b",
    "iss": "https://gitlab.com",
    **times(3600, before=5),
    "sub": "project_path:acme/app:ref_type:branch:ref:feature/ä-branch",
    "aud": "portcullis",
}

KUBERNETES = {
    "aud": ["portcullis"],
    "exp": MADE + 3600,
    "iat": MADE,
    "iss": "https://kubernetes.default.svc.cluster.local",
    "jti": "c1b2a3d4-e5f6-4708-9a1b-2c3d4e5f6a7b",
    "kubernetes.io": {
        "namespace": "agents",
        "node": {"name": "node-1", "uid": "d0e1f2a3-b4c5-4d6e-8f70-1a2b3c4d5e6f"},
        "pod": {"name": "agent-7d9c5b4f6-x2x4z", "uid": "a9b8c7d6-e5f4-4321-8765-0f1e2d3c4b5a"},
        "serviceaccount": {"name": "agent", "uid": "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d"},
        "warnafter": MADE + 3007,
    },
    "nbf": MADE,
    "sub": "system:serviceaccount:agents:agent",
}

GOOGLE = {
    "aud": "https://portcullis.acme.example",
    "azp": "112233445566778899001",
    "email": "agent@project.iam.gserviceaccount.com",
    "email_verified": True,
    "exp": MADE + 3600,
    "google": {
        "compute_engine": {
            "instance_creation_timestamp": 1767225600,
            "instance_id": "152986662232938449",
            "instance_name": "agent",
            "project_id": "project",
            "project_number": 123456,
            "zone": "us-central1-a",
        }
    },
    "iat": MADE,
    "iss": "https://accounts.google.com",
    "sub": "112233445566778899001",
}


def replaced(claims, **others):
    """The claims with others; a claim that becomes `None` is left out."""
    return {name: value for name, value in {**claims, **others}.items() if value is not None}


def make_issuers():
    issuers = [okta(), entra(), keycloak(), github(), gitlab(), kubernetes(), google()]
    return {issuer.name: issuer for issuer in issuers}


def okta():
    identity_token = {
        "sub": "00u1a2b3c4d5e6f7g8h9",
        "name": "Alice Müller",
        "email": "alice@acme.com",
        "ver": 1,
        "iss": OKTA["iss"],
        "aud": "0oa1b2c3d4e5f6g7h8i9",
        **times(3600),
        "jti": "ID.4eAWJOCMB3SX8XewDfVR",
        "amr": ["pwd", "mfa"],
        "idp": "00o1a2b3c4d5e6f7g8h9",
        "preferred_username": "alice@acme.com",
        "email_verified": True,
        "auth_time": MADE - 7,
        "at_hash": "cpqKfdQA5eH891Ff5oJr_Q",
        "groups": ["ml-team"],
    }
    machine = replaced(OKTA, uid=None, auth_time=None, groups=None, sub="0oa1b2c3d4e5f6g7h8i9", scp=["gateway.use"])
    return Issuer(
        "okta",
        {
            "issuer": OKTA["iss"],
            "audience": "portcullis",
            "callers": {"claim": "groups", "map": {"ml-team": "research", "*": "everyone"}},
        },
        # An access token of Okta has no `typ`.
        {},
        [
            Shape("okta-access", OKTA, "alice@acme.com", "research"),
            Shape("okta-access-others", replaced(OKTA, groups=["Everyone"]), "alice@acme.com", "everyone"),
            Shape("okta-identity-token", identity_token, refused=("aud", "the audience of an identity token is the client")),
            # A token of a client has no groups. Nothing else matches, so it is of `*`.
            Shape("okta-machine", machine, "0oa1b2c3d4e5f6g7h8i9", "everyone"),
        ],
        rsa_keys("k1okta-7hQ2mM1yYk1A", "k2okta-next", alg="RS256"),
    )


def entra():
    application = replaced(
        ENTRA,
        groups=None,
        name=None,
        preferred_username=None,
        scp=None,
        sid=None,
        xms_ftd=None,
        azpacr="1",
        idtyp="app",
        roles=["Gateway.Use"],
        sub=ENTRA["oid"],
    )
    version_1 = replaced(
        ENTRA, iss=f"https://sts.windows.net/{TENANT}/", aud=f"api://{ENTRA['aud']}", azp=None, appid=ENTRA["azp"], ver="1.0"
    )
    other_tenant = "22222222-2222-3333-4444-555555555555"
    return Issuer(
        "entra",
        {
            "issuer": ENTRA["iss"],
            "audience": ENTRA["aud"],
            "subject": "oid",
            "callers": {
                "claim": "groups",
                "map": {"cccccccc-3333-4444-5555-dddddddddddd": "research", "*": "everyone"},
            },
        },
        {"typ": "JWT"},
        [
            Shape("entra-v2-access", ENTRA, ENTRA["oid"], "research"),
            Shape(
                "entra-overage",
                replaced(ENTRA, groups=None, **ENTRA_SOURCES),
                refused=("groups", "its groups are left out: there are more than 200"),
            ),
            Shape(
                "entra-hasgroups",
                replaced(ENTRA, groups=None, hasgroups=True),
                refused=("groups", "its groups are left out"),
            ),
            Shape("entra-application", application, ENTRA["oid"], "everyone"),
            Shape("entra-v1-access", version_1, refused=("iss", "version 1 has another issuer")),
            Shape(
                "entra-other-tenant",
                replaced(ENTRA, iss=ENTRA["iss"].replace(TENANT, other_tenant), tid=other_tenant),
                refused=("iss", "the keys of Entra are the same for all tenants"),
            ),
        ],
        # Entra's keys do not say their algorithm.
        {
            kid: ("RS256", make_key("RS256"), {"use": "sig", "x5t": kid, "issuer": ENTRA["iss"]})
            for kid in ("CNv0OI3RwqlHFEVnaoMAshCH2XE", "JYhAcTPMZ_LX6DBlOWQ7Hn0NeXE")
        },
    )


def keycloak():
    keys = {
        f"keycloak-{algorithm}": (algorithm, make_key(algorithm), {"use": "sig", "alg": algorithm}) for algorithm in ALGORITHMS
    }
    # A realm publishes its key for encryption too.
    keys["keycloak-encryption"] = ("RS256", make_key("RS256"), {"use": "enc", "alg": "RSA-OAEP"})
    research = replaced(KEYCLOAK, realm_access={"roles": ["operators"]})
    return Issuer(
        "keycloak",
        {
            "issuer": KEYCLOAK["iss"],
            "audience": "portcullis",
            "subject": "email",
            "callers": {
                "claim": ["realm_access", "roles"],
                "map": {"ml-team": "research", "operators": "operations"},
                "several": "refuse",
            },
            "require": {"email_verified": True},
        },
        {"typ": "JWT"},
        [
            *(
                Shape(f"keycloak-{algorithm}", KEYCLOAK, "alice@acme.com", "research", kid=f"keycloak-{algorithm}")
                for algorithm in ALGORITHMS
            ),
            Shape("keycloak-operators", research, "alice@acme.com", "operations"),
            Shape(
                "keycloak-several",
                replaced(KEYCLOAK, realm_access={"roles": ["ml-team", "operators"]}),
                refused=("realm_access.roles", "roles of two callers"),
            ),
            Shape(
                "keycloak-no-role",
                replaced(KEYCLOAK, realm_access={"roles": ["offline_access"]}),
                refused=("realm_access.roles", "no role has a caller"),
            ),
            Shape("keycloak-no-realm-access", replaced(KEYCLOAK, realm_access=None), refused=("realm_access.roles", "is missing")),
            Shape("keycloak-default-audience", replaced(KEYCLOAK, aud="account"), refused=("aud", "no mapper adds the audience")),
            Shape("keycloak-not-verified", replaced(KEYCLOAK, email_verified=False), refused=("email_verified", "is false")),
            Shape(
                "keycloak-verified-as-text",
                replaced(KEYCLOAK, email_verified="true"),
                refused=("email_verified", "is a text, and true is required"),
            ),
            Shape("keycloak-no-email", replaced(KEYCLOAK, email=None), refused=("email", "the subject is missing")),
        ],
        keys,
    )


def github():
    pull_request = replaced(
        GITHUB,
        sub="repo:acme/app:pull_request",
        ref="refs/pull/7/merge",
        event_name="pull_request",
        head_ref="patch-1",
        base_ref="main",
        environment=None,
        ref_protected="false",
    )
    kid = "38826b17-6a30-5f9b-b169-8beb8202f723"
    return Issuer(
        "github",
        {
            "issuer": GITHUB["iss"],
            "audience": GITHUB["aud"],
            "callers": {"claim": "repository", "map": {"acme/app": "ci"}},
            "require": {"repository_owner_id": "65", "ref_protected": "true"},
        },
        {"typ": "JWT", "x5t": "ykNaY4qM_ta4k2TgZOCEYLkcYlA"},
        [
            Shape("github-environment", GITHUB, GITHUB["sub"], "ci"),
            Shape("github-pull-request", pull_request, refused=("ref_protected", "is no protected branch")),
            Shape(
                "github-same-name",
                replaced(GITHUB, repository_owner_id="66"),
                refused=("repository_owner_id", "the name was taken by another owner"),
            ),
            Shape(
                "github-default-audience",
                replaced(GITHUB, aud="https://github.com/acme"),
                refused=("aud", "the audience that GitHub writes if none is asked"),
            ),
        ],
        {kid: ("RS256", make_key("RS256"), {"use": "sig", "alg": "RS256", "x5t": "ykNaY4qM_ta4k2TgZOCEYLkcYlA"})},
    )


def gitlab():
    return Issuer(
        "gitlab",
        {
            "issuer": GITLAB["iss"],
            "audience": "portcullis",
            "callers": {"claim": "namespace_path", "map": {"acme": "ci"}},
        },
        {"typ": "JWT"},
        [
            Shape("gitlab-job", GITLAB, GITLAB["sub"], "ci"),
            Shape(
                "gitlab-other-namespace",
                replaced(GITLAB, namespace_path="acme-fork"),
                refused=("namespace_path", "no namespace has a caller"),
            ),
        ],
        rsa_keys("4i3sFE7sxqNPOT7FdvcGA1ZVGGI_r-tsDXnEuYT4ZqE", alg="RS256"),
    )


def kubernetes():
    secret = {
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": "agents",
        "kubernetes.io/serviceaccount/secret.name": "agent-token-x2x4z",
        "kubernetes.io/serviceaccount/service-account.name": "agent",
        "kubernetes.io/serviceaccount/service-account.uid": "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d",
        "sub": "system:serviceaccount:agents:agent",
    }
    return Issuer(
        "kubernetes",
        {
            "issuer": KUBERNETES["iss"],
            "audience": "portcullis",
            "callers": {"claim": ["kubernetes.io", "namespace"], "map": {"agents": "agents"}},
        },
        # A token of a service account has no `typ`.
        {},
        [
            Shape("kubernetes-projected", KUBERNETES, KUBERNETES["sub"], "agents"),
            Shape(
                "kubernetes-extended",
                replaced(KUBERNETES, exp=MADE + 31536000),
                refused=("exp", "a token for the API server lives a year, and `max_age` is a day"),
            ),
            Shape(
                "kubernetes-api-audience",
                replaced(KUBERNETES, aud=["https://kubernetes.default.svc.cluster.local"]),
                refused=("aud", "is for the API server"),
            ),
            Shape("kubernetes-secret", secret, refused=("iss", "is a token of a secret, which has no end")),
        ],
        rsa_keys("wJ3kq0cE5v8nR1tX7yZ2aB4dF6gH9jK", alg="RS256"),
    )


def google():
    person = replaced(
        GOOGLE,
        google=None,
        azp="32555940559.apps.googleusercontent.com",
        hd="acme.com",
        email="alice@acme.com",
        at_hash="cpqKfdQA5eH891Ff5oJr_Q",
        sub="100200300400500600700",
    )
    return Issuer(
        "google",
        {
            "issuer": GOOGLE["iss"],
            "audience": GOOGLE["aud"],
            "subject": "email",
            "caller": "agents",
            "require": {"email_verified": True},
        },
        {"typ": "JWT"},
        [
            Shape("google-metadata", GOOGLE, GOOGLE["email"], "agents"),
            Shape("google-person", person, "alice@acme.com", "agents"),
            Shape(
                "google-without-scheme",
                replaced(GOOGLE, iss="accounts.google.com"),
                refused=("iss", "an issuer of old tokens, without its scheme"),
            ),
        ],
        rsa_keys("89ce3598c473af1bda4bff95e6c8736450206fba", "b2620d5e7f132b52afe8875cdf3776c064249d04", alg="RS256"),
    )

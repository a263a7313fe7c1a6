"""azure-identity: the sources of Azure."""

import azure.identity

from . import Source

TENANT = "11111111-2222-3333-4444-555555555555"
CLIENT = "66666666-7777-8888-9999-000000000000"
TOKEN_FILE = {"token": "header.claims.of-the-platform"}
ENTRA = {"json": {"token_type": "Bearer", "expires_in": 3599, "ext_expires_in": 3599, "access_token": "token-of-entra"}}
CLOUDS = {
    "public": ("login.microsoftonline.com", "https://cognitiveservices.azure.com/.default"),
    "government": ("login.microsoftonline.us", "https://cognitiveservices.azure.us/.default"),
    "china": ("login.chinacloudapi.cn", "https://cognitiveservices.azure.cn/.default"),
}
assert azure.identity.AzureAuthorityHosts.AZURE_PUBLIC_CLOUD == CLOUDS["public"][0]
assert azure.identity.AzureAuthorityHosts.AZURE_GOVERNMENT == CLOUDS["government"][0]
assert azure.identity.AzureAuthorityHosts.AZURE_CHINA == CLOUDS["china"][0]


def imds_answer(resource, client=CLIENT):
    return {
        "json": {
            "access_token": "token-of-imds",
            "client_id": client,
            "expires_in": "86399",
            "expires_on": "<now+86399:unix>",
            "ext_expires_in": "86399",
            "not_before": "<now+0:unix>",
            "resource": resource,
            "token_type": "Bearer",
        }
    }


APP_SERVICE = {
    "json": {
        "access_token": "token-of-app-service",
        "expires_on": "<now+86400:unix>",
        "resource": "https://cognitiveservices.azure.com",
        "token_type": "Bearer",
        "client_id": CLIENT,
    }
}


def obtain(credential_class, scope, arguments):
    def from_credential(folder):
        filled = dict(arguments)
        if "certificate_path" in filled:
            filled["certificate_path"] = filled["certificate_path"].replace("<folder>", folder)
        token = credential_class(**filled).get_token_info(scope)
        return {
            "token": token.token,
            "token_type": token.token_type,
            "expires_at": token.expires_on,
            **({"refresh_at": token.refresh_on} if token.refresh_on else {}),
        }

    return from_credential


def entra(about, credential_class, cloud, arguments, environment=None, files=None):
    authority, scope = CLOUDS[cloud]
    if cloud != "public":
        arguments = {"authority": authority, **arguments}
    return Source(
        library="azure-identity",
        about=f"{about}, the {cloud} cloud",
        obtain=obtain(credential_class, scope, arguments),
        environment=environment or {},
        files=files or {},
        arguments={"scope": scope, **arguments},
        answers={
            **discovery_answers(authority),
            f"POST https://{authority}/{TENANT}/oauth2/v2.0/token": ENTRA,
        },
    )


def discovery_answers(authority):
    issuer = f"https://{authority}/{TENANT}"
    return {
        f"GET {issuer}/v2.0/.well-known/openid-configuration": {
            "json": {
                "token_endpoint": f"{issuer}/oauth2/v2.0/token",
                "authorization_endpoint": f"{issuer}/oauth2/v2.0/authorize",
                "issuer": f"{issuer}/v2.0",
            }
        },
    }


def client_secret(cloud):
    arguments = {"tenant_id": TENANT, "client_id": CLIENT, "client_secret": "s~cret +&=%", "disable_instance_discovery": True}
    return entra("a client's secret", azure.identity.ClientSecretCredential, cloud, arguments)


def certificate(cloud, chain=False):
    arguments = {
        "tenant_id": TENANT,
        "client_id": CLIENT,
        "certificate_path": "<folder>/certificate.pem",
        "disable_instance_discovery": True,
        **({"send_certificate_chain": True} if chain else {}),
    }
    about = "a client's certificate" + (" that is sent along" if chain else "")
    return entra(about, azure.identity.CertificateCredential, cloud, arguments)


def workload(cloud):
    authority, _ = CLOUDS[cloud]
    environment = {
        "AZURE_TENANT_ID": TENANT,
        "AZURE_CLIENT_ID": CLIENT,
        "AZURE_FEDERATED_TOKEN_FILE": "<folder>/token",
        "AZURE_AUTHORITY_HOST": f"https://{authority}/",
    }
    return entra("a federated token file", azure.identity.WorkloadIdentityCredential, cloud, {}, environment, TOKEN_FILE)


def managed(about, answers, arguments=None, environment=None, cloud="public"):
    _, scope = CLOUDS[cloud]
    return Source(
        library="azure-identity",
        about=about,
        obtain=obtain(azure.identity.ManagedIdentityCredential, scope, arguments or {}),
        environment=environment or {},
        arguments={"scope": scope, **(arguments or {})},
        answers=answers,
    )


def imds(about, arguments=None, environment=None, host="http://169.254.169.254", cloud="public"):
    resource = CLOUDS[cloud][1].removesuffix("/.default")
    return managed(
        about, {f"GET {host}/metadata/identity/oauth2/token": imds_answer(resource)}, arguments, environment, cloud
    )


def app_service(about, arguments=None):
    environment = {"IDENTITY_ENDPOINT": "http://127.0.0.1:41741/MSI/token/", "IDENTITY_HEADER": "header-of-app-service"}
    return managed(about, {"GET http://127.0.0.1:41741/MSI/token/": APP_SERVICE}, arguments, environment)


SOURCES = {
    **{f"azure-client-secret-{cloud}": client_secret(cloud) for cloud in CLOUDS},
    **{f"azure-certificate-{cloud}": certificate(cloud) for cloud in CLOUDS},
    **{f"azure-workload-{cloud}": workload(cloud) for cloud in CLOUDS},
    "azure-certificate-chain": certificate("public", chain=True),
    "azure-managed-imds": imds("the identity of a virtual machine"),
    "azure-managed-imds-client": imds("an identity of a user, by its client id", {"client_id": CLIENT}),
    "azure-managed-imds-government": imds("the government cloud", cloud="government"),
    "azure-managed-imds-endpoint": imds(
        "an address that is written",
        environment={"AZURE_POD_IDENTITY_AUTHORITY_HOST": "http://127.0.0.1:1338/"},
        host="http://127.0.0.1:1338",
    ),
    "azure-managed-app-service": app_service("the identity of an app"),
    "azure-managed-app-service-client": app_service("an identity of a user, by its client id", {"client_id": CLIENT}),
}

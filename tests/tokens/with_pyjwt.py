"""Writes a set of keys, tokens that it verifies, and tokens that it must not, by PyJWT: see make.sh."""

import base64
import hashlib
import hmac
import json

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from jwt.algorithms import get_default_algorithms

CLAIMS = {"iss": "https://issuer.example", "aud": "portcullis", "sub": "alice", "iat": 1767225600, "exp": 4102444800}

KEYS = {
    "rsa-2048": rsa.generate_private_key(65537, 2048),
    "rsa-3072": rsa.generate_private_key(65537, 3072),
    "rsa-4096": rsa.generate_private_key(65537, 4096),
    "p-256": ec.generate_private_key(ec.SECP256R1()),
    "p-384": ec.generate_private_key(ec.SECP384R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
    # Left out of what is verified.
    "rsa-1024": rsa.generate_private_key(65537, 1024),
    "p-521": ec.generate_private_key(ec.SECP521R1()),
    "k-256": ec.generate_private_key(ec.SECP256K1()),
    "ed448": ed448.Ed448PrivateKey.generate(),
}
ALGORITHMS = {
    "rsa-2048": ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
    "rsa-3072": ["RS256", "PS384"],
    "rsa-4096": ["RS512", "PS512"],
    "p-256": ["ES256"],
    "p-384": ["ES384"],
    "ed25519": ["EdDSA"],
}
REFUSED = {"rsa-1024": "RS256", "p-521": "ES512", "k-256": "ES256K", "ed448": "EdDSA"}


def public(kid):
    algorithm = REFUSED.get(kid) or ALGORITHMS[kid][0]
    key = get_default_algorithms()[algorithm].to_jwk(KEYS[kid].public_key(), as_dict=True)
    key.pop("key_ops", None)
    return {**key, "kid": kid, "use": "sig"}


def encode(kid, algorithm):
    return jwt.encode(CLAIMS, KEYS[kid], algorithm=algorithm, headers={"kid": kid})


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def confused(secret):
    """A token by HS256, with what is public as its secret."""
    signed = base64url(b'{"alg":"HS256","kid":"rsa-2048"}') + "." + base64url(json.dumps(CLAIMS).encode())
    return signed + "." + base64url(hmac.digest(secret, signed.encode(), hashlib.sha256))


def main():
    accepted = [
        {"algorithm": algorithm, "kid": kid, "token": encode(kid, algorithm)}
        for kid, algorithms in ALGORITHMS.items()
        for algorithm in algorithms
    ]
    refused = [
        {"reason": f"{algorithm} with {kid}", "token": encode(kid, algorithm)} for kid, algorithm in REFUSED.items()
    ]
    key = KEYS["rsa-2048"].public_key()
    for encoding in ("PEM", "DER"):
        for form in ("SubjectPublicKeyInfo", "PKCS1"):
            encoded = key.public_bytes(getattr(serialization.Encoding, encoding), getattr(serialization.PublicFormat, form))
            refused.append({"reason": f"HS256 with the public key in {encoding} {form}", "token": confused(encoded)})
    secret = json.dumps(public("rsa-2048")).encode()
    refused.append({"reason": "HS256 with the public key as JSON", "token": confused(secret)})
    refused.append({"reason": "none", "token": jwt.encode(CLAIMS, None, algorithm="none")})
    keys = [public(kid) for kid in KEYS]
    print(json.dumps({"made_by": f"PyJWT {jwt.__version__}", "keys": keys, "accepted": accepted, "refused": refused}, indent=1))


main()

"""Tokens that must be refused, and some at the edge that must not. All claim to be of the issuer `keycloak`, if not said."""

import base64
import hashlib
import hmac
import json
import random

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from token_issuers import KEYCLOAK, NOW, OKTA, encode, make_key, public_jwk, replaced, sign, signature

ORDER_P256 = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
ORDER_ED25519 = 2**252 + 27742317777372353535851937790883648493
HEADER = {"alg": "RS256", "typ": "JWT", "kid": "keycloak-RS256"}


def forgeries(issuers):
    makers = (of_algorithms, of_keys, of_signatures, of_forms, of_json, of_headers, of_claims, of_issuers)
    return [entry for make in makers for entry in make(issuers["keycloak"], issuers)]


def refused(name, token, stage, reason, issuer="keycloak", claim=None):
    """`stage` is `form` before a key is looked for, `signature` before one has verified it, or `claims`."""
    expected = {"verdict": "refused", "stage": stage, **({"claim": claim} if claim else {}), "reason": reason}
    return {"name": name, "issuer": issuer, "token": token, "expected": expected}


def accepted(name, token, subject="alice@acme.com", key="keycloak:alice@acme.com"):
    return {
        "name": name,
        "issuer": "keycloak",
        "token": token,
        "expected": {"verdict": "accepted", "subject": subject, "key": key, "caller": "research"},
    }


def dumps(value):
    return json.dumps(value, separators=(",", ":"))


def of_algorithms(issuer, _):
    """Another algorithm than that of the key."""
    key = issuer.keys["keycloak-RS256"][1]
    public = key.public_key()
    genuine = issuer.make(KEYCLOAK).split(".")
    for written in ("none", "None", "NONE", "nOnE", ""):
        unsigned = f"{encode(dumps({**HEADER, 'alg': written}).encode())}.{genuine[1]}"
        name = written or "empty"
        yield refused(f"alg-{name}-unsigned", f"{unsigned}.", "form", "it is not signed")
        yield refused(f"alg-{name}-with-signature", f"{unsigned}.{genuine[2]}", "form", "its algorithm is none that is taken")
    for name, header in {
        "missing": {"typ": "JWT", "kid": "keycloak-RS256"},
        "null": {**HEADER, "alg": None},
        "list": {**HEADER, "alg": ["RS256"]},
        "number": {**HEADER, "alg": 256},
        "lower-case": {**HEADER, "alg": "rs256"},
        "space": {**HEADER, "alg": "RS256 "},
    }.items():
        yield refused(f"alg-{name}", sign(key, "RS256", header, KEYCLOAK), "form", "its algorithm is none that is taken")

    secrets = {
        "pem": public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
        "pem-without-newline": public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ).strip(),
        "pkcs1": public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.PKCS1),
        "der": public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
        "modulus": public.public_numbers().n.to_bytes(256, "big"),
        "modulus-text": public_jwk(key, "RS256")["n"].encode(),
        "empty": b"",
    }
    for name, secret in secrets.items():
        token = sign_hmac(secret, {**HEADER, "alg": "HS256"})
        yield refused(f"hs256-by-public-{name}", token, "form", "a public key is taken for a shared secret")
    for bits in (384, 512):
        token = sign_hmac(secrets["pem"], {**HEADER, "alg": f"HS{bits}"}, f"sha{bits}")
        yield refused(f"hs{bits}-by-public-pem", token, "form", "a public key is taken for a shared secret")

    for algorithm in ("RS384", "RS512", "PS256"):
        token = sign(key, algorithm, {**HEADER, "alg": algorithm}, KEYCLOAK)
        yield refused(f"alg-{algorithm}-by-key-of-RS256", token, "signature", "its key is published for another algorithm")
    message = f"{encode(dumps({**HEADER, 'alg': 'RS256'}).encode())}.{genuine[1]}"
    token = f"{message}.{encode(signature(key, 'PS256', message.encode()))}"
    yield refused("rs256-with-pss-signature", token, "signature", "is signed in another way than it says")
    token = sign(issuer.keys["keycloak-ES384"][1], "ES384", {**HEADER, "alg": "ES256", "kid": "keycloak-ES384"}, KEYCLOAK)
    yield refused("es256-by-key-of-p384", token, "signature", "the curve is not of its algorithm")
    token = sign(issuer.keys["keycloak-ES256"][1], "ES256", {**HEADER, "alg": "ES384", "kid": "keycloak-ES256"}, KEYCLOAK)
    yield refused("es384-by-key-of-p256", token, "signature", "the curve is not of its algorithm")
    token = sign(issuer.keys["keycloak-EdDSA"][1], "EdDSA", {**HEADER, "alg": "ES256", "kid": "keycloak-EdDSA"}, KEYCLOAK)
    yield refused("es256-by-ed25519", token, "signature", "the key is not of its algorithm")
    for algorithm, curve in (("ES512", ec.SECP521R1()), ("ES256K", ec.SECP256K1())):
        token = sign(ec.generate_private_key(curve), algorithm, {**HEADER, "alg": algorithm, "kid": "keycloak-ES256"}, KEYCLOAK)
        yield refused(f"alg-{algorithm}", token, "form", "its algorithm is none that is taken")


def sign_hmac(secret, header, digest="sha256", claims=KEYCLOAK):
    signed = f"{encode(dumps(header).encode())}.{encode(dumps(claims).encode())}"
    return f"{signed}.{encode(hmac.new(secret, signed.encode(), digest).digest())}"


def of_keys(issuer, _):
    """Keys that the token brings along, and names of keys."""
    attacker = make_key("RS256")
    own = public_jwk(attacker, "RS256", kid="keycloak-RS256", use="sig")
    for name, header in {
        "jwk": {**HEADER, "jwk": own},
        "jwk-own-kid": {**HEADER, "kid": "attacker", "jwk": {**own, "kid": "attacker"}},
        "jwk-no-kid": {"alg": "RS256", "typ": "JWT", "jwk": own},
        "jku": {**HEADER, "jku": "https://attacker.example/jwks.json"},
        "jku-of-issuer": {**HEADER, "jku": f"{KEYCLOAK['iss']}@attacker.example/jwks.json"},
        "x5u": {**HEADER, "x5u": "https://attacker.example/certificate.pem"},
        "x5c": {**HEADER, "x5c": ["MIIB"]},
        "nothing": HEADER,
    }.items():
        token = sign(attacker, "RS256", header, KEYCLOAK)
        yield refused(f"attacker-key-by-{name}", token, "signature", "is signed by a key that is not the issuer's")
    for name, kid in {
        "path": "../../../../../../dev/null",
        "absolute": "/dev/null",
        "url": "https://attacker.example/key",
        "sql": "x' UNION SELECT 'secret' -- ",
        "shell": "|/bin/true",
        "nul": "keycloak-RS256\0",
        "space": "keycloak-RS256 ",
        "case": "KEYCLOAK-rs256",
        "empty": "",
        "long": "k" * 4000,
    }.items():
        token = sign(attacker, "RS256", {**HEADER, "kid": kid}, KEYCLOAK)
        yield refused(f"kid-{name}", token, "signature", "no key has this name")
        yield refused(
            f"kid-{name}-hs256", sign_hmac(b"", {**HEADER, "alg": "HS256", "kid": kid}), "form", "the file that it names is empty"
        )
    for name, kid in {"number": 7, "list": ["keycloak-RS256"], "object": {"kid": "keycloak-RS256"}}.items():
        token = sign(issuer.keys["keycloak-RS256"][1], "RS256", {**HEADER, "kid": kid}, KEYCLOAK)
        yield refused(f"kid-is-{name}", token, "form", "the name of its key is no text")
    encryption = issuer.keys["keycloak-encryption"][1]
    token = sign(encryption, "RS256", {**HEADER, "kid": "keycloak-encryption"}, KEYCLOAK)
    yield refused("key-for-encryption", token, "signature", "its key is published for encryption")
    token = sign(issuer.keys["keycloak-RS384"][1], "RS256", HEADER, KEYCLOAK)
    yield refused("other-key-of-issuer", token, "signature", "another key has signed it than it names")
    token = sign(make_key("RS256", 1024), "RS256", HEADER, KEYCLOAK)
    yield refused("small-key", token, "signature", "is signed by a key that is not the issuer's")
    token = sign(issuer.keys["keycloak-RS256"][1], "RS256", {"alg": "RS256", "typ": "JWT"}, KEYCLOAK)
    yield accepted("no-kid", token)


def of_signatures(issuer, _):
    """Signatures that are changed."""
    for algorithm in ("RS256", "PS256", "ES256", "ES384", "EdDSA"):
        header, claims, genuine = issuer.make(KEYCLOAK, f"keycloak-{algorithm}").split(".")
        data = decode(genuine)
        changed = {
            "empty": b"",
            "zero": bytes(len(data)),
            "ones": b"\xff" * len(data),
            "short": data[:-1],
            "long": data + b"\0",
            "flipped": bytes([data[0] ^ 1]) + data[1:],
            "twice": data + data,
        }
        for name, value in changed.items():
            token = f"{header}.{claims}.{encode(value)}"
            yield refused(f"signature-{name}-{algorithm}", token, "signature", "its signature is another")
        other = encode(dumps(replaced(KEYCLOAK, email="mallory@acme.com")).encode())
        yield refused(f"claims-swapped-{algorithm}", f"{header}.{other}.{genuine}", "signature", "other claims were signed")

    header, claims, genuine = issuer.make(KEYCLOAK, "keycloak-ES256").split(".")
    data = decode(genuine)
    r, s = int.from_bytes(data[:32], "big"), int.from_bytes(data[32:], "big")
    for name, value in {
        "der": utils.encode_dss_signature(r, s),
        "r-is-zero": bytes(32) + data[32:],
        "s-is-zero": data[:32] + bytes(32),
        "r-is-order": ORDER_P256.to_bytes(32, "big") + data[32:],
        "both-are-order": ORDER_P256.to_bytes(32, "big") * 2,
        "swapped": data[32:] + data[:32],
        "padded": b"\0" + data[:32] + b"\0" + data[32:],
    }.items():
        yield refused(f"es256-{name}", f"{header}.{claims}.{encode(value)}", "signature", "is no signature of its algorithm")
    header, claims, genuine = issuer.make(KEYCLOAK, "keycloak-EdDSA").split(".")
    data = decode(genuine)
    s = int.from_bytes(data[32:], "little") + ORDER_ED25519
    value = data[:32] + s.to_bytes(32, "little")
    yield refused("eddsa-s-plus-order", f"{header}.{claims}.{encode(value)}", "signature", "has a second form of its number")
    small_order = [bytes([1]) + bytes(31), bytes(32)]
    for index, point in enumerate(small_order):
        token = f"{header}.{claims}.{encode(point + bytes(32))}"
        yield refused(f"eddsa-small-order-{index}", token, "signature", "its point is of small order")


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def of_forms(issuer, _):
    """Texts that are not three parts of base64url."""
    genuine = issuer.make(KEYCLOAK, "keycloak-ES256")
    header, claims, signed = genuine.split(".")
    # The last character of 86 has four bits that no byte needs.
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet[alphabet.index(signed[-1]) ^ 1]
    for name, text in {
        "last-bits": f"{header}.{claims}.{signed[:-1]}{last}",
        "padding": f"{header}.{claims}.{signed}==",
        "padding-of-claims": f"{header}.{claims}{'=' * (-len(claims) % 4) or '='}.{signed}",
        "newline-at-end": f"{genuine}\n",
        "newline-inside": f"{header}.{claims[:20]}\n{claims[20:]}.{signed}",
        "space-before": f" {genuine}",
        "space-inside": f"{header}. {claims}.{signed}",
        "two-parts": f"{header}.{claims}",
        "four-parts": f"{genuine}.{signed}",
        "five-parts": f"{header}.{signed}.{signed}.{claims}.{signed}",
        "dots": "..",
        "empty-claims": f"{header}..{signed}",
        "empty-header": f".{claims}.{signed}",
        "bearer": f"Bearer {genuine}",
        "quoted": f'"{genuine}"',
        "percent": genuine.replace(".", "%2E"),
        "json-serialization": dumps({"payload": claims, "protected": header, "signature": signed}),
        "not-ascii": f"{genuine}é",
        "nul": f"{genuine}\0",
    }.items():
        yield refused(f"form-{name}", text, "form", "is not three parts of base64url")
    # base64 that is not for URLs: the claims must have one of its characters.
    text = dumps(replaced(KEYCLOAK, filler="???>>>~~~"))
    standard = base64.b64encode(text.encode()).decode().rstrip("=")
    assert "+" in standard or "/" in standard
    key = issuer.keys["keycloak-RS256"][1]
    message = f"{encode(dumps(HEADER).encode())}.{standard}"
    token = f"{message}.{encode(signature(key, 'RS256', message.encode()))}"
    yield refused("form-standard-base64", token, "form", "is not base64url")

    for length, verdict in ((16384, "accepted"), (16385, "refused"), (20000, "refused")):
        token = token_of_length(issuer, length)
        if verdict == "accepted":
            yield accepted("form-16384-bytes", token)
        else:
            yield refused(f"form-{length}-bytes", token, "form", "is longer than 16 KiB")


def token_of_length(issuer, length):
    """A genuine token of this length: base64 cannot have each length, so the header is filled up too."""
    key = issuer.keys["keycloak-RS256"][1]
    for extra in range(4):
        header = {**HEADER, "filler": "h" * extra}
        rest = length - len(encode(dumps(header).encode())) - 2 - 342
        size = rest * 3 // 4 - len(dumps({**KEYCLOAK, "filler": ""}))
        for filler in range(size - 3, size + 3):
            token = sign(key, "RS256", header, {**KEYCLOAK, "filler": "c" * filler})
            if len(token) == length:
                return token
    raise AssertionError(length)


def of_json(issuer, _):
    """Parts that are no JSON, or that two readers read differently. All are signed by the issuer."""
    key = issuer.keys["keycloak-RS256"][1]
    claims = dumps(KEYCLOAK)
    header = dumps(HEADER)
    twice = {
        "sub": claims.replace("{", '{"sub":"mallory",', 1),
        "email": claims[:-1] + ',"email":"mallory@acme.com"}',
        "email-escaped": claims[:-1] + ',"\\u0065mail":"mallory@acme.com"}',
        "exp": claims[:-1] + ',"exp":4102444800}',
        "inside": claims[:-1] + ',"extra":{"a":1,"a":2}}',
        "same-value": claims[:-1] + ',"email":"alice@acme.com"}',
    }
    for name, text in twice.items():
        yield refused(f"json-twice-{name}", sign(key, "RS256", HEADER, text), "form", "a claim stands twice")
    for name, text in {
        "alg": header.replace("{", '{"alg":"none",', 1),
        "alg-escaped": header.replace("{", '{"\\u0061lg":"none",', 1),
        "kid": header[:-1] + ',"kid":"attacker"}',
    }.items():
        yield refused(f"json-header-twice-{name}", sign(key, "RS256", text, claims), "form", "a member stands twice")
    for name, text in {
        "list": f"[{claims}]",
        "text": '"claims"',
        "null": "null",
        "trailing-comma": claims[:-1] + ",}",
        "comment": claims[:-1] + "/* */}",
        "single-quotes": claims.replace('"', "'"),
        "nan": claims[:-1] + ',"extra":NaN}',
        "infinity": claims[:-1] + ',"extra":Infinity}',
        "two-objects": claims + claims,
        "text-behind": claims + "x",
        "bom": "\ufeff" + claims,
        "utf-16": claims.encode("utf-16"),
        "not-utf-8": claims.encode()[:-1] + b',"extra":"\xff"}',
        "lone-surrogate": claims[:-1] + ',"extra":"\\ud800"}',
        "control-character": claims[:-1] + ',"extra":"\n"}',
        "deep-lists": claims[:-1] + ',"extra":' + "[" * 1000 + "]" * 1000 + "}",
        "deep-objects": claims[:-1] + ',"extra":' + '{"a":' * 1000 + "1" + "}" * 1000 + "}",
        "empty": "",
    }.items():
        yield refused(f"json-{name}", sign(key, "RS256", HEADER, text), "form", "its claims are no JSON object")
    for name, text in {"list": f"[{header}]", "text": '"RS256"', "number": "7"}.items():
        yield refused(f"json-header-{name}", sign(key, "RS256", text, claims), "form", "its header is no JSON object")
    yield accepted("json-spaces", sign(key, "RS256", HEADER, json.dumps(KEYCLOAK, indent=2)))
    shuffled = list(KEYCLOAK.items())
    random.Random(7).shuffle(shuffled)
    yield accepted("json-other-order", sign(key, "RS256", HEADER, dict(shuffled)))


def of_headers(issuer, _):
    """Headers that ask for more than is done."""
    key = issuer.keys["keycloak-RS256"][1]
    for name, header in {
        "crit-unknown": {**HEADER, "crit": ["urn:example:extension"], "urn:example:extension": True},
        "crit-exp": {**HEADER, "crit": ["exp"], "exp": 4102444800},
        "crit-empty": {**HEADER, "crit": []},
        "crit-text": {**HEADER, "crit": "exp"},
        "crit-null": {**HEADER, "crit": None},
        "crit-b64": {**HEADER, "crit": ["b64"], "b64": True},
        "zip": {**HEADER, "zip": "DEF"},
        "nested": {**HEADER, "cty": "JWT"},
        "encrypted": {**HEADER, "enc": "A128GCM"},
    }.items():
        yield refused(f"header-{name}", sign(key, "RS256", header, KEYCLOAK), "form", "its header asks for what is not done")
    inner = issuer.make(KEYCLOAK).encode()
    yield refused("header-nested-token", sign(key, "RS256", {**HEADER, "cty": "JWT"}, inner), "form", "a token is in the token")
    message = f"{encode(dumps({**HEADER, 'b64': False, 'crit': ['b64']}).encode())}.{dumps({'sub': 'x'})}"
    token = f"{message}.{encode(signature(key, 'RS256', message.encode()))}"
    yield refused("header-unencoded", token, "form", "its claims are not encoded")
    wrapped = {"alg": "RSA-OAEP-256", "enc": "A256GCM", "kid": "keycloak-encryption", "cty": "JWT"}
    token = ".".join([encode(dumps(wrapped).encode()), encode(bytes(256)), encode(bytes(12)), encode(bytes(64)), encode(bytes(16))])
    yield refused("header-encrypted-five-parts", token, "form", "is an encrypted token")
    yield accepted("header-extra", sign(key, "RS256", {**HEADER, "example": [1, {"a": None}], "x5t": "ignored"}, KEYCLOAK))
    yield accepted("header-other-typ", sign(key, "RS256", {**HEADER, "typ": "at+jwt"}, KEYCLOAK))


def of_claims(issuer, _):
    """Claims that are not accepted. All are signed by the issuer."""

    def refusal(name, claim, reason, text=None, **others):
        claims = replaced(KEYCLOAK, **others) if text is None else text
        return refused(f"claims-{name}", issuer.make(claims), "claims", reason, claim=claim)

    def taken(name, **others):
        return accepted(f"claims-{name}", issuer.make(replaced(KEYCLOAK, **others)))

    text = dumps(KEYCLOAK)
    end = f'"exp":{KEYCLOAK["exp"]}'
    assert end in text
    yield refusal("exp-missing", "exp", "has no end", exp=None)
    for name, number in {
        "null": "null",
        "text": f'"{KEYCLOAK["exp"]}"',
        "list": f"[{KEYCLOAK['exp']}]",
        "true": "true",
        "negative": "-1",
        "zero": "0",
        "huge-exponent": "1e300",
        "two-to-63": str(2**63),
        "two-to-64": str(2**64),
        "many-digits": "9" * 300,
        "milliseconds": f"{KEYCLOAK['exp']}000",
    }.items():
        yield refusal(f"exp-{name}", "exp", "is no time that is accepted", text.replace(end, f'"exp":{number}'))
    # What no 64-bit number holds may also be no JSON for a reader.
    for digits in ("1e400", "-1e400", "1e999999999"):
        token = issuer.make(text.replace(end, f'"exp":{digits}'))
        yield refused(f"claims-exp-{digits}", token, "form", "is no number; at the stage `claims` is as good", claim="exp")
    yield refusal("exp-ended", "exp", "has ended", iat=NOW - 3600, exp=NOW - 61)
    yield refusal("exp-at-leeway", "exp", "has ended", iat=NOW - 3600, exp=NOW - 60)
    yield taken("exp-within-leeway", iat=NOW - 3600, exp=NOW - 59)
    yield taken("exp-fraction", exp=KEYCLOAK["exp"] + 0.5)
    yield refusal("nbf-later", "nbf", "has not begun", nbf=NOW + 61)
    yield taken("nbf-within-leeway", nbf=NOW + 60)
    yield refusal("nbf-text", "nbf", "is no time", nbf="now")
    yield refusal("iat-later", "iat", "was made in the future", iat=NOW + 61, exp=NOW + 3600)
    yield refusal("iat-text", "iat", "is no time", iat="now")
    yield refusal("iat-negative", "iat", "is no time, or long ago", iat=-(2**62))
    yield refusal("age-too-long", "exp", "lives longer than a day", exp=KEYCLOAK["iat"] + 86401)
    yield taken("age-of-a-day", exp=KEYCLOAK["iat"] + 86400)
    yield taken("no-iat", iat=None)
    yield refusal("no-iat-too-long", "exp", "ends after more than a day", iat=None, exp=NOW + 86401)

    yield refusal("aud-missing", "aud", "is missing", aud=None)
    for name, value in {
        "other": "account",
        "empty-list": [],
        "other-list": ["account", "other"],
        "prefix": "portcullis2",
        "suffix": "my-portcullis",
        "case": "Portcullis",
        "space": "portcullis ",
        "words": "account portcullis",
        "object": {"portcullis": True},
        "list-in-list": [["portcullis"]],
        "number": 7,
        "empty": "",
    }.items():
        yield refusal(f"aud-{name}", "aud", "is another", aud=value)
    yield refusal("aud-null", "aud", "is another", text.replace('"aud":["portcullis","account"]', '"aud":null'))
    yield taken("aud-text", aud="portcullis")

    yield refusal("iss-missing", "iss", "is missing", iss=None)
    for name, value in {
        "slash": KEYCLOAK["iss"] + "/",
        "http": KEYCLOAK["iss"].replace("https", "http"),
        "case": KEYCLOAK["iss"].upper(),
        "prefix": KEYCLOAK["iss"] + "-staging",
        "other-host": KEYCLOAK["iss"].replace("acme.example", "acme.example.attacker.example"),
        "port": KEYCLOAK["iss"].replace("/realms", ":443/realms"),
        "list": [KEYCLOAK["iss"]],
        "space": KEYCLOAK["iss"] + " ",
        "other-realm": KEYCLOAK["iss"].replace("realms/acme", "realms/master"),
    }.items():
        yield refusal(f"iss-{name}", "iss", "is another", iss=value)

    for name, value in {
        "empty": "",
        "number": 7,
        "list": ["alice@acme.com"],
        "256-bytes": "a" * 256,
        "256-bytes-of-128-characters": "ä" * 128,
        "newline": "alice\n@acme.com",
        "nul": "alice\0@acme.com",
        "escape": "\x1b[2Jalice",
        "delete": "alice\x7f",
        "control-of-8-bits": "alice\x85",
    }.items():
        yield refusal(f"subject-{name}", "email", "is no subject", email=value)
    for name, subject, key in (
        ("255-bytes", "a" * 255, "a" * 255),
        ("colon", "okta:alice@acme.com", "okta%3Aalice@acme.com"),
        ("percent", "alice%40acme.com", "alice%2540acme.com"),
        ("slash", "../../alice", "..%2F..%2Falice"),
        ("emoji", "alice 🙂", "alice%20%F0%9F%99%82"),
        ("plus", "alice+test_1-2@acme.com", "alice+test_1-2@acme.com"),
        ("html", "<b>&\"'", "%3Cb%3E%26%22%27"),
        ("composed", "ä", "%C3%A4"),
        ("decomposed", "a\u0308", "a%CC%88"),
    ):
        token = issuer.make(replaced(KEYCLOAK, email=subject))
        yield accepted(f"subject-{name}", token, subject, f"keycloak:{key}")

    yield refusal("roles-text-in-object", "realm_access.roles", "is no list of texts", realm_access={"roles": {"ml-team": True}})
    yield refusal("roles-number", "realm_access.roles", "is no list of texts", realm_access={"roles": 7})
    yield refusal("roles-nested", "realm_access.roles", "is no list of texts", realm_access={"roles": [["ml-team"]]})
    yield refusal("roles-case", "realm_access.roles", "no role has a caller", realm_access={"roles": ["ML-Team"]})
    yield refusal("roles-star", "realm_access.roles", "no role has a caller", realm_access={"roles": ["*"]})
    yield refusal("roles-of-text-path", "realm_access.roles", "is missing", realm_access="roles")
    flat = {**replaced(KEYCLOAK, realm_access=None), "realm_access.roles": ["ml-team"]}
    yield refusal("roles-by-dotted-name", "realm_access.roles", "a name with a dot is no list of steps", dumps(flat))


def of_issuers(issuer, issuers):
    """Tokens of one issuer that are shown as another's."""
    okta = issuers["okta"]
    kid = okta.first_kid()
    token = sign(issuer.keys["keycloak-RS256"][1], "RS256", {"alg": "RS256", "kid": "keycloak-RS256"}, OKTA)
    yield refused("other-issuer-key-and-kid", token, "signature", "is signed by the key of another issuer", issuer="okta")
    token = sign(issuer.keys["keycloak-RS256"][1], "RS256", {"alg": "RS256", "kid": kid}, OKTA)
    yield refused("other-issuer-key", token, "signature", "is signed by the key of another issuer", issuer="okta")
    token = okta.make(KEYCLOAK)
    yield refused("other-issuer-name", token, "signature", "is signed by the key of another issuer")
    everyone = okta.make(replaced(OKTA, groups=["*"]))
    entry = accepted("okta-group-star", everyone, "alice@acme.com", "okta:alice@acme.com")
    entry["issuer"] = "okta"
    entry["expected"]["caller"] = "everyone"
    yield entry

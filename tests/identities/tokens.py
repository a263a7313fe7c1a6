#!/usr/bin/env python3
"""Writes `tokens.json`: tokens as issuers make them, and forgeries, signed by PyJWT.

Usage: tokens.py [--check]

With `--check` nothing is written: the command fails if PyJWT no longer judges a committed token as its entry says, if an entry
contradicts the rules of its issuer, or if the committed entries are not those that this program makes. Keys and signatures are new
each time that the file is written.
"""

import argparse
import datetime
import json
import pathlib
import sys
import warnings
from unittest import mock

import jwt
import jwt.api_jwt

from token_forgeries import forgeries
from token_issuers import ALGORITHMS, NOW, make_issuers
from token_rules import LEEWAY, apply_rules

FILE = pathlib.Path(__file__).resolve().parent / "tokens.json"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    # PyJWT warns of the small keys that are tried here.
    warnings.simplefilter("ignore")

    made = make_file()
    if not options.check:
        FILE.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{len(made['tokens'])} tokens are written")
        return
    written = json.loads(FILE.read_text(encoding="utf-8"))
    faults = []
    for entry in written["tokens"]:
        issuer = written["issuers"][entry["issuer"]]
        verdict = judge(issuer, entry["token"])
        if verdict != entry["pyjwt"]:
            faults.append(f"{entry['name']}: PyJWT says {verdict}, and the file {entry['pyjwt']}")
        faults += contradictions(issuer, entry)
    if without_signatures(written) != without_signatures(made):
        faults.append("the committed file is not what this program makes")
    print(*faults, f"{len(written['tokens'])} tokens, {len(faults)} faults", sep="\n")
    sys.exit(1 if faults else 0)


def make_file():
    issuers = make_issuers()
    tokens = [entry for issuer in issuers.values() for entry in issuer.genuine_tokens()]
    tokens += forgeries(issuers)
    published = {name: issuer.published() for name, issuer in issuers.items()}
    names = [entry["name"] for entry in tokens]
    assert len(names) == len(set(names)), "a name stands twice"
    for entry in tokens:
        entry["pyjwt"] = judge(published[entry["issuer"]], entry["token"])
        faults = contradictions(published[entry["issuer"]], entry)
        assert not faults, faults
    return {
        "about": "Tokens of issuers and forgeries: see README.md. The keys are for tests only, and their private parts are lost.",
        "made_by": f"PyJWT {jwt.__version__}",
        "now": NOW,
        "leeway": LEEWAY,
        "issuers": published,
        "tokens": tokens,
    }


def judge(issuer, token):
    """What PyJWT says to a token, at `NOW`, if it is asked for all that it can check."""

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.fromtimestamp(NOW, tz)

    identity = issuer["identity"]
    try:
        key = find_key(issuer, jwt.get_unverified_header(token))
        with mock.patch.object(jwt.api_jwt, "datetime", Clock):
            jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                issuer=identity["issuer"],
                audience=identity["audience"],
                leeway=LEEWAY,
                options={"require": ["exp"]},
            )
    except Exception:  # Whatever a forgery leads to, it is refused.
        return "refused"
    return "accepted"


def contradictions(issuer, entry):
    """Where an entry contradicts PyJWT's signatures, or the rules of its issuer."""
    expected = entry["expected"]
    if expected["verdict"] == "accepted" and entry["pyjwt"] != "accepted":
        return [f"{entry['name']}: PyJWT does not accept it"]
    if expected["verdict"] == "refused" and expected["stage"] == "signature":
        return [f"{entry['name']}: its signature is good"] if entry["pyjwt"] == "accepted" else []
    if expected["verdict"] == "refused" and expected["stage"] == "form":
        return []
    found = None
    try:
        key = find_key(issuer, jwt.get_unverified_header(entry["token"]))
        claims = json.loads(jwt.PyJWS().decode(entry["token"], key, algorithms=ALGORITHMS))
        found = apply_rules(issuer["identity"], claims)
    except Exception as error:
        return [f"{entry['name']}: is not even read: {error}"]
    wanted = expected.get("subject"), expected.get("caller"), expected.get("claim")
    return [] if found == wanted else [f"{entry['name']}: the rules say {found}, and the entry {wanted}"]


def find_key(issuer, header):
    keys = [key for key in issuer["jwks"]["keys"] if header.get("kid") in (None, key.get("kid"))]
    key = next(key for key in keys if jwt_key_fits(key, header["alg"]))
    return jwt.PyJWK.from_dict(key, header["alg"]).key


def jwt_key_fits(key, algorithm):
    kind = {"R": "RSA", "P": "RSA", "E": "OKP" if algorithm == "EdDSA" else "EC"}.get(algorithm[:1])
    return key["kty"] == kind and key.get("alg", algorithm) == algorithm and key.get("use", "sig") == "sig"


def without_signatures(file):
    """What must be the same each time: all but keys and what they sign."""
    entries = [{key: value for key, value in entry.items() if not key.endswith("token")} for entry in file["tokens"]]
    identities = {name: issuer["identity"] for name, issuer in file["issuers"].items()}
    return {**file, "issuers": identities, "tokens": entries}


if __name__ == "__main__":
    main()

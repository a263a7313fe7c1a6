"""The rules of an identity, written a second time: whose a genuine token is, or by which claim it is refused.

They are for the entries of `tokens.json` alone, so that no entry is only what its writer thought.
"""

from token_issuers import NOW

LEEWAY = 60
MAX_AGE = 86400
LAST_SECOND = 253402300799


def apply_rules(identity, claims):
    """Returns `(subject, caller, None)`, or `(None, None, claim)`."""
    refusal = refused_claim(identity, claims)
    if refusal:
        return None, None, refusal
    caller, refusal = find_caller(identity, claims)
    if refusal:
        return None, None, refusal
    return find(claims, identity.get("subject", "sub")), caller, None


def refused_claim(identity, claims):
    if claims.get("iss") != identity["issuer"]:
        return "iss"
    audience = claims.get("aud")
    if identity["audience"] not in (audience if isinstance(audience, list) else [audience]):
        return "aud"
    for name in ("exp", "nbf", "iat"):
        if name in claims and not is_time(claims[name]):
            return name
    if "exp" not in claims or claims["exp"] + LEEWAY <= NOW or claims["exp"] - claims.get("iat", NOW) > MAX_AGE:
        return "exp"
    for name in ("nbf", "iat"):
        if claims.get(name, 0) > NOW + LEEWAY:
            return name
    subject = identity.get("subject", "sub")
    if not is_subject(find(claims, subject)):
        return subject
    for name, wanted in identity.get("require", {}).items():
        if claims.get(name) is not wanted and claims.get(name) != wanted:
            return name
    return None


def is_time(value):
    return type(value) in (int, float) and 0 <= value <= LAST_SECOND


def is_subject(value):
    if not isinstance(value, str) or not 1 <= len(value.encode()) <= 255:
        return False
    return not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in value)


def find_caller(identity, claims):
    if "caller" in identity:
        return identity["caller"], None
    rule = identity["callers"]
    name = rule["claim"] if isinstance(rule["claim"], str) else ".".join(rule["claim"])
    if claims.get("hasgroups") or name in claims.get("_claim_names", {}):
        return None, name
    values = find(claims, rule["claim"])
    values = [values] if isinstance(values, str) else values or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return None, name
    matching = {caller for value, caller in rule["map"].items() if value != "*" and value in values}
    if len(matching) > 1 and rule.get("several") == "refuse":
        return None, name
    caller = min(matching) if matching else rule["map"].get("*")
    return caller, None if caller else name


def find(claims, path):
    for step in [path] if isinstance(path, str) else path:
        claims = claims.get(step) if isinstance(claims, dict) else None
    return claims

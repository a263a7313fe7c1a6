// Writes a set of keys, tokens that it verifies, and tokens that it must not, by jose: see make.sh.

import { readFileSync } from "node:fs";
import { CompactEncrypt, CompactSign, SignJWT, UnsecuredJWT, exportJWK, generateKeyPair } from "jose";

const CLAIMS = { iss: "https://issuer.example", aud: ["other", "portcullis"], sub: "alice", iat: 1767225600, exp: 4102444800 };
const ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA", "Ed25519"];

const { version } = JSON.parse(readFileSync(new URL("node_modules/jose/package.json", import.meta.url)));
const keys = [];
const accepted = [];
const refused = [];

// Each key is published with its algorithm, as many issuers do it.
const pairs = {};
for (const algorithm of [...ALGORITHMS, "ES512"]) {
  const kid = `jose-${algorithm}`;
  pairs[algorithm] = await generateKeyPair(algorithm, { extractable: true });
  keys.push({ ...(await exportJWK(pairs[algorithm].publicKey)), kid, alg: algorithm, use: "sig" });
}
for (const algorithm of ALGORITHMS) {
  const kid = `jose-${algorithm}`;
  const token = await new SignJWT(CLAIMS).setProtectedHeader({ alg: algorithm, kid, typ: "at+jwt" }).sign(pairs[algorithm].privateKey);
  accepted.push({ algorithm, kid, token });
}

const sign = (reason, algorithm, header) =>
  new SignJWT(CLAIMS)
    .setProtectedHeader({ alg: algorithm, ...header })
    .sign(pairs[algorithm].privateKey, { crit: { "urn:example:extension": true } })
    .then((token) => refused.push({ reason, token }));
await sign("ES512", "ES512", { kid: "jose-ES512" });
await sign("another key's name", "RS256", { kid: "jose-RS384" });
await sign("the name of a key of another kind", "RS256", { kid: "jose-ES256" });
await sign("an unknown key", "RS256", { kid: "../../../dev/null" });
await sign("an extension", "RS256", { kid: "jose-RS256", crit: ["urn:example:extension"], "urn:example:extension": 1 });
await sign("a nested token", "RS256", { kid: "jose-RS256", cty: "JWT" });

// An attacker's own key, in every way in which a header can bring one.
const own = await generateKeyPair("RS256", { extractable: true });
const jwk = await exportJWK(own.publicKey);
for (const [reason, header] of [
  ["an own jwk", { jwk }],
  ["an own jwk with a known name", { jwk: { ...jwk, kid: "jose-RS256" }, kid: "jose-RS256" }],
  ["an own jku", { jku: "https://attacker.example/keys", kid: "jose-RS256" }],
  ["an own x5u", { x5u: "https://attacker.example/chain", kid: "jose-RS256" }],
  ["an own x5c", { x5c: ["MIIB"], kid: "jose-RS256" }],
]) {
  const token = await new SignJWT(CLAIMS).setProtectedHeader({ alg: "RS256", ...header }).sign(own.privateKey);
  refused.push({ reason, token });
}

const secret = new TextEncoder().encode(JSON.stringify(keys[0]));
const confused = await new SignJWT(CLAIMS).setProtectedHeader({ alg: "HS256", kid: "jose-RS256" }).sign(secret);
refused.push({ reason: "HS256 with a public key", token: confused });
refused.push({ reason: "none", token: new UnsecuredJWT(CLAIMS).encode() });

// Encrypted for a key that everybody knows.
const sealing = await generateKeyPair("RSA-OAEP-256");
const text = new TextEncoder().encode(JSON.stringify(CLAIMS));
const encrypted = new CompactEncrypt(text).setProtectedHeader({ alg: "RSA-OAEP-256", enc: "A256GCM", cty: "JWT" });
refused.push({ reason: "encrypted", token: await encrypted.encrypt(sealing.publicKey) });
const bytes = new CompactSign(new TextEncoder().encode('"alice"')).setProtectedHeader({ alg: "RS256", kid: "jose-RS256" });
refused.push({ reason: "no claims", token: await bytes.sign(pairs.RS256.privateKey) });

console.log(JSON.stringify({ made_by: `jose ${version}`, keys, accepted, refused }, null, 1));

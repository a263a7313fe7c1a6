#!/usr/bin/env bash
# Makes pyjwt.json and jose.json: tokens of two libraries that many issuers use, and the public keys that verify them.
# The private keys are thrown away. The tokens end in the year 2100. What is made is committed: tests make nothing of this.
set -euo pipefail
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet 'pyjwt[crypto]==2.15.1'
"$folder/python/bin/python" with_pyjwt.py >pyjwt.json
(cd "$folder" && npm init --yes >/dev/null && npm install --silent jose@6.2.18)
cp with_jose.mjs "$folder/jose.mjs"
node "$folder/jose.mjs" >jose.json

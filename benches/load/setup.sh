#!/usr/bin/env bash
# Installs what the load benchmark measures beside the gateway: nginx with Lua from Debian (as root), and gateways of others from
# PyPI, each at one version in a folder of its own under target/tools/bench. What does not install here is left out, with a word.
# The benchmark works without any of them.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
tools=${CARGO_TARGET_DIR:-$root/target}/tools/bench
mkdir -p "$tools"

# Installs a package, and notes its version when it is whole.
install() {
    local name=$1 version=$2 package=$3
    [ "$(cat "$tools/$name/installed" 2>/dev/null)" = "$name $version" ] && return
    echo "installing $name $version"
    rm -rf "${tools:?}/$name"
    if python3 -m venv "$tools/$name" &&
        "$tools/$name/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$package==$version"; then
        echo "$name $version" >"$tools/$name/installed"
    else
        rm -rf "${tools:?}/$name"
        echo "$name is left out: $package $version does not install here" >&2
    fi
}

install smg 1.13.0 smg
install vllm-router 0.1.17 vllm-router
install sglang-router 0.3.2 sglang-router
install litellm 1.106.2 'litellm[proxy]'

if [ ! -e /usr/lib/nginx/modules/ngx_http_lua_module.so ]; then
    packages=(nginx-light libnginx-mod-http-lua lua-cjson)
    echo "installing ${packages[*]}"
    # Its service is of no use here.
    { [ "$(id -u)" = 0 ] && export RUNLEVEL=1 && apt-get -o Acquire::Retries=5 update -qq &&
        apt-get -o Acquire::Retries=5 install -y -qq --no-install-recommends "${packages[@]}" >/dev/null; } ||
        echo "nginx with Lua is left out: as root, install ${packages[*]}" >&2
fi

#!/usr/bin/env bash
# Installs what is missing on a Debian machine and runs every check. `./test.sh install` only installs.
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_INCREMENTAL=0
NODE_MIN=20
TOOLS=target/tools

step() { printf '\n== %s\n' "$*"; }

install_packages() {
    local packages=()
    command -v cc > /dev/null || packages+=(build-essential)
    command -v curl > /dev/null || packages+=(curl ca-certificates)
    command -v node > /dev/null || packages+=(nodejs)
    command -v npm > /dev/null || packages+=(npm)
    command -v strace > /dev/null || packages+=(strace)
    [ -x "${CHROMIUM:-/usr/bin/chromium}" ] || packages+=(chromium)
    python3 -c 'import ensurepip, venv' 2> /dev/null || packages+=(python3-venv)
    if [ ${#packages[@]} -gt 0 ]; then
        local root=()
        [ "$(id -u)" = 0 ] || root=(sudo)
        "${root[@]}" apt-get update
        "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}"
    fi
    command -v cargo > /dev/null || { echo "Rust is missing: install it with rustup (rust-toolchain.toml names the version)" >&2; exit 1; }
}

node_is_new() { [ "$(node -p 'process.versions.node.split(".")[0]')" -ge "$NODE_MIN" ]; }

# Debian's node may be too old for the clients; npm has newer ones as packages.
install_node() {
    if ! node_is_new; then
        [ -x "$TOOLS/node_modules/node/bin/node" ] || npm install --no-save --prefix "$TOOLS" node@22
        export PATH="$PWD/$TOOLS/node_modules/node/bin:$PATH"
        node_is_new
    fi
}

install_nextest() {
    cargo nextest --version > /dev/null 2>&1 || cargo install --locked --version 0.9.143 cargo-nextest
}

step "what is missing"
install_packages
install_node
[ "${1:-}" = install ] && exit 0
install_nextest

step "format"
cargo fmt --all --check
step "lints"
cargo clippy --locked --all-targets -- -D warnings
step "tests"
cargo nextest run --locked
step "doc tests"
cargo test --locked --doc
step "docs"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps

step "the libraries for workers"
python3 -m venv --clear "$TOOLS/python"
"$TOOLS/python/bin/python" -m pip install --quiet --disable-pip-version-check -r examples/worker-python/requirements.txt
"$TOOLS/python/bin/python" -m compileall -q examples/worker-python
(cd examples/worker-python && "$OLDPWD/$TOOLS/python/bin/python" -m unittest)
(cd examples/worker-typescript && npm ci --no-audit --no-fund && npm test)

step "the Autobahn cases"
tests/autobahn/run.sh

step "the stock clients"
cargo build --locked
HEADWATER_BIN="$(cargo metadata --format-version 1 --no-deps | node -p 'JSON.parse(require("fs").readFileSync(0)).target_directory')/debug/headwater"
export HEADWATER_BIN
cd tests/clients
npm ci --no-audit --no-fund
npm test

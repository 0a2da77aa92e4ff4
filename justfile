# Needs: just, cargo-nextest, cargo-deny, cargo-machete. `./test.sh` needs none of them beforehand.

# Every check, nothing is changed.
verify:
    cargo fmt --all --check
    cargo clippy --locked --all-targets -- -D warnings
    cargo nextest run --locked
    cargo test --locked --doc
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps
    cargo deny --offline check bans licenses sources
    cargo machete

# What can be put right by itself.
fix:
    cargo fmt --all
    cargo clippy --fix --allow-dirty --allow-staged --all-targets

# The Autobahn cases against the WebSocket code.
autobahn:
    tests/autobahn/run.sh

# The stock AG-UI clients against the built server.
clients:
    cargo build --locked
    cd tests/clients && npm ci && npm test

#!/usr/bin/env bash
# Runs every Autobahn case against the echo endpoint of a test build: none may fail.
set -euo pipefail
cd "$(dirname "$0")/../.."
TOOLS=target/tools/autobahn
# Without 12 and 13: messages aren't compressed.
CASES_MIN=301

cargo build --locked --features echo --example echo
[ -x "$TOOLS/bin/kosoku" ] || {
    python3 -m venv --clear "$TOOLS"
    "$TOOLS/bin/python" -m pip install --quiet --disable-pip-version-check -r tests/autobahn/requirements.txt
}
echo_bin="$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/debug/examples/echo"

work=$(mktemp -d)
server=
stop() {
    if [ -n "$server" ]; then kill "$server" 2> /dev/null && wait "$server" || true; fi
    rm -rf "$work"
}
trap stop EXIT
"$echo_bin" > "$work/address" 2> "$work/log" &
server=$!
deadline=$((SECONDS + 30))
until [ -s "$work/address" ]; do
    if ! kill -0 "$server" 2> /dev/null || [ "$SECONDS" -ge "$deadline" ]; then
        echo "the echo server did not start:" >&2
        cat "$work/log" >&2
        exit 1
    fi
    sleep 0.1
done

failed=0
timeout 300 "$TOOLS/bin/kosoku" -p 4 -x '12.*' -x '13.*' -o "$work/report" "$(cat "$work/address")" > "$work/said" 2>&1 || failed=$?
[ -f "$work/report/index.json" ] || { cat "$work/said" >&2; exit 1; }
"$TOOLS/bin/python" tests/autobahn/judge.py "$work/report" "$CASES_MIN"
exit "$failed"

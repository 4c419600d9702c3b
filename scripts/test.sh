#!/usr/bin/env bash
# The whole suite: pages, house rules, then every Rust test. The last line is the test runner's own summary.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
log=$(mktemp)
skips=$(mktemp)
trap 'rm -f "$log" "$skips"' EXIT

echo "== pages"
npm --prefix ui ci --no-audit --no-fund --silent
npm --prefix ui run --silent check
npm --prefix ui run --silent test
npm --prefix ui run --silent build
browser=no
if command -v chromium-headless-shell chromium >/dev/null 2>&1 || [ -n "${EVERDICT_CHROMIUM:-}" ]; then
    browser=yes
    npm --prefix ui run --silent e2e
else
    echo "the pages in a browser: no Chromium in PATH (install chromium-headless-shell)" >>"$skips"
fi

echo "== house rules"
"$root/scripts/lint.sh"

echo "== docker"
if [ "$(uname -s)" = Linux ] && [ "$(id -u)" = 0 ]; then scripts/start-docker.sh || true; fi
if curl -sf --max-time 2 --unix-socket /var/run/docker.sock http://d/_ping >/dev/null 2>&1; then
    cargo xtask images --cache "${EVERDICT_IMAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/everdict-images}" all
else
    echo "no Docker daemon answers: the topology tests will be listed as skipped"
fi

echo "== programs"
# Everything with its tests at once: a program that is built alone has other features, and most would be compiled twice.
cargo nextest run --no-run --locked --workspace --profile ci --color never
if [ "$browser" = yes ]; then
    echo "== the pages on the real program"
    EVERDICT_RUNNER_BIN="$(scripts/target-dir.sh)/debug/everdict-runner" npm --prefix ui run --silent e2e:runner
fi

echo "== tests"
status=0
EVERDICT_SKIP_LOG="$skips" cargo nextest run --locked --workspace --profile ci --color never 2>&1 | tee "$log" || status=$?

# The hub's own suite once more, with its queue in PostgreSQL.
if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1; then
    echo "== the hub on PostgreSQL"
    EVERDICT_TEST_DATABASE=postgres cargo nextest run --locked --workspace --profile ci --color never \
        -E 'package(everdict-hub) & binary(hub) - test(replicas)' || status=$?
fi

# A fault here must not hide what the tests say.
echo "== chaos"
cargo xtask chaos --rounds 12 --json --binary "$(scripts/target-dir.sh)/debug/everdict-runner" || status=$?

if [ -s "$skips" ]; then
    echo "== skipped, and why"
    sort -u "$skips"
fi
# In CI everything is installed: a skipped test there is a fault, not a circumstance. Recorded traffic of the existing
# control plane is the exception: it is not part of the project.
if grep -qv 'recorded traffic' "$skips" && [ "${CI:-}" = true ] && [ "$status" = 0 ]; then status=3; fi
summary=$(grep -E '^ *Summary \[' "$log" | tail -n 1 || true)
printf '%s\n' "${summary:-no test was run}"
exit "$status"

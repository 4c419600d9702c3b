#!/usr/bin/env bash
# Formatting, compiler lints with warnings as errors, and the house rules.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all --check
cargo clippy --locked --quiet --workspace --all-targets -- --deny warnings
cargo xtask lint
if cargo deny --version >/dev/null 2>&1; then cargo deny --locked check bans licenses sources; fi
npm --prefix ui run --silent lint

#!/usr/bin/env bash
# Prints cargo's target folder, wherever the person or their config put it.
set -euo pipefail
cargo metadata --format-version 1 --no-deps --locked | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'

#!/usr/bin/env bash
# Installs what is missing for one of three purposes, and says what and why.
#   setup.sh headless   build and run the CLI and the hub
#   setup.sh ui         build the window's pages
#   setup.sh all        everything: desktop app and the whole test suite
# Works as root and with sudo, on Debian/Ubuntu and macOS. Installs nothing that is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-headless}

say() { printf '%s\n' "$*" >&2; }
fail() { say "setup: $*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

command -v cargo >/dev/null 2>&1 || fail "cargo was not found: install Rust 1.95 or newer with rustup, then run this again"

# --- Debian and Ubuntu -------------------------------------------------------------------------
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif have sudo; then sudo "$@"; else
        fail "needs root to run: $* (no sudo here)"
    fi
}

missing=()
want() { # want PACKAGE WHY
    if ! dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; then
        missing+=("$1")
        say "  $1: $2"
    fi
}

# Tests start servers of their own; the one that the package would set up and start on port 5432 is not wanted.
want_postgres() {
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && return
    want postgresql "real PostgreSQL servers for the tests of a hub on several machines"
    as_root mkdir -p /etc/postgresql-common/createcluster.d
    echo "create_main_cluster = false" | as_root tee /etc/postgresql-common/createcluster.d/no-main-cluster.conf >/dev/null
}

debian_packages() {
    say "checking system packages …"
    have cc || want gcc "the C compiler: SQLite and ring are compiled from source"
    [ -e /usr/include/stdio.h ] || want libc6-dev "C headers for the same"
    have git || want git "checkouts and diffs of repository cases"
    [ "$purpose" = headless ] && return
    if [ "$purpose" = all ]; then
        want pkg-config "finds the libraries below at build time"
        want libwebkit2gtk-4.1-dev "the window: WebKitGTK"
        want libayatana-appindicator3-1 "the tray icon"
        want xvfb "a screen for the desktop test"
        want dbus "a private session bus for the desktop test"
        want openbox "a window manager for the desktop test"
        want wmctrl "closes windows the way a person does, in the desktop test"
        want gnome-keyring "a real Secret Service for the keyring tests"
        want webkit2gtk-driver "drives the real window in the end-to-end test"
        want chromium-headless-shell "a real browser for the browser tests"
        want fonts-dejavu-core "letters for that browser"
        want curl "asks the Docker daemon whether it is there"
        have dockerd || want docker.io "a real Docker daemon for the topology tests"
        have dockerd || want iptables "the daemon's port rules"
        want mmdebstrap "unpacks Debian packages into stand-in images"
        want zstd "keeps those images for the next run"
        want_postgres
    fi
}

install_debian() {
    debian_packages
    [ ${#missing[@]} -eq 0 ] && return
    say "installing: ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 \
        || fail "apt-get update failed: check the network, then run this again"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null \
        || fail "apt-get could not install: ${missing[*]}"
}

install_macos() {
    xcode-select -p >/dev/null 2>&1 || fail "the command line tools are missing: run 'xcode-select --install', then this again"
}

# --- Node for the pages ------------------------------------------------------------------------
node_major() { node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/'; }

check_node() {
    [ "$purpose" = headless ] && return
    if have node && [ "$(node_major)" -ge 20 ]; then return; fi
    if [ "$(uname -s)" = Linux ] && have apt-get; then
        missing=()
        say "Node 20 or newer builds the window's pages:"
        have npm || { want nodejs "runs npm"; want npm "fetches Node 20 and the page libraries"; }
        [ ${#missing[@]} -eq 0 ] || as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
        as_root npm install --global --silent node@20 || fail "could not install Node 20: install it by hand, then run this again"
        hash -r
    fi
    have node && [ "$(node_major)" -ge 20 ] || fail "Node 20 or newer was not found: install it, then run this again"
}

# --- the test runner ---------------------------------------------------------------------------
check_nextest() {
    [ "$purpose" = all ] || return 0
    if ! cargo nextest --version >/dev/null 2>&1; then
        say "installing cargo-nextest (the test runner; compiled once, some minutes) …"
        cargo install --quiet --locked cargo-nextest || fail "could not install cargo-nextest"
    fi
}

case "$(uname -s)" in
Linux)
    if have apt-get; then install_debian; else
        have cc || fail "no C compiler: install gcc (or clang) with your package manager"
        have git || fail "git was not found: install it with your package manager"
    fi
    ;;
Darwin) install_macos ;;
*) fail "this script knows Debian, Ubuntu and macOS; on $(uname -s) install a C compiler, git and Node 20 by hand" ;;
esac
check_node
check_nextest

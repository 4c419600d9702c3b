#!/usr/bin/env bash
# Takes the packages for Debian apart and starts what is in them, on a screen and a session bus of its own.
#   package-check.sh release|debug FOLDER
# Fails with the first thing that is wrong; a check whose program is not installed is named and left out.
set -euo pipefail
profile=$1 folder=$2
# The aim for what a person downloads.
max_bytes=12000000
say() { printf '%s\n' "$*" >&2; }
fail() { say "package-check: $*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1 || { say "left out: $2 ($1 is not installed)"; return 1; }; }

work=$(mktemp -d)
pids=()
cleanup() {
    for pid in ${pids[@]+"${pids[@]}"}; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

newest() { # newest PACKAGE
    local deb
    deb=$(find "$folder" -maxdepth 1 -name "$1_*.deb" -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2-)
    [ -n "$deb" ] || fail "there is no package $1 in $folder"
    printf '%s' "$deb"
}
until_true() { # until_true SECONDS WHAT COMMAND...
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "timed out waiting for $what"
        sleep 0.1
    done
}

look_inside() { # look_inside PACKAGE ROOT
    local deb name=$1 root=$2
    deb=$(newest "$name")
    say "$(basename "$deb"): $(stat -c %s "$deb") bytes"
    if [ "$profile" = release ] && [ "$(stat -c %s "$deb")" -gt $max_bytes ]; then
        fail "$name is larger than $max_bytes bytes"
    fi
    [ "$(dpkg-deb --field "$deb" Package)" = "$name" ] || fail "$deb names another package inside"
    if dpkg-deb --contents "$deb" | awk '$2 != "root/root" || $1 ~ /^.....w|^........w/ { bad = 1 } END { exit !bad }'; then
        fail "$name holds files of another user's, or that others may write"
    fi
    dpkg-deb --raw-extract "$deb" "$root"
    (cd "$root" && md5sum --quiet --check DEBIAN/md5sums) || fail "$name: the sums of its files are wrong"
}

# --- the headless program ----------------------------------------------------------------------
look_inside everdict-runner "$work/runner"
runner="$work/runner/usr/bin/everdict-runner"
libraries=$(ldd "$runner")
case "$libraries" in *"not found"* | *gtk* | *webkit* | *libX11*) fail "everdict-runner needs more than the C library: $libraries" ;; esac
"$runner" --version >/dev/null || fail "everdict-runner doesn't start"

# --- the app -----------------------------------------------------------------------------------
look_inside everdict-runner-desktop "$work/app"
app="$work/app/usr/bin/everdict-desktop"
[ -e "$work/app/usr/bin/everdict-runner" ] && fail "the app's package holds the headless program as well"
case "$(ldd "$app")" in *"not found"*) fail "a library of the app is missing: $(ldd "$app" | grep 'not found')" ;; esac
entry=$(find "$work/app/usr/share/applications" -name '*.desktop')
[ "$(printf '%s\n' "$entry" | wc -l)" = 1 ] || fail "one desktop entry was expected, not: $entry"
grep -q '^MimeType=.*x-scheme-handler/everdict;' "$entry" || fail "the desktop entry doesn't take everdict:// links"
grep -q '^Exec=everdict-desktop %[uU]$' "$entry" || fail "the desktop entry starts something else: $(grep ^Exec "$entry")"
icon=$(sed -n 's/^Icon=//p' "$entry")
for size in 32x32 128x128; do
    [ -s "$work/app/usr/share/icons/hicolor/$size/apps/$icon.png" ] || fail "there is no icon $icon of $size"
done
if have desktop-file-validate "the desktop entry's syntax"; then desktop-file-validate "$entry" || fail "the desktop entry is wrong"; fi

# --- the app on a screen -----------------------------------------------------------------------
if have Xvfb "a start of the app" && have dbus-daemon "a start of the app" && have openbox "a start of the app" && have wmctrl "a start of the app"; then
    mkdir -p "$work/run" "$work/home"
    chmod 700 "$work/run"
    Xvfb -displayfd 3 -screen 0 1280x800x24 -nolisten tcp 3>"$work/display" >/dev/null 2>&1 &
    pids+=($!)
    until_true 20 "the screen" test -s "$work/display"
    dbus-daemon --session --nofork --nopidfile --print-address=3 3>"$work/bus" >/dev/null 2>&1 &
    pids+=($!)
    until_true 20 "the session bus" test -s "$work/bus"
    export DISPLAY=":$(cat "$work/display")" DBUS_SESSION_BUS_ADDRESS="$(cat "$work/bus")" \
        HOME="$work/home" XDG_RUNTIME_DIR="$work/run" EVERDICT_HOME="$work/everdict" NO_AT_BRIDGE=1 GSETTINGS_BACKEND=memory
    unset WAYLAND_DISPLAY XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XAUTHORITY
    openbox >/dev/null 2>&1 &
    pids+=($!)
    [ "$("$app" --version)" = "$(dpkg-deb --field "$(newest everdict-runner-desktop)" Version)" ] || fail "the app says another version than its package"
    "$app" --show >"$work/app.log" 2>&1 &
    pids+=($!) shown=$!
    until_true 40 "the app's window; it said: $(cat "$work/app.log")" sh -c 'wmctrl -l | grep -q "Everdict Runner"'
    kill "$shown"
    wait "$shown" || fail "the app didn't end well"
    unset 'pids[-1]'
    say "the installed app showed its window and ended"
fi

#!/usr/bin/env bash
# Builds the packages of this system: the desktop app, and everdict-runner for machines without a desktop.
#   package.sh [--debug] [--check] [BUNDLE...]     deb rpm appimage (Linux), dmg (macOS), nsis (Windows)
# Without a name: what this system has the tools for. --check then takes each package for a Debian system apart and starts
# what is in it. Prints the path of each package on stdout.
set -euo pipefail
cd "$(dirname "$0")/.."
# Says the Tauri generation that Cargo.lock has; the bundler itself is its command line tool.
cli=@tauri-apps/cli@2.12.5
say() { printf '%s\n' "$*" >&2; }
fail() { say "package: $*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

profile=release flags=() check=
while [[ "${1:-}" = --* ]]; do
    case "$1" in
    --debug) profile=debug flags=(--debug) ;;
    --check) check=1 ;;
    *) fail "unknown option $1; the options are --debug and --check" ;;
    esac
    shift
done
bundles=("$@")
if [ ${#bundles[@]} -eq 0 ]; then
    case "$(uname -s)" in
    Linux)
        bundles=(deb rpm)
        # The AppImage tools come from the network, once; without them there is no AppImage.
        if [ -x "${XDG_CACHE_HOME:-$HOME/.cache}/tauri/linuxdeploy-$(uname -m).AppImage" ]; then bundles+=(appimage); else
            say "no AppImage: its tools are not here (name it to have them fetched: scripts/package.sh appimage)"
        fi
        ;;
    Darwin) bundles=(dmg) ;;
    *) bundles=(nsis) ;;
    esac
fi
[ -e ui/dist/index.html ] || fail "the pages are not built: run make ui"
target=$(scripts/target-dir.sh)
version=$(cargo metadata --format-version 1 --no-deps --locked |
    sed -n 's/.*"name":"everdict-desktop","version":"\([^"]*\)".*/\1/p')
[ -n "$version" ] || fail "cargo metadata names no version of everdict-desktop"
bundled="$target/$profile/bundle"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
release_flag=$([ "$profile" = release ] && printf -- --release || true)
say "building both programs …"
# Two builds: built together, the headless program would get what only the app asks of a library.
cargo build --locked --quiet --package everdict-cli $release_flag
cargo build --locked --quiet --package everdict-desktop $release_flag

# The bundler asks pkg-config where the tray's library lies. The app opens it by name when it runs, so that the files for
# compiling against it need not be here: then this says it in their place.
tell_of_tray_library() {
    local library
    if ! have pkg-config || pkg-config --exists ayatana-appindicator3-0.1 || pkg-config --exists appindicator3-0.1; then return; fi
    library=$(find /usr/lib /usr/lib64 -name libayatana-appindicator3.so.1 2>/dev/null | head -n 1)
    [ -n "$library" ] || fail "libayatana-appindicator3.so.1 was not found: run scripts/setup.sh all"
    mkdir "$work/pkgconfig"
    printf 'Name: ayatana-appindicator3-0.1\nDescription: the tray icon\nVersion: 0.1\nLibs: -L%s\n' "$(dirname "$library")" \
        >"$work/pkgconfig/ayatana-appindicator3-0.1.pc"
    export PKG_CONFIG_PATH="$work/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
}
if [ "$(uname -s)" = Linux ]; then tell_of_tray_library; fi

say "building: ${bundles[*]} …"
began="$work/began"; : >"$began"
list=$(IFS=,; printf '%s' "${bundles[*]}")
npx --yes --quiet "$cli" bundle --ci ${flags[@]+"${flags[@]}"} --bundles "$list" >&2 \
    || fail "the bundler failed; its reason stands above"

# A development build is packaged for a try only, and is ten times as large with its symbols.
slim() { if [ "$profile" = debug ]; then strip "$1"; fi }
# The oldest C library that has what a program uses.
needs_libc() { objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | sed 's/GLIBC_/libc6 (>= /; s/$/)/'; }
installed_kib() { du -sk --exclude=DEBIAN "$1" | cut -f 1; }

# xz: half of what the bundler's gzip comes to, read by every dpkg there is.
seal_deb() { # seal_deb FOLDER PACKAGE
    mkdir -p "$bundled/deb"
    find "$1" -type d -exec chmod 755 {} +
    local deb="$bundled/deb/$2_${version}_$(dpkg --print-architecture).deb"
    dpkg-deb --root-owner-group -Zxz --build "$1" "$deb" >/dev/null
}

# The bundler names the package after the product, which is the headless program's name, and packs with gzip.
app_deb() {
    local made root="$work/app"
    made=$(find "$bundled/deb" -maxdepth 1 -name '*.deb' -newer "$began" | head -n 1)
    [ -n "$made" ] || fail "the bundler made no package for Debian"
    dpkg-deb --raw-extract "$made" "$root"
    rm "$made"
    slim "$root/usr/bin/everdict-desktop"
    # The name of an entry is its id, which has no room for a space.
    mv "$root"/usr/share/applications/*.desktop "$root/usr/share/applications/everdict-desktop.desktop"
    install -D -m 644 LICENSE "$root/usr/share/doc/everdict-runner-desktop/copyright"
    sed -i -e 's/^Package: .*/Package: everdict-runner-desktop/' \
        -e "s/^Depends: /Depends: $(needs_libc "$root/usr/bin/everdict-desktop"), /" \
        -e "s/^Installed-Size: .*/Installed-Size: $(installed_kib "$root")/" "$root/DEBIAN/control"
    rm -f "$root/DEBIAN/md5sums"
    (cd "$root" && find usr -type f -print0 | xargs -0 md5sum >DEBIAN/md5sums)
    seal_deb "$root" everdict-runner-desktop
}

# The program for machines without a desktop, on its own: it needs the C library and nothing else.
runner_deb() {
    local root="$work/runner"
    install -D -m 755 "$target/$profile/everdict-runner" "$root/usr/bin/everdict-runner"
    slim "$root/usr/bin/everdict-runner"
    install -D -m 644 LICENSE "$root/usr/share/doc/everdict-runner/copyright"
    mkdir "$root/DEBIAN"
    cat >"$root/DEBIAN/control" <<CONTROL
Package: everdict-runner
Version: $version
Architecture: $(dpkg --print-architecture)
Installed-Size: $(installed_kib "$root")
Maintainer: $(sed -n 's/.*"publisher": "\(.*\)".*/\1/p' tauri.conf.json)
Section: devel
Priority: optional
Depends: $(needs_libc "$root/usr/bin/everdict-runner"), libgcc-s1
Recommends: git
Suggests: everdict-runner-desktop
Description: Runs evaluation cases on this machine, without a desktop
 Everdict Runner turns this machine into an evaluation runner: it leases cases
 from a hub, runs them here and sends back graded results. This is the program
 for the command line; everdict-runner-desktop is the app.
CONTROL
    (cd "$root" && find usr -type f -print0 | xargs -0 md5sum >DEBIAN/md5sums)
    seal_deb "$root" everdict-runner
}

# For systems without dpkg.
runner_archive() {
    local name root
    name="everdict-runner-$version-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)"
    root="$work/$name"
    install -d "$root" "$bundled/archive"
    install -m 755 "$target/$profile/everdict-runner" "$root/everdict-runner"
    slim "$root/everdict-runner"
    install -m 644 LICENSE README.md "$root"
    tar -C "$work" -cJf "$bundled/archive/$name.tar.xz" "$name"
}

for bundle in "${bundles[@]}"; do
    case "$bundle" in
    deb) have dpkg-deb || fail "a package for Debian needs dpkg-deb"; app_deb; runner_deb ;;
    rpm | appimage) [ -e "$work/archived" ] || { runner_archive; : >"$work/archived"; } ;;
    *) ;;
    esac
done
if [ -n "$check" ]; then scripts/package-check.sh "$profile" "$bundled/deb"; fi
find "$bundled" -maxdepth 2 -type f \( -name '*.deb' -o -name '*.rpm' -o -name '*.AppImage' -o -name '*.dmg' -o -name '*.exe' -o -name '*.tar.xz' \) -newer "$began"

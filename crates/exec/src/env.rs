use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::Scratch;

/// What a child may inherit: enough to find programs and to print text right, nothing that opens a door.
const INHERITED: [&str; 7] = ["PATH", "LANG", "TZ", "TERM", "SHELL", "USER", "LOGNAME"];

/// PATH for a host that has none, as a shell would assume it.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The environment of this process, captured once and handed down.
#[derive(Clone, Default)]
pub struct HostEnv {
    vars: BTreeMap<OsString, OsString>,
}

impl HostEnv {
    /// Reads the environment of this process. Meant for `main`; everything else gets the value handed in.
    #[must_use]
    pub fn capture() -> Self {
        Self {
            vars: std::env::vars_os().collect(),
        }
    }

    /// Builds an environment from given pairs; of equal names the last one wins.
    pub fn from_pairs<K, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        Self {
            vars: pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
        }
    }

    /// The value of `name`, if it is set and valid Unicode.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_os(name).and_then(OsStr::to_str)
    }

    /// The value of `name` as the system gave it.
    #[must_use]
    pub fn get_os(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Every pair, by name.
    pub fn vars(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.vars.iter().map(|(k, v)| (k.as_os_str(), v.as_os_str()))
    }

    /// Finds an executable file by name in PATH without starting anything.
    #[must_use]
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        find_in_path(self.get_os("PATH"), OsStr::new(name))
    }
}

impl fmt::Debug for HostEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.vars.keys()).finish()
    }
}

/// The whole environment of a child: what is not in here, the child does not see.
#[derive(Clone)]
pub struct ChildEnv {
    vars: BTreeMap<OsString, OsString>,
}

impl ChildEnv {
    /// Builds the environment of a job: the allow-listed names of the host, HOME at `home`, and TMPDIR at the `tmp`
    /// beside it (the layout of [`Scratch`]).
    #[must_use]
    pub fn for_job(host: &HostEnv, home: &Path) -> Self {
        let mut vars: BTreeMap<OsString, OsString> = host
            .vars()
            .filter(|(name, _)| is_inherited(name))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        vars.entry("PATH".into()).or_insert_with(|| DEFAULT_PATH.into());
        vars.insert("HOME".into(), home.into());
        vars.insert("TMPDIR".into(), home.with_file_name("tmp").into());
        Self { vars }
    }

    /// An environment with nothing in it, for a process that has its own to start from (a container's).
    #[must_use]
    pub fn empty() -> Self {
        Self {
            vars: BTreeMap::new(),
        }
    }

    /// [`ChildEnv::for_job`] with HOME and TMPDIR of `scratch`.
    #[must_use]
    pub fn for_scratch(host: &HostEnv, scratch: &Scratch) -> Self {
        Self::for_job(host, scratch.home())
    }

    /// Builds the environment of a tool of the member, started on their behalf (a capability probe): all of the host's
    /// variables except this product's own.
    #[must_use]
    pub fn for_probe(host: &HostEnv) -> Self {
        let vars = host
            .vars()
            .filter(|(name, _)| !name.as_encoded_bytes().starts_with(b"EVERDICT_"))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Self { vars }
    }

    /// Sets a variable the job declares.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        self.vars.insert(name.into(), value.into());
        self
    }

    /// Removes a variable.
    pub fn unset(&mut self, name: &str) -> &mut Self {
        self.vars.remove(OsStr::new(name));
        self
    }

    /// The value of `name`, if it is set and valid Unicode.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.vars.get(OsStr::new(name)).and_then(|v| v.to_str())
    }

    /// Every pair, by name.
    pub fn vars(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.vars.iter().map(|(k, v)| (k.as_os_str(), v.as_os_str()))
    }

    /// Resolves a program as a shell in `cwd` would: by path when it has a slash, else by this environment's PATH.
    pub(crate) fn resolve(&self, program: &OsStr, cwd: &Path) -> Option<PathBuf> {
        if program.as_encoded_bytes().contains(&b'/') {
            return Some(cwd.join(program));
        }
        find_in_path(
            self.vars.get(OsStr::new("PATH")).map(OsString::as_os_str),
            program,
        )
    }
}

/// Names only: values may be secrets the job declares.
impl fmt::Debug for ChildEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.vars.keys()).finish()
    }
}

fn is_inherited(name: &OsStr) -> bool {
    INHERITED.iter().any(|allowed| name == *allowed) || name.as_encoded_bytes().starts_with(b"LC_")
}

fn find_in_path(path: Option<&OsStr>, program: &OsStr) -> Option<PathBuf> {
    if program.is_empty() || program.as_encoded_bytes().contains(&b'/') {
        return None;
    }
    std::env::split_paths(path?)
        // A relative entry would mean the directory this process happens to be in.
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(program))
        .find(|file| {
            file.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_allow_list_is_inherited() {
        let host = HostEnv::from_pairs([
            ("PATH", "/bin"),
            ("LC_ALL", "C.UTF-8"),
            ("HOME", "/home/me"),
            ("TMPDIR", "/var/tmp"),
            ("EVERDICT_RUNNER_TOKEN", "rnr_secret"),
            ("AWS_SECRET_ACCESS_KEY", "k"),
            ("SSH_AUTH_SOCK", "/s"),
        ]);
        let env = ChildEnv::for_job(&host, Path::new("/scratch/home"));
        let names: Vec<_> = env.vars().map(|(k, _)| k.to_str().unwrap()).collect();
        assert_eq!(names, ["HOME", "LC_ALL", "PATH", "TMPDIR"]);
        assert_eq!(env.get("HOME"), Some("/scratch/home"));
        assert_eq!(env.get("TMPDIR"), Some("/scratch/tmp"));
    }

    #[test]
    fn a_probe_sees_the_host_without_our_own_variables() {
        let host = HostEnv::from_pairs([("DOCKER_HOST", "unix:///s"), ("EVERDICT_API_URL", "http://h")]);
        let env = ChildEnv::for_probe(&host);
        assert_eq!(env.get("DOCKER_HOST"), Some("unix:///s"));
        assert_eq!(env.get("EVERDICT_API_URL"), None);
    }

    #[test]
    fn debug_output_shows_no_values() {
        let mut env = ChildEnv::for_job(&HostEnv::default(), Path::new("/h"));
        env.set("API_KEY", "sk-very-secret");
        assert!(!format!("{env:?}").contains("sk-very-secret"));
    }

    #[test]
    fn a_program_is_found_without_starting_it() {
        let host = HostEnv::from_pairs([("PATH", "relative:/nonexistent:/bin")]);
        assert_eq!(host.find_program("sh"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(host.find_program("no-such-program-here"), None);
    }
}

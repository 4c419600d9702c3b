//! Start at login, by an XDG autostart entry of our own.
//!
//! The desktop's own word counts, not a memory of ours: each question reads the entry again, so a switch that was turned
//! in the desktop's settings shows here. Invariants: nothing is written before the person wants it; there is at most
//! one entry; an entry that the person disabled elsewhere is not turned on again by an update.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use everdict_exec::HostEnv;

use crate::problem::{Problem, Result};

/// One name for all versions, so that an update can only replace the entry.
const ENTRY: &str = "dev.everdict.runner.desktop";

/// An entry is some lines; a larger file isn't one.
const MAX_BYTES: u64 = 64 * 1024;

/// The entry of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autostart {
    file: PathBuf,
    program: PathBuf,
}

impl Autostart {
    /// The entry of this program for the session in `env`; `None` where the system has no such folder.
    ///
    /// An AppImage is named by its own path: the program inside lies in a mount that is gone after the session.
    #[must_use]
    pub fn of_this_program(env: &HostEnv) -> Option<Self> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let program = match env.get("APPIMAGE").filter(|path| Path::new(path).is_absolute()) {
            Some(image) => PathBuf::from(image),
            None => std::env::current_exe().ok()?,
        };
        Some(Self::new(&config_home(env)?, program))
    }

    /// The entry of `program` under the configuration folder `config`.
    #[must_use]
    pub fn new(config: &Path, program: PathBuf) -> Self {
        Self {
            file: config.join("autostart").join(ENTRY),
            program,
        }
    }

    /// Tells whether the desktop starts the app at login.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.read()
            .is_ok_and(|entry| entry.is_some_and(|entry| entry.starts()))
    }

    /// Makes the desktop start the app at login, hidden, or no longer.
    ///
    /// # Errors
    /// A problem about this machine when the entry can't be written.
    pub fn set(&self, on: bool) -> Result<()> {
        if on {
            return self.write();
        }
        match std::fs::remove_file(&self.file) {
            Err(error) if !is_missing(&error) => Err(self.unwritable(error)),
            _ => Ok(()),
        }
    }

    /// Points an entry that is on to this program, which an update may have moved. One that is off stays as it is.
    ///
    /// # Errors
    /// As [`Autostart::set`].
    pub fn refresh(&self) -> Result<()> {
        match self.read() {
            Ok(Some(entry)) if entry.starts() && entry.value("Exec") != Some(&self.command()) => self.write(),
            _ => Ok(()),
        }
    }

    fn read(&self) -> std::io::Result<Option<Entry>> {
        use std::io::Read as _;

        let file = match std::fs::File::open(&self.file) {
            Ok(file) => file,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text)?;
        Ok(Some(Entry(text)))
    }

    fn write(&self) -> Result<()> {
        let text = format!(
            "[Desktop Entry]\nType=Application\nName=Everdict Runner\n\
             Comment=Runs evaluation cases on this machine\nExec={}\nIcon=everdict-desktop\nTerminal=false\n\
             X-GNOME-Autostart-enabled=true\n",
            self.command()
        );
        write_whole(&self.file, text.as_bytes()).map_err(|error| self.unwritable(error))
    }

    fn command(&self) -> String {
        format!("{} --hidden", quoted(&self.program.to_string_lossy()))
    }

    fn unwritable(&self, error: std::io::Error) -> Problem {
        Problem::machine(format!("can't write {}", self.file.display()))
            .fix("give this user write access to that folder")
            .coded("autostart_unwritable")
            .because(error)
    }
}

/// The folder of a person's configuration, as the desktop sees it.
pub(crate) fn config_home(env: &HostEnv) -> Option<PathBuf> {
    xdg_home(env, "XDG_CONFIG_HOME", ".config")
}

/// A folder of the XDG base directories: the variable when it is absolute, as the specification wants, else in HOME.
pub(crate) fn xdg_home(env: &HostEnv, variable: &str, usual: &str) -> Option<PathBuf> {
    let named = env
        .get(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let home = || Some(PathBuf::from(env.get("HOME").filter(|home| !home.is_empty())?).join(usual));
    named.or_else(home)
}

/// Writes a file that others may read, whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;

    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(dir)?;
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(bytes)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.as_file()
            .set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// A word of an `Exec` line: quoted, with what the specification reserves escaped.
pub(crate) fn quoted(word: &str) -> String {
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            // Once for the quoting, once for the string value around it.
            '\\' => quoted.push_str("\\\\\\\\"),
            '"' | '`' | '$' => {
                quoted.push_str("\\\\");
                quoted.push(c);
            }
            '%' => quoted.push_str("%%"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// A desktop entry as it stands on the disk.
struct Entry(String);

impl Entry {
    /// The value of a key in the first group, which is the only one that counts here.
    fn value(&self, key: &str) -> Option<&str> {
        let mut group = false;
        for line in self.0.lines().map(str::trim) {
            if line.starts_with('[') {
                group = line == "[Desktop Entry]";
                continue;
            }
            let Some((name, value)) = line.split_once('=').filter(|_| group) else {
                continue;
            };
            if name.trim_end() == key {
                return Some(value.trim_start());
            }
        }
        None
    }

    /// Desktops switch an entry off with either key, and one without a command starts nothing.
    fn starts(&self) -> bool {
        self.value("Hidden") != Some("true")
            && self.value("X-GNOME-Autostart-enabled") != Some("false")
            && self.value("Exec").is_some_and(|command| !command.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(config: &Path) -> Vec<PathBuf> {
        let dir = std::fs::read_dir(config.join("autostart"));
        dir.into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect()
    }

    #[test]
    fn it_is_off_until_ticked_and_gone_when_unticked() {
        let config = tempfile::tempdir().unwrap();
        let autostart = Autostart::new(config.path(), "/opt/everdict/everdict-desktop".into());
        assert!(!autostart.is_on());
        autostart.refresh().unwrap();
        assert!(entries(config.path()).is_empty(), "a start alone writes nothing");
        autostart.set(true).unwrap();
        assert!(autostart.is_on());
        let text = std::fs::read_to_string(&entries(config.path())[0]).unwrap();
        assert!(
            text.contains("\nExec=\"/opt/everdict/everdict-desktop\" --hidden\n"),
            "{text}"
        );
        autostart.set(false).unwrap();
        assert!(!autostart.is_on() && entries(config.path()).is_empty());
        autostart.set(false).unwrap();
    }

    #[test]
    fn an_update_that_moved_the_program_leaves_one_entry_with_the_new_path() {
        let config = tempfile::tempdir().unwrap();
        Autostart::new(config.path(), "/opt/one/everdict".into())
            .set(true)
            .unwrap();
        let moved = Autostart::new(config.path(), "/opt/two/everdict".into());
        moved.refresh().unwrap();
        assert!(moved.is_on());
        let entries = entries(config.path());
        assert_eq!(entries.len(), 1);
        assert!(
            std::fs::read_to_string(&entries[0])
                .unwrap()
                .contains("/opt/two/everdict")
        );
    }

    #[test]
    fn what_the_desktop_s_settings_switched_off_shows_as_off_and_stays_off_over_an_update() {
        let config = tempfile::tempdir().unwrap();
        let autostart = Autostart::new(config.path(), "/opt/everdict".into());
        autostart.set(true).unwrap();
        let file = entries(config.path()).remove(0);
        let ours = std::fs::read_to_string(&file).unwrap();
        let gnome = ours.replace(
            "X-GNOME-Autostart-enabled=true",
            "X-GNOME-Autostart-enabled=false",
        );
        for switched_off in [
            gnome,
            format!("{ours}Hidden=true\n"),
            ours.replace("Exec=", "TryExec="),
        ] {
            std::fs::write(&file, &switched_off).unwrap();
            assert!(!autostart.is_on(), "{switched_off}");
            Autostart::new(config.path(), "/opt/new".into())
                .refresh()
                .unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), switched_off);
        }
        std::fs::remove_file(&file).unwrap();
        assert!(!autostart.is_on());
        autostart.set(true).unwrap();
        assert!(autostart.is_on());
    }

    #[test]
    fn a_key_in_another_group_is_no_key_of_the_entry() {
        let entry = Entry("[Desktop Entry]\nExec=a\n[Desktop Action x]\nHidden=true\n".to_owned());
        assert!(entry.starts());
    }

    #[test]
    fn a_path_with_reserved_characters_stays_one_word() {
        assert_eq!(quoted("/a b/c$d"), "\"/a b/c\\\\$d\"");
        assert_eq!(quoted("/100%"), "\"/100%%\"");
    }

    #[test]
    fn a_relative_folder_in_the_environment_is_not_used() {
        let env = HostEnv::from_pairs([("XDG_CONFIG_HOME", "conf"), ("HOME", "/home/ada")]);
        assert_eq!(config_home(&env), Some("/home/ada/.config".into()));
    }
}

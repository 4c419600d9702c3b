//! Texts that a person keeps as files: a log, a result.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use everdict_exec::HostEnv;

use super::Control;
use crate::paths::{HOME_VAR, Paths};
use crate::problem::{Problem, Result};

/// What a window may have kept; a page must not leave anything that a desktop would start.
const ENDS: &[&str] = &["log", "json", "txt"];

/// Together with a number and its end it fits every file system.
const MAX_STEM: usize = 80;

/// As many of one name are a mistake.
const MAX_COPIES: u32 = 1000;

impl Control {
    /// Keeps a text as a new file in the person's folder for downloads, readable by them alone; returns its path. `name`
    /// may hold anything: what is no letter, digit or one of `-_. ` becomes a dash.
    ///
    /// # Errors
    /// Input when the name doesn't end in `.log`, `.json` or `.txt`; about this machine when the file can't be written.
    pub async fn save_text(&self, name: &str, text: String) -> Result<String> {
        let name = file_name(name)?;
        let folder = downloads(&self.room.options.env, &self.room.options.paths);
        let saving = tokio::task::spawn_blocking(move || save(&folder, &name, &text));
        let path = saving.await.expect("BUG: nothing in there panics")?;
        Ok(path.display().to_string())
    }
}

fn file_name(name: &str) -> Result<(String, String)> {
    let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
    let end = end.to_ascii_lowercase();
    if !ENDS.contains(&end.as_str()) {
        return Err(Problem::input(format!("only {} files are kept", ENDS.join(", ")))
            .fix("copy the text instead")
            .coded("bad_file_name"));
    }
    let plain = |c: char| {
        if c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ') {
            c
        } else {
            '-'
        }
    };
    let stem: String = stem.chars().take(MAX_STEM).map(plain).collect();
    // No hidden file, and no name that Windows cuts.
    let stem = stem.trim_matches(['.', ' ']);
    let stem = if stem.is_empty() { "everdict" } else { stem };
    Ok((stem.to_owned(), end))
}

/// The folder that the desktop names for downloads, else the usual one; with a home of our own everything stays in it.
fn downloads(env: &HostEnv, paths: &Paths) -> PathBuf {
    let own = paths.saved_dir();
    if env.get(HOME_VAR).is_some_and(|home| !home.is_empty()) {
        return own;
    }
    let home = ["HOME", "USERPROFILE"]
        .into_iter()
        .find_map(|name| env.get(name).filter(|home| !home.is_empty()));
    let Some(home) = home.map(Path::new) else {
        return own;
    };
    let config = env
        .get("XDG_CONFIG_HOME")
        .filter(|config| !config.is_empty())
        .map_or_else(|| home.join(".config"), PathBuf::from);
    let named = std::fs::read_to_string(config.join("user-dirs.dirs"))
        .ok()
        .and_then(|text| named_downloads(&text, home));
    let folder = named.unwrap_or_else(|| home.join("Downloads"));
    if folder.is_dir() { folder } else { own }
}

/// Reads what xdg-user-dirs writes: `XDG_DOWNLOAD_DIR="$HOME/…"`.
fn named_downloads(text: &str, home: &Path) -> Option<PathBuf> {
    let value = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("XDG_DOWNLOAD_DIR="))?;
    let value = value.trim().trim_matches('"');
    match value.strip_prefix("$HOME") {
        Some(rest) => Some(home.join(rest.trim_start_matches('/'))),
        None => Some(PathBuf::from(value)).filter(|path| path.is_absolute()),
    }
}

fn save(folder: &Path, name: &(String, String), text: &str) -> Result<PathBuf> {
    let refused = |error| {
        Problem::machine(format!("can't keep the file in {}", folder.display()))
            .fix("make room there, or give yourself the right to write there")
            .because(error)
            .coded("not_saved")
    };
    std::fs::create_dir_all(folder).map_err(refused)?;
    let (path, mut file) = fresh(folder, name).map_err(refused)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // Half a log would look like a whole one.
        let _ = std::fs::remove_file(&path);
        return Err(refused(error));
    }
    Ok(path)
}

/// Never a file that is there already.
fn fresh(folder: &Path, (stem, end): &(String, String)) -> std::io::Result<(PathBuf, File)> {
    let mut last = None;
    for copy in 1..=MAX_COPIES {
        let name = match copy {
            1 => format!("{stem}.{end}"),
            copy => format!("{stem} ({copy}).{end}"),
        };
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| std::io::ErrorKind::AlreadyExists.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_outside_leads_nowhere_else_and_starts_nothing() {
        let name = |text| file_name(text).map(|(stem, end)| format!("{stem}.{end}"));
        assert_eq!(name("case-17.log").unwrap(), "case-17.log");
        assert_eq!(name("../../.bashrc.log").unwrap(), "-..-.bashrc.log");
        assert_eq!(name("C:\\x\n.LOG").unwrap(), "C--x-.log");
        assert_eq!(name("日本 🦊.json").unwrap(), "日本 -.json");
        assert_eq!(name("...log").unwrap(), "everdict.log");
        let long = format!("{}.txt", "x".repeat(5_000));
        assert!(name(&long).unwrap().len() < 100);
        for bad in ["x.desktop", "x.sh", "log", "", "x.log/", "x.html"] {
            assert_eq!(name(bad).unwrap_err().code(), "bad_file_name", "{bad}");
        }
    }

    #[test]
    fn the_folder_is_the_desktop_s_own_for_downloads() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(&dir.path().join("own"));
        let home = dir.path().to_str().unwrap();
        let env = HostEnv::from_pairs([("HOME", home)]);
        assert_eq!(downloads(&env, &paths), paths.saved_dir(), "there is none yet");
        std::fs::create_dir_all(dir.path().join("Downloads")).unwrap();
        assert_eq!(downloads(&env, &paths), dir.path().join("Downloads"));
        std::fs::create_dir_all(dir.path().join("내려받기")).unwrap();
        std::fs::create_dir_all(dir.path().join(".config")).unwrap();
        let dirs = "# x\nXDG_DOWNLOAD_DIR=\"$HOME/내려받기\"\n";
        std::fs::write(dir.path().join(".config/user-dirs.dirs"), dirs).unwrap();
        assert_eq!(downloads(&env, &paths), dir.path().join("내려받기"));
        let portable = HostEnv::from_pairs([("HOME", home), (HOME_VAR, home)]);
        assert_eq!(downloads(&portable, &paths), paths.saved_dir());
    }

    #[test]
    fn each_text_gets_a_file_of_its_own_that_others_can_t_read() {
        let dir = tempfile::tempdir().unwrap();
        let name = ("case".to_owned(), "log".to_owned());
        let first = save(dir.path(), &name, "one").unwrap();
        let second = save(dir.path(), &name, "two").unwrap();
        assert_eq!(second, dir.path().join("case (2).log"));
        assert_eq!(std::fs::read_to_string(&first).unwrap(), "one");
        assert_eq!(std::fs::read_to_string(&second).unwrap(), "two");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&first).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let blocked = dir.path().join("file");
        std::fs::write(&blocked, "").unwrap();
        let refused = save(&blocked, &name, "x").unwrap_err();
        assert_eq!(refused.code(), "not_saved");
    }
}

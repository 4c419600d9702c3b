//! Changing one key of the person's file and nothing else in it.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value};

use super::Settings;
use super::schema::{self, KEYS};
use crate::control::SettingValue;
use crate::problem::{Problem, Result};

/// Writes `value` for `key` into the file at `path`, or takes the key out of it. Comments, order and everything else
/// stay. The file is replaced as a whole, with the rights that it had; a new one is for its owner alone.
///
/// # Errors
/// Input when there is no such key, the value is not allowed, or the file is nonsense already; a problem about this
/// machine when it can't be written. The file is unchanged then.
pub(crate) fn save(path: &Path, key: &str, value: Option<&SettingValue>) -> Result<Settings> {
    let known = KEYS.iter().find(|known| known.name == key).ok_or_else(|| {
        Problem::input(format!("there is no setting {key}"))
            .fix("`everdict-runner help settings` prints every key with its default")
            .coded("setting_unknown")
    })?;
    let place = real_place(path);
    let name = path.display().to_string();
    let text = read(&place)?;
    Settings::parse(&name, &text)?;
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| Problem::input(format!("can't read {name}")).because(error))?;
    let (table, entry) = known.name.split_once('.').expect("BUG: keys have a table");
    match value {
        Some(value) => {
            let value = to_toml(value);
            schema::check_alone(known, &value.to_string())?;
            set(&mut document, table, entry, value)?;
        }
        None => unset(&mut document, table, entry),
    }
    let text = document.to_string();
    let settings = Settings::parse(&name, &text)?;
    write(&place, &text)?;
    Ok(settings)
}

/// People keep such files elsewhere and link to them: what is linked to is changed, and the link stays.
fn real_place(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn read(path: &Path) -> Result<String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Problem::machine(format!("can't read {}", path.display()))
            .fix("check the owner and the mode of the file")
            .because(error)),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    let attempt = || -> std::io::Result<()> {
        fs::create_dir_all(dir)?;
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        if let Ok(meta) = fs::metadata(path) {
            file.as_file().set_permissions(meta.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    attempt().map_err(|error| {
        Problem::machine(format!("can't write {}", path.display()))
            .fix("check that its folder may be written and that the disk is not full")
            .because(error)
    })
}

fn to_toml(value: &SettingValue) -> Value {
    match value {
        // A number beyond what the file can say is beyond every bound too.
        SettingValue::Number(number) => i64::try_from(*number).unwrap_or(i64::MAX).into(),
        SettingValue::Switch(on) => (*on).into(),
        SettingValue::Text(text) => text.as_str().into(),
        SettingValue::List(items) => items.iter().map(String::as_str).collect::<Array>().into(),
    }
}

fn set(document: &mut DocumentMut, table: &str, entry: &str, mut value: Value) -> Result<()> {
    let entries = document
        .entry(table)
        .or_insert_with(|| Item::Table(Table::new()))
        .as_table_like_mut()
        .ok_or_else(|| Problem::input(format!("{table} must be a table")))?;
    match entries.get_mut(entry).and_then(Item::as_value_mut) {
        Some(old) => {
            // A remark behind the old value is one about the key.
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => {
            entries.insert(entry, Item::Value(value));
        }
    }
    Ok(())
}

fn unset(document: &mut DocumentMut, table: &str, entry: &str) {
    let Some(entries) = document.get_mut(table).and_then(Item::as_table_like_mut) else {
        return;
    };
    let remarks = take(entries, entry);
    let Some(remarks) = remarks.filter(|remarks| !remarks.trim().is_empty()) else {
        return;
    };
    // Nothing stands behind it in its table, so what was said above it closes the file.
    let trailing = document.trailing().as_str().unwrap_or_default().to_owned();
    document.set_trailing(format!("{remarks}{trailing}"));
}

/// Takes the entry out; what was said above it goes to the next one, or is returned where there is none.
fn take(entries: &mut dyn TableLike, entry: &str) -> Option<String> {
    let next = entries
        .iter()
        .map(|(key, _)| key.to_owned())
        .skip_while(|key| key != entry)
        .nth(1);
    let above = |entries: &dyn TableLike, key: &str| {
        let prefix = entries.key(key)?.leaf_decor().prefix()?;
        Some(prefix.as_str().unwrap_or_default().to_owned())
    };
    let remarks = above(entries, entry);
    entries.remove(entry)?;
    let (Some(next), Some(remarks)) = (next, &remarks) else {
        return remarks;
    };
    let own = above(entries, &next).unwrap_or_default();
    if let Some(mut key) = entries.key_mut(&next) {
        key.leaf_decor_mut().set_prefix(format!("{remarks}{own}"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "# mine\n\n[runner]\n# two is what this box can do\nmax_concurrent = 2 # not three\nwait_ms = 5000\n\n\
                       [log]\nfilter = \"info\"\n";

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.toml");
        fs::write(&path, text).unwrap();
        (dir, path)
    }

    #[test]
    fn a_saved_setting_changes_its_value_and_not_a_character_beside_it() {
        let (_dir, path) = file(OWN);
        let settings = save(&path, "runner.max_concurrent", Some(&SettingValue::Number(4))).unwrap();
        assert_eq!(settings.max_concurrent, 4);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, OWN.replace("= 2 #", "= 4 #"));
    }

    #[test]
    fn a_setting_of_a_table_that_is_not_there_comes_with_it() {
        let (_dir, path) = file(OWN);
        let text = SettingValue::Text("hand-back".into());
        save(&path, "power.on_battery", Some(&text)).unwrap();
        let days = SettingValue::List(vec!["mon".into(), "sun".into()]);
        save(&path, "hours.days", Some(&days)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(OWN), "{text}");
        assert!(text.contains("[power]\non_battery = \"hand-back\"\n"), "{text}");
        assert!(text.contains("days = [\"mon\", \"sun\"]\n"), "{text}");
    }

    #[test]
    fn back_to_the_default_takes_the_key_out_and_leaves_what_was_said_about_it() {
        let (_dir, path) = file(OWN);
        let settings = save(&path, "runner.max_concurrent", None).unwrap();
        assert_eq!(settings.max_concurrent, 1);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("max_concurrent"), "{text}");
        assert!(
            text.contains("# two is what this box can do\nwait_ms = 5000"),
            "{text}"
        );
        save(&path, "log.filter", None).unwrap();
        save(&path, "power.keep_awake", None).unwrap();
    }

    #[test]
    fn what_is_not_allowed_is_refused_in_words_and_changes_nothing() {
        let (_dir, path) = file(OWN);
        let refused = |key: &str, value: SettingValue| {
            let problem = save(&path, key, Some(&value)).unwrap_err();
            assert_eq!(problem.class(), crate::ProblemClass::Input);
            problem.to_string()
        };
        assert_eq!(
            refused("runner.max_concurrent", SettingValue::Number(65)),
            "runner.max_concurrent can't be 65; allowed: a whole number from 1 to 64"
        );
        assert_eq!(
            refused("hours.from", SettingValue::Text("24:00".into())),
            "hours.from can't be \"24:00\"; allowed: a time of day from \"00:00\" to \"23:59\""
        );
        refused("hours.days", SettingValue::List(vec!["mon".into(), "mon".into()]));
        refused("power.keep_awake", SettingValue::Number(1));
        refused("limits.cpu_idle", SettingValue::Number(u64::MAX));
        assert_eq!(
            refused("runner.speed", SettingValue::Number(1)),
            "there is no setting runner.speed"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), OWN);
    }

    #[test]
    fn a_file_that_is_nonsense_is_not_written_over() {
        let (_dir, path) = file("[runner\n");
        let problem = save(&path, "runner.max_concurrent", Some(&SettingValue::Number(2))).unwrap_err();
        assert!(problem.to_string().contains("settings.toml:1: "), "{problem}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "[runner\n");
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_is_private_an_old_one_keeps_its_rights_and_a_link_stays_one() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let (path, linked) = (dir.path().join("settings.toml"), dir.path().join("dotfiles.toml"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        save(&path, "power.keep_awake", Some(&SettingValue::Switch(false))).unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::rename(&path, &linked).unwrap();
        fs::set_permissions(&linked, fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&linked, &path).unwrap();
        save(&path, "power.keep_awake", Some(&SettingValue::Switch(true))).unwrap();
        assert_eq!(mode(&linked), 0o644);
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        assert!(fs::read_to_string(&linked).unwrap().contains("keep_awake = true"));
    }
}

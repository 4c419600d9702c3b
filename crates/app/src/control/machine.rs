//! The machine in a person's words.

use std::num::NonZeroUsize;

use super::view::MachineView;
use crate::paths::Paths;

pub(super) fn read(paths: &Paths) -> MachineView {
    MachineView {
        name: crate::host_name(),
        system: system(),
        arch: std::env::consts::ARCH.to_owned(),
        // The call fails only where the limit can't be read; the one CPU that runs this is certain.
        cpus: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        data_folder: paths.data_dir().display().to_string(),
        settings_file: paths.settings_file().display().to_string(),
    }
}

fn system() -> String {
    // The two places that os-release(5) names, the administrator's first.
    ["/etc/os-release", "/usr/lib/os-release"]
        .into_iter()
        .find_map(|path| pretty_name(&std::fs::read_to_string(path).ok()?))
        .unwrap_or_else(|| match std::env::consts::OS {
            "macos" => "macOS".to_owned(),
            "windows" => "Windows".to_owned(),
            "linux" => "Linux".to_owned(),
            other => other.to_owned(),
        })
}

fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    let name = value.trim().trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_named_as_it_names_itself() {
        assert_eq!(
            pretty_name("ID=debian\nPRETTY_NAME=\"Debian 12\"\n"),
            Some("Debian 12".into())
        );
        assert_eq!(pretty_name("PRETTY_NAME='Some OS'"), Some("Some OS".into()));
        assert_eq!(pretty_name("PRETTY_NAME=\"\"\n"), None);
        assert_eq!(pretty_name("ID=debian\n"), None);
    }

    #[test]
    fn this_machine_has_a_name_and_at_least_one_cpu() {
        let paths = Paths::under(std::path::Path::new("/home/ann"));
        let machine = read(&paths);
        assert!(!machine.name.is_empty() && !machine.system.is_empty());
        assert!(machine.cpus >= 1);
        assert!(
            machine.data_folder.starts_with("/home/ann") && machine.settings_file.ends_with("settings.toml")
        );
    }
}

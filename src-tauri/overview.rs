//! The facts that the overview page shows, read from the running system.

use std::num::NonZeroUsize;

use serde::Serialize;

use crate::runners::Runners;
use crate::tray_host::TrayHost;

/// What the page gets; `ui/src/host/host.ts` mirrors the shape.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The app's own version.
    pub version: &'static str,
    /// The machine it runs on.
    pub machine: Machine,
    /// Whether something on this desktop shows tray icons.
    pub tray_host: bool,
    /// The pairings of this machine.
    pub runners: Runners,
}

/// The machine in a person's words.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Host name.
    pub host: String,
    /// Operating system with its version where it announces one.
    pub os: String,
    /// Processor architecture.
    pub arch: &'static str,
    /// Logical CPUs that this process may use.
    pub cpus: usize,
}

impl Overview {
    /// Joins what the machine, the session and the pairings say.
    pub fn new(machine: Machine, tray: TrayHost, runners: Runners) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            machine,
            tray_host: tray == TrayHost::Present,
            runners,
        }
    }
}

impl Machine {
    /// Reads them from the system.
    pub fn read() -> Self {
        Self {
            host: everdict_app::host_name(),
            os: os_name(),
            arch: std::env::consts::ARCH,
            // The call fails only where the limit can't be read; the one CPU that runs this is certain.
            cpus: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        }
    }
}

fn os_name() -> String {
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
    use crate::runners::Registration;

    #[test]
    fn the_page_gets_the_shape_it_is_tested_with() {
        let expected: serde_json::Value =
            serde_json::from_str(include_str!("../ui/src/host/overview.sample.json")).unwrap();
        let overview = Overview {
            version: "0.1.0",
            machine: Machine {
                host: "workbench".into(),
                os: "Debian GNU/Linux 12 (bookworm)".into(),
                arch: "x86_64",
                cpus: 8,
            },
            tray_host: true,
            runners: Runners::Paired {
                registrations: vec![Registration {
                    label: "workbench".into(),
                    hub: "http://127.0.0.1:8787".into(),
                    runtime: "self:r-1".into(),
                }],
            },
        };
        assert_eq!(serde_json::to_value(overview).unwrap(), expected);
    }

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
        let machine = Machine::read();
        assert!(!machine.host.is_empty());
        assert!(!machine.os.is_empty());
        assert!(machine.cpus >= 1);
    }
}

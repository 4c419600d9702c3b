//! The single probes. `Ok` carries what was found, `Err` what was missing.

use std::path::{Path, PathBuf};

use everdict_contracts::Capability;
use everdict_exec::HostEnv;

use super::{ContainerOffer, Offer};

type Found = Result<String, String>;

/// Every probe, in the order of the protocol's vocabulary. `topology` is not a runner's to offer.
///
/// A browser is one in a container, made for the case: one that is installed here is the member's own.
pub(super) fn all(host: &HostEnv, containers: &ContainerOffer) -> Vec<(Capability, Offer, String)> {
    let here = |capability, found: Found| match found {
        Ok(reason) => (capability, Offer::Offered, reason),
        Err(reason) => (capability, Offer::Absent, reason),
    };
    let contained = |capability| {
        let (offer, reason) = containers.found();
        (capability, offer, reason)
    };
    vec![
        here(Capability::Git, git(host)),
        contained(Capability::Docker),
        contained(Capability::Browser),
        here(Capability::ComputerUse, computer_use(host)),
        here(Capability::OsWindows, system("windows")),
        here(Capability::OsMacos, system("macos")),
        here(Capability::Gpu, device("/dev/nvidia0")),
        here(Capability::Sandbox, device("/dev/kvm")),
        here(Capability::CodexLogin, home_file(host, ".codex/auth.json")),
        here(Capability::ClaudeLogin, home_file(host, ".claude.json")),
    ]
}

fn home(host: &HostEnv) -> Option<PathBuf> {
    let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    host.get_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn git(host: &HostEnv) -> Found {
    host.find_program("git").map_or_else(
        || Err("no git on PATH".to_owned()),
        |path| Ok(path.display().to_string()),
    )
}

fn computer_use(host: &HostEnv) -> Found {
    if cfg!(any(windows, target_os = "macos")) {
        return Ok(format!("{} has a desktop", std::env::consts::OS));
    }
    ["DISPLAY", "WAYLAND_DISPLAY"]
        .into_iter()
        .find_map(|name| {
            let value = host.get(name).filter(|value| !value.is_empty())?;
            Some(format!("{name} is {value}"))
        })
        .ok_or_else(|| "neither DISPLAY nor WAYLAND_DISPLAY is set".to_owned())
}

fn system(wanted: &str) -> Found {
    let here = std::env::consts::OS;
    if here == wanted {
        Ok(format!("this is {here}"))
    } else {
        Err(format!("this is {here}"))
    }
}

fn device(path: &str) -> Found {
    if Path::new(path).exists() {
        Ok(path.to_owned())
    } else {
        Err(format!("no {path}"))
    }
}

fn home_file(host: &HostEnv, relative: &str) -> Found {
    let Some(home) = home(host) else {
        return Err("no home directory".to_owned());
    };
    let path = home.join(relative);
    if path.is_file() {
        Ok(path.display().to_string())
    } else {
        Err(format!("no {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_found(host: &HostEnv, wanted: Capability) -> bool {
        all(host, &ContainerOffer::Unknown)
            .into_iter()
            .any(|(capability, offer, _)| capability == wanted && offer == Offer::Offered)
    }

    #[test]
    fn an_empty_environment_offers_nothing_that_needs_one() {
        let host = HostEnv::default();
        for capability in [
            Capability::Git,
            Capability::Browser,
            Capability::CodexLogin,
            Capability::ClaudeLogin,
        ] {
            assert!(!is_found(&host, capability), "{capability:?}");
        }
    }

    #[test]
    fn logins_and_caches_are_found_under_the_given_home() {
        let home = tempfile::tempdir().unwrap();
        let host = HostEnv::from_pairs([
            ("HOME", home.path().to_str().unwrap()),
            ("USERPROFILE", home.path().to_str().unwrap()),
            ("DISPLAY", ":7"),
        ]);
        assert!(!is_found(&host, Capability::ClaudeLogin));
        std::fs::write(home.path().join(".claude.json"), "{}").unwrap();
        std::fs::create_dir(home.path().join(".codex")).unwrap();
        std::fs::write(home.path().join(".codex/auth.json"), "{}").unwrap();
        assert!(is_found(&host, Capability::ClaudeLogin));
        assert!(is_found(&host, Capability::CodexLogin));
        assert!(is_found(&host, Capability::ComputerUse));
    }
}

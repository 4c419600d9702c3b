//! The single probes. `Ok` carries what was found, `Err` what was missing.

use std::path::{Path, PathBuf};

use everdict_contracts::Capability;
use everdict_exec::HostEnv;

type Found = Result<String, String>;

/// Every probe, in the order of the protocol's vocabulary. `topology` is not a runner's to offer.
pub(super) fn all(host: &HostEnv, docker: Found) -> Vec<(Capability, Found)> {
    vec![
        (Capability::Git, git(host)),
        (Capability::Docker, docker),
        (Capability::Browser, browser(host)),
        (Capability::ComputerUse, computer_use(host)),
        (Capability::OsWindows, system("windows")),
        (Capability::OsMacos, system("macos")),
        (Capability::Gpu, device("/dev/nvidia0")),
        (Capability::Sandbox, device("/dev/kvm")),
        (Capability::CodexLogin, home_file(host, ".codex/auth.json")),
        (Capability::ClaudeLogin, home_file(host, ".claude.json")),
    ]
}

pub(super) fn home(host: &HostEnv) -> Option<PathBuf> {
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

fn browser(host: &HostEnv) -> Found {
    const BINARIES: [&str; 5] = [
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
        "chrome",
    ];
    let cache = playwright_cache(host);
    if let Some(cache) = cache.filter(|path| path.is_dir()) {
        return Ok(format!("Playwright browsers in {}", cache.display()));
    }
    BINARIES
        .iter()
        .find_map(|name| host.find_program(name))
        .map_or_else(
            || Err("no Playwright cache, and no chromium or chrome on PATH".to_owned()),
            |path| Ok(path.display().to_string()),
        )
}

fn playwright_cache(host: &HostEnv) -> Option<PathBuf> {
    let home = home(host);
    if cfg!(target_os = "macos") {
        Some(home?.join("Library/Caches/ms-playwright"))
    } else if cfg!(windows) {
        host.get_os("LOCALAPPDATA")
            .map(PathBuf::from)
            .or_else(|| Some(home?.join("AppData/Local")))
            .map(|base| base.join("ms-playwright"))
    } else {
        Some(home?.join(".cache/ms-playwright"))
    }
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

    fn found(host: &HostEnv, wanted: Capability) -> Found {
        all(host, Err("not asked".to_owned()))
            .into_iter()
            .find_map(|(capability, found)| (capability == wanted).then_some(found))
            .unwrap()
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
            assert!(found(&host, capability).is_err(), "{capability:?}");
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
        assert!(found(&host, Capability::ClaudeLogin).is_err());
        std::fs::write(home.path().join(".claude.json"), "{}").unwrap();
        std::fs::create_dir(home.path().join(".codex")).unwrap();
        std::fs::write(home.path().join(".codex/auth.json"), "{}").unwrap();
        assert!(found(&host, Capability::ClaudeLogin).is_ok());
        assert!(found(&host, Capability::CodexLogin).is_ok());
        assert!(found(&host, Capability::ComputerUse).is_ok());
    }
}

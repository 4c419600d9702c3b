//! `bench desktop`: the packaged app on a private desktop. It builds the package, then has the desktop tests' own harness
//! measure the program in it from outside (`src-tauri/tests/figures.rs`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::stats::round;
use crate::ToolResult;

#[derive(Args)]
pub(crate) struct DesktopBench {
    /// Which build is measured; the aims are meant for a release
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,
    /// Measure what is built already
    #[arg(long)]
    no_build: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Profile {
    Release,
    Dev,
}

impl Profile {
    fn folder(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dev => "debug",
        }
    }
}

pub(crate) fn run(options: &DesktopBench) -> ToolResult<()> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    let root = metadata.workspace_root.as_std_path();
    let built = metadata
        .target_directory
        .as_std_path()
        .join(options.profile.folder());
    if !options.no_build {
        package(root, options.profile)?;
    }
    let deb = newest_deb(&built.join("bundle/deb"))?;
    let app = built.join("everdict-desktop");
    let mut report = measure(root, &app)?;
    report["deb_mb"] = json!(round(std::fs::metadata(&deb)?.len() as f64 / 1e6));
    report["profile"] = json!(options.profile.folder());
    report["loadavg"] = json!(std::fs::read_to_string("/proc/loadavg")?.trim());
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

fn package(root: &Path, profile: Profile) -> ToolResult<()> {
    eprintln!("building the package (a release takes some minutes) …");
    let mut command = Command::new(root.join("scripts/package.sh"));
    if profile == Profile::Dev {
        command.arg("--debug");
    }
    let status = command
        .arg("deb")
        .current_dir(root)
        .stdout(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err("scripts/package.sh failed; its reason stands above".into())
    }
}

fn newest_deb(dir: &Path) -> ToolResult<PathBuf> {
    let mut newest = None;
    for entry in std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))? {
        let path = entry?.path();
        // The headless program's package lies beside it.
        let name = entry_name(&path);
        if name.starts_with("everdict-runner-desktop_") && name.ends_with(".deb") {
            let made = std::fs::metadata(&path)?.modified()?;
            newest = newest.max(Some((made, path)));
        }
    }
    let (_, path) = newest.ok_or_else(|| format!("there is no package in {}", dir.display()))?;
    Ok(path)
}

fn entry_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn measure(root: &Path, app: &Path) -> ToolResult<Value> {
    eprintln!("measuring {} (about eight minutes) …", app.display());
    let folder = tempfile::tempdir()?;
    let figures = folder.path().join("figures.json");
    let status = Command::new("cargo")
        .args([
            "test",
            "--locked",
            "--quiet",
            "--package",
            "everdict-desktop",
            "--test",
            "figures",
        ])
        .args(["--", "--ignored", "--nocapture"])
        .current_dir(root)
        .env("EVERDICT_FIGURES", &figures)
        .env("EVERDICT_APP_UNDER_TEST", app)
        // The report alone goes to standard output.
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        return Err("the measurement failed; its reason stands above".into());
    }
    Ok(serde_json::from_slice(&std::fs::read(&figures)?)?)
}

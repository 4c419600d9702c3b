//! Builds the gate's program (`src/egress/gate/program.rs`): a file without libraries, for the kernel that this build is
//! for. Builds for other systems carry none.

use std::path::PathBuf;

/// The architectures whose calls to the kernel the program knows.
const KNOWN: [&str; 2] = ["x86_64", "aarch64"];

/// No start-up code, no library, one segment, no path of the building machine.
const FLAGS: [&str; 13] = [
    "--edition=2024",
    "--crate-type=bin",
    "--crate-name=everdict_gate",
    "-Cpanic=abort",
    "-Copt-level=s",
    "-Cstrip=symbols",
    "-Crelocation-model=static",
    "-Clink-arg=-nostartfiles",
    "-Clink-arg=-nostdlib",
    "-Clink-arg=-static",
    "-Clink-arg=-Wl,--build-id=none",
    "-Clink-arg=-Wl,-z,noexecstack",
    "--remap-path-prefix=src=",
];

fn main() {
    const SOURCE: &str = "src/egress/gate/program.rs";
    println!("cargo::rerun-if-changed={SOURCE}");
    let program = PathBuf::from(variable("OUT_DIR")).join("gate");
    let architecture = variable("CARGO_CFG_TARGET_ARCH");
    if variable("CARGO_CFG_TARGET_OS") != "linux" || !KNOWN.contains(&architecture.as_str()) {
        std::fs::write(&program, []).expect("cargo's folder can be written");
        return;
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the compiler is cargo's own, at build time"
    )]
    let mut compiler = std::process::Command::new(variable("RUSTC"));
    compiler.args(FLAGS);
    compiler.arg(format!("--target={}", variable("TARGET")));
    if variable("CARGO_CFG_TARGET_ENV") == "musl" {
        // Else the compiler adds the start-up code that it brings along for this system.
        compiler.arg("-Clink-self-contained=no");
    }
    if let Some(linker) = set("RUSTC_LINKER") {
        compiler.arg(format!("-Clinker={linker}"));
    }
    let status = compiler.arg(SOURCE).arg("-o").arg(&program).status();
    let status =
        status.unwrap_or_else(|error| panic!("can't start the compiler for the gate's program: {error}"));
    assert!(
        status.success(),
        "the gate's program can't be built; the compiler says why"
    );
}

fn variable(name: &str) -> String {
    set(name).unwrap_or_else(|| panic!("cargo sets {name}"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script by its environment what to build"
)]
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

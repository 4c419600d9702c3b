//! The program that the tests' own images run, compiled once: an image of one small static file is pulled in no time.

use std::process::Command;
use std::sync::OnceLock;

use everdict_testkit::RegistryImage;
use serde_json::json;

/// Makes the program, or tells why it can't be made here.
pub fn program() -> Result<&'static [u8], String> {
    static PROGRAM: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    PROGRAM.get_or_init(compile).as_deref().map_err(Clone::clone)
}

fn compile() -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("answer");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/daemon/answer.c");
    #[expect(clippy::disallowed_methods, reason = "tests start their own helper processes")]
    let mut command = Command::new("cc");
    command
        .args(["-static", "-Os", "-s", "-o"])
        .arg(&output)
        .arg(source);
    let made = command
        .output()
        .map_err(|error| format!("no C compiler: {error}"))?;
    if !made.status.success() {
        let words = String::from_utf8_lossy(&made.stderr).into_owned();
        return Err(format!("{source} can't be compiled: {words}"));
    }
    Ok(std::fs::read(output).unwrap())
}

/// The processor of this machine, and another one, in the words of manifests.
pub fn processors() -> (&'static str, &'static str) {
    match std::env::consts::ARCH {
        "x86_64" => ("amd64", "arm64"),
        _ => ("arm64", "amd64"),
    }
}

/// An image of this machine that runs the program with these words.
pub fn image(words: &[&str], mark: &str) -> RegistryImage {
    image_for(processors().0, words, mark)
}

/// The same for a processor. Its layer is its own, by its mark and by this process: layers that are there already, of
/// whichever test, aren't pulled.
pub fn image_for(processor: &str, words: &[&str], mark: &str) -> RegistryImage {
    let entrypoint: Vec<&str> = [&["/answer"], words].concat();
    let mark = format!("{:>32} {:>10}", mark, std::process::id());
    // What follows a program in its file does it no harm.
    let bytes = [program().unwrap(), mark.as_bytes()].concat();
    RegistryImage::new(processor)
        .file("answer", &bytes)
        .with("Entrypoint", json!(entrypoint))
}

/// A front door: it answers on port 8080.
pub fn front_door(mark: &str) -> RegistryImage {
    image(&["serve", "8080"], mark)
}

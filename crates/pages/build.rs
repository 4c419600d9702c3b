//! Lists the files of `ui/dist` as Rust.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn main() {
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let dist = manifest.join("../../ui/dist");
    // A folder that isn't there yet counts as changed, so that pages built later are seen.
    println!("cargo:rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    if dist.join("index.html").exists()
        && let Err(error) = collect(&dist, &mut files)
    {
        panic!("can't read {}: {error}", dist.display());
    }
    files.sort();
    let mut text = String::from(
        "/// Every file, by path; empty where the pages were not built.\npub static PAGES: &[Page] = &[\n",
    );
    for file in &files {
        let path = file.strip_prefix(&dist).unwrap_or(file);
        let path = path.to_string_lossy().replace('\\', "/");
        let body = file.to_string_lossy();
        writeln!(
            text,
            "    Page {{ path: {:?}, mime: {:?}, body: include_bytes!({body:?}) }},",
            format!("/{path}"),
            mime(file)
        )
        .expect("BUG: writing to a String can't fail");
    }
    text.push_str("];\n");
    let out = Path::new(&variable("OUT_DIR")).join("pages.rs");
    if let Err(error) = fs::write(&out, text) {
        panic!("can't write {}: {error}", out.display());
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script where to work by its environment"
)]
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_none_or(|end| end != "map") {
            files.push(path);
        }
    }
    Ok(())
}

fn mime(file: &Path) -> &'static str {
    match file.extension().and_then(|end| end.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

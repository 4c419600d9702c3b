//! Embeds the built UI and the window's permissions into the desktop binary.

fn main() {
    // generate_context!() embeds ui/dist when the crate compiles; cargo cannot know that.
    println!("cargo:rerun-if-changed=ui/dist");
    println!("cargo:rerun-if-changed=src-tauri/capabilities");
    println!("cargo:rerun-if-changed=src-tauri/permissions");
    assert!(
        std::path::Path::new("ui/dist/index.html").exists(),
        "ui/dist is missing: run `npm --prefix ui ci && npm --prefix ui run build` first"
    );
    let attributes = tauri_build::Attributes::new()
        .capabilities_path_pattern("./src-tauri/capabilities/*.json")
        .app_manifest(
            tauri_build::AppManifest::new().permissions_path_pattern("./src-tauri/permissions/*.toml"),
        );
    if let Err(error) = tauri_build::try_build(attributes) {
        panic!("cannot prepare the Tauri build: {error:#}");
    }
}

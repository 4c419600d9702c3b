//! Whether the web view has to draw the slower way, because the faster one leaves its window blank on this machine.
//!
//! What the person set in the environment is never overruled. Else it is the slower way with an NVIDIA driver, and
//! wherever a window stayed blank before.

use std::path::{Path, PathBuf};

use everdict_exec::HostEnv;

use crate::paths::Paths;
use crate::private_file;

/// The variable by which WebKitGTK leaves out its DMA-BUF renderer.
pub const RENDERER_VAR: &str = "WEBKIT_DISABLE_DMABUF_RENDERER";

/// What decides about the way of drawing.
#[derive(Debug)]
pub struct Renderer {
    chosen_by_person: bool,
    root: PathBuf,
    marker: PathBuf,
}

impl Renderer {
    /// What this machine says; `None` where there is no such question, or no home to remember an answer in.
    #[must_use]
    pub fn of_this_machine(env: &HostEnv) -> Option<Self> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        Some(Self::new(env, &Paths::from_env(env).ok()?, Path::new("/")))
    }

    /// What the machine whose files lie under `root` says.
    #[must_use]
    pub fn new(env: &HostEnv, paths: &Paths, root: &Path) -> Self {
        Self {
            chosen_by_person: env.get(RENDERER_VAR).is_some(),
            root: root.to_owned(),
            marker: paths.state_dir().join("window-stayed-blank"),
        }
    }

    /// Tells whether the slower way is called for.
    #[must_use]
    pub fn needs_fallback(&self) -> bool {
        !self.chosen_by_person && (self.marker.exists() || self.has_nvidia())
    }

    /// Remembers for the next start that a window stayed blank.
    pub fn stayed_blank(&self) {
        if !self.chosen_by_person
            && let Err(problem) = private_file::write(&self.marker, b"")
        {
            tracing::warn!(problem = %problem.chain(), "the next start won't know that the window stayed blank");
        }
    }

    /// Forgets it again: the window was only slow.
    pub fn painted_after_all(&self) {
        if let Err(problem) = private_file::remove(&self.marker) {
            tracing::warn!(problem = %problem.chain(), "the next start takes the window for blank");
        }
    }

    /// The module of the proprietary driver, whether or not a screen is on its card.
    fn has_nvidia(&self) -> bool {
        ["proc/driver/nvidia/version", "sys/module/nvidia/version"]
            .iter()
            .any(|file| self.root.join(file).exists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(nvidia: bool) -> Self {
            let dir = tempfile::tempdir().unwrap();
            Paths::under(&dir.path().join("home")).prepare().unwrap();
            if nvidia {
                std::fs::create_dir_all(dir.path().join("proc/driver/nvidia")).unwrap();
                std::fs::write(dir.path().join("proc/driver/nvidia/version"), "NVRM version: 550").unwrap();
            }
            Self(dir)
        }

        fn renderer(&self, set: &[(&str, &str)]) -> Renderer {
            let env = HostEnv::from_pairs(set.iter().copied());
            Renderer::new(&env, &Paths::under(&self.0.path().join("home")), self.0.path())
        }
    }

    #[test]
    fn the_slower_way_is_taken_only_with_the_driver_that_needs_it() {
        assert!(Machine::new(true).renderer(&[]).needs_fallback());
        assert!(!Machine::new(false).renderer(&[]).needs_fallback());
    }

    #[test]
    fn what_the_person_set_is_kept() {
        let machine = Machine::new(true);
        for value in ["0", "1", ""] {
            let renderer = machine.renderer(&[(RENDERER_VAR, value)]);
            assert!(!renderer.needs_fallback(), "{value}");
            renderer.stayed_blank();
        }
        let other = Machine::new(false);
        other.renderer(&[(RENDERER_VAR, "0")]).stayed_blank();
        assert!(
            !other.renderer(&[]).needs_fallback(),
            "a choice that failed is the person's to change"
        );
    }

    #[test]
    fn a_window_that_stayed_blank_makes_the_next_start_fall_back() {
        let machine = Machine::new(false);
        machine.renderer(&[]).stayed_blank();
        assert!(machine.renderer(&[]).needs_fallback());
        machine.renderer(&[]).painted_after_all();
        assert!(!machine.renderer(&[]).needs_fallback());
    }
}

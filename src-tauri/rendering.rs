//! Picks how the web view draws, before GTK starts: some NVIDIA drivers show a blank window with the faster way.

use everdict_app::rendering::{RENDERER_VAR, Renderer};
use everdict_exec::HostEnv;

/// Sets the variable that WebKit reads, where it is called for. Only before any thread runs.
pub fn choose(env: &HostEnv) {
    if !Renderer::of_this_machine(env).is_some_and(|renderer| renderer.needs_fallback()) {
        return;
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "WebKit has no other switch, and no thread of this process has started yet"
    )]
    // SAFETY: called first in main, so nothing reads the environment at the same time.
    unsafe {
        std::env::set_var(RENDERER_VAR, "1");
    }
}

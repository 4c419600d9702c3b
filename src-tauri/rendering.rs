//! Picks how windows are drawn, before GTK starts: without a graphics driver, and in the way that this machine needs.

use everdict_app::rendering::{RENDERER_VAR, Renderer};
use everdict_exec::HostEnv;

/// GDK tries OpenGL when it connects to the screen, only to sort the screen's visuals. That loads the driver, 30 MB where
/// it is Mesa's, into an app that shows a tray icon.
const GDK_GL: (&str, &str) = ("GDK_GL", "disable");

/// Sets the variables that GTK and WebKit read; what the person set stays. Only before any thread runs. Jobs don't see
/// them: their environment was captured before.
pub fn choose(env: &HostEnv) {
    if !cfg!(target_os = "linux") {
        return;
    }
    set_unless_set(env, GDK_GL.0, GDK_GL.1);
    // Some NVIDIA drivers show a blank window with the faster way.
    if Renderer::of_this_machine(env).is_some_and(|renderer| renderer.needs_fallback()) {
        set_unless_set(env, RENDERER_VAR, "1");
    }
}

fn set_unless_set(env: &HostEnv, name: &str, value: &str) {
    if env.get(name).is_some() {
        return;
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "GTK and WebKit have no other switch, and no thread of this process has started yet"
    )]
    // SAFETY: called first in main, so nothing reads the environment at the same time.
    unsafe {
        std::env::set_var(name, value);
    }
}

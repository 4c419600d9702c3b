//! Makes each web view a lean one before its page begins, and gives back what the last one leaves behind.
//!
//! The page is text with a few pictures. Drawn by the CPU it needs no graphics driver in the web process, which is half of
//! its memory where there is no graphics card, and no window stays blank because of a driver. What else a browser has and
//! this page doesn't use is off as well: memory, and ways into the process.

use std::time::Duration;

use gtk::glib;
use gtk::glib::translate::{FromGlibPtrNone as _, IntoGlib as _};
use gtk::glib::{gobject_ffi, prelude::*};
use rustix::process::{Pid, Signal, kill_process};
use tauri::AppHandle;
use webkit2gtk::{
    CacheModel, HardwareAccelerationPolicy, Settings, SettingsExt as _, WebContextExt as _, WebView,
    WebViewExt,
};

/// What a page has stored is on the disk by then, and somebody who closed the window by mistake has it back.
const LINGER: Duration = Duration::from_secs(3);

/// The kernel cuts names at 15 characters: WebKitNetworkProcess.
const NETWORK_PROCESS: &str = "WebKitNetworkPr";

/// Whether these are on by default or turned on by wry, the page has no use for them.
const UNUSED: [&str; 9] = [
    "enable-dns-prefetching",
    "enable-encrypted-media",
    "enable-html5-database",
    "enable-media",
    "enable-media-stream",
    "enable-mediasource",
    "enable-page-cache",
    "enable-webaudio",
    "enable-webgl",
];

/// Has every web view of this process made lean. To be called once, on the thread of the windows, before the first.
///
/// Tauri makes a view and loads its page in one step, and by then it is settled how the process of the page draws. In
/// between the view is put into its window: GTK tells of that.
pub fn keep_lean() {
    // SAFETY: the signal exists as soon as the class is registered, which asking for the type does; the hook has the shape
    // that GObject calls, needs no data, and is never removed.
    unsafe {
        let signal =
            gobject_ffi::g_signal_lookup(c"parent-set".as_ptr(), gtk::Widget::static_type().into_glib());
        gobject_ffi::g_signal_add_emission_hook(signal, 0, Some(on_parent_set), std::ptr::null_mut(), None);
    }
}

unsafe extern "C" fn on_parent_set(
    _hint: *mut gobject_ffi::GSignalInvocationHint,
    count: u32,
    values: *const gobject_ffi::GValue,
    _data: glib::ffi::gpointer,
) -> glib::ffi::gboolean {
    if count > 0 {
        // SAFETY: GObject passes `count` values, of which the first is the widget that the signal is about; it lives on
        // while the signal is told.
        let widget: Option<glib::Object> = unsafe {
            let widget = gobject_ffi::g_value_get_object(values);
            (!widget.is_null()).then(|| glib::Object::from_glib_none(widget))
        };
        if let Some(view) = widget.and_then(|widget| widget.downcast::<WebView>().ok()) {
            make_lean(&view);
        }
    }
    // Called again for the next one.
    glib::ffi::GTRUE
}

fn make_lean(view: &WebView) {
    // GTK's widgets have settings of their own.
    if let Some(settings) = WebViewExt::settings(view) {
        settings.set_hardware_acceleration_policy(HardwareAccelerationPolicy::Never);
        turn_off_unused(&settings);
    }
    if let Some(context) = view.context() {
        // One page, served from memory: nothing to cache, neither here nor on the disk.
        context.set_cache_model(CacheModel::DocumentViewer);
    }
}

/// A WebKit that has dropped or doesn't know a setting yet has nothing to turn off.
fn turn_off_unused(settings: &Settings) {
    for name in UNUSED {
        if settings.find_property(name).is_some() {
            settings.set_property(name, false);
        }
    }
}

/// Ends the process that WebKit keeps for the network after its last window: 30 MB for a page that never uses one. WebKit
/// takes its end for that of any of its processes and starts another with the next window.
pub async fn give_back(app: AppHandle) {
    tokio::time::sleep(LINGER).await;
    if crate::window::is_open(&app) {
        return;
    }
    for process in children_named(NETWORK_PROCESS) {
        if let Err(error) = kill_process(process, Signal::TERM) {
            tracing::debug!(%error, "WebKit's network process can't be ended");
        }
    }
}

/// Children of any thread of this process. Their numbers are not given to others before they have been waited for.
fn children_named(name: &str) -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let listed: Vec<String> = threads
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .collect();
    listed
        .iter()
        .flat_map(|children| children.split_whitespace())
        .filter(|child| {
            std::fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim_end() == name)
        })
        .filter_map(|child| Pid::from_raw(child.parse().ok()?))
        .collect()
}

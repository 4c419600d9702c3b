//! What a start of the program asks for, decided before anything touches the screen.

use std::ffi::OsString;
use std::process::ExitCode;

use everdict_exec::HostEnv;

use crate::tray_host::TrayHost;

const USAGE: &str = "Everdict Runner: a tray icon and a window for the runners of this machine

Usage: everdict-desktop [--show | --hidden | everdict://pair?…]

  everdict://pair?…
             open the window with this pairing link filled in; it pairs once you confirm it there
  --show     open the window at once
  --hidden   never open the window at start, even where no tray icon can be shown
  --version  print the version
  --help     print this text

Without an option the window opens only where no tray icon can be shown.
A second start opens the window of the first.";

/// When the window opens by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// At once.
    Always,
    /// Only where nothing shows tray icons, so that the app is never invisible.
    WithoutTray,
    /// Never.
    Never,
}

impl Opening {
    /// Tells whether this start opens the window.
    pub fn opens(self, tray: TrayHost) -> bool {
        match self {
            Self::Always => true,
            Self::WithoutTray => tray == TrayHost::Missing,
            Self::Never => false,
        }
    }
}

/// A start that makes sense.
#[derive(Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Print this and end.
    Print(String),
    /// Run the app.
    Run(Opening),
    /// Run the app, and show what a link asks for.
    Link(String),
}

/// Why a start is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The command line holds something unknown.
    #[error("unknown argument '{0}'; --help lists what there is")]
    Argument(String),
    /// Two options contradict each other.
    #[error("--show and --hidden contradict each other; give one of them")]
    Contradiction,
    /// Neither X11 nor Wayland is announced.
    #[error(
        "no graphical session: neither DISPLAY nor WAYLAND_DISPLAY is set; \
         start it from a desktop, or use `everdict-runner start` on a machine without one"
    )]
    NoDisplay,
    /// One is announced and doesn't answer.
    #[error("the graphical session doesn't answer: check DISPLAY, WAYLAND_DISPLAY and XAUTHORITY")]
    #[cfg(target_os = "linux")]
    DeadDisplay,
}

impl Refusal {
    /// Returns the exit code, as the command line has them: 2 for bad usage, 6 for a problem of this machine.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Argument(_) | Self::Contradiction => ExitCode::from(2),
            Self::NoDisplay => ExitCode::from(6),
            #[cfg(target_os = "linux")]
            Self::DeadDisplay => ExitCode::from(6),
        }
    }
}

/// Reads a command line (without the program's name) in the given environment.
///
/// # Errors
/// Says what is wrong with the arguments first, then whether the screen is missing.
pub fn read(args: impl IntoIterator<Item = OsString>, env: &HostEnv) -> Result<Invocation, Refusal> {
    let invocation = parse(args)?;
    // GTK panics without a display, with a stack trace in place of a sentence.
    if invocation.is_run() && cfg!(target_os = "linux") && !has_display(env) {
        return Err(Refusal::NoDisplay);
    }
    Ok(invocation)
}

/// Connects to the screen; Tauri would panic where this refuses.
///
/// # Errors
/// The screen is announced and doesn't answer.
#[cfg(target_os = "linux")]
pub fn connect_display() -> Result<(), Refusal> {
    gtk::init().map_err(|_| Refusal::DeadDisplay)
}

/// Connects to the screen, which is always there.
#[cfg(not(target_os = "linux"))]
pub fn connect_display() -> Result<(), Refusal> {
    Ok(())
}

/// Reads a command line (without the program's name).
///
/// # Errors
/// Unknown or contradicting arguments.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, Refusal> {
    let mut opening = Opening::WithoutTray;
    let mut link = None;
    for arg in args {
        let wanted = match arg.to_str() {
            // Whatever is wrong with it is told in the window, where the person who followed it looks.
            Some(text) if is_link(text) => {
                link = Some(text.to_owned());
                continue;
            }
            Some("--show") => Opening::Always,
            Some("--hidden") => Opening::Never,
            Some("--version") => return Ok(Invocation::Print(env!("CARGO_PKG_VERSION").to_owned())),
            Some("--help") => return Ok(Invocation::Print(USAGE.to_owned())),
            _ => return Err(Refusal::Argument(arg.to_string_lossy().into_owned())),
        };
        if opening != Opening::WithoutTray && opening != wanted {
            return Err(Refusal::Contradiction);
        }
        opening = wanted;
    }
    Ok(link.map_or(Invocation::Run(opening), Invocation::Link))
}

/// A desktop hands over what was clicked as it is; any scheme will do, so that a wrong one gets its sentence.
fn is_link(text: &str) -> bool {
    !text.starts_with('-') && (text.contains("://") || text.to_ascii_lowercase().starts_with("everdict:"))
}

impl Invocation {
    fn is_run(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Link(_))
    }
}

fn has_display(env: &HostEnv) -> bool {
    ["WAYLAND_DISPLAY", "DISPLAY"]
        .into_iter()
        .any(|name| env.get(name).is_some_and(|value| !value.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    #[test]
    fn the_window_opens_by_itself_only_where_no_tray_icon_shows() {
        let Ok(Invocation::Run(opening)) = parse(args(&[])) else {
            panic!("no argument is a start");
        };
        assert!(opening.opens(TrayHost::Missing));
        assert!(!opening.opens(TrayHost::Present));
    }

    #[test]
    fn an_option_overrules_the_tray() {
        assert_eq!(parse(args(&["--show"])), Ok(Invocation::Run(Opening::Always)));
        assert_eq!(parse(args(&["--hidden"])), Ok(Invocation::Run(Opening::Never)));
        assert!(Opening::Always.opens(TrayHost::Present));
        assert!(!Opening::Never.opens(TrayHost::Missing));
    }

    #[test]
    fn a_link_is_taken_as_it_is_and_an_option_is_no_link() {
        let link = "everdict://pair?token=x";
        assert_eq!(parse(args(&[link])), Ok(Invocation::Link(link.to_owned())));
        assert_eq!(
            parse(args(&["--hidden", link])),
            Ok(Invocation::Link(link.to_owned()))
        );
        assert!(matches!(
            parse(args(&["javascript://x"])),
            Ok(Invocation::Link(_))
        ));
        assert!(matches!(
            parse(args(&["--show=everdict://x"])),
            Err(Refusal::Argument(_))
        ));
    }

    #[test]
    fn a_wrong_command_line_names_the_argument() {
        assert_eq!(parse(args(&["--shwo"])), Err(Refusal::Argument("--shwo".into())));
        assert_eq!(parse(args(&["--show", "--hidden"])), Err(Refusal::Contradiction));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn no_display_is_a_sentence_and_help_needs_none() {
        let bare = HostEnv::from_pairs([("DISPLAY", "")]);
        assert_eq!(read(args(&[]), &bare), Err(Refusal::NoDisplay));
        assert!(matches!(read(args(&["--help"]), &bare), Ok(Invocation::Print(_))));
        for name in ["DISPLAY", "WAYLAND_DISPLAY"] {
            let env = HostEnv::from_pairs([(name, "x")]);
            assert!(matches!(read(args(&[]), &env), Ok(Invocation::Run(_))), "{name}");
        }
    }
}

//! The tray icon: what it says is a pure function of a small state; the rest hands that to the system.

use tauri::image::Image;
use tauri::menu::{Menu, MenuItem, PredefinedMenuItem};
use tauri::tray::{TrayIcon, TrayIconBuilder};
use tauri::{AppHandle, Wry};

use crate::runners::Runners;
use crate::window;
use crate::words::Words;

const OPEN: &str = "open";
const QUIT: &str = "quit";

/// The silhouette in the panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glyph {
    /// A broken ring: this app has no answer of a hub.
    Offline,
    /// A ring with a dot: something here needs the person.
    Attention,
}

impl Glyph {
    fn image(self) -> Image<'static> {
        match self {
            Self::Offline => tauri::include_image!("icons/tray-offline.png"),
            Self::Attention => tauri::include_image!("icons/tray-attention.png"),
        }
    }
}

/// What the tray shows.
#[derive(Debug, PartialEq, Eq)]
pub struct TrayModel {
    /// The silhouette.
    pub glyph: Glyph,
    /// The first, disabled line of the menu; also the tooltip.
    pub state_line: String,
    /// Text of the entry that opens the window.
    pub open: String,
    /// Text of the entry that ends the app.
    pub quit: String,
}

impl TrayModel {
    /// Puts the state of the pairings into words.
    pub fn new(runners: &Runners, words: &Words) -> Self {
        let (glyph, state_line) = match runners {
            Runners::Unpaired => (Glyph::Offline, words.text("state.notPaired").to_owned()),
            Runners::Paired { registrations } => {
                (Glyph::Offline, words.count("state.paired", registrations.len()))
            }
            Runners::Unreadable { .. } => (Glyph::Attention, words.text("tray.state.unreadable").to_owned()),
        };
        Self {
            glyph,
            state_line,
            open: words.text("tray.open").to_owned(),
            quit: words.text("tray.quit").to_owned(),
        }
    }
}

/// The icon in the panel with the parts that change.
pub struct Tray {
    icon: TrayIcon<Wry>,
    state_line: MenuItem<Wry>,
    shown: TrayModel,
}

impl Tray {
    /// Puts the icon into the panel.
    ///
    /// # Errors
    /// The system's reason why it can't.
    pub fn build(app: &AppHandle, model: TrayModel) -> tauri::Result<Self> {
        let state_line = MenuItem::with_id(app, "state", &model.state_line, false, None::<&str>)?;
        let open = MenuItem::with_id(app, OPEN, &model.open, true, None::<&str>)?;
        let quit = MenuItem::with_id(app, QUIT, &model.quit, true, None::<&str>)?;
        let below_state = PredefinedMenuItem::separator(app)?;
        let menu = Menu::with_items(app, &[&state_line, &below_state, &open, &quit])?;
        let icon = TrayIconBuilder::with_id("main")
            .icon(model.glyph.image())
            .icon_as_template(true)
            .tooltip(&model.state_line)
            .menu(&menu)
            .on_menu_event(|app, event| match event.id().as_ref() {
                OPEN => window::open_or_report(app),
                QUIT => app.exit(0),
                _ => {}
            })
            .build(app)?;
        Ok(Self {
            icon,
            state_line,
            shown: model,
        })
    }

    /// Shows `model`; writes only what changed, since a rewritten entry loses the click that is on its way.
    ///
    /// # Errors
    /// The system's reason why it can't.
    pub fn show(&mut self, model: TrayModel) -> tauri::Result<()> {
        if model.state_line != self.shown.state_line {
            self.state_line.set_text(&model.state_line)?;
            self.icon.set_tooltip(Some(&model.state_line))?;
        }
        if model.glyph != self.shown.glyph {
            self.icon
                .set_icon_with_as_template(Some(model.glyph.image()), true)?;
        }
        self.shown = model;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runners::Registration;
    use everdict_exec::HostEnv;

    fn model(runners: &Runners, lang: &str) -> TrayModel {
        TrayModel::new(
            runners,
            &Words::for_session(&HostEnv::from_pairs([("LANG", lang)])),
        )
    }

    #[test]
    fn an_unpaired_machine_says_so_and_is_never_shown_as_ready() {
        assert_eq!(
            model(&Runners::Unpaired, "C"),
            TrayModel {
                glyph: Glyph::Offline,
                state_line: "Not paired".into(),
                open: "Open Everdict Runner".into(),
                quit: "Quit".into(),
            }
        );
    }

    #[test]
    fn pairings_are_counted_in_the_persons_language() {
        let registration = Registration {
            label: "a".into(),
            hub: "http://127.0.0.1:1".into(),
            runtime: "self:a".into(),
        };
        let paired = Runners::Paired {
            registrations: vec![registration.clone(), registration],
        };
        assert_eq!(model(&paired, "C").state_line, "Paired: 2");
        assert_eq!(model(&paired, "ko_KR.UTF-8").state_line, "연결됨: 2");
    }

    #[test]
    fn pairings_that_cannot_be_read_need_the_person() {
        let unreadable = Runners::Unreadable {
            reason: "permission denied".into(),
            next_step: None,
        };
        let shown = model(&unreadable, "C");
        assert_eq!(shown.glyph, Glyph::Attention);
        assert!(shown.state_line.starts_with("Unknown"));
    }
}

//! The tray icon: hands a [`TrayModel`] to the system and gives back what was pressed.

pub mod model;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tauri::image::Image;
use tauri::menu::{CheckMenuItem, Menu, MenuItem, PredefinedMenuItem, Submenu};
use tauri::tray::{TrayIcon, TrayIconBuilder};
use tauri::{AppHandle, Wry};

pub use model::{Action, Glyph, Item, Stage, TrayModel};

/// What each entry does, by the id that the system knows it by.
type Actions = Arc<Mutex<HashMap<String, Action>>>;

/// The icon in the panel with its menu.
pub struct Tray {
    app: AppHandle,
    icon: TrayIcon<Wry>,
    actions: Actions,
    entries: Vec<Entry>,
    shown: TrayModel,
    /// Makes the ids of one menu differ from those of the one before.
    generation: u64,
}

/// An entry as the system has it, in the order of the model, those of a submenu right after it.
enum Entry {
    Plain(MenuItem<Wry>),
    Check(CheckMenuItem<Wry>),
    More(Submenu<Wry>),
    Rule,
}

impl Glyph {
    fn image(self) -> Image<'static> {
        match self {
            Self::Idle => tauri::include_image!("icons/tray-idle.png"),
            Self::Busy => tauri::include_image!("icons/tray-busy.png"),
            Self::Paused => tauri::include_image!("icons/tray-paused.png"),
            Self::Attention => tauri::include_image!("icons/tray-attention.png"),
            Self::Offline => tauri::include_image!("icons/tray-offline.png"),
        }
    }
}

impl Tray {
    /// Puts the icon into the panel; `pressed` gets what the person wants.
    ///
    /// # Errors
    /// The system's reason why it can't.
    pub fn build(
        app: &AppHandle,
        model: TrayModel,
        pressed: impl Fn(&AppHandle, Action) + Send + Sync + 'static,
    ) -> tauri::Result<Self> {
        let actions = Actions::default();
        let mut making = Making::new(app, 0);
        let menu = making.menu(&model.items)?;
        let known = Arc::clone(&actions);
        let icon = TrayIconBuilder::with_id("main")
            .icon(model.glyph.image())
            .icon_as_template(true)
            .tooltip(&model.tooltip)
            .menu(&menu)
            .on_menu_event(move |app, event| {
                let action = lock(&known).get(event.id().as_ref()).cloned();
                if let Some(action) = action {
                    pressed(app, action);
                }
            })
            .build(app)?;
        *lock(&actions) = making.actions;
        Ok(Self {
            app: app.clone(),
            icon,
            actions,
            entries: making.entries,
            shown: model,
            generation: 0,
        })
    }

    /// Shows `model`; writes only what changed, since a rewritten entry loses the click that is on its way.
    ///
    /// # Errors
    /// The system's reason why it can't.
    pub fn show(&mut self, model: TrayModel) -> tauri::Result<()> {
        if shape(&model.items) == shape(&self.shown.items) {
            self.rewrite(&model)?;
        } else {
            self.generation += 1;
            let mut making = Making::new(&self.app, self.generation);
            let menu = making.menu(&model.items)?;
            // The new ids are known before they can be pressed; the old ones may still be on their way.
            lock(&self.actions).extend(making.actions.clone());
            self.icon.set_menu(Some(menu))?;
            *lock(&self.actions) = making.actions;
            self.entries = making.entries;
        }
        if model.tooltip != self.shown.tooltip {
            self.icon.set_tooltip(Some(&model.tooltip))?;
        }
        if model.glyph != self.shown.glyph {
            self.icon
                .set_icon_with_as_template(Some(model.glyph.image()), true)?;
        }
        self.shown = model;
        Ok(())
    }

    fn rewrite(&self, model: &TrayModel) -> tauri::Result<()> {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        flat(&self.shown.items, &mut old);
        flat(&model.items, &mut new);
        for ((entry, old), new) in self.entries.iter().zip(old).zip(new) {
            let text = Some(text(new)).filter(|new| *new != text(old));
            match entry {
                Entry::Plain(item) => text.map_or(Ok(()), |text| item.set_text(text))?,
                Entry::More(menu) => text.map_or(Ok(()), |text| menu.set_text(text))?,
                Entry::Check(item) => {
                    text.map_or(Ok(()), |text| item.set_text(text))?;
                    // The system flips a switch when it is pressed, whatever comes of it.
                    if let Item::Switch(_, _, on) = new
                        && item.is_checked()? != *on
                    {
                        item.set_checked(*on)?;
                    }
                }
                Entry::Rule => {}
            }
        }
        Ok(())
    }
}

/// Makes the entries of one menu.
struct Making<'a> {
    app: &'a AppHandle,
    generation: u64,
    entries: Vec<Entry>,
    actions: HashMap<String, Action>,
}

impl<'a> Making<'a> {
    fn new(app: &'a AppHandle, generation: u64) -> Self {
        Self {
            app,
            generation,
            entries: Vec::new(),
            actions: HashMap::new(),
        }
    }

    fn menu(&mut self, items: &[Item]) -> tauri::Result<Menu<Wry>> {
        let menu = Menu::new(self.app)?;
        for item in items {
            self.entry(item, &|made| menu.append(made))?;
        }
        Ok(menu)
    }

    fn entry(
        &mut self,
        item: &Item,
        append: &dyn Fn(&dyn tauri::menu::IsMenuItem<Wry>) -> tauri::Result<()>,
    ) -> tauri::Result<()> {
        let id = format!("{}-{}", self.generation, self.entries.len());
        match item {
            Item::Line(text) => {
                let made = MenuItem::with_id(self.app, id, text, false, None::<&str>)?;
                append(&made)?;
                self.entries.push(Entry::Plain(made));
            }
            Item::Separator => {
                append(&PredefinedMenuItem::separator(self.app)?)?;
                self.entries.push(Entry::Rule);
            }
            Item::Press(action, text) => {
                let made = MenuItem::with_id(self.app, id.clone(), text, true, None::<&str>)?;
                append(&made)?;
                self.entries.push(Entry::Plain(made));
                self.actions.insert(id, action.clone());
            }
            Item::Switch(action, text, on) => {
                let made = CheckMenuItem::with_id(self.app, id.clone(), text, true, *on, None::<&str>)?;
                append(&made)?;
                self.entries.push(Entry::Check(made));
                self.actions.insert(id, action.clone());
            }
            Item::More(text, items) => {
                let made = Submenu::with_id(self.app, id, text, true)?;
                append(&made)?;
                self.entries.push(Entry::More(made.clone()));
                for item in items {
                    self.entry(item, &|entry| made.append(entry))?;
                }
            }
        }
        Ok(())
    }
}

/// The items without their texts: two menus of one shape differ only in words and switches.
fn shape(items: &[Item]) -> Vec<(u8, Option<Action>)> {
    let mut all = Vec::new();
    flat(items, &mut all);
    let one = |item: &&Item| match item {
        Item::Line(_) => (0, None),
        Item::Separator => (1, None),
        Item::Press(action, _) => (2, Some(action.clone())),
        Item::Switch(action, _, _) => (3, Some(action.clone())),
        Item::More(_, items) => (
            4_u8.saturating_add(u8::try_from(items.len()).unwrap_or(u8::MAX)),
            None,
        ),
    };
    all.iter().map(one).collect()
}

fn flat<'a>(items: &'a [Item], all: &mut Vec<&'a Item>) {
    for item in items {
        all.push(item);
        if let Item::More(_, items) = item {
            flat(items, all);
        }
    }
}

fn text(item: &Item) -> &str {
    match item {
        Item::Separator => "",
        Item::Line(text) | Item::Press(_, text) | Item::Switch(_, text, _) | Item::More(text, _) => text,
    }
}

fn lock(actions: &Actions) -> std::sync::MutexGuard<'_, HashMap<String, Action>> {
    actions.lock().unwrap_or_else(PoisonError::into_inner)
}

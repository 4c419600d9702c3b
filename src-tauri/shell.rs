//! Puts the parts together and runs the event loop.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use everdict_app::control::{AppEvent, AppSnapshot, AutostartState, Control, ControlOptions, Leave};
use everdict_app::rendering::Renderer;
use everdict_app::update::{Trial, UpdateOptions};
use everdict_app::{Autostart, ContainerOptions, EnvSecrets, Paths, Problem, Settings};
use everdict_exec::HostEnv;
use tauri::{App, AppHandle, Manager as _, RunEvent};
use tokio::runtime::{Handle, Runtime};
use tokio_util::task::TaskTracker;

use crate::blank::BlankWatch;
use crate::startup::{self, Invocation, Opening};
use crate::subscriptions::Subscriptions;
use crate::tray::{Action, Stage, Tray, TrayModel};
use crate::tray_host::TrayHost;
use crate::words::Words;
use crate::{commands, notifier, updates, window};

/// One thread for the hub and its runners, one for the windows; more only cost memory.
const WORKERS: usize = 2;

/// How old the tray's "12 min ago" may get.
const TRAY_PERIOD: Duration = Duration::from_secs(30);

/// What the page's commands, the tray and the end of the app share.
pub struct Desktop {
    control: Arc<Control>,
    subscriptions: Subscriptions,
    blank: BlankWatch,
    /// The program that takes over after the end.
    next: OnceLock<updates::Next>,
    trial: Trial,
    tasks: TaskTracker,
    leaving: AtomicBool,
}

impl Desktop {
    /// Returns what does the work.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Returns what does the work, for a task that may outlive a window.
    pub fn shared_control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// Returns what the windows follow.
    pub fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// Returns what notices a blank window.
    pub fn blank_watch(&self) -> &BlankWatch {
        &self.blank
    }

    /// Runs `work` until it ends or the app does.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(work, tauri::async_runtime::handle().inner());
    }

    fn stage(&self) -> Stage {
        if self.leaving.load(Ordering::Relaxed) {
            Stage::Leaving
        } else {
            Stage::Working
        }
    }
}

/// Runs the app until someone quits it.
#[expect(
    clippy::disallowed_methods,
    reason = "the code of generate_context! holds an exit of Tauri's own"
)]
pub fn run(env: HostEnv, invocation: Invocation) -> ExitCode {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(problem) => return refuse(&problem),
    };
    tauri::async_runtime::set(runtime.handle().clone());
    let words = Words::for_session(&env);
    // What went wrong in the set-up, in our words: Tauri's own error only repeats it.
    let failed = Arc::new(OnceLock::new());
    let failure = Arc::clone(&failed);
    let handle = runtime.handle().clone();
    let built = tauri::Builder::default()
        // First of all, so that a second start does nothing but open the window of the first.
        .plugin(tauri_plugin_single_instance::init(|app, argv, _cwd| {
            second_start(app, argv);
        }))
        .invoke_handler(commands::handler())
        .on_window_event(window::on_event)
        .setup(move |app| {
            let host = handle.block_on(TrayHost::probe());
            let renderer = Renderer::of_this_machine(&env);
            match start_control(&handle, env, host) {
                Ok((control, later)) => {
                    let parts = Parts {
                        control,
                        renderer,
                        words,
                        later,
                    };
                    Ok(set_up(app, &handle, parts, opens(&invocation, host))?)
                }
                Err(problem) => {
                    let told = problem.to_string();
                    let _ = failure.set(problem);
                    Err(told.into())
                }
            }
        })
        .build(tauri::generate_context!());
    go(built, failed.get())
}

fn go(built: tauri::Result<App>, failed: Option<&Problem>) -> ExitCode {
    match (built, failed) {
        (Ok(app), _) => {
            app.run(|_app, event| {
                // The last window closed: stay in the tray. Quit carries a code and passes.
                if let RunEvent::ExitRequested { code: None, api, .. } = event {
                    api.prevent_exit();
                }
            });
            ExitCode::SUCCESS
        }
        (Err(_), Some(problem)) => refuse(problem),
        (Err(error), None) => {
            eprintln!("everdict-desktop: can't start: {error}");
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> Result<Runtime, Problem> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .map_err(|error| Problem::machine("can't start threads").because(error))
}

fn refuse(problem: &Problem) -> ExitCode {
    let fix = problem
        .next_step()
        .map(|step| format!("; {step}"))
        .unwrap_or_default();
    eprintln!("everdict-desktop: {}{fix}", problem.chain());
    ExitCode::FAILURE
}

/// After the plugin has made sure that this is the only instance: nobody leases twice.
fn start_control(handle: &Handle, env: HostEnv, host: TrayHost) -> Result<(Control, Later), Problem> {
    let paths = Paths::from_env(&env)?;
    updates::count_start(paths.state_dir());
    let settings = Settings::load(&paths.settings_file())?;
    let autostart = Autostart::of_this_program(&env);
    let _inside = handle.enter();
    let env = Arc::new(env);
    let version = env!("CARGO_PKG_VERSION");
    let later = Later {
        update: UpdateOptions::new(&settings, &paths, version, &env),
        state_dir: paths.state_dir().to_owned(),
    };
    let control = Control::start(ControlOptions {
        program: "the desktop app",
        containers: ContainerOptions::new(&paths, &settings, everdict_app::host_name()),
        secrets: EnvSecrets::from_env(&env),
        env,
        paths,
        settings,
        version: version.to_owned(),
        tray_host: host == TrayHost::Present,
        autostart,
    })?;
    Ok((control, later))
}

/// What begins once the tray shows.
struct Later {
    update: Option<UpdateOptions>,
    state_dir: PathBuf,
}

fn begin(app: &AppHandle, control: &Arc<Control>, words: Words, later: Later) {
    let desktop = app.state::<Desktop>();
    desktop.spawn(notifier::tell(Arc::clone(control), words));
    desktop.spawn(updates::outlive_the_trial(Trial::in_dir(&later.state_dir)));
    if let Some(options) = later.update {
        desktop.spawn(updates::keep_looking(app.clone(), Arc::clone(control), options));
    }
}

/// What the app is made of.
struct Parts {
    control: Control,
    renderer: Option<Renderer>,
    words: Words,
    later: Later,
}

/// What to open at the start.
enum Open {
    Nothing,
    Window,
    Link(String),
}

fn opens(invocation: &Invocation, host: TrayHost) -> Open {
    match invocation {
        Invocation::Link(link) => Open::Link(link.clone()),
        Invocation::Run(opening) if opening.opens(host) => Open::Window,
        Invocation::Run(_) | Invocation::Print(_) => Open::Nothing,
    }
}

fn set_up(app: &App, handle: &Handle, parts: Parts, open: Open) -> tauri::Result<()> {
    let (control, words) = (Arc::new(parts.control), parts.words);
    app.manage(Desktop {
        control: Arc::clone(&control),
        subscriptions: Subscriptions::default(),
        blank: BlankWatch::new(parts.renderer),
        next: OnceLock::new(),
        trial: Trial::in_dir(&parts.later.state_dir),
        tasks: TaskTracker::new(),
        leaving: AtomicBool::new(false),
    });
    let model = TrayModel::new(&control.snapshot(), Stage::Working, &words, now());
    let tray = Tray::build(app.handle(), model, press)?;
    let (tray_app, tray_handle, tray_words) = (app.handle().clone(), handle.clone(), words.clone());
    std::thread::Builder::new()
        .name("tray".to_owned())
        .spawn(move || keep_tray_true(&tray_app, tray, &tray_handle, &tray_words))?;
    begin(app.handle(), &control, words, parts.later);
    let signalled = app.handle().clone();
    app.state::<Desktop>()
        .tasks
        .spawn_on(leave_on_signal(signalled), handle);
    match open {
        Open::Nothing => Ok(()),
        Open::Window => window::open(app.handle()),
        Open::Link(link) => {
            control.open_link(&link);
            window::open(app.handle())
        }
    }
}

/// A thread of its own, since each entry waits for the event loop.
fn keep_tray_true(app: &AppHandle, mut tray: Tray, handle: &Handle, words: &Words) {
    let desktop = app.state::<Desktop>();
    let mut watch = desktop.control.watch();
    loop {
        let next = handle.block_on(async { tokio::time::timeout(TRAY_PERIOD, watch.next()).await });
        let snapshot: AppSnapshot = match next {
            Ok(Some(AppEvent::Snapshot { snapshot, .. })) => *snapshot,
            Ok(Some(AppEvent::Job { .. })) => continue,
            Ok(None) => return,
            Err(_elapsed) => desktop.control.snapshot(),
        };
        if let Err(error) = tray.show(TrayModel::new(&snapshot, desktop.stage(), words, now())) {
            tracing::warn!(%error, "can't update the tray icon");
        }
    }
}

fn now() -> i64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Does what was pressed in the tray.
fn press(app: &AppHandle, action: Action) {
    match action {
        Action::Open | Action::Pair => window::open_or_report(app),
        Action::Log(job) => window::open_at_job(app, &job),
        Action::Stay => window::close(app),
        Action::Quit => leave(app, Leave::AfterJobs),
        Action::QuitNow => leave(app, Leave::Now),
        wish => {
            let desktop = app.state::<Desktop>();
            let control = Arc::clone(&desktop.control);
            desktop
                .tasks
                .spawn_on(carry_out(control, wish), tauri::async_runtime::handle().inner());
        }
    }
}

async fn carry_out(control: Arc<Control>, wish: Action) {
    let done = match wish {
        Action::Pause(seconds) => control.pause(seconds).await,
        Action::FinishThenPause => control.finish_then_pause().await,
        Action::Resume => control.resume().await,
        Action::Autostart => control.set_autostart(control.snapshot().autostart != AutostartState::On),
        Action::Stop(job) => control.stop_job(&job),
        Action::Capability(name) => {
            let found = control
                .snapshot()
                .capabilities
                .into_iter()
                .find(|found| found.name == name);
            control
                .set_capability(&name, found.is_some_and(|found| !found.on))
                .await
        }
        Action::Open | Action::Pair | Action::Log(_) | Action::Stay | Action::Quit | Action::QuitNow => {
            Ok(())
        }
    };
    if let Err(problem) = done {
        tracing::warn!(problem = %problem.chain(), "what was pressed in the tray could not be done");
    }
}

/// Ends the app as [`leave`] does, to go on as another program.
pub fn leave_for(app: &AppHandle, next: updates::Next) {
    let _ = app.state::<Desktop>().next.set(next);
    leave(app, Leave::AfterJobs);
}

/// Ends the app once everything here has ended. Asked again with [`Leave::Now`] it stops waiting for jobs.
fn leave(app: &AppHandle, how: Leave) {
    let desktop = app.state::<Desktop>();
    if desktop.leaving.swap(true, Ordering::Relaxed) {
        if how == Leave::Now {
            desktop.control.hurry();
        }
        return;
    }
    let (control, app) = (Arc::clone(&desktop.control), app.clone());
    let leaving = async move {
        control.leave(how).await;
        let desktop = app.state::<Desktop>();
        // An orderly end is no failure of a version that is on trial.
        desktop.trial.forgive();
        if let Some(next) = desktop.next.get() {
            let error = next.take_over();
            tracing::warn!(%error, "the next program did not take over");
        }
        app.exit(0);
    };
    desktop
        .tasks
        .spawn_on(leaving, tauri::async_runtime::handle().inner());
}

/// The session ends, or somebody at a terminal has had enough.
#[cfg(unix)]
async fn leave_on_signal(app: AppHandle) {
    use tokio::signal::unix::{SignalKind, signal};

    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::warn!("can't listen for signals; they end the app at once");
        return;
    };
    loop {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        leave(&app, Leave::Now);
    }
}

/// Elsewhere the system tells through the event loop.
#[cfg(not(unix))]
async fn leave_on_signal(_app: AppHandle) {}

fn second_start(app: &AppHandle, argv: Vec<String>) {
    // The first argument is the program's name. A start that only wanted the app to be there has that already.
    match startup::parse(argv.into_iter().skip(1).map(Into::into)) {
        Ok(Invocation::Run(Opening::Never)) => {}
        Ok(Invocation::Link(link)) => {
            app.state::<Desktop>().control.open_link(&link);
            window::open_or_report(app);
        }
        _ => window::open_or_report(app),
    }
}

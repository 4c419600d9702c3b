//! `ui`: the window in a browser, with the runners and the hub of this machine behind it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use everdict_app::control::{Control, ControlOptions, Leave};
use everdict_app::{ContainerOptions, Page, Panel, Problem, Result, host_name};
use serde_json::json;

use crate::args::UiArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::signals::{Signals, Stop};

pub(crate) async fn run(context: &Context, args: &UiArgs) -> Result<Exit> {
    let mut signals = Signals::listen(context.settings.term_deadline)
        .map_err(|error| Problem::machine("can't listen for signals").because(error))?;
    context.paths.prepare()?;
    let control = Arc::new(Control::start(options(context))?);
    if let Err(problem) = control.is_alone() {
        control.leave(Leave::Now).await;
        return Err(problem);
    }
    let listen = args.listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let panel = match Panel::start(Arc::clone(&control), listen, pages()).await {
        Ok(panel) => panel,
        Err(problem) => {
            control.leave(Leave::Now).await;
            return Err(problem);
        }
    };
    let link = panel.link();
    context.out.event(&json!({"event": "ready", "url": link}));
    context
        .out
        .say(format!("Open this link once, in one browser:\n  {link}"));
    context
        .out
        .say("The runners of this machine work while this runs; Ctrl-C ends both");
    let exit = until_stopped(context, &control, &mut signals).await;
    panel.stop().await;
    context.out.event(&json!({"event": "stopped"}));
    Ok(exit)
}

/// Follows the signals until everything has ended.
async fn until_stopped(context: &Context, control: &Control, signals: &mut Signals) -> Exit {
    let first = match signals.next().await {
        Stop::Drain => Leave::AfterJobs,
        Stop::Cancel => Leave::Now,
        Stop::Leave => return Exit::Interrupted,
    };
    context.out.say("Finishing what runs; once more: stop it");
    let leaving = control.leave(first);
    tokio::pin!(leaving);
    let mut exit = Exit::Ok;
    loop {
        tokio::select! {
            () = &mut leaving => return exit,
            stop = signals.next() => match stop {
                Stop::Drain => {}
                Stop::Cancel => {
                    exit = Exit::Interrupted;
                    control.hurry();
                }
                Stop::Leave => return Exit::Interrupted,
            },
        }
    }
}

fn options(context: &Context) -> ControlOptions {
    ControlOptions {
        program: "everdict-runner ui",
        containers: ContainerOptions::new(&context.paths, &context.settings, host_name()),
        secrets: context.secrets.clone(),
        env: Arc::clone(&context.env),
        paths: context.paths.clone(),
        settings: context.settings.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        tray_host: false,
        autostart: None,
    }
}

fn pages() -> Vec<Page> {
    let page = |page: &everdict_pages::Page| Page {
        path: page.path,
        mime: page.mime,
        body: page.body,
    };
    everdict_pages::PAGES.iter().map(page).collect()
}

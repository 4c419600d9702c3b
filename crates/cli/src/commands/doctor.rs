//! `doctor`: checks with fixes.

use everdict_app::{Check, CheckState, Patient, Result};
use serde_json::json;

use crate::args::HubAccessArgs;
use crate::context::{API_URL_VAR, Context};
use crate::exit::Exit;
use crate::output::{Cell, Hue};

pub(crate) async fn run(context: &Context, args: &HubAccessArgs) -> Result<Exit> {
    let registrations = context.registrations().list()?;
    let named = args.hub.is_some() || context.env.get(API_URL_VAR).is_some();
    let hubs = if named || registrations.is_empty() {
        vec![context.hub(args.hub.as_deref())?]
    } else {
        Vec::new()
    };
    let findings = Patient {
        env: &context.env,
        secrets: &context.secrets,
        paths: &context.paths,
        settings: &context.settings,
        registrations: &registrations,
        hubs,
    }
    .examine()
    .await;
    let checks = &findings.checks;
    let worst = checks
        .iter()
        .map(|check| check.state)
        .max()
        .unwrap_or(CheckState::Ok);
    context.out.document(&json!({
        "ok": worst != CheckState::Fail,
        "checks": checks,
        "containers": findings.containers,
    }));
    let rows: Vec<Vec<Cell>> = checks.iter().map(row).collect();
    context.out.table(&["STATE", "CHECK", "FOUND"], &rows);
    for check in checks {
        if let Some(fix) = &check.fix {
            context.out.say(format!("  {}: {fix}", check.what));
        }
    }
    if let Some(report) = &findings.containers {
        context
            .out
            .say("\nPlaces where a container engine was looked for, in order:");
        for tried in &report.candidates {
            context.out.say(format!("  {}", tried.detail));
        }
    }
    Ok(if worst == CheckState::Fail {
        Exit::Failure
    } else {
        Exit::Ok
    })
}

fn row(check: &Check) -> Vec<Cell> {
    let state = match check.state {
        CheckState::Ok => Cell::new("ok", Hue::Good),
        CheckState::Warn => Cell::new("note", Hue::Warn),
        CheckState::Fail => Cell::new("fail", Hue::Bad),
    };
    vec![state, Cell::plain(&check.what), Cell::plain(&check.why)]
}

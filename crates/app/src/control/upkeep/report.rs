//! The report that a person copies for somebody who helps. It is masked as a whole afterwards.

use std::fmt::Write as _;

use crate::control::view::{AppSnapshot, CapabilityState, CheckMark, CheckView};

/// Enough to see what led to a fault, and short enough to paste.
pub(super) const LOG_LINES: usize = 200;

pub(super) fn text(seen: &AppSnapshot, checks: &[CheckView], log: &[String]) -> String {
    let mut text = String::new();
    write(seen, checks, log, &mut text).expect("BUG: writing to a String can't fail");
    text
}

fn write(seen: &AppSnapshot, checks: &[CheckView], log: &[String], out: &mut String) -> std::fmt::Result {
    let machine = &seen.machine;
    writeln!(out, "Everdict Runner {}", seen.version)?;
    writeln!(
        out,
        "{} · {} · {} CPUs",
        machine.system, machine.arch, machine.cpus
    )?;
    writeln!(out, "keyring: {:?} · tray host: {}", seen.keyring, seen.tray_host)?;
    writeln!(out, "state: {:?} {}", seen.state, seen.state_text)?;
    writeln!(out, "\nRunners")?;
    for runner in &seen.runners {
        let (label, hub, state, why) = (&runner.label, &runner.hub, runner.state, &runner.state_text);
        let answered = runner.last_answer_at.as_deref().unwrap_or("never");
        writeln!(
            out,
            "  {label} at {hub}: {state:?} {why} (last answer: {answered})"
        )?;
    }
    writeln!(out, "\nCapabilities")?;
    for capability in &seen.capabilities {
        let state = match capability.state {
            CapabilityState::Found => "found",
            CapabilityState::OffByYou => "off",
            CapabilityState::NotFound => "not found",
            CapabilityState::NotOffered => "not offered",
        };
        writeln!(out, "  {}: {state} ({})", capability.name, capability.reason)?;
    }
    writeln!(out, "\nChecks")?;
    for check in checks {
        let state = match check.state {
            CheckMark::Ok => "ok",
            CheckMark::Warn => "note",
            CheckMark::Fail => "fail",
            CheckMark::Off => "off",
        };
        writeln!(out, "  {state:<5} {}: {}", check.title, check.detail)?;
    }
    writeln!(out, "\nOwn log, the last {} lines", log.len())?;
    for line in log {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

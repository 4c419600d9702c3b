//! `gc`: what killed runners have left on the container engine goes, and everything is named first.

use everdict_app::{GcReport, Item, Result, clean_up, size};

use crate::args::GcArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Cell, Hue, Output};

pub(crate) async fn run(context: &Context, args: &GcArgs) -> Result<Exit> {
    let report = clean_up(
        &context.env,
        &context.paths,
        &context.settings.topology,
        args.dry_run,
    )
    .await?;
    context.out.document(&report);
    tell(&report, context.out);
    Ok(if report.left.is_empty() {
        Exit::Ok
    } else {
        Exit::Failure
    })
}

fn tell(report: &GcReport, out: Output) {
    if let Some(endpoint) = &report.found.endpoint {
        let (address, source) = (&endpoint.address, &endpoint.source);
        out.say(format!(
            "Docker {} at {address}, found through {source}",
            endpoint.version
        ));
    }
    let done = if report.dry_run { "would go" } else { "removed" };
    let mut rows = Vec::new();
    let mut list = |items: &[Item], state: &str, hue: Hue| {
        for item in items {
            rows.push(vec![
                Cell::new(state, hue),
                Cell::plain(&item.object),
                Cell::plain(&item.kind),
                Cell::plain(&item.why),
            ]);
        }
    };
    list(&report.removed, done, Hue::Good);
    list(&report.left, "stays", Hue::Bad);
    list(&report.found.ours.kept, "kept", Hue::Faint);
    if rows.is_empty() {
        out.say("Nothing of this installation is on it");
    } else {
        out.table(&["STATE", "OBJECT", "KIND", "WHY"], &rows);
    }
    images(report, done, out);
}

fn images(report: &GcReport, done: &str, out: Output) {
    let images = &report.found.images;
    let budget = images.budget_bytes.map_or_else(
        || "no limit".to_owned(),
        |budget| format!("{} allowed", size(budget)),
    );
    out.say(format!(
        "Images pulled by this runner: {}, {} ({budget})",
        images.count,
        size(images.bytes)
    ));
    for one in report.found.prepared.iter().filter(|one| one.used) {
        out.say(format!(
            "  kept, in use: {} (a database made from {})",
            one.image, one.base
        ));
    }
    for image in &report.removed_images {
        out.say(format!("  {done}: {image}"));
    }
    if report.freed_bytes > 0 {
        out.say(format!("  {} freed", size(report.freed_bytes)));
    }
}

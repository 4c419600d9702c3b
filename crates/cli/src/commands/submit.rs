//! `submit`: check every record, submit them, and with `--wait` follow them to the verdicts.

use everdict_app::dataset::{self, Defaults, HarnessChoice};
use everdict_app::{Problem, Result};
use serde_json::{Value, json};

use crate::args::SubmitArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::follow::{Submitted, follow_all, report, submit_all};
use crate::output::Cell;

pub(crate) async fn run(context: &Context, args: &SubmitArgs) -> Result<Exit> {
    let harness = match (&args.harness, &args.harness_file) {
        (Some(text), _) => Some(HarnessChoice::registered(text)?),
        (None, Some(file)) => Some(HarnessChoice::from_file(file)?),
        (None, None) => None,
    };
    let defaults = Defaults {
        harness,
        runtime: Some(args.runtime.clone()),
    };
    let all = dataset::load(&args.files, &defaults)?;
    let client = context.client(&args.access).await?;
    let submitted = submit_all(&client, all).await?;
    if !args.wait {
        list(context, &submitted);
        return Ok(Exit::Ok);
    }
    context
        .out
        .say(format!("Submitted {}, following", submitted.len()));
    tokio::select! {
        rows = follow_all(&client, &submitted, context.out) => {
            let good = report(&rows?, context.out);
            Ok(if good { Exit::Ok } else { Exit::Failure })
        }
        _ = tokio::signal::ctrl_c() => Err(Problem::new(
            everdict_app::ProblemClass::Interrupted,
            "stopped following; the runs go on at the hub",
        )
        .fix("`everdict-runner runs` lists them, `everdict-runner cancel` stops one")),
    }
}

fn list(context: &Context, submitted: &[Submitted]) {
    let document: Vec<Value> = submitted.iter().map(Submitted::document).collect();
    context.out.document(&json!({"submitted": document}));
    let rows: Vec<Vec<Cell>> = submitted
        .iter()
        .map(|run| {
            vec![
                Cell::plain(&run.case_id),
                Cell::plain(run.run.as_str()),
                Cell::plain(&run.place),
            ]
        })
        .collect();
    context.out.table(&["CASE", "RUN", "FROM"], &rows);
    context.out.say("Next: everdict-runner logs -f <run>");
}

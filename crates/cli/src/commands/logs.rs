//! `logs`: the log of a run, as it is or as it grows.

use everdict_app::{LogEvent, Result};
use everdict_contracts::RunId;
use serde_json::json;

use crate::args::LogsArgs;
use crate::context::Context;
use crate::exit::Exit;

pub(crate) async fn run(context: &Context, args: &LogsArgs) -> Result<Exit> {
    let client = context.client(&args.access).await?;
    let run = RunId::from(args.run.as_str());
    if !args.follow {
        let text = client.logs(&run).await?;
        context.out.document(&json!({"runId": run, "text": text}));
        if !text.is_empty() {
            context.out.say(text.trim_end_matches('\n'));
        }
        return Ok(Exit::Ok);
    }
    let mut follow = client.follow(&run);
    while let Some(event) = follow.next().await? {
        match event {
            LogEvent::Line(line) => {
                context.out.event(&json!({"line": line}));
                context.out.say(line);
            }
            LogEvent::Status(status) => context.out.event(&json!({"status": status.as_str()})),
            LogEvent::Resuming(why) => context.out.warn(format!("{why}; resuming")),
        }
    }
    let record = client.run(&run).await?;
    context.out.event(&json!({"status": record.status.as_str()}));
    Ok(Exit::Ok)
}

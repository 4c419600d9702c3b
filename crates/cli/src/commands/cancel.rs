//! `cancel`: stop a run.

use everdict_app::Result;
use everdict_contracts::RunId;

use crate::args::CancelArgs;
use crate::context::Context;
use crate::exit::Exit;

pub(crate) async fn run(context: &Context, args: &CancelArgs) -> Result<Exit> {
    let client = context.client(&args.access).await?;
    let record = client.cancel(&RunId::from(args.run.as_str())).await?;
    context.out.document(&record);
    context.out.say(format!(
        "Stopped run {} (case {}): {}",
        record.id,
        record.case_id,
        record.status.as_str()
    ));
    Ok(Exit::Ok)
}

//! `start`: lease and run cases with the paired runners.

use everdict_app::{Problem, ProfileLock, Result, SecretFault, StoreKind};

use crate::args::StartArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::serve;

pub(crate) async fn run(context: &Context, args: &StartArgs) -> Result<Exit> {
    let chosen = context.registrations().select(&args.runners)?;
    context.paths.prepare()?;
    let _alone = ProfileLock::take(&context.paths, "everdict-runner start")?;
    let mut plans = Vec::with_capacity(chosen.len());
    for registration in &chosen {
        let store = context.store(registration.store);
        let token = store
            .get(&registration.secret_name()?)
            .await
            .map_err(|fault| named(&registration.label, registration.store, fault))?;
        let mut plan = serve::plan(context, registration.label.clone(), registration.hub()?, token);
        if let Some(cases) = args.max_concurrent {
            plan.max_concurrent = usize::from(cases);
        }
        plans.push(plan);
    }
    let containers = serve::containers(context, &plans);
    serve::run(context, plans, containers).await
}

fn named(label: &str, kind: StoreKind, fault: SecretFault) -> Problem {
    let problem = Problem::from(fault);
    let named = Problem::new(problem.class(), format!("no token for runner {label} ({kind})"));
    match problem.next_step() {
        Some(fix) => named.fix(fix.to_owned()).because(problem),
        None => named.because(problem),
    }
}

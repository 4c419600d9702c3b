//! `pair --sign-in`: the address is printed, opened in a browser, and the answer waited for.

use std::time::Duration;

use everdict_app::{Pairing, Problem, Registration, Result, SIGN_IN_LIMIT, SignIn, Url};
use secrecy::SecretString;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::signals::Signals;

/// There is nothing to drain: the first request to stop ends the wait.
const TERM_DEADLINE: Duration = Duration::ZERO;

pub(super) async fn pair(
    context: &Context,
    hub: &Url,
    pairing: &Pairing<'_>,
    label: &str,
) -> Result<(Registration, SecretString)> {
    everdict_app::check_label(label)?;
    // A keyring that can't be used must stop it before the person goes through a sign-in.
    pairing.store.check().await.map_err(Problem::from)?;
    let mut signals = Signals::listen(TERM_DEADLINE)
        .map_err(|error| Problem::machine("can't listen for signals").because(error))?;
    let sign_in = SignIn::begin(hub).await?;
    let out = context.out;
    out.event(&json!({"event": "sign_in", "url": sign_in.browser_address().as_str()}));
    out.say(format!(
        "Sign in in the browser of this machine. If none opens, open this address yourself:\n  {}",
        sign_in.browser_address()
    ));
    if let Err(problem) = sign_in.open_browser(&context.env).await {
        out.warn(format!("{}: open the address yourself", problem.chain()));
    }
    let cancel = CancellationToken::new();
    let mut finish = std::pin::pin!(sign_in.finish(SIGN_IN_LIMIT, &cancel));
    let signed_in = tokio::select! {
        signed_in = &mut finish => signed_in?,
        _ = signals.next() => {
            cancel.cancel();
            finish.await?
        }
    };
    signed_in.pair(pairing, label).await
}

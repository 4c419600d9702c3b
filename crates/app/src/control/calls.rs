//! The table of everything that a window may ask for: name, arguments, answer.
//!
//! The desktop's commands and the doors of the HTTP host are made from it or tested against it, so that neither face
//! can miss a call. What follows (state, logs, pictures) is no call: see [`STREAMS`].

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::pair::TokenPlace;
use super::view::{ConsentAnswer, Failure, SettingValue};
use super::{Control, view};
use crate::problem::{Problem, Result};

/// What a call came to, as JSON.
pub type Answer = Result<Value, Failure>;

/// The names of what a window follows.
pub const STREAMS: &[&str] = &["watch", "watch_log", "watch_frames"];

/// More than any list shows.
const MAX_JOBS: usize = 1000;

/// One call.
pub struct Call {
    /// Its name, as a command of the desktop and as the end of `POST /api/<name>`.
    pub name: &'static str,
    run: for<'a> fn(&'a Control, Value) -> BoxFuture<'a, Answer>,
}

impl Call {
    /// Finds a call by its name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        CALLS.iter().find(|call| call.name == name)
    }

    /// Carries it out. `args` is an object with the arguments in camel case; unknown ones are ignored.
    ///
    /// # Errors
    /// What the window is told.
    pub async fn run(&self, control: &Control, args: Value) -> Answer {
        (self.run)(control, args).await
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Call").field(&self.name).finish()
    }
}

fn read<T: DeserializeOwned>(args: Value) -> Result<T, Failure> {
    everdict_contracts::decode(args).map_err(|error| {
        Failure::from(
            Problem::input("the arguments of this call can't be used")
                .fix("load the page again: it may be older than the program")
                .because(error)
                .coded("bad_arguments"),
        )
    })
}

fn answer<T: Serialize>(done: Result<T>) -> Answer {
    let value = serde_json::to_value(done?);
    value.map_err(|error| Failure::from(Problem::machine("the answer has no JSON form").because(error)))
}

fn place(allow_file: Option<bool>) -> TokenPlace {
    match allow_file {
        Some(true) => TokenPlace::File,
        Some(false) | None => TokenPlace::Settings,
    }
}

/// A table of calls; each is `name { argument: type, … } |control, arguments| result`.
macro_rules! calls {
    ($($name:ident { $($field:ident: $type:ty),* } |$control:ident, $args:ident| $body:expr;)*) => {
        /// Every call.
        pub const CALLS: &[Call] = &[$({
            #[derive(serde::Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct Args { $($field: $type),* }

            fn run(control: &Control, args: Value) -> BoxFuture<'_, Answer> {
                async move {
                    let $control = control;
                    let $args: Args = read(args)?;
                    answer($body)
                }
                .boxed()
            }
            Call { name: stringify!($name), run }
        }),*];
    };
}

calls! {
    snapshot {} |control, _args| Ok(control.snapshot());
    pair_this_computer { label: String, allow_file_store: Option<bool> } |control, args|
        control.pair_this_computer(&args.label, place(args.allow_file_store)).await;
    pair_with_token { hub_url: String, text: String, label: String, allow_file_store: Option<bool> } |control, args|
        control.pair_with_token(&args.hub_url, &args.text, &args.label, place(args.allow_file_store)).await;
    pair_with_api_key { hub_url: String, api_key: String, label: String, allow_file_store: Option<bool> } |control, args| {
        let place = place(args.allow_file_store);
        control.pair_with_api_key(&args.hub_url, args.api_key.into(), &args.label, place).await
    };
    sign_in_methods { hub_url: String } |control, args| control.sign_in_methods(&args.hub_url).await;
    sign_in { hub_url: String, label: String, allow_file: Option<bool> } |control, args|
        control.sign_in(&args.hub_url, &args.label, place(args.allow_file)).await;
    cancel_sign_in {} |control, _args| {
        control.cancel_sign_in();
        Ok(())
    };
    accept_link { label: String, allow_file: Option<bool> } |control, args|
        control.accept_link(&args.label, place(args.allow_file)).await;
    dismiss_link {} |control, _args| {
        control.dismiss_link();
        Ok(())
    };
    unpair { runner_id: String } |control, args| control.unpair(&args.runner_id).await;
    pair_again { runner_id: String } |control, args| control.pair_again(&args.runner_id).await;
    reconnect { runner_id: String } |control, args| control.reconnect(&args.runner_id).await;
    pause { for_seconds: Option<u64> } |control, args| control.pause(args.for_seconds).await;
    resume {} |control, _args| control.resume().await;
    finish_then_pause {} |control, _args| control.finish_then_pause().await;
    set_capability { name: String, on: bool } |control, args| control.set_capability(&args.name, args.on).await;
    settings {} |control, _args| Ok::<_, Problem>(control.settings());
    save_setting { key: String, value: Option<SettingValue> } |control, args|
        control.save_setting(&args.key, args.value.as_ref()).await;
    consents {} |control, _args| Ok::<_, Problem>(control.consents());
    answer_ask { id: String, answer: ConsentAnswer } |control, args| control.answer_ask(&args.id, args.answer);
    revoke_consent { id: String } |control, args| control.revoke_consent(&args.id);
    set_autostart { on: bool } |control, args| control.set_autostart(args.on);
    submit_sample {} |control, _args| control.submit_sample().await;
    jobs { limit: usize } |control, args| Ok(control.jobs(args.limit.min(MAX_JOBS)));
    job_result { job_id: String } |control, args| control.job_result(&args.job_id);
    save_text { name: String, text: String } |control, args| control.save_text(&args.name, args.text).await;
    stop_job { job_id: String } |control, args| control.stop_job(&args.job_id);
    doctor {} |control, _args| control.doctor().await;
    disk {} |control, _args| control.disk().await;
    clean { category: String } |control, args| control.clean(&args.category).await;
    own_log { lines: usize } |control, args| Ok::<_, Problem>(control.own_log(args.lines));
    report {} |control, _args| control.report().await;
    runs { limit: usize, cursor: Option<String> } |control, args|
        control.runs(args.limit, args.cursor.as_deref()).await;
    preview_file { name: String, text: String } |control, args| control.preview_file(&args.name, &args.text).await;
    submit_file {
        name: String, text: String, harness: Option<String>, runtime: Option<String>, label: Option<String>
    } |control, args| {
        let (harness, runtime) = (args.harness.as_deref(), args.runtime.as_deref());
        control.submit_file((&args.name, &args.text), harness, runtime, args.label.as_deref()).await
    };
    batches {} |control, _args| control.batches().await;
    batch { id: String } |control, args| control.batch(&args.id).await;
    compare { base: String, candidate: String } |control, args| control.compare(&args.base, &args.candidate).await;
    cancel_batch { id: String } |control, args| control.cancel_batch(&args.id).await;
}

/// Something that a window follows, whatever it is of.
pub enum Following {
    /// The state.
    State(super::AppWatch),
    /// A job's log.
    Log(super::LogReader),
    /// What a job's browser shows.
    Frames(super::FrameReader),
}

impl Following {
    /// Opens the stream of this name; `job` is the job that it is of, where it is of one.
    ///
    /// # Errors
    /// Input when there is no such stream or no such job.
    pub fn open(control: &Control, name: &str, job: &str) -> Result<Self> {
        match name {
            "watch" => Ok(Self::State(control.watch())),
            "watch_log" => control.follow_log(job).map(Self::Log),
            "watch_frames" => control.follow_frames(job).map(Self::Frames),
            other => Err(Problem::input(format!("nothing is called {other}")).coded("stream_unknown")),
        }
    }

    /// Waits for the next message, as JSON text; `None` once nothing will follow. Cancel safe.
    pub async fn next(&mut self) -> Option<String> {
        match self {
            Self::State(watch) => text(&watch.next().await?),
            Self::Log(log) => text::<view::LogBatch>(&log.next().await?),
            Self::Frames(frames) => text(&frames.next().await?),
        }
    }
}

fn text<T: Serialize>(message: &T) -> Option<String> {
    serde_json::to_string(message).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn page_s_table() -> String {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src/host/methods.ts");
        std::fs::read_to_string(path).unwrap()
    }

    /// The names in `command: "…"` within a part of the page's own table.
    fn commands(part: &str) -> BTreeSet<&str> {
        part.split("command: \"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect()
    }

    #[test]
    fn the_page_and_the_engine_name_the_same_calls_and_streams() {
        let table = page_s_table();
        let (_, rest) = table.split_once("const CALLS").unwrap();
        let (calls, rest) = rest.split_once("const STREAMS").unwrap();
        let ours: BTreeSet<&str> = CALLS.iter().map(|call| call.name).collect();
        assert_eq!(ours.len(), CALLS.len(), "each once");
        assert_eq!(commands(calls), ours);
        let streams = rest.split_once("};").unwrap().0;
        assert_eq!(commands(streams), STREAMS.iter().copied().collect());
    }
}

//! Other hubs on the same database: what they are told, and what is done about what they say.
//!
//! News only make things fast. Whatever they carry can be read from the database as well, and is, when some may have been
//! missed.

use everdict_contracts::{FsAnswer, FsRequest, RunnerId, StatusLevel};
use everdict_store::{Millis, RunStatus, StoreError, Told, Write};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::queue::Owner;
use crate::shared::{Hubbed, Shared};

/// One thing that another hub should know. Hubs of two versions run side by side for a while: what one does not understand
/// it leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum News {
    /// A job came to this owner's pool (an empty place), or to the lane of this runner.
    Work(String, String),
    /// These runs were leased. The database's own functions say this too.
    Running(Vec<String>),
    /// These runs wait again. The database's own functions say this too.
    Waiting(Vec<String>),
    /// A run is over, with this status.
    Over(String, String),
    /// A run's log has grown.
    Log(String),
    /// A runner was paired.
    Paired(String),
    /// A runner of this owner was revoked.
    Revoked(String, String),
    /// A runner was paused for a reason, or is not any more.
    Paused(String, Option<String>),
    /// A runner called.
    Seen(Box<Presence>),
    /// An API key was deleted; this is its hash.
    KeyGone(String),
    /// A session was ended.
    SessionEnded(String),
    /// A waiting call of a session was called off.
    CalledOff(String, String),
    /// Somebody looks into a run's folder.
    Asked(String, FsRequest),
    /// What the runner said to that.
    Answered(String, String, Box<FsAnswer>),
}

/// What a runner last said about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Presence {
    pub(crate) id: RunnerId,
    pub(crate) seen: Millis,
    pub(crate) os: Option<String>,
    pub(crate) caps: Vec<String>,
    pub(crate) version: Option<String>,
    pub(crate) protocol: Option<i64>,
    pub(crate) status: Option<(String, StatusLevel, Millis)>,
}

impl News {
    /// The JSON that the store carries.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("BUG: news have a JSON form")
    }
}

impl Shared {
    /// Puts news into the form the store carries; none where nobody listens.
    pub(crate) fn news(&self, news: &[News]) -> Vec<String> {
        if self.store.is_shared() {
            news.iter().map(News::text).collect()
        } else {
            Vec::new()
        }
    }

    /// Tells other hubs something that changes nothing in the database.
    pub(crate) fn tell(&self, news: &News) {
        if !self.store.is_shared() {
            return;
        }
        let (store, text) = (self.store.clone(), news.text());
        self.tasks.spawn(async move {
            if let Err(error) = store.write_telling(Write::Tell, vec![text]).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "other hubs could not be told");
            }
        });
    }
}

/// Does what news ask for, until told to stop.
pub(crate) async fn listen(hub: &Hubbed, stop: &CancellationToken) {
    let Some(mut heard) = hub.store.listen() else {
        return;
    };
    let work = async {
        while let Some(told) = heard.recv().await {
            match told {
                Told::News(news) => {
                    for text in news {
                        match serde_json::from_str(&text) {
                            Ok(news) => hear(hub, news).await,
                            Err(error) => tracing::debug!(%error, "another hub says something new"),
                        }
                    }
                }
                Told::Gap => catch_up(hub).await,
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

async fn catch_up(hub: &Hubbed) {
    if let Err(error) = read_again(hub).await {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, "what other hubs did meanwhile could not be read");
    }
}

async fn read_again(hub: &Hubbed) -> Result<(), StoreError> {
    hub.keys.forget_all();
    let runners = hub.store.runners().await?;
    hub.roster.keep_only(&runners);
    for runner in runners {
        hub.roster.refresh(runner);
    }
    for run in hub.live.followed() {
        match hub.store.standing(&run).await? {
            Some(standing) if !standing.status.is_finished() => {
                hub.live.show_status(&run, standing.status);
                hub.live.tick(&run);
            }
            ended => hub
                .live
                .end(&run, ended.map_or(RunStatus::Failed, |standing| standing.status)),
        }
    }
    if let crate::desk::Desk::Shared(desk) = &hub.desk {
        desk.wake_all();
    }
    Ok(())
}

async fn hear(hub: &Hubbed, news: News) {
    match news {
        News::Work(owner, place) => {
            if let crate::desk::Desk::Shared(desk) = &hub.desk {
                desk.wake(&Owner::parse(&owner), Some(&place));
            }
        }
        News::Running(runs) => {
            for run in runs {
                hub.live.show_status(&run, RunStatus::Running);
            }
        }
        News::Waiting(runs) => {
            for run in runs {
                hub.live.show_status(&run, RunStatus::Queued);
            }
        }
        News::Over(run, status) => {
            hub.live
                .end(&run, RunStatus::from_name(&status).unwrap_or(RunStatus::Failed));
        }
        News::Log(run) => hub.live.tick(&run),
        News::Paired(id) => match hub.store.runner(&id).await {
            Ok(Some(runner)) => hub.roster.refresh(runner),
            Ok(None) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "a runner paired elsewhere could not be read");
            }
        },
        News::Revoked(owner, id) => {
            let (owner, runner) = (Owner::parse(&owner), RunnerId::from(id));
            if hub.roster.remove(&owner, &runner) {
                hub.desk.dismiss(&crate::queue::Member { owner, runner });
            }
        }
        News::Paused(id, reason) => {
            if let Some(member) = hub.roster.pause_any(&RunnerId::from(id), reason) {
                hub.desk.dismiss(&member);
            }
        }
        News::Seen(presence) => hub.roster.seen_elsewhere(*presence),
        News::KeyGone(hash) => hub.keys.forget(&hash),
        News::SessionEnded(id) => hub.sessions.end(&id),
        News::CalledOff(session, request) => {
            let _ = hub.sessions.cancel(&session, &request);
        }
        News::Asked(run, request) => hub.fs.adopt(&run, request),
        News::Answered(run, id, answer) => drop(hub.fs.answer(&run, &id, *answer)),
    }
}

//! Watching a browser while a case runs: requests, console, navigations, pictures.

mod console;
mod flights;
mod read;
mod recording;

use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::TrackEntry;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::endpoint::CdpEndpoint;
use crate::error::CdpError;
use crate::socket::{Command, Socket};
use console::ConsoleTail;
use recording::Recording;

/// Takes what a recorder sees. Called from the recorder's own task: it must neither block nor wait.
pub trait TrackSink: Send + Sync {
    /// Takes a request, a console line or a navigation. Times are milliseconds since 1970 by this machine's clock.
    fn track(&self, entry: TrackEntry);
    /// Takes a picture: PNG in base64.
    fn frame(&self, png_base64: String);
}

/// What to record.
#[derive(Debug, Clone, Copy)]
pub struct RecorderOptions {
    /// Whether to take pictures.
    pub frames: bool,
    /// The shortest time between two pictures.
    pub frame_interval: Duration,
    /// How long a script dialog may stay open before the recorder closes it.
    ///
    /// A browser without a screen closes dialogs itself unless somebody watches the page. The recorder does watch, so it
    /// owes the page that closing when nobody else sees to it.
    pub dialog_grace: Duration,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self {
            frames: true,
            // The live view shows no more; a picture is up to some MB.
            frame_interval: Duration::from_secs(1),
            // Longer than a model takes to answer a dialog, shorter than the usual 30 s of a navigation.
            dialog_grace: Duration::from_secs(20),
        }
    }
}

/// Time until every page is watched: a browser that needs longer is recorded from when it gets there.
const READY_LIMIT: Duration = Duration::from_secs(5);

/// A recording in progress. Dropping it ends it at once; [`Self::stop`] ends it in order.
pub struct Recorder {
    task: JoinSet<()>,
    stop: oneshot::Sender<()>,
    console: Arc<ConsoleTail>,
}

impl Recorder {
    /// Watches every page of the browser, those opened later too. Returns when the pages of now are watched, or after five
    /// seconds.
    ///
    /// # Errors
    /// Whatever keeps the browser from answering. A browser that goes away later ends the recording, nothing else.
    pub async fn start(
        endpoint: &CdpEndpoint,
        sink: Arc<dyn TrackSink>,
        options: RecorderOptions,
    ) -> Result<Self, CdpError> {
        let version = endpoint.version().await?;
        let mut socket = Socket::connect(endpoint, &version.web_socket_debugger_url).await?;
        let console = Arc::new(ConsoleTail::default());
        let mut recording = Recording::new(sink, Arc::clone(&console), options);
        send_all(&mut socket, &recording.begin()).await?;
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let mut task = JoinSet::new();
        task.spawn(run(socket, recording, stopped, ready));
        if timeout(READY_LIMIT, is_ready).await.is_err() {
            tracing::debug!("the browser is slow to be recorded");
        }
        Ok(Self { task, stop, console })
    }

    /// The console lines so far, the last thousand.
    pub fn console_lines(&self) -> Vec<String> {
        self.console.lines()
    }

    /// Ends the recording; requests that are still open are reported without a duration. Returns the console lines.
    pub async fn stop(mut self) -> Vec<String> {
        // Fails when the browser went first; the task is over then.
        let _ = self.stop.send(());
        while let Some(ended) = self.task.join_next().await {
            if let Err(error) = ended {
                tracing::warn!(%error, "the recorder broke");
            }
        }
        self.console.lines()
    }
}

async fn send_all(socket: &mut Socket, commands: &[Command]) -> Result<(), CdpError> {
    for command in commands {
        socket.send(command).await?;
    }
    Ok(())
}

async fn run(
    mut socket: Socket,
    mut recording: Recording,
    mut stop: oneshot::Receiver<()>,
    ready: oneshot::Sender<()>,
) {
    let mut ready = Some(ready);
    loop {
        let due = recording.due();
        let commands = tokio::select! {
            biased;
            _ = &mut stop => break,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => recording.on_time(Instant::now()),
            incoming = socket.next() => match incoming {
                Ok(incoming) => recording.on(incoming, Instant::now()),
                Err(error) => {
                    tracing::debug!(%error, "the browser went away under the recorder");
                    break;
                }
            },
        };
        if let Err(error) = send_all(&mut socket, &commands).await {
            tracing::debug!(%error, "the browser went away under the recorder");
            break;
        }
        if recording.is_ready()
            && let Some(ready) = ready.take()
        {
            // Nobody waits any more when the start took too long.
            let _ = ready.send(());
        }
    }
    recording.finish();
    socket.close().await;
}

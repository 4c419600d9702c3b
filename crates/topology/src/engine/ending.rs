//! The end of a container, and the end of the daemon, which looks the same at first.

use std::collections::HashMap;
use std::time::Duration;

use bollard::errors::Error;
use bollard::query_parameters::{EventsOptionsBuilder, WaitContainerOptionsBuilder};
use futures_util::StreamExt as _;
use tokio::time::timeout;

use super::{Engine, EngineError, EngineErrorKind};

/// How long a daemon that ends its containers because it is told to stop may still answer: it hangs up right after.
const DOUBT: Duration = Duration::from_secs(1);

/// How long a daemon may take to greet a newcomer before it counts as gone. It takes milliseconds as a rule.
const GREETING: Duration = Duration::from_secs(1);

/// Exit codes of containers that were told to end: politely and with manners, by KILL, by TERM.
const TOLD_TO_END: [i64; 3] = [0, 137, 143];

impl Engine {
    /// Waits, for as long as it takes, until a container has ended by itself, and gives out its exit code. Unless the end
    /// is `fine`, the daemon is asked whether it is going itself; an end that looks like that is given out a second later.
    ///
    /// # Errors
    /// [`EngineErrorKind::NotFound`] when it is gone, [`EngineErrorKind::Unreachable`] when the daemon goes away.
    pub async fn wait_for_own_exit(&self, id: &str, fine: impl Fn(i64) -> bool) -> Result<i64, EngineError> {
        // From the start: a daemon that is back by the time of the question has hung up all the same.
        let mut hang_up = std::pin::pin!(self.hang_up(id));
        let code = tokio::select! {
            biased;
            code = self.wait_for_exit(id) => code?,
            error = &mut hang_up => return Err(error),
        };
        if fine(code) {
            return Ok(code);
        }
        if let Some(error) = self.turned_away().await {
            return Err(error);
        }
        if TOLD_TO_END.contains(&code)
            && let Ok(error) = timeout(DOUBT, hang_up).await
        {
            return Err(error);
        }
        Ok(code)
    }

    /// Asks as a newcomer. A daemon that was told to stop lets nobody in from then on, ends its containers, which takes a
    /// while, and hangs up on those who are in last of all.
    async fn turned_away(&self) -> Option<EngineError> {
        const OPERATION: &str = "watch a container";
        match timeout(GREETING, Self::connect(&self.address)).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) if error.kind == EngineErrorKind::Unreachable => Some(EngineError {
                operation: OPERATION,
                ..error
            }),
            // It has its own reasons, and answers.
            Ok(Err(_)) => None,
            Err(_) => Some(EngineError::timed_out(OPERATION, GREETING)),
        }
    }

    /// Waits, for as long as it takes, until a container has ended, and gives out its exit code.
    ///
    /// # Errors
    /// [`EngineErrorKind::NotFound`] when it is gone, [`EngineErrorKind::Unreachable`] when the daemon went away.
    pub async fn wait_for_exit(&self, id: &str) -> Result<i64, EngineError> {
        const OPERATION: &str = "wait for a container";
        let options = WaitContainerOptionsBuilder::default()
            .condition("not-running")
            .build();
        let mut ends = Box::pin(self.docker.wait_container(id, Some(options)));
        match ends.next().await {
            Some(Ok(end)) => Ok(end.status_code),
            // The client makes an error of every code but 0.
            Some(Err(Error::DockerContainerWaitError { code, .. })) => Ok(code),
            Some(Err(error)) => Err(EngineError::from_bollard(OPERATION, error)),
            None => Err(EngineError::new(
                EngineErrorKind::Unreachable,
                OPERATION,
                "the daemon hung up",
            )),
        }
    }

    /// Listens to the events of one container until the daemon hangs up. A daemon that gives no events never does.
    async fn hang_up(&self, id: &str) -> EngineError {
        let filters = HashMap::from([("container", vec![id])]);
        let options = EventsOptionsBuilder::default().filters(&filters).build();
        let mut events = Box::pin(self.docker.events(Some(options)));
        loop {
            match events.next().await {
                Some(Ok(_)) => {}
                Some(Err(Error::DockerResponseServerError { .. })) => return std::future::pending().await,
                Some(Err(_)) | None => {
                    let text = "the docker daemon went away";
                    return EngineError::new(EngineErrorKind::Unreachable, "watch a container", text);
                }
            }
        }
    }
}

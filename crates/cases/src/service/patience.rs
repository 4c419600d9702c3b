//! How long something may take, and who may call it off: one token and one deadline through every wait.

use std::time::Duration;

use everdict_contracts::Fault;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::context::cancelled;

/// A deadline under a cancellation token.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    cancel: CancellationToken,
    end: Instant,
}

/// Why a wait ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Cancelled,
    TimeUp,
}

impl Patience {
    /// Starts now.
    pub(crate) fn new(cancel: &CancellationToken, limit: Duration) -> Self {
        Self {
            cancel: cancel.clone(),
            end: Instant::now() + limit,
        }
    }

    /// A part of it: no longer than `limit` from now, and no longer than the whole.
    pub(crate) fn within(&self, limit: Duration) -> Self {
        Self {
            cancel: self.cancel.clone(),
            end: self.end.min(Instant::now() + limit),
        }
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.cancel
    }

    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Waits for a future as long as it is wanted and there is time; then drops it.
    pub(crate) async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Stop::Cancelled),
            value = future => Ok(value),
            () = sleep_until(self.end) => Err(Stop::TimeUp),
        }
    }

    /// Lets time pass.
    pub(crate) async fn pause(&self, time: Duration) -> Result<(), Stop> {
        self.wait(sleep(time)).await
    }
}

impl Stop {
    /// The fault of a step that ended early, for steps whose time being up says nothing about the agent.
    pub(crate) fn fault(self, step: &str, code: everdict_contracts::ErrorCode) -> Fault {
        match self {
            Self::Cancelled => cancelled(),
            Self::TimeUp => Fault::new(code, format!("{step} took longer than it may")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn a_part_never_outlives_the_whole() {
        let whole = Patience::new(&CancellationToken::new(), Duration::from_millis(20));
        assert!(whole.within(Duration::from_millis(1)).end() < whole.end());
        let part = whole.within(LONG);
        assert_eq!(part.end(), whole.end());
        assert_eq!(part.wait(std::future::pending::<()>()).await, Err(Stop::TimeUp));
        assert!(whole.is_over() && part.is_over());
    }

    #[tokio::test]
    async fn a_cancelled_wait_ends_at_once() {
        let cancel = CancellationToken::new();
        let patience = Patience::new(&cancel, LONG);
        assert_eq!(patience.wait(async { 1 }).await, Ok(1));
        cancel.cancel();
        assert_eq!(patience.pause(LONG).await, Err(Stop::Cancelled));
        assert!(!patience.is_over());
    }
}

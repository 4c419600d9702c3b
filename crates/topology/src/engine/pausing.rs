use super::{Engine, EngineError, EngineErrorKind, READ_LIMIT};

impl Engine {
    /// Freezes a container's processes.
    ///
    /// # Errors
    /// [`EngineErrorKind::Conflict`] when it isn't running; any other where the engine can't freeze.
    pub(crate) async fn pause_container(&self, id: &str) -> Result<(), EngineError> {
        let call = self.docker.pause_container(id);
        self.call("pause a container", READ_LIMIT, call).await
    }

    /// Lets a frozen container go on; one that isn't frozen, or isn't there, is left as it is.
    ///
    /// # Errors
    /// Any [`EngineError`].
    pub(crate) async fn unpause_container(&self, id: &str) -> Result<(), EngineError> {
        let call = self.docker.unpause_container(id);
        match self.call("let a container go on", READ_LIMIT, call).await {
            Err(error) if error.is_not_found() || error.kind == EngineErrorKind::Conflict => Ok(()),
            Err(error) if error.text.contains("is not paused") => Ok(()),
            other => other,
        }
    }
}

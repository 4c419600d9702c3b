use bollard::models::ContainerUpdateBody;

use super::{Engine, EngineError, READ_LIMIT};

impl Engine {
    /// Lets a container, running or not, use these CPUs only: a list such as `2-3`, counted as the daemon counts them.
    ///
    /// # Errors
    /// [`super::EngineErrorKind::NotFound`] when it is gone, or any other, as on a kernel without such limits.
    pub async fn set_cpus(&self, id: &str, cpus: &str) -> Result<(), EngineError> {
        let body = ContainerUpdateBody {
            cpuset_cpus: Some(cpus.to_owned()),
            ..ContainerUpdateBody::default()
        };
        let call = self.docker().update_container(id, body);
        self.call("limit a container's cpus", READ_LIMIT, call).await
    }
}

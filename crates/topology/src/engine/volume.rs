use std::collections::{BTreeMap, HashMap};

use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::{ListVolumesOptionsBuilder, RemoveVolumeOptionsBuilder};

use super::{CREATE_LIMIT, Engine, EngineError, READ_LIMIT};

/// A named volume as the daemon lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRow {
    pub name: String,
    pub labels: BTreeMap<String, String>,
}

impl Engine {
    /// Creates a named volume; one that exists is left as it is, labels included.
    ///
    /// # Errors
    /// Any [`EngineError`].
    pub async fn create_volume(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), EngineError> {
        let body = VolumeCreateRequest {
            name: Some(name.to_owned()),
            labels: Some(labels.iter().map(|(k, v)| (k.clone(), v.clone())).collect()),
            ..VolumeCreateRequest::default()
        };
        self.call("create a volume", CREATE_LIMIT, self.docker.create_volume(body))
            .await
            .map(drop)
    }

    /// Lists volumes that have all of the given labels (`key` or `key=value`).
    ///
    /// # Errors
    /// Any [`EngineError`].
    pub async fn list_volumes(&self, labels: &[String]) -> Result<Vec<VolumeRow>, EngineError> {
        let filters = HashMap::from([("label", labels.to_vec())]);
        let options = ListVolumesOptionsBuilder::default().filters(&filters).build();
        let list = self
            .call(
                "list volumes",
                READ_LIMIT,
                self.docker.list_volumes(Some(options)),
            )
            .await?;
        let rows = list.volumes.unwrap_or_default().into_iter();
        Ok(rows
            .map(|row| VolumeRow {
                name: row.name,
                labels: row.labels.into_iter().collect(),
            })
            .collect())
    }

    /// Removes a volume; one that is gone already counts as removed.
    ///
    /// # Errors
    /// [`super::EngineErrorKind::Conflict`] while a container has it.
    pub async fn remove_volume(&self, name: &str) -> Result<(), EngineError> {
        let options = RemoveVolumeOptionsBuilder::default().force(true).build();
        match self
            .call(
                "remove a volume",
                self.removal_limit(),
                self.docker.remove_volume(name, Some(options)),
            )
            .await
        {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }
}

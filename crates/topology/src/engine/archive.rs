use std::time::Duration;

use bollard::query_parameters::{
    DownloadFromContainerOptionsBuilder, RestartContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};

use super::{Engine, EngineError, START_LIMIT};

impl Engine {
    /// Unpacks a tar archive into an existing directory of a container, with the owners that the archive names.
    ///
    /// # Errors
    /// Any [`EngineError`]; what was unpacked before it stays.
    pub(crate) async fn put_archive(
        &self,
        container: &str,
        dir: &str,
        archive: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
        limit: Duration,
    ) -> Result<(), EngineError> {
        let options = UploadToContainerOptionsBuilder::default().path(dir).build();
        let body = bollard::body_try_stream(archive);
        let call = self.docker.upload_to_container(container, Some(options), body);
        self.call("copy files into a container", limit, call).await
    }

    /// Reads a file or a directory of a container as a tar archive whose paths start with its own name. No link is
    /// followed. The caller brings the deadline.
    ///
    /// [`super::EngineErrorKind::NotFound`], as the first piece, when there is nothing at that path.
    pub(crate) fn get_archive(
        &self,
        container: &str,
        path: &str,
    ) -> BoxStream<'_, Result<Bytes, EngineError>> {
        let options = DownloadFromContainerOptionsBuilder::default().path(path).build();
        let pieces = self.docker.download_from_container(container, Some(options));
        pieces
            .map(|piece| {
                piece.map_err(|error| EngineError::from_bollard("copy files out of a container", error))
            })
            .boxed()
    }

    /// Kills whatever runs in a container and starts it anew; its files stay.
    ///
    /// # Errors
    /// Any [`EngineError`].
    pub(crate) async fn restart_container(&self, id: &str) -> Result<(), EngineError> {
        let options = RestartContainerOptionsBuilder::default().t(0).build();
        let call = self.docker.restart_container(id, Some(options));
        self.call("restart a container", START_LIMIT, call).await
    }
}

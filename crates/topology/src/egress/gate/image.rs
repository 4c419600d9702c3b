//! The image of gates: the one program, imported from memory. No registry knows it.

use bollard::query_parameters::CreateImageOptionsBuilder;
use bytes::Bytes;
use futures_util::TryStreamExt as _;

use super::{PATH, PROGRAM};
use crate::digest::{hex, short_hash};
use crate::engine::{CREATE_LIMIT, Engine, EngineError, EngineErrorKind, READ_LIMIT};
use crate::labels::{INSTALL, KIND, Kind, Owner};

/// Repository of the images; their tags are hashes of what is in them.
pub(crate) const REPOSITORY: &str = "everdict-gate";

/// Whether an image of that name is one of ours.
pub(crate) fn is_gate(image: &str) -> bool {
    image
        .strip_prefix(REPOSITORY)
        .is_some_and(|tag| tag.starts_with(':'))
}

impl Engine {
    /// The image's name; it is made where it isn't there, or isn't any more. Callers wait for each other.
    pub(super) async fn gate_image(&self, owner: &Owner, gone: Option<&str>) -> Result<String, EngineError> {
        let mut known = self.gates().image.lock().await;
        if let Some(image) = known.as_deref()
            && gone != Some(image)
        {
            return Ok(image.to_owned());
        }
        let tag = short_hash(&[&owner.install, &hex(PROGRAM)], 24);
        let image = format!("{REPOSITORY}:{tag}");
        let look = self.docker().inspect_image(&image);
        match self.call("look for an image", READ_LIMIT, look).await {
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.kind,
                    EngineErrorKind::NoSuchImage | EngineErrorKind::NotFound
                ) =>
            {
                self.import_gate(owner, &tag).await?;
            }
            Err(error) => return Err(error),
        }
        *known = Some(image.clone());
        Ok(image)
    }

    async fn import_gate(&self, owner: &Owner, tag: &str) -> Result<(), EngineError> {
        const OPERATION: &str = "import the helper's image";
        let archive = archive()
            .map_err(|error| EngineError::new(EngineErrorKind::Other, OPERATION, error.to_string()))?;
        let options = CreateImageOptionsBuilder::default()
            .from_src("-")
            .repo(REPOSITORY)
            .tag(tag)
            .changes(vec![
                format!("LABEL {INSTALL}={:?}", owner.install),
                format!("LABEL {KIND}={}", Kind::Gate.as_str()),
            ])
            .build();
        let body = bollard::body_full(Bytes::from(archive));
        let import = self.docker().create_image(Some(options), Some(body), None);
        self.call(OPERATION, CREATE_LIMIT, import.try_collect::<Vec<_>>())
            .await
            .map(drop)
    }
}

/// A root directory with the program and nothing else.
fn archive() -> std::io::Result<Vec<u8>> {
    let mut header = tar::Header::new_ustar();
    header.set_size(PROGRAM.len() as u64);
    header.set_mode(0o555);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, PATH.trim_start_matches('/'), PROGRAM)?;
    archive.into_inner()
}

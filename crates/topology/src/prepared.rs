//! The images that an installation has made for itself and keeps: what `gc` lists, and may take away.
//!
//! Those with initialised databases, and that of the helper which puts up egress rules. Each is made anew when it is
//! wanted again.

use std::collections::{BTreeSet, HashMap};

use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder,
};

use crate::deploy::{BASE_LABEL, REPOSITORY};
use crate::egress::is_gate;
use crate::engine::{Engine, EngineError, EngineErrorKind, READ_LIMIT};
use crate::labels::INSTALL;

/// An image that was made here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedImage {
    /// Its name.
    pub image: String,
    /// The image that it was made from; empty for one that was made from nothing.
    pub base: String,
    /// What it takes on the disk beyond that one.
    pub bytes: u64,
    /// Whether a container, running or not, is made of it.
    pub used: bool,
}

/// Lists those of an installation.
///
/// # Errors
/// Any [`EngineError`].
pub async fn list(engine: &Engine, install: &str) -> Result<Vec<PreparedImage>, EngineError> {
    let ours = vec![format!("{INSTALL}={install}")];
    let options = ListImagesOptionsBuilder::default()
        .filters(&HashMap::from([("label", ours)]))
        .build();
    let call = engine.docker().list_images(Some(options));
    let images = engine.call("list images", READ_LIMIT, call).await?;
    if images.is_empty() {
        return Ok(Vec::new());
    }
    let used = in_use(engine).await?;
    let mut found = Vec::new();
    for image in images {
        let base = image.labels.get(BASE_LABEL).cloned().unwrap_or_default();
        let beneath = match base.as_str() {
            "" => 0,
            base => size_of(engine, base).await.unwrap_or_default(),
        };
        let named = image
            .repo_tags
            .into_iter()
            .filter(|tag| is_gate(tag) || !base.is_empty() && tag.starts_with(REPOSITORY));
        for tag in named {
            found.push(PreparedImage {
                image: tag,
                base: base.clone(),
                bytes: u64::try_from(image.size.saturating_sub(beneath)).unwrap_or_default(),
                used: used.contains(&image.id),
            });
        }
    }
    found.sort_by(|a, b| a.image.cmp(&b.image));
    Ok(found)
}

/// Removes one; the daemon refuses it for an image that a container is made of, and `false` says so.
///
/// # Errors
/// Any other [`EngineError`].
pub async fn remove(engine: &Engine, image: &PreparedImage) -> Result<bool, EngineError> {
    let options = RemoveImageOptionsBuilder::default().build();
    let call = engine.docker().remove_image(&image.image, Some(options), None);
    match engine.call("remove an image", engine.removal_limit(), call).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) if matches!(error.kind, EngineErrorKind::Conflict | EngineErrorKind::InUse) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn in_use(engine: &Engine) -> Result<BTreeSet<String>, EngineError> {
    let options = ListContainersOptionsBuilder::default().all(true).build();
    let call = engine.docker().list_containers(Some(options));
    let rows = engine.call("list containers", READ_LIMIT, call).await?;
    Ok(rows.into_iter().filter_map(|row| row.image_id).collect())
}

async fn size_of(engine: &Engine, image: &str) -> Option<i64> {
    let call = engine.docker().inspect_image(image);
    engine
        .call("look for an image", READ_LIMIT, call)
        .await
        .ok()?
        .size
}

//! Which image a case really ran in.

use everdict_contracts::{
    ImageProvenance, ResolvedBy, ResolvedImage, ResolvedImages, UnresolvedImage, UnresolvedImages,
    UnresolvedReason,
};

use crate::images::{ImageRef, PresentImage};

/// A digest in the reference decides; else what registries know the image by, those of the reference's own repository
/// first. An image that was built here has no digest that means anything elsewhere.
pub(super) fn of(declared: &str, present: &PresentImage) -> ImageProvenance {
    let reference = ImageRef::parse(declared).ok();
    let pinned = reference
        .as_ref()
        .and_then(ImageRef::digest)
        .map(|digest| (digest.to_owned(), ResolvedBy::Ref));
    let known = || {
        let name = reference.as_ref().map(ImageRef::name);
        let pairs: Vec<(&str, &str)> = present
            .digests
            .iter()
            .filter_map(|text| text.split_once('@'))
            .collect();
        let own = pairs
            .iter()
            .find(|(repository, _)| Some(*repository) == name.as_deref());
        let (_, digest) = own.or(pairs.first())?;
        Some(((*digest).to_owned(), ResolvedBy::Driver))
    };
    match pinned.or_else(known) {
        Some((digest, by)) => ImageProvenance::Resolved(ResolvedImages {
            images: vec![ResolvedImage {
                r#ref: declared.to_owned(),
                digest,
                unit: None,
            }],
            by,
        }),
        None => ImageProvenance::Unresolved(UnresolvedImages {
            images: vec![UnresolvedImage {
                r#ref: declared.to_owned(),
                unit: None,
            }],
            reason: UnresolvedReason::NoRegistryDigest,
            detail: format!(
                "the image has the local id {} and no digest of a registry",
                present.id
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(declared: &str, digests: &[&str]) -> Value {
        let digests = digests.iter().map(ToString::to_string).collect();
        let present = PresentImage {
            id: "sha256:local".to_owned(),
            digests,
            pulled: false,
        };
        serde_json::to_value(of(declared, &present)).unwrap()
    }

    #[test]
    fn a_pinned_reference_speaks_for_itself() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let declared = format!("r.io/a@{digest}");
        let told = told(&declared, &["other@sha256:1"]);
        assert_eq!(
            told,
            json!({"kind": "resolved", "by": "ref", "images": [{"ref": declared, "digest": digest}]})
        );
    }

    #[test]
    fn the_references_own_repository_comes_first() {
        let told = told("r.io/a:1", &["mirror/a@sha256:1", "r.io/a@sha256:2"]);
        assert_eq!(told["images"][0]["digest"], "sha256:2");
        assert_eq!(told["by"], "driver");
    }

    #[test]
    fn an_image_that_was_built_here_has_no_digest() {
        let told = told("local:dev", &[]);
        assert_eq!(
            (&told["kind"], &told["reason"]),
            (&json!("unresolved"), &json!("no_registry_digest"))
        );
    }
}

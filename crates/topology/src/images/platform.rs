//! Which images a machine can run.

use std::fmt;

use bollard::models::OciPlatform;

/// Operating system and processor, in the words of image manifests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Platform {
    os: String,
    architecture: String,
    /// Generation of an ARM processor, such as `v7`; empty when it doesn't matter.
    variant: String,
}

impl Platform {
    /// Makes a platform from what a daemon, a manifest or a kernel calls it.
    pub fn new(os: &str, architecture: &str, variant: &str) -> Self {
        let (architecture, implied) = match architecture {
            "x86_64" | "x86-64" => ("amd64", ""),
            "aarch64" | "arm64/v8" => ("arm64", ""),
            "armv7l" | "armhf" => ("arm", "v7"),
            "armv6l" | "armel" => ("arm", "v6"),
            "i386" | "i486" | "i586" | "i686" => ("386", ""),
            other => (other, ""),
        };
        let variant = match (architecture, if variant.is_empty() { implied } else { variant }) {
            // The only generation there is.
            ("arm64", "v8") => "",
            (_, variant) => variant,
        };
        Self {
            os: os.to_ascii_lowercase(),
            architecture: architecture.to_owned(),
            variant: variant.to_owned(),
        }
    }

    pub(super) fn of_manifest(platform: &OciPlatform) -> Option<Self> {
        let os = platform
            .os
            .as_deref()
            .filter(|os| !os.is_empty() && *os != "unknown")?;
        let architecture = platform
            .architecture
            .as_deref()
            .filter(|name| !name.is_empty() && *name != "unknown")?;
        Some(Self::new(
            os,
            architecture,
            platform.variant.as_deref().unwrap_or_default(),
        ))
    }

    /// Tells whether a machine of this platform runs an image of the other without emulation.
    pub fn runs(&self, image: &Self) -> bool {
        if self.os != image.os {
            return false;
        }
        match (self.architecture.as_str(), image.architecture.as_str()) {
            ("amd64", "386") => true,
            (machine, wanted) if machine != wanted => false,
            // Newer generations run what older ones do.
            _ => self.variant.is_empty() || image.variant.is_empty() || image.variant <= self.variant,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        if !self.variant.is_empty() {
            write!(f, "/{}", self.variant)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linux(architecture: &str) -> Platform {
        Platform::new("linux", architecture, "")
    }

    #[test]
    fn daemons_and_manifests_mean_the_same_by_other_words() {
        assert_eq!(linux("x86_64"), linux("amd64"));
        assert_eq!(linux("aarch64"), Platform::new("linux", "arm64", "v8"));
        assert_eq!(linux("armv7l"), Platform::new("linux", "arm", "v7"));
        assert_eq!(linux("x86_64").to_string(), "linux/amd64");
        assert_eq!(linux("armv7l").to_string(), "linux/arm/v7");
    }

    #[test]
    fn a_machine_runs_its_own_kind() {
        assert!(linux("amd64").runs(&linux("amd64")));
        assert!(linux("amd64").runs(&linux("386")));
        assert!(linux("armv7l").runs(&Platform::new("linux", "arm", "v6")));
        assert!(!linux("armv6l").runs(&Platform::new("linux", "arm", "v7")));
        assert!(!linux("arm64").runs(&linux("amd64")));
        assert!(!linux("386").runs(&linux("amd64")));
        assert!(!linux("amd64").runs(&Platform::new("windows", "amd64", "")));
    }

    #[test]
    fn attestations_are_no_platform() {
        let manifest = |os: &str, architecture: &str| OciPlatform {
            os: Some(os.to_owned()),
            architecture: Some(architecture.to_owned()),
            ..OciPlatform::default()
        };
        assert_eq!(Platform::of_manifest(&manifest("unknown", "unknown")), None);
        assert_eq!(Platform::of_manifest(&OciPlatform::default()), None);
        assert_eq!(
            Platform::of_manifest(&manifest("linux", "amd64")),
            Some(linux("amd64"))
        );
    }
}

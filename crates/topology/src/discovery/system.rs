//! This machine, as discovery looks at it.

use std::io::ErrorKind;
use std::path::Path;

use super::{Family, PathKind, Surroundings};

/// The real file system, and variables from whoever captured them.
pub struct System<F> {
    vars: F,
}

impl<F: Fn(&str) -> Option<String>> System<F> {
    /// Looks at this machine, with `vars` for environment variables.
    pub fn new(vars: F) -> Self {
        Self { vars }
    }
}

impl<F: Fn(&str) -> Option<String>> Surroundings for System<F> {
    fn var(&self, name: &str) -> Option<String> {
        (self.vars)(name)
    }

    fn read(&self, path: &Path) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }

    fn look(&self, path: &Path) -> PathKind {
        match path.canonicalize() {
            Ok(real) if is_socket(&real) => PathKind::Socket { real },
            Ok(_) => PathKind::Other,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => PathKind::Denied,
            Err(_) => match std::fs::read_link(path) {
                Ok(target) => PathKind::Dangling { target },
                Err(_) => PathKind::Missing,
            },
        }
    }

    fn family(&self) -> Family {
        if cfg!(windows) {
            Family::Windows
        } else {
            Family::Unix
        }
    }
}

#[cfg(unix)]
fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    path.metadata().is_ok_and(|meta| meta.file_type().is_socket())
}

#[cfg(not(unix))]
fn is_socket(path: &Path) -> bool {
    path.exists()
}

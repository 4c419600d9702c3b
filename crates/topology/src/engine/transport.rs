//! The ways to a daemon: its socket, or a port of this machine's loopback, with TLS where the daemon wants it.

use std::net::IpAddr;
use std::path::Path;

use bollard::{API_DEFAULT_VERSION, Docker};

use super::{EngineError, EngineErrorKind, TRANSPORT_SECONDS};

/// Before the folder with the certificates, in addresses such as `tcp://127.0.0.1:2376?tls=/home/me/.docker`.
const TLS: &str = "?tls=";

/// The names that the docker client gives to certificates.
const FILES: [&str; 3] = ["key.pem", "cert.pem", "ca.pem"];

/// The host of an address that is reached over the network; `None` for other addresses.
pub(crate) fn host(address: &str) -> Option<&str> {
    let rest = ["tcp://", "http://", "https://", "ssh://"]
        .iter()
        .find_map(|scheme| address.strip_prefix(scheme))?;
    let rest = rest.split(['/', '?']).next().unwrap_or_default();
    let rest = rest.rsplit('@').next().unwrap_or_default();
    match rest.strip_prefix('[') {
        Some(six) => six.split(']').next(),
        None => rest.split(':').next(),
    }
}

/// Whether an address is a port of this machine's loopback.
pub(crate) fn is_loopback(address: &str) -> bool {
    let here = |host: &str| {
        host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    };
    !address.starts_with("ssh://") && host(address).is_some_and(here)
}

/// The address of a daemon that wants TLS, with the folder of its certificates.
pub(crate) fn with_tls(address: &str, folder: &Path) -> String {
    format!("{address}{TLS}{}", folder.display())
}

pub(super) fn open(address: &str) -> Result<Docker, EngineError> {
    const OPERATION: &str = "connect to the docker daemon";
    let unreachable = |text: String| EngineError::new(EngineErrorKind::Unreachable, OPERATION, text);
    let opened = match address.split_once(TLS) {
        Some((address, folder)) if is_loopback(address) => {
            let folder = Path::new(folder);
            if let Some(missing) = FILES.iter().find(|file| !folder.join(file).is_file()) {
                let text = format!("{} of its certificates isn't in {}", missing, folder.display());
                return Err(unreachable(text));
            }
            // A program that has set up TLS already keeps what it has.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let [key, cert, ca] = FILES.map(|file| folder.join(file));
            Docker::connect_with_ssl(address, &key, &cert, &ca, TRANSPORT_SECONDS, API_DEFAULT_VERSION)
        }
        None if is_loopback(address) && !address.starts_with("https://") => {
            Docker::connect_with_http(address, TRANSPORT_SECONDS, API_DEFAULT_VERSION)
        }
        _ => local(address),
    };
    opened.map_err(|error| EngineError::from_bollard(OPERATION, error))
}

#[cfg(unix)]
fn local(address: &str) -> Result<Docker, bollard::errors::Error> {
    if address.contains("://") && !address.starts_with("unix://") {
        return Err(bollard::errors::Error::UnsupportedURISchemeError {
            uri: address.to_owned(),
        });
    }
    Docker::connect_with_unix(address, TRANSPORT_SECONDS, API_DEFAULT_VERSION)
}

#[cfg(windows)]
fn local(address: &str) -> Result<Docker, bollard::errors::Error> {
    Docker::connect_with_named_pipe(address, TRANSPORT_SECONDS, API_DEFAULT_VERSION)
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_the_loopback_is_this_machine() {
        for here in [
            "tcp://127.0.0.1:2375",
            "tcp://localhost:2376",
            "http://127.1.2.3",
            "tcp://[::1]:2375",
            "https://localhost:2376?tls=/home/me/.docker",
        ] {
            assert!(is_loopback(here), "{here}");
        }
        for elsewhere in [
            "tcp://build.example:2375",
            "tcp://192.0.2.7:2375",
            "tcp://0.0.0.0:2375",
            "tcp://127.0.0.1.example:2375",
            "tcp://localhost@build.example",
            "ssh://me@localhost",
            "unix:///var/run/docker.sock",
            "tcp://",
        ] {
            assert!(!is_loopback(elsewhere), "{elsewhere}");
        }
    }
}

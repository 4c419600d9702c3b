//! Images from registries, with everything that can go wrong on the way.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::calls::{PullEnd, PullGuard};
use super::fault::PullScript;
use super::image::FakeImage;
use super::reply::{Ask, Refusal, Reply, line, ok, streamed};
use super::state::{Shared, canonical};

/// Between two events of a slow pull: the daemon reports about ten times a second.
const TICK: Duration = Duration::from_millis(100);

const LAYER: &str = "4f4fb700ef54";

/// The reference that a pull asks for.
pub(super) fn reference(ask: &Ask) -> String {
    let (name, tag) = (ask.text("fromImage"), ask.text("tag"));
    match tag {
        "" => name.to_owned(),
        digest if digest.starts_with("sha256:") => format!("{name}@{digest}"),
        tag => format!("{name}:{tag}"),
    }
}

fn login(ask: &Ask) -> String {
    let header = ask
        .headers
        .get("x-registry-auth")
        .and_then(|value| value.to_str().ok());
    header.unwrap_or_default().to_owned()
}

/// The registry's part of a name.
fn host(reference: &str) -> String {
    match reference.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host.to_owned(),
        _ => "registry-1.docker.io".to_owned(),
    }
}

fn script(shared: &Shared, reference: &str, login: &str) -> Option<PullScript> {
    let script = shared.read(|state| state.pull_scripts.get(&canonical(reference)).cloned())?;
    match script {
        PullScript::NeedsLogin if login.is_empty() => Some(PullScript::Unauthorized),
        PullScript::NeedsLogin => None,
        script => Some(script),
    }
}

fn published(shared: &Shared, reference: &str) -> Vec<FakeImage> {
    let wanted = canonical(reference);
    let is_it =
        |image: &&FakeImage| canonical(&image.reference) == wanted || wanted.ends_with(&image.digest());
    shared.read(|state| state.registry.iter().filter(is_it).cloned().collect())
}

/// What the daemon answers when the registry says no.
fn refusal(script: Option<&PullScript>, reference: &str) -> Option<Refusal> {
    let name = reference.rsplit_once(':').map_or(reference, |(name, _)| name);
    let url = format!("https://{}/v2/", host(reference));
    let (status, message) = match script? {
        PullScript::NoSuchTag => (
            404,
            format!("manifest for {reference} not found: manifest unknown: manifest unknown"),
        ),
        PullScript::Denied => (
            404,
            format!(
                "pull access denied for {name}, repository does not exist or may require 'docker login': denied: \
                 requested access to the resource is denied"
            ),
        ),
        PullScript::Unauthorized => (
            500,
            format!("Head \"{url}{name}/manifests/latest\": unauthorized: authentication required"),
        ),
        PullScript::RateLimited { retry_after } => {
            let wait = retry_after.map_or_else(String::new, |wait| {
                format!(" retry-after: {}s", wait.as_secs_f64())
            });
            (
                500,
                format!("toomanyrequests: You have reached your pull rate limit.{wait}"),
            )
        }
        PullScript::NoSuchHost => {
            let host = host(reference);
            (
                500,
                format!("Get \"{url}\": dial tcp: lookup {host} on 127.0.0.53:53: no such host"),
            )
        }
        PullScript::NoPlatform => (
            404,
            "no matching manifest for linux/amd64 in the manifest list entries".to_owned(),
        ),
        _ => return None,
    };
    Some(Refusal::new(status, message))
}

pub(super) fn distribution(shared: &Shared, reference: &str, ask: &Ask) -> Result<Reply, Refusal> {
    // A registry that limits or hides answers here as it does to a pull.
    if let Some(refusal) = refusal(script(shared, reference, &login(ask)).as_ref(), reference) {
        return Err(refusal);
    }
    let images = published(shared, reference);
    let Some(first) = images.first() else {
        return Err(Refusal::new(404, format!("manifest unknown: {reference}")));
    };
    let platforms: Vec<Value> = images
        .iter()
        .map(|image| json!({"os": image.os, "architecture": image.architecture}))
        .collect();
    Ok(ok(&json!({
        "Descriptor": {
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "digest": first.digest(), "size": 1234,
        },
        "Platforms": platforms,
    })))
}

pub(super) fn start(shared: &Arc<Shared>, ask: &Ask) -> Result<Reply, Refusal> {
    let reference = reference(ask);
    let guard = PullGuard::open(shared, &reference, &login(ask));
    let script = script(shared, &reference, &login(ask));
    if let Some(refusal) = refusal(script.as_ref(), &reference) {
        guard.end(PullEnd::Failed);
        return Err(refusal);
    }
    let images = published(shared, &reference);
    let architecture = shared.read(|state| state.architecture.clone());
    let image = images
        .iter()
        .find(|image| image.architecture == architecture)
        .or_else(|| images.first())
        .cloned();
    let Some(image) = image else {
        guard.end(PullEnd::Failed);
        let missing = super::pull::refusal(Some(&PullScript::NoSuchTag), &reference);
        return Err(missing.unwrap_or_else(|| Refusal::new(404, "manifest unknown")));
    };
    let script = script.unwrap_or(PullScript::Layers {
        steps: 2,
        pause: Duration::ZERO,
    });
    let pull = Pull {
        shared: Arc::clone(shared),
        guard,
        reference,
        image,
        script,
        step: 0,
    };
    let events = futures_util::stream::unfold(Some(pull), |pull| async move {
        let mut pull = pull?;
        match pull.next().await {
            Some(Ok(bytes)) => Some((Ok(bytes), Some(pull))),
            Some(Err(error)) => Some((Err(error), None)),
            None => None,
        }
    });
    Ok(streamed("application/json", events))
}

/// A pull that goes on, event by event. Dropping it gives it up.
struct Pull {
    shared: Arc<Shared>,
    guard: PullGuard,
    reference: String,
    image: FakeImage,
    script: PullScript,
    step: u32,
}

impl Pull {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        self.step += 1;
        let event = |status: &str| {
            Some(Ok(line(
                &json!({"status": status, "id": LAYER, "progressDetail": {}}),
            )))
        };
        match (self.step, &self.script) {
            (1, _) => {
                let status = format!("Pulling from {}", self.reference);
                Some(Ok(line(&json!({"status": status, "id": "latest"}))))
            }
            (2, _) => event("Pulling fs layer"),
            (step, PullScript::Layers { steps, pause }) => self.layers(step - 2, *steps, *pause).await,
            (3, PullScript::Garbled) => Some(Ok(Bytes::from_static(b"{\"status\":\"Downlo"))),
            (3, PullScript::DiskFull) => {
                let text = "failed to register layer: Error processing tar file(exit status 1): write \
                            /usr/lib/libfake.so: no space left on device";
                let failed = json!({"errorDetail": {"message": text}, "error": text});
                Some(Ok(line(&failed)))
            }
            (3, PullScript::HangUp) => {
                tokio::time::sleep(TICK).await;
                self.guard.end(PullEnd::Failed);
                Some(Err(io::Error::new(
                    io::ErrorKind::ConnectionReset,
                    "the daemon hangs up",
                )))
            }
            _ => {
                self.guard.end(PullEnd::Failed);
                None
            }
        }
    }

    /// Steps, then the end, then nothing.
    async fn layers(&self, step: u32, steps: u32, pause: Duration) -> Option<io::Result<Bytes>> {
        if step <= steps {
            tokio::time::sleep(pause).await;
            let total = self.image.size;
            let current = total / u64::from(steps.max(1)) * u64::from(step);
            let detail = json!({"current": current, "total": total});
            return Some(Ok(line(
                &json!({"status": "Downloading", "id": LAYER, "progressDetail": detail}),
            )));
        }
        if step == steps + 1 {
            return Some(Ok(line(
                &json!({"status": "Pull complete", "id": LAYER, "progressDetail": {}}),
            )));
        }
        if step == steps + 2 {
            self.shared.edit(|state| {
                let wanted = canonical(&self.reference);
                state.images.retain(|image| canonical(&image.reference) != wanted);
                state.images.push(FakeImage {
                    reference: wanted,
                    ..self.image.clone()
                });
            });
            self.guard.end(PullEnd::Complete);
            let status = format!("Status: Downloaded newer image for {}", self.reference);
            return Some(Ok(line(&json!({"status": status}))));
        }
        None
    }
}

//! Commands in containers, with hijacked connections.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::image::{ExecAnswer, ExecCall, ExecScript};
use super::reply::{Ask, Refusal, Reply, created, frame, nothing, ok};
use super::state::{Exec, Phase, Shared};

pub(super) fn create(shared: &Arc<Shared>, key: &str, ask: &Ask) -> Result<Reply, Refusal> {
    let spec = ask.json()?;
    shared.edit(|state| {
        let container = state.container(key)?;
        if container.phase != Phase::Running {
            return Err(Refusal::new(
                409,
                format!("Container {} is not running", container.id),
            ));
        }
        let container = container.id.clone();
        let id = state.fresh_id();
        state.execs.push(Exec {
            id: id.clone(),
            container,
            spec,
            code: None,
        });
        Ok(created(&json!({"Id": id})))
    })
}

pub(super) fn inspect(shared: &Shared, id: &str) -> Result<Reply, Refusal> {
    shared.read(|state| {
        let exec = state.execs.iter().find(|exec| exec.id == id).ok_or_else(|| no_such_exec(id))?;
        Ok(ok(&json!({
            "ID": exec.id, "ContainerID": exec.container, "Running": exec.code.is_none(), "ExitCode": exec.code,
            "ProcessConfig": {"entrypoint": exec.spec["Cmd"][0], "tty": false},
        })))
    })
}

fn no_such_exec(id: &str) -> Refusal {
    Refusal::new(404, format!("No such exec instance: {id}"))
}

/// A command that is being run.
struct Run {
    shared: Arc<Shared>,
    id: String,
    container: String,
    /// Ends with the container.
    end: CancellationToken,
    script: ExecScript,
    spec: Value,
}

pub(super) fn start(shared: &Arc<Shared>, id: &str, ask: Ask) -> Result<Reply, Refusal> {
    let spec = ask.json()?;
    let run = shared.read(|state| {
        let exec = state
            .execs
            .iter()
            .find(|exec| exec.id == id)
            .ok_or_else(|| no_such_exec(id))?;
        let container = state.container(&exec.container)?;
        if container.phase != Phase::Running {
            return Err(Refusal::new(
                409,
                format!("Container {} is not running", container.id),
            ));
        }
        Ok(Run {
            shared: Arc::clone(shared),
            id: id.to_owned(),
            container: container.name.clone(),
            end: container.process.clone(),
            script: Arc::clone(&container.image.exec),
            spec: exec.spec.clone(),
        })
    })?;
    let stop = shared.stop.clone();
    if spec["Detach"].as_bool() == Some(true) {
        shared.tasks.spawn(async move {
            tokio::select! { () = stop.cancelled() => {}, () = run.unseen() => {} }
        });
        return Ok(nothing(StatusCode::OK));
    }
    let upgrade = ask
        .upgrade
        .ok_or_else(|| Refusal::new(400, "the fake only streams over a hijacked connection"))?;
    shared.tasks.spawn(async move {
        tokio::select! { () = stop.cancelled() => {}, _ = run.hijacked(upgrade) => {} }
    });
    Ok(hijack())
}

impl Run {
    async fn unseen(self) {
        let answer = self.answer(Vec::new());
        self.finish(&answer).await;
    }

    async fn hijacked(self, upgrade: OnUpgrade) -> std::io::Result<()> {
        let upgraded = upgrade.await.map_err(std::io::Error::other)?;
        let mut stream = TokioIo::new(upgraded);
        let mut input = Vec::new();
        if self.spec["AttachStdin"].as_bool() == Some(true) {
            stream.read_to_end(&mut input).await?;
        }
        let answer = self.answer(input);
        if !answer.stdout.is_empty() {
            stream.write_all(&frame(false, &answer.stdout)).await?;
        }
        if !answer.stderr.is_empty() {
            stream.write_all(&frame(true, &answer.stderr)).await?;
        }
        self.finish(&answer).await;
        stream.shutdown().await
    }

    fn answer(&self, stdin: Vec<u8>) -> ExecAnswer {
        let words = |field: &str| -> Vec<String> {
            serde_json::from_value(self.spec[field].clone()).unwrap_or_default()
        };
        (self.script)(&ExecCall {
            container: self.container.clone(),
            argv: words("Cmd"),
            env: words("Env"),
            user: self.spec["User"].as_str().unwrap_or_default().to_owned(),
            stdin,
        })
    }

    /// Runs to the end and notes the exit code; the end of the container ends it too.
    async fn finish(&self, answer: &ExecAnswer) {
        let code = tokio::select! {
            () = self.end.cancelled() => 137,
            () = tokio::time::sleep(answer.after) => answer.code,
        };
        self.shared.edit(|state| {
            if let Some(exec) = state.execs.iter_mut().find(|exec| exec.id == self.id) {
                exec.code = Some(code);
            }
        });
    }
}

/// The head of an answer after which the connection is the command's own.
pub(super) fn hijack() -> Reply {
    let mut reply = nothing(StatusCode::SWITCHING_PROTOCOLS);
    let headers = reply.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("tcp"));
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/vnd.docker.raw-stream"),
    );
    reply
}

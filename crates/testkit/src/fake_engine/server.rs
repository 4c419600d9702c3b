//! The socket, and connections that can be cut.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use super::route;
use super::state::Shared;

/// Listens on the socket until `cut`, which takes every connection with it.
pub(super) fn listen(shared: &Arc<Shared>, cut: CancellationToken) -> io::Result<()> {
    let _ = std::fs::remove_file(&shared.socket);
    let listener = UnixListener::bind(&shared.socket)?;
    let (shared, tasks) = (Arc::clone(shared), shared.tasks.clone());
    tasks.spawn(async move {
        loop {
            let accepted = tokio::select! {
                () = cut.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            if let Ok((stream, _)) = accepted {
                shared
                    .tasks
                    .spawn(connection(Arc::clone(&shared), stream, cut.clone()));
            }
        }
    });
    Ok(())
}

async fn connection(shared: Arc<Shared>, stream: UnixStream, cut: CancellationToken) {
    let line = cut.child_token();
    let service = service_fn(|request| {
        let (shared, line) = (Arc::clone(&shared), line.clone());
        async move { Ok::<_, Infallible>(route::handle(shared, request, line).await) }
    });
    let served = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::select! {
        () = line.cancelled() => {}
        _ = served => {}
    }
}

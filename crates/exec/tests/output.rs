//! What a child prints arrives whole, in bounded memory, and says what was left out.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![cfg(unix)]

mod support;

use everdict_exec::{CaptureLimits, Launch, MAX_LINE_CHARS, Stream, run};
use support::{World, eventually, lines};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn lines_arrive_while_the_child_runs() {
    let world = World::new();
    let sink = lines();
    let quiet = CancellationToken::new();
    let launch = world.shell("echo one; echo two >&2; while ! [ -e go ]; do sleep 0.01; done; printf three");
    let (exit, ()) = tokio::join!(run(launch, Some(sink.clone()), &quiet), async {
        eventually("both lines are there", || {
            sink.of(Stream::Stdout) == ["one"] && sink.of(Stream::Stderr) == ["two"]
        })
        .await;
        std::fs::write(world.work().join("go"), "").unwrap();
    });
    assert!(exit.unwrap().success());
    assert_eq!(
        sink.of(Stream::Stdout),
        ["one", "three"],
        "a last line without an end counts too"
    );
}

#[tokio::test]
async fn split_multibyte_is_never_replaced() {
    let world = World::new();
    let sink = lines();
    // é, 日, 🦊 byte by byte, with pauses between the reads.
    let bytes = ["303", "251", "346", "227", "245", "360", "237", "246", "212"];
    let line: String = bytes
        .iter()
        .map(|byte| format!("printf '\\{byte}'; sleep 0.02; "))
        .collect();
    let exit = run(world.shell(&line), Some(sink.clone()), &CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(sink.of(Stream::Stdout), ["é日🦊"]);
    assert_eq!(exit.stdout.text(), "é日🦊");
}

#[tokio::test]
async fn a_flood_keeps_head_and_tail_and_counts_the_rest() {
    let world = World::new();
    let launch = Launch {
        capture: CaptureLimits {
            head: 1000,
            tail: 2000,
        },
        ..world.shell("printf BEGIN; head -c 20000000 /dev/zero | tr '\\0' x; printf END")
    };
    let exit = run(launch, None, &CancellationToken::new()).await.unwrap();
    assert!(exit.success());
    assert_eq!(exit.stdout.bytes_left_out, 20_000_008 - 3000);
    assert!(exit.stdout.head.starts_with(b"BEGIN") && exit.stdout.tail.ends_with(b"END"));
    assert!(exit.stdout.text().contains("19997008 bytes left out"));
}

#[tokio::test]
async fn an_endless_line_arrives_in_pieces() {
    let world = World::new();
    let sink = lines();
    let launch = world.shell("head -c 3000000 /dev/zero | tr '\\0' x");
    let exit = run(launch, Some(sink.clone()), &CancellationToken::new())
        .await
        .unwrap();
    assert!(exit.success());
    let pieces = sink.of(Stream::Stdout);
    assert!(pieces.iter().all(|piece| piece.len() <= MAX_LINE_CHARS));
    assert_eq!(pieces.concat().len(), 3_000_000);
}

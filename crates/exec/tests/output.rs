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

/// The most memory this process ever had, in KiB. Each test is a process of its own.
#[cfg(target_os = "linux")]
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Counts, and keeps nothing.
#[derive(Default)]
struct Tally {
    lines: std::sync::atomic::AtomicUsize,
    bytes: std::sync::atomic::AtomicUsize,
}

impl everdict_exec::OutputSink for Tally {
    fn line(&self, _stream: Stream, line: &str) {
        use std::sync::atomic::Ordering::Relaxed;
        self.lines.fetch_add(1, Relaxed);
        self.bytes.fetch_add(line.len(), Relaxed);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn one_line_of_100_mb_grows_memory_by_less_than_32_mb() {
    use std::sync::atomic::Ordering::Relaxed;
    let world = World::new();
    let tally = std::sync::Arc::new(Tally::default());
    let launch = Launch {
        mask: Some(std::sync::Arc::new(everdict_exec::Redactor::new([
            "xxxxxxxy-secret",
        ]))),
        ..world.shell("head -c 100000000 /dev/zero | tr '\\0' x")
    };
    let before = peak_kib();
    let exit = run(launch, Some(tally.clone()), &CancellationToken::new())
        .await
        .unwrap();
    let grown = peak_kib() - before;
    assert!(exit.success());
    assert!(grown < 32 << 10, "grew by {grown} KiB");
    assert_eq!(tally.bytes.load(Relaxed), 100_000_000);
    assert_eq!(exit.stdout.bytes_left_out, 100_000_000 - (8 << 20));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn two_hundred_mb_keep_the_first_mib_and_the_last_seven_and_the_exit_code() {
    let world = World::new();
    let before = peak_kib();
    // Lines of 100 bytes, then an end of its own.
    let exit = run(
        world.shell("yes $(printf '%099d' 7) | head -c 200000000; printf END; exit 3"),
        None,
        &CancellationToken::new(),
    )
    .await
    .unwrap();
    let grown = peak_kib() - before;
    assert_eq!(exit.status, everdict_exec::ExitStatus::Exited(3));
    assert_eq!(exit.stdout.head.len(), 1 << 20);
    assert_eq!(exit.stdout.tail.len(), 7 << 20);
    let left_out = 200_000_003 - (8 << 20);
    assert_eq!(exit.stdout.bytes_left_out, left_out);
    assert!(
        exit.stdout
            .text()
            .contains(&format!("\n[{left_out} bytes left out]\n"))
    );
    assert!(exit.stdout.tail.ends_with(b"END"));
    // What is kept, once as it comes and once as it is given out.
    assert!(grown < 32 << 10, "grew by {grown} KiB");
}

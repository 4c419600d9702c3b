use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Home, skip};

struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id()).expect("a pid");
    // SAFETY: a plain system call on the id of a child that was not waited for yet.
    unsafe { libc::kill(pid, libc::SIGINT) };
}

#[test]
fn ui_prints_a_link_that_opens_the_pages_and_ends_with_a_signal() {
    let home = Home::new();
    home.file(
        "config/settings.toml",
        "[topology]\nendpoint = \"unix:///nonexistent/docker.sock\"\n",
    );
    if everdict_pages::PAGES.is_empty() {
        let refused = home.run(&["ui", "--json"]).exits(6);
        assert!(refused.err.contains("make ui"), "{}", refused.err);
        skip(
            "ui_prints_a_link_that_opens_the_pages_and_ends_with_a_signal",
            "the pages are not built",
        );
        return;
    }
    let child = home
        .command(&["ui", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut child = Guarded(child);
    let mut lines = BufReader::new(child.0.stdout.take().expect("its output")).lines();
    let ready: Value = serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON");
    let url = ready["url"].as_str().expect("a link");
    let (base, ticket) = url.split_once("/#ticket=").expect("a ticket");
    assert!(
        base.starts_with("http://127.0.0.1:") && ticket.len() >= 32,
        "{url}"
    );
    let second = home.run(&["ui"]).exits(6);
    let holder = format!("everdict-runner ui (process {})", child.0.id());
    assert!(second.err.contains(&holder), "{}", second.err);

    let address = base.strip_prefix("http://").expect("plain HTTP on loopback");
    let page = get(address, "/");
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("content-security-policy"),
        "{page}"
    );
    assert!(page.contains("<script"), "{page}");

    interrupt(&child.0);
    let end = Instant::now() + Duration::from_secs(30);
    while child.0.try_wait().expect("its state").is_none() {
        assert!(Instant::now() < end, "it did not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(child.0.wait().expect("its state").code(), Some(0));
}

fn get(address: &str, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a limit");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )
    .expect("a request");
    let mut text = Vec::new();
    stream.read_to_end(&mut text).expect("an answer");
    String::from_utf8_lossy(&text).into_owned()
}

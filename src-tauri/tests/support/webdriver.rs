//! The real window, driven as a person would: WebDriver spoken to WebKit's own driver.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::desktop::Desktop;
use super::{DEADLINE, wait_until};

/// A cold start of the app and its web view answers one request only when both are up.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

/// How the protocol names a reference to an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A window of the app. The app ends with it.
pub struct Page {
    port: u16,
    session: String,
}

impl Page {
    /// Starts the app with its window open.
    pub fn open(desktop: &mut Desktop) -> Self {
        let port = free_port();
        desktop.start_driver(port);
        wait_until("the driver", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let options = json!({"binary": super::app_program(), "args": ["--show"]});
        let wanted = json!({"capabilities": {"alwaysMatch": {"webkitgtk:browserOptions": options}}});
        let mut page = Self {
            port,
            session: String::new(),
        };
        let made = page.ask("POST", "/session", &wanted).expect("a session");
        let session = made["sessionId"].as_str().expect("the session's id");
        session.clone_into(&mut page.session);
        page
    }

    /// Presses the button with this text, once it is there and can be pressed.
    pub fn press(&self, text: &str) {
        self.press_at(&format!("//button[not(@disabled)][normalize-space(.)={text:?}]"));
    }

    /// Presses what an XPath finds.
    pub fn press_at(&self, path: &str) {
        self.until(&format!("a press on {path}"), || {
            let Some(element) = self.find(path) else {
                return false;
            };
            // It may go, move or be covered between the look and the press; then the next look finds out.
            self.command("POST", &format!("/element/{element}/click"), &json!({}))
                .is_ok()
        });
    }

    /// Waits until what an XPath finds shows a text with `wanted` in it.
    pub fn shows_at(&self, path: &str, wanted: &str) {
        self.until(&format!("{wanted:?} at {path}"), || {
            self.text(path).is_some_and(|text| text.contains(wanted))
        });
    }

    /// Waits until the page shows a text anywhere.
    pub fn shows(&self, wanted: &str) {
        self.shows_at("//body", wanted);
    }

    /// What is to be read at an XPath; `None` where there is nothing.
    pub fn text(&self, path: &str) -> Option<String> {
        let element = self.find(path)?;
        let text = self.command("GET", &format!("/element/{element}/text"), &Value::Null);
        text.ok()?.as_str().map(str::to_owned)
    }

    /// Runs a script in the page.
    pub fn script(&self, script: &str) -> Value {
        let body = json!({"script": script, "args": []});
        self.command("POST", "/execute/sync", &body)
            .expect("the script runs")
    }

    /// Keeps a picture of the page for whoever looks at a run afterwards.
    pub fn picture(&self, name: &str) {
        // WebKit takes it with the page's next frame, and a page that is drawn by the processor and at rest has none.
        self.script(
            "const mark = document.createElement('i'); mark.style.cssText = 'position:fixed;width:1px;height:1px';
             document.body.append(mark); let n = 0;
             const timer = setInterval(() => {
               mark.style.background = n % 2 ? '#fefefe' : '#fdfdfd';
               if (++n > 60) { clearInterval(timer); mark.remove(); }
             }, 50);",
        );
        let Ok(Value::String(png)) = self.command("GET", "/screenshot", &Value::Null) else {
            return;
        };
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screens");
        let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, png).expect("base64");
        std::fs::create_dir_all(&dir).expect("a folder for pictures");
        std::fs::write(dir.join(format!("{name}.png")), bytes).expect("the picture");
    }

    /// Ends the session, and the app with it.
    pub fn close(self) {
        // The app may be gone before it has answered.
        let _ = self.command("DELETE", "", &Value::Null);
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            if start.elapsed() > DEADLINE {
                self.picture("failed");
                let page = self.text("//body").unwrap_or_default();
                panic!("timed out waiting for {what}; the page shows:\n{page}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn find(&self, path: &str) -> Option<String> {
        let found = self.command("POST", "/element", &json!({"using": "xpath", "value": path}));
        Some(found.ok()?.get(ELEMENT)?.as_str()?.to_owned())
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        self.ask(method, &format!("/session/{}{path}", self.session), body)
    }

    /// One request on a connection of its own: the driver is on this machine, and a test asks a few hundred times.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = exchange(self.port, method, path, &body).map_err(|error| error.to_string())?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        let answer: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
        match answer["value"].get("error") {
            Some(error) => Err(format!("{error}: {}", answer["value"]["message"])),
            None => Ok(answer["value"].clone()),
        }
    }
}

fn exchange(port: u16, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Free a moment ago; the driver takes no "any port".
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("its number").port()
}

impl Desktop {
    fn start_driver(&mut self, port: u16) {
        let mut driver = self.command("WebKitWebDriver");
        driver
            .arg(format!("--port={port}"))
            .arg("--host=127.0.0.1")
            // The app then lets itself be driven, and does so in no other case.
            .env("TAURI_AUTOMATION", "true")
            .env("TAURI_WEBVIEW_AUTOMATION", "true")
            .stdout(Stdio::null());
        self.guard(&mut driver);
    }
}

use std::future::Future;
use std::sync::Mutex as StdMutex;

use everdict_contracts::ErrorCode;
use serde_json::{Value, json};

use super::*;

mod daemon;

use daemon::{Daemon, Script, image};

/// Far beyond what a local socket takes, also on a machine that is busy.
const SOON: Duration = Duration::from_secs(20);

struct World {
    daemon: Daemon,
    engine: Engine,
    images: Images,
    folder: tempfile::TempDir,
    lines: StdMutex<Vec<String>>,
}

impl World {
    async fn new(change: impl FnOnce(&mut ImageOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = ImageOptions {
            state_dir: folder.path().to_owned(),
            budget_bytes: None,
            refresh_after: None,
            emulates: false,
        };
        change(&mut options);
        let daemon = Daemon::start();
        let engine = Engine::connect(&daemon.address).await.unwrap();
        Self {
            daemon,
            engine,
            images: Images::new(options),
            folder,
            lines: StdMutex::default(),
        }
    }

    async fn ensure(&self, credentials: &[RegistryAuth], cancel: &CancellationToken) -> Outcome {
        let need = ImageNeed {
            image: "r.io/web:1".to_owned(),
            path: "harnessSpec.services[0].image".to_owned(),
        };
        let lines = |line: &str| self.lines.lock().unwrap().push(line.to_owned());
        self.images
            .ensure(
                &self.engine,
                &need,
                credentials,
                PullWatcher {
                    lines: &lines,
                    cancel,
                },
            )
            .await
    }

    async fn get(&self) -> Outcome {
        tokio::time::timeout(SOON, self.ensure(&[], &CancellationToken::new()))
            .await
            .expect("no answer")
    }

    fn script(&self, script: Script) {
        self.daemon.with(|state| state.pulls.push_back(script));
    }

    fn pulls(&self) -> usize {
        self.daemon.with(|state| state.pulled.len())
    }

    async fn until(&self, what: impl Fn(&mut daemon::State) -> bool) {
        let met = async {
            while !self.daemon.with(&what) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, met)
            .await
            .expect("the condition was never met");
    }
}

fn succeeds(id: &'static str) -> Script {
    let event = json!({"id": "a", "status": "Downloading", "progressDetail": {"current": 50, "total": 100}});
    Script::Succeeds {
        id,
        events: vec![event],
    }
}

fn platforms(list: &[&str]) -> Value {
    let list: Vec<Value> = list
        .iter()
        .map(|arch| json!({"os": "linux", "architecture": arch}))
        .collect();
    json!({"Descriptor": {"digest": "sha256:new"}, "Platforms": list})
}

#[tokio::test]
async fn an_image_that_is_there_is_not_pulled() {
    let world = World::new(|_| ()).await;
    world
        .daemon
        .with(|state| state.image = Some(image("id1", "amd64")));
    let found = world.get().await.unwrap();
    assert_eq!((found.id.as_str(), found.pulled), ("id1", false));
    assert_eq!(world.pulls(), 0);
    assert!(world.lines.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_missing_image_is_pulled_once_with_progress() {
    let world = World::new(|_| ()).await;
    world.script(succeeds("id1"));
    let found = world.get().await.unwrap();
    assert!(found.pulled);
    assert!(!world.get().await.unwrap().pulled);
    assert_eq!(world.pulls(), 1);
    let query = world.daemon.with(|state| state.pulled[0].0.clone());
    assert!(
        query.contains("fromImage=r.io%2Fweb") && query.contains("tag=1"),
        "{query}"
    );
    let lines = world.lines.lock().unwrap().join("\n");
    assert!(lines.contains("pulled r.io/web:1 in "), "{lines}");
}

#[tokio::test]
async fn everybody_who_wants_an_image_waits_for_one_pull() {
    let world = World::new(|_| ()).await;
    world.script(succeeds("id1"));
    let all = futures_util::future::join_all((0..5).map(|_| world.get())).await;
    assert!(all.into_iter().all(|found| found.unwrap().id == "id1"));
    assert_eq!(world.pulls(), 1);
}

#[tokio::test]
async fn whoever_stops_waiting_leaves_the_pull_to_the_others() {
    let world = World::new(|_| ()).await;
    world.script(Script::Hangs { id: "id1" });
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let mut staying = Box::pin(world.ensure(&[], &second));
    let mut leaving = Box::pin(world.ensure(&[], &first));
    // The one who leaves began the pull and has driven it so far.
    tokio::select! {
        _ = &mut leaving => panic!("the pull ended"),
        () = world.until(|state| state.pulled.len() == 1) => (),
    }
    assert!(futures_util::poll!(&mut staying).is_pending());
    first.cancel();
    assert_eq!(leaving.await.unwrap_err().code, ErrorCode::Cancelled);
    world.daemon.with(|state| state.release.notify_one());
    let found = tokio::time::timeout(SOON, staying)
        .await
        .expect("nobody drives the pull")
        .unwrap();
    assert_eq!((found.id.as_str(), world.pulls()), ("id1", 1));
    assert_eq!(world.daemon.with(|state| state.hung_up), 0);
}

#[tokio::test]
async fn a_pull_that_nobody_waits_for_is_hung_up() {
    let world = World::new(|_| ()).await;
    for _ in 0..2 {
        world.script(Script::Hangs { id: "id1" });
    }
    let cancel = CancellationToken::new();
    let (outcome, ()) = tokio::join!(world.ensure(&[], &cancel), async {
        world.until(|state| state.pulled.len() == 1).await;
        cancel.cancel();
    });
    assert_eq!(outcome.unwrap_err().code, ErrorCode::Cancelled);
    world.until(|state| state.hung_up == 1).await;
    // Dropping the future does the same.
    tokio::select! {
        _ = world.get() => panic!("the pull ended"),
        () = world.until(|state| state.pulled.len() == 2) => (),
    }
    world.until(|state| state.hung_up == 2).await;
}

#[tokio::test]
async fn a_failure_is_not_kept_for_the_next() {
    let world = World::new(|_| ()).await;
    world.script(Script::Fails {
        status: 404,
        message: "manifest unknown",
    });
    world.script(succeeds("id1"));
    let fault = world.get().await.unwrap_err();
    assert_eq!(fault.code, ErrorCode::BadRequest);
    assert!(
        fault
            .message
            .starts_with("harnessSpec.services[0].image: the image `r.io/web:1` doesn't exist; "),
        "{fault}"
    );
    assert!(world.get().await.is_ok());
}

#[tokio::test]
async fn an_image_for_other_machines_is_refused_before_anything_is_fetched() {
    let world = World::new(|_| ()).await;
    world.daemon.with(|state| {
        state.arch = "arm64";
        state.distribution = Some(platforms(&["amd64", "unknown"]));
    });
    let fault = world.get().await.unwrap_err();
    assert_eq!(fault.code, ErrorCode::BadRequest);
    assert!(
        fault
            .message
            .contains("needs linux/amd64, this machine runs linux/arm64"),
        "{fault}"
    );
    assert_eq!(world.pulls(), 0);
}

#[tokio::test]
async fn a_machine_that_emulates_takes_foreign_images() {
    let world = World::new(|options| options.emulates = true).await;
    world.daemon.with(|state| {
        state.arch = "arm64";
        state.distribution = Some(platforms(&["amd64"]));
    });
    world.script(succeeds("id1"));
    assert!(world.get().await.is_ok());
}

#[tokio::test]
async fn a_foreign_image_that_is_there_already_is_refused_too() {
    let world = World::new(|_| ()).await;
    world
        .daemon
        .with(|state| state.image = Some(image("id1", "arm64")));
    let fault = world.get().await.unwrap_err();
    assert!(
        fault
            .message
            .contains("needs linux/arm64, this machine runs linux/amd64"),
        "{fault}"
    );
}

#[tokio::test]
async fn the_credential_of_the_images_host_goes_along_and_no_other() {
    let world = World::new(|_| ()).await;
    world.script(succeeds("id1"));
    let auth = |host: &str, password: &str| RegistryAuth {
        host: host.to_owned(),
        username: None,
        password: password.into(),
    };
    let all = [auth("other.io", "wrong"), auth("r.io", "right")];
    world.ensure(&all, &CancellationToken::new()).await.unwrap();
    let login = world.daemon.with(|state| state.pulled[0].1.clone());
    // `"username":"everdict","password":"right"` in base64, whatever comes before it.
    let plain = decode_base64(&login);
    assert!(
        plain.contains(r#""username":"everdict","password":"right""#),
        "{plain}"
    );
    assert!(!plain.contains("wrong"), "{plain}");
}

fn decode_base64(text: &str) -> String {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => Some(u32::from(c - b'A')),
        b'a'..=b'z' => Some(u32::from(c - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(c - b'0') + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    let bits: Vec<u32> = text.bytes().filter_map(digit).collect();
    let bytes = bits.chunks(4).flat_map(|group| {
        let word = group
            .iter()
            .enumerate()
            .fold(0, |word, (i, six)| word | six << (18 - 6 * i));
        let bytes = word.to_be_bytes();
        bytes[1..group.len()].to_vec()
    });
    String::from_utf8(bytes.collect()).unwrap()
}

#[tokio::test]
async fn a_registry_that_limits_is_asked_again_after_the_time_it_names() {
    let world = World::new(|_| ()).await;
    for _ in 0..2 {
        world.script(Script::Fails {
            status: 500,
            message: "toomanyrequests: retry-after: 5ms",
        });
    }
    world.script(succeeds("id1"));
    assert!(world.get().await.is_ok());
    assert_eq!(world.pulls(), 3);
    assert!(
        world
            .lines
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.starts_with("pulling r.io/web:1 again in "))
    );
}

#[tokio::test]
async fn a_registry_that_goes_on_limiting_or_wants_too_long_is_reported() {
    let world = World::new(|_| ()).await;
    for _ in 0..3 {
        world.script(Script::Fails {
            status: 500,
            message: "toomanyrequests: retry-after: 5ms",
        });
    }
    assert_eq!(world.get().await.unwrap_err().code, ErrorCode::RateLimited);
    assert_eq!(world.pulls(), 3);
    world.script(Script::Fails {
        status: 500,
        message: "toomanyrequests: retry-after: 3600s",
    });
    assert_eq!(world.get().await.unwrap_err().code, ErrorCode::RateLimited);
    assert_eq!(world.pulls(), 4);
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_pull_is_one() {
    let world = World::new(|_| ()).await;
    let event = json!({"errorDetail": {"message": "write /x: no space left on device"}, "error": "x"});
    world.script(Script::Succeeds {
        id: "id1",
        events: vec![event],
    });
    let fault = world.get().await.unwrap_err();
    assert_eq!(fault.code, ErrorCode::DriverProvisionFailed);
    assert!(
        fault
            .message
            .contains("the docker daemon's disk is full; free space"),
        "{fault}"
    );
}

#[tokio::test]
async fn only_a_tag_that_we_pulled_is_looked_after() {
    let world = World::new(|options| options.refresh_after = Some(Duration::ZERO)).await;
    world.daemon.with(|state| {
        state.image = Some(image("mine", "amd64"));
        state.distribution = Some(platforms(&["amd64"]));
    });
    assert!(!world.get().await.unwrap().pulled, "what the member built stays");
    assert!(world.daemon.with(|state| state.asked.is_empty()));
    world.daemon.with(|state| state.image = None);
    world.script(succeeds("id1"));
    world.script(succeeds("id2"));
    assert_eq!(world.get().await.unwrap().id, "id1");
    let moved = world.get().await.unwrap();
    assert_eq!(
        (moved.id.as_str(), moved.pulled),
        ("id2", true),
        "the registry has another digest"
    );
    world.daemon.with(|state| state.distribution = None);
    assert!(
        !world.get().await.unwrap().pulled,
        "a registry that can't be asked is no reason to fail"
    );
}

#[tokio::test]
async fn only_what_was_pulled_here_is_evicted_and_the_freed_bytes_are_told() {
    let world = World::new(|options| options.budget_bytes = Some(0)).await;
    world.script(succeeds("id1"));
    world.get().await.unwrap();
    let ledger = Ledger::in_folder(world.folder.path());
    ledger
        .change(|entries| entries.get_mut("id1").unwrap().used_at = 0)
        .unwrap();
    world.daemon.with(|state| {
        let row = |id: &str, tag: &str| {
            json!({
                "Id": id, "ParentId": "", "RepoTags": [tag], "RepoDigests": [], "Created": 0, "Size": 7,
                "SharedSize": -1, "Labels": {}, "Containers": -1
            })
        };
        state.images = vec![row("id1", "r.io/web:1"), row("member", "mine:1")];
        state.containers = vec![json!({"Id": "c", "ImageID": "id1"})];
    });
    let usage = world.images.usage(&world.engine).await.unwrap();
    assert_eq!(
        (usage.ours, usage.ours_bytes, usage.evictable.len()),
        (vec!["r.io/web:1".to_owned()], 7, 0)
    );
    assert_eq!(
        world.images.trim(&world.engine).await.unwrap(),
        Trimmed::default(),
        "a container is made of it"
    );
    world.daemon.with(|state| state.containers.clear());
    let trimmed = world.images.trim(&world.engine).await.unwrap();
    assert_eq!(
        trimmed,
        Trimmed {
            removed: vec!["r.io/web:1".to_owned()],
            freed_bytes: 7
        }
    );
    assert_eq!(world.daemon.with(|state| state.removed.clone()), ["id1"]);
    assert!(ledger.read().is_empty());
}

#[tokio::test]
async fn one_image_that_can_not_be_had_ends_the_waiting_for_the_rest() {
    let world = World::new(|_| ()).await;
    world.script(Script::Hangs { id: "id1" });
    world.script(Script::Fails {
        status: 404,
        message: "manifest unknown",
    });
    let need = |image: &str| ImageNeed {
        image: image.to_owned(),
        path: image.to_owned(),
    };
    let (lines, cancel) = (|_: &str| (), CancellationToken::new());
    let watcher = PullWatcher {
        lines: &lines,
        cancel: &cancel,
    };
    let needs = [need("r.io/one:1"), need("r.io/two:1")];
    let all = world.images.ensure_all(&world.engine, &needs, &[], watcher);
    let fault = tokio::time::timeout(SOON, all)
        .await
        .expect("it waits for the other")
        .unwrap_err();
    assert_eq!(fault.code, ErrorCode::BadRequest);
    world.until(|state| state.hung_up == 1).await;
}

/// A future that the runtime may move to another thread, as a case needs it.
#[test]
fn waiting_is_send() {
    fn check<T: Future + Send>(_: impl Fn(&'static World) -> T) {}
    check(|world: &'static World| world.get());
}

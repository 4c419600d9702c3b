//! What can't run is refused before the daemon has made anything: it has nothing else to do, so that shows.

use std::sync::Arc;

use everdict_contracts::decode;
use everdict_testkit::registry::Way;
use everdict_testkit::{Registry, RegistryImage};
use everdict_topology::runtime::DockerTopologyRuntime;
use serde_json::{Value, json};

use super::world::{PrivateWorld, in_private_world};
use crate::bad_specs::{changed, refusal, refused};
use crate::program::{front_door, image_for, processors};

/// What the daemon tells that it has made: containers, networks and volumes, those that are gone again included.
async fn made(world: &PrivateWorld) -> Vec<String> {
    let events = world.events().await.into_iter();
    let made = events.filter(|event| event.action.as_deref() == Some("create"));
    made.map(|event| event.typ.map(|kind| kind.to_string()).unwrap_or_default())
        .collect()
}

struct Tried<'w> {
    world: &'w PrivateWorld,
    runtime: Arc<DockerTopologyRuntime>,
    wrong: Vec<String>,
}

impl Tried<'_> {
    async fn check(&mut self, what: &str, spec: Value, expected: [&str; 2]) {
        let mut scope = self.world.scope("r1");
        let login = json!({"host": self.world.registry.host(), "username": "u", "password": "old"});
        scope.credentials = vec![decode(login).unwrap()];
        let words = refusal(&self.runtime, spec, &scope).await;
        let words = words.unwrap_or_else(|| panic!("{what} was taken"));
        let [path, way_out] = expected;
        if !words.starts_with(path) || !words.contains(way_out) {
            self.wrong.push(format!("{what}: {words}"));
        }
        self.runtime.settle().await;
        assert_eq!(self.world.everything().await, [""; 0], "{what}");
    }
}

#[test]
fn every_bad_spec_is_refused_and_a_daemon_has_made_nothing_for_it() {
    in_private_world("bad_specs", &[], |world| async move {
        let web = world.publish("web", &front_door("web"));
        let runtime = world.runtime().await;
        let (world, wrong) = (&world, Vec::new());
        let mut tried = Tried {
            world,
            runtime,
            wrong,
        };
        for (at, change, path, way_out) in refused() {
            let what = format!("{at} = {change}");
            tried
                .check(&what, changed(&web, at, &change), [path, way_out])
                .await;
        }
        let store = changed(&web, "/dependencies/0/store", &json!("mongodb"));
        let expected = ["harnessSpec.dependencies[0].store", "postgres"];
        tried.check("an unknown store", store, expected).await;
        assert_eq!(world.registry.asked(""), [], "no image was even asked about");

        // Images that nobody here can run, for reasons that only a registry knows.
        let closed = Registry::start().await;
        closed.publish("web", "1", &front_door("web"));
        closed.close_to_all_but("u", "p", Way::Token);
        let foreign: RegistryImage = image_for(processors().1, &["serve", "8080"], "web");
        let images = [
            (
                world.registry.reference("web", "nope"),
                "doesn't exist; check repository and tag",
            ),
            (
                world.publish("foreign", &foreign),
                "isn't made for this machine; publish it",
            ),
            (closed.reference("web", "1"), "needs another login; add or renew"),
        ];
        for (image, way_out) in images {
            let mut spec = changed(&web, "/services/1/image", &json!(image));
            // Stores have images too, and this registry has none for them.
            spec["dependencies"] = json!([]);
            let expected = ["harnessSpec.services[1].image", way_out];
            tried.check(&image, spec, expected).await;
        }
        assert_eq!(tried.wrong, [""; 0], "without its place or the way out");
        assert_eq!(made(world).await, [""; 0], "and nothing that went again");

        // The same daemon takes the spec that they were made from.
        let mut good = changed(&web, "", &Value::Null);
        good["dependencies"] = json!([]);
        assert_eq!(refusal(&tried.runtime, good, &world.scope("r2")).await, None);
        assert!(
            made(world).await.contains(&"network".to_owned()),
            "it tells what it makes"
        );
    });
}

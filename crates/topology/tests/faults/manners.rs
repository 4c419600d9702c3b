//! The fake daemon answers as the real one does: the same script on both, and the answers side by side.

mod script;

use std::time::Duration;

use bollard::Docker;
use everdict_testkit::fake_engine::{Behaviour, ExecAnswer, ExecCall, FakeEngine, FakeImage};

use crate::world::skip;
use script::{Cast, perform};

async fn fake_transcript() -> Vec<String> {
    let fake = FakeEngine::start();
    let shouting = |call: &ExecCall| ExecAnswer {
        stdout: call.stdin.to_ascii_uppercase(),
        code: 4,
        ..ExecAnswer::default()
    };
    fake.load(
        FakeImage::new("fake/sleeper:1", Behaviour::Deaf)
            .line("hello")
            .exec(shouting),
    );
    fake.load(FakeImage::ending("fake/ender:1", Duration::ZERO, 3));
    fake.load(FakeImage::redis("fake/keeper:1"));
    let docker = Docker::connect_with_unix(&fake.address(), 60, bollard::API_DEFAULT_VERSION).unwrap();
    let docker = docker.negotiate_version().await.unwrap();
    let cast = Cast {
        sleeper: "fake/sleeper:1".to_owned(),
        ender: "fake/ender:1".to_owned(),
        keeper: "fake/keeper:1".to_owned(),
    };
    perform(&docker, cast).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fake_answers_as_the_real_daemon_does() {
    const TEST: &str = "the_fake_answers_as_the_real_daemon_does";
    let address = "unix:///var/run/docker.sock";
    let docker = Docker::connect_with_unix(address, 60, bollard::API_DEFAULT_VERSION).unwrap();
    let Ok(docker) = docker.negotiate_version().await else {
        return skip(TEST, "no daemon answers");
    };
    let version = docker.version().await.unwrap().version.unwrap_or_default();
    if !version.starts_with("20.10.") {
        return skip(
            TEST,
            &format!("the fake has the words of 20.10, this is {version}"),
        );
    }
    let cast = Cast {
        sleeper: "everdict/front-door:dev".to_owned(),
        ender: "everdict/front-door:dev".to_owned(),
        keeper: "redis:7-alpine".to_owned(),
    };
    for image in [&cast.sleeper, &cast.keeper] {
        if docker.inspect_image(image).await.is_err() {
            return skip(TEST, &format!("image {image} isn't there"));
        }
    }
    let real = perform(&docker, cast).await;
    let fake = fake_transcript().await;
    assert_eq!(fake, real, "left the fake's, right the daemon's");
}

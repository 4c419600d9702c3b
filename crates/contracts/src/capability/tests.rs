use serde_json::{Value, json};

use super::*;
use crate::decode;

fn needs(change: impl FnOnce(&mut Value)) -> Vec<&'static str> {
    let mut job = json!({
        "evalCase": {"id": "c", "env": {"kind": "prompt"}, "task": "t"},
        "harness": {"id": "h", "version": "1"}
    });
    change(&mut job);
    required_capabilities(&decode(&job).unwrap())
        .into_iter()
        .map(Capability::as_str)
        .collect()
}

#[test]
fn a_plain_job_needs_nothing() {
    assert!(needs(|_| {}).is_empty());
}

#[test]
fn a_case_says_what_it_needs() {
    assert_eq!(needs(|job| job["evalCase"]["image"] = json!("i")), ["docker"]);
    let source =
        |source: Value| needs(|job| job["evalCase"]["env"] = json!({"kind": "repo", "source": source}));
    assert_eq!(
        source(json!({"git": "https://g.example/r", "ref": "main"})),
        ["git"]
    );
    assert!(source(json!({"files": {}})).is_empty());
    assert_eq!(
        needs(|job| job["evalCase"]["env"] = json!({"kind": "browser"})),
        ["browser"]
    );
    assert_eq!(
        needs(|job| job["evalCase"]["env"] = json!({"kind": "os-use"})),
        ["computer-use"]
    );
    let placed = |placement: Value| needs(|job| job["evalCase"]["placement"] = placement);
    assert_eq!(placed(json!({"os": "windows"})), ["os-windows"]);
    assert_eq!(
        placed(json!({"os": "macos", "isolation": "gvisor"})),
        ["os-macos", "sandbox"]
    );
    assert!(placed(json!({"os": "linux"})).is_empty());
}

#[test]
fn a_command_that_wants_a_gpu_needs_one() {
    let spec = json!({"kind": "command", "id": "h", "version": "1", "command": "c", "resources": {"gpu": 1}});
    assert_eq!(needs(|job| job["harnessSpec"] = spec), ["gpu"]);
    assert!(
        needs(|job| job["evalCase"]["resources"] = json!({"gpu": 1})).is_empty(),
        "a case's own wish is not gated"
    );
}

#[test]
fn a_topology_is_judged_by_its_services_not_by_the_case() {
    let job: Value = serde_json::from_str(include_str!("../../fixtures/job_service.json")).unwrap();
    assert_eq!(
        needs(|target| *target = job.clone()),
        ["docker", "os-windows", "gpu"]
    );
    let mut on_host = job;
    on_host["evalCase"]["image"] = json!("i");
    on_host["harnessSpec"]["services"]
        .as_array_mut()
        .unwrap()
        .remove(0);
    assert!(
        needs(|target| *target = on_host).is_empty(),
        "services on the host need no docker"
    );
}

#[test]
fn the_vocabulary_is_written_as_it_is_printed_and_read_back() {
    for word in Capability::ALL {
        assert_eq!(serde_json::to_value(word).unwrap(), json!(word.as_str()));
        assert_eq!(word.as_str().parse(), Ok(word));
    }
    assert!(
        "repo"
            .parse::<Capability>()
            .unwrap_err()
            .to_string()
            .contains("computer-use")
    );
    assert_eq!(
        Capability::known(["git", "repo", "docker", "git"]),
        [Capability::Git, Capability::Docker]
    );
}

#[test]
fn only_security_and_login_words_never_gate() {
    let informing: Vec<_> = Capability::ALL
        .into_iter()
        .filter(|word| !word.is_functional())
        .collect();
    assert_eq!(
        informing,
        [
            Capability::Sandbox,
            Capability::CodexLogin,
            Capability::ClaudeLogin
        ]
    );
}

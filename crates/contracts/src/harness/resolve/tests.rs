use serde_json::{Value, json};

use super::*;
use crate::{ErrorCode, decode};

const TEMPLATE: &str = include_str!("../../../fixtures/template_service.json");
const INSTANCE: &str = include_str!("../../../fixtures/instance_service.json");

fn refusal(change: impl FnOnce(&mut Value, &mut Value)) -> String {
    let mut template: Value = serde_json::from_str(TEMPLATE).unwrap();
    let mut instance: Value = serde_json::from_str(INSTANCE).unwrap();
    change(&mut template, &mut instance);
    let fault = resolve(&decode(&template).unwrap(), &decode(&instance).unwrap()).unwrap_err();
    assert_eq!(fault.code, ErrorCode::BadRequest);
    fault.message
}

#[test]
fn what_does_not_fit_its_template_is_refused_with_the_place() {
    assert_eq!(
        refusal(|_, instance| instance["template"]["version"] = json!("2")),
        "instance booking@7 is of template booking-template@2, not of booking-template@1"
    );
    assert_eq!(
        refusal(|_, instance| instance["pins"] = json!({})),
        "pins.main: service api needs an image, from a pin or from the template"
    );
    assert_eq!(
        refusal(|_, instance| instance["pins"]["native"] = json!("i")),
        "pins.native: service native runs on the host and has no image"
    );
    assert_eq!(
        refusal(|template, _| drop(template.as_object_mut().unwrap().remove("target"))),
        "overrides.target.extension: the template has no target"
    );
    assert_eq!(
        refusal(|_, instance| instance["overrides"]["services"]["ghost"] = json!({})),
        "overrides.services.ghost: the template has no such service"
    );
}

#[test]
fn times_are_patched_only_where_the_template_has_a_completion() {
    let mut template: Value = serde_json::from_str(TEMPLATE).unwrap();
    template["frontDoor"]
        .as_object_mut()
        .unwrap()
        .remove("completion");
    let HarnessSpec::Service(spec) = resolve(&decode(template).unwrap(), &decode(INSTANCE).unwrap()).unwrap()
    else {
        panic!("a service template makes a service harness");
    };
    assert_eq!(spec.front_door.completion, None);
}

#[test]
fn a_command_takes_image_and_model_from_pins_and_merges_the_rest() {
    let template = json!({
        "kind": "command", "category": "agent", "id": "t", "version": "1", "command": "run {{task}}",
        "image": "old", "model": "small", "env": {"A": "1", "B": "1"}, "params": {"p": "1"},
        "resources": {"cpu": 100, "gpu": 1}
    });
    let instance = json!({
        "template": {"id": "t", "version": "1"}, "id": "agent", "version": "2",
        "pins": {"image": "new", "model": "large"},
        "overrides": {"env": {"B": "2"}, "params": {"q": "2"}, "resources": {"cpu": 200}}
    });
    let spec = resolve(&decode(template).unwrap(), &decode(instance).unwrap()).unwrap();
    assert_eq!(
        serde_json::to_value(spec).unwrap(),
        json!({
            "kind": "command", "id": "agent", "version": "2", "command": "run {{task}}", "setup": [],
            "image": "new", "model": "large", "env": {"A": "1", "B": "2"}, "params": {"p": "1", "q": "2"},
            "resources": {"cpu": 200}, "trace": {"kind": "none"}
        })
    );
}

#[test]
fn a_process_is_named_by_its_instance() {
    let template = json!({"kind": "process", "category": "agent", "id": "t", "version": "1"});
    let instance = json!({"template": {"id": "t", "version": "1"}, "id": "claude-code", "version": "2"});
    let spec = resolve(&decode(template).unwrap(), &decode(instance).unwrap()).unwrap();
    assert_eq!((spec.id(), spec.version()), ("claude-code", "2"));
}

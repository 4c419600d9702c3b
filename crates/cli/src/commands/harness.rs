//! `harness push`: store a new version of a harness at the hub.

use std::path::Path;

use everdict_app::{HubClient, HubFault, Problem, Result, dataset};
use everdict_contracts::{HarnessInstance, HarnessSpec, HarnessTemplate, decode, resolve};
use serde_json::{Value, json};

use crate::args::HarnessAction;
use crate::context::Context;
use crate::exit::Exit;

/// What a file can hold, checked.
struct Pushed {
    /// The harness in full, where the file says enough.
    spec: Option<Value>,
    template: Option<Value>,
    instance: Option<Value>,
}

pub(crate) async fn run(context: &Context, action: &HarnessAction) -> Result<Exit> {
    let HarnessAction::Push { file, access } = action;
    let pushed = read(file)?;
    let client = context.client(access).await?;
    if let Some(spec) = &pushed.spec {
        match client.push_harness(spec).await {
            Ok(reply) => {
                context.out.say(format!("Harness {}", name(spec)));
                context.out.document(&json!({"harness": reply}));
                return Ok(Exit::Ok);
            }
            // The spec is known to be good: a hub that refuses it keeps templates and instances instead.
            Err(HubFault::BadRequest { .. }) => {}
            Err(fault) => return Err(fault.into()),
        }
    }
    push_parts(context, &client, &pushed).await
}

async fn push_parts(context: &Context, client: &HubClient, pushed: &Pushed) -> Result<Exit> {
    let mut document = json!({});
    if let Some(template) = &pushed.template {
        document["template"] = client.push_template(template).await?;
        context.out.say(format!("Template {}", name(template)));
    }
    if let Some(instance) = &pushed.instance {
        let reply = client.push_harness(instance).await?;
        context.out.say(format!("Harness {}", name(instance)));
        for key in ["imageWarnings", "portabilityWarnings"] {
            for warning in reply[key].as_array().into_iter().flatten() {
                context.out.warn(
                    warning
                        .as_str()
                        .map_or_else(|| warning.to_string(), str::to_owned),
                );
            }
        }
        document["harness"] = reply;
    }
    context.out.document(&document);
    Ok(Exit::Ok)
}

fn read(file: &Path) -> Result<Pushed> {
    let value = dataset::read_object(file)?;
    let place = file.display();
    let refuse = |path: &str, error: &dyn std::fmt::Display| {
        let dot = if path.is_empty() { "" } else { "." };
        Problem::input(format!("{place}: {path}{dot}{error}")).fix("correct the file; nothing was stored")
    };
    if let (Some(template), Some(instance)) = (value.get("template"), value.get("instance")) {
        let checked = decode::<HarnessTemplate>(template).map_err(|error| refuse("template", &error))?;
        let filled = decode::<HarnessInstance>(instance).map_err(|error| refuse("instance", &error))?;
        let spec = resolve(&checked, &filled).map_err(|error| refuse("instance", &error))?;
        return Ok(Pushed {
            spec: serde_json::to_value(spec).ok(),
            template: Some(template.clone()),
            instance: Some(instance.clone()),
        });
    }
    if value.get("template").is_some() {
        decode::<HarnessInstance>(&value).map_err(|error| refuse("", &error))?;
        return Ok(Pushed {
            spec: None,
            template: None,
            instance: Some(value),
        });
    }
    if value.get("category").is_some() {
        decode::<HarnessTemplate>(&value).map_err(|error| refuse("", &error))?;
        return Ok(Pushed {
            spec: None,
            template: Some(value),
            instance: None,
        });
    }
    decode::<HarnessSpec>(&value).map_err(|error| refuse("", &error))?;
    Ok(from_spec(value))
}

/// A spec is a template without slots and an instance that fills none.
fn from_spec(spec: Value) -> Pushed {
    let (id, version) = (spec["id"].clone(), spec["version"].clone());
    let mut template = spec.clone();
    let category = if template["kind"] == "service" {
        "topology"
    } else {
        "cli"
    };
    template["category"] = json!(category);
    let instance = json!({
        "template": {"id": id, "version": version},
        "id": id,
        "version": version,
        "pins": {},
    });
    Pushed {
        spec: Some(spec),
        template: Some(template),
        instance: Some(instance),
    }
}

fn name(value: &Value) -> String {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    format!("{}@{}", text("id"), text("version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &Value) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h.json");
        std::fs::write(&path, value.to_string()).unwrap();
        (dir, path)
    }

    #[test]
    fn a_spec_becomes_a_template_and_an_instance() {
        let (_dir, path) = written(&json!({"kind": "command", "id": "h", "version": "1", "command": "true"}));
        let pushed = read(&path).unwrap();
        assert_eq!(pushed.template.unwrap()["category"], "cli");
        assert_eq!(
            pushed.instance.unwrap()["template"],
            json!({"id": "h", "version": "1"})
        );
    }

    #[test]
    fn a_bad_file_names_the_json_path() {
        let (_dir, path) = written(&json!({"kind": "command", "id": "h", "version": "1"}));
        let problem = read(&path).err().unwrap().to_string();
        assert!(problem.contains("h.json: command"), "{problem}");
        let (_dir, path) = written(&json!({
            "template": {"kind": "command", "id": "h", "version": "1", "category": "cli", "command": "x"},
            "instance": {"id": "h", "version": "1", "template": {"id": "h"}},
        }));
        let problem = read(&path).err().unwrap().to_string();
        assert!(problem.contains("instance.template.version"), "{problem}");
    }
}

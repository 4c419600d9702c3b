use serde_json::{Value, json};

use crate::plan::tests::{World, spec};

/// Plans `services` on a Postgres and a Redis, and returns the environment of `web`.
fn env_of(world: &World, services: Value, dependencies: Value) -> Result<Vec<(String, String)>, String> {
    let plan = world.plan(spec(services, dependencies))?;
    let web = plan.service("web").unwrap();
    Ok(web
        .env
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

fn get<'e>(env: &'e [(String, String)], name: &str) -> Option<&'e str> {
    env.iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.as_str())
}

fn stores() -> Value {
    json!([
        {"store": "postgres", "role": "app", "isolateBy": "schema"},
        {"store": "redis", "role": "queue", "isolateBy": "key-prefix", "inject": [{"env": "QUEUE"}]}
    ])
}

#[test]
fn later_sources_win_in_the_order_of_the_protocol() {
    let mut world = World::new();
    world
        .store_env
        .insert("OVERLAID".to_owned(), "overlay".to_owned());
    world.store_env.insert("QUEUE".to_owned(), "overlay".to_owned());
    let env = env_of(
        &world,
        json!([
            {
                "name": "web", "image": "i", "port": 1, "needs": ["mcp"],
                "wiring": [{"service": "mcp", "hostEnv": "MCP_HOST", "urlEnv": "MCP_URL", "portEnv": "REDIS_URL"}],
                "env": {"MCP_HOST": "own", "DATABASE_URL": "own", "OVERLAID": "own", "QUEUE": "own", "PLAIN": "own"}
            },
            {"name": "mcp", "image": "i", "port": 90}
        ]),
        stores(),
    )
    .unwrap();
    let expected = [
        ("DATABASE_URL", "own"),
        ("MCP_HOST", "own"),
        ("MCP_URL", "http://mcp:90"),
        ("OVERLAID", "overlay"),
        ("PLAIN", "own"),
        ("QUEUE", "redis://bu-redis:6379"),
        ("REDIS_URI", "redis://bu-redis:6379"),
        ("REDIS_URL", "90"),
    ];
    let got: Vec<(&str, &str)> = env
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(got, expected);
}

#[test]
fn injection_can_be_meant_for_one_service_only() {
    let services = json!([{"name": "web", "image": "i", "port": 1}, {"name": "api", "image": "i"}]);
    let for_service = |name: &str| {
        json!([{
            "store": "postgres", "role": "app", "isolateBy": "schema", "service": name,
            "inject": [{"env": "PG", "template": "{host}/{database}"}]
        }])
    };
    let env = env_of(&World::new(), services.clone(), for_service("web")).unwrap();
    assert_eq!(get(&env, "PG"), Some("bu-postgres/everdict"));
    let env = env_of(&World::new(), services, for_service("api")).unwrap();
    assert_eq!(get(&env, "PG"), None);
    assert!(
        get(&env, "DATABASE_URL").is_some(),
        "the conventional variables go to every service"
    );
}

#[test]
fn peers_are_filled_in_and_other_braces_stay() {
    let filled = |text: &str| {
        let services = json!([
            {"name": "web", "image": "i", "port": 1, "needs": ["mcp.v2"], "env": {"X": text}},
            {"name": "mcp.v2", "image": "i", "port": 90}
        ]);
        get(&env_of(&World::new(), services, json!([])).unwrap(), "X")
            .unwrap()
            .to_owned()
    };
    assert_eq!(filled("{{mcp.v2}}"), "http://mcp.v2:90");
    assert_eq!(
        filled("{{ mcp.v2.url }}/sse?h={{mcp.v2.host}}&p={{mcp.v2.port}}"),
        "http://mcp.v2:90/sse?h=mcp.v2&p=90"
    );
    for text in [
        "{{task}}",
        "{{unknown.host}}",
        "{{",
        "{{}}",
        "{{ }}",
        "{{a b}}",
        "{mcp.v2}",
        "}}",
        "{{{",
    ] {
        assert_eq!(filled(text), text);
    }
    assert_eq!(
        filled("{{{mcp.v2.port}}}"),
        "{{{mcp.v2.port}}}".replace("{{mcp.v2.port}}", "90")
    );
}

#[test]
fn a_peer_that_is_not_needed_or_has_no_port_is_refused() {
    let with = |needs: Value, text: &str| {
        let services = json!([
            {"name": "web", "image": "i", "port": 1, "needs": needs, "env": {"X": text}},
            {"name": "mcp", "image": "i", "port": 90},
            {"name": "job", "image": "i"}
        ]);
        env_of(&World::new(), services, json!([])).unwrap_err()
    };
    let error = with(json!([]), "{{mcp.host}}");
    assert_eq!(
        error,
        "harnessSpec.services[0].env.X: `{{mcp.host}}` names a service that isn't needed; add `mcp` to `needs`"
    );
    let error = with(json!(["job"]), "{{job}}");
    assert!(
        error.ends_with("names a service without a port; give `job` a `port`"),
        "{error}"
    );
}

#[test]
fn a_wired_peer_without_a_port_is_left_out() {
    let services = json!([
        {"name": "web", "image": "i", "port": 1, "wiring": [{"service": "job", "urlEnv": "JOB"}]},
        {"name": "job", "image": "i"}
    ]);
    assert_eq!(
        get(&env_of(&World::new(), services, json!([])).unwrap(), "JOB"),
        None
    );
}

#[test]
fn names_and_values_that_no_variable_can_have_are_refused() {
    for (name, value) in [("A=B", "x"), ("", "x"), ("A", "x\0y")] {
        let services = json!([{"name": "web", "image": "i", "port": 1, "env": {name: value}}]);
        let error = env_of(&World::new(), services, json!([])).unwrap_err();
        assert!(error.starts_with("harnessSpec.services[0].env: `"), "{error}");
    }
}

use std::path::Path;
use std::time::Duration;

use everdict_exec::{ChildEnv, Exit, HostEnv, Launch, run};
use proptest::prelude::*;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;

/// Runs a rendered command as a case does.
fn shell(rendered: &Rendered, cwd: &Path) -> Exit {
    let host = HostEnv::from_pairs([("PATH", "/usr/bin:/bin")]);
    let mut env = ChildEnv::for_job(&host, cwd);
    for (name, value) in &rendered.env {
        env.set(name, value);
    }
    env.set("TMPDIR", cwd);
    let mut launch = Launch::shell(&rendered.command, cwd, env);
    launch.timeout = Some(Duration::from_secs(20));
    launch.grace = Duration::ZERO;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(run(launch, None, &CancellationToken::new()))
        .unwrap()
}

fn rendered(template: &str, task: &str) -> Rendered {
    render(template, &Values::new(task, "the model", "run-1", None)).unwrap()
}

fn printed(template: &str, task: &str) -> String {
    let dir = TempDir::new().unwrap();
    let exit = shell(&rendered(template, task), dir.path());
    assert!(exit.success(), "{template}: {}", exit.stderr.text());
    exit.stdout.text()
}

/// Places of a token, as one argument each, with what stands around the value in the argument.
const PLACES: &[(&str, &str, &str)] = &[
    ("{{task}}", "", ""),
    ("\"{{task}}\"", "", ""),
    ("'{{task}}'", "", ""),
    ("a{{task}}b", "a", "b"),
    ("\"a 'b {{task}} c' d\"", "a 'b ", " c' d"),
    ("'a \"b {{task}} c\" d'", "a \"b ", " c\" d"),
    ("\\'{{task}}\\\"", "'", "\""),
    ("'it'\\''s {{task}}'", "it's ", ""),
    ("\"$(printf '%s.' {{task}})\"", "", "."),
    ("\"$(printf '%s.' \"{{task}}\")\"", "", "."),
    ("\"$(printf '%s.' '{{task}}')\"", "", "."),
    ("\"$(echo ')' >&2; printf '%s.' {{task}})\"", "", "."),
    ("\"`printf '%s.' {{task}}`\"", "", "."),
    ("\"$((1 << 2)) {{task}}\"", "4 ", ""),
    ("\"${unset-{{task}}}\"", "", ""),
    ("${unset-\"{{task}}\"}", "", ""),
    ("x#{{task}}", "x#", ""),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_value_arrives_as_it_is_wherever_its_token_stands(value in "[^\0]{0,40}|[ '\"`$(){};&|<>*\\\\\n#a-]{0,20}") {
        let arguments: Vec<_> = PLACES.iter().map(|(place, _, _)| *place).collect();
        let template = format!("printf '%s\\000' {}", arguments.join(" "));
        let expected: String = PLACES.iter().map(|(_, before, after)| format!("{before}{value}{after}\0")).collect();
        prop_assert_eq!(printed(&template, &value), expected);
    }

    #[test]
    fn no_template_lets_a_value_run(
        before in "[ '\"`$(){}<>|&;#\n=ab\\\\-]{0,12}",
        after in "[ '\"`$(){}<>|&;#\n=ab\\\\-]{0,12}",
    ) {
        let dir = TempDir::new().unwrap();
        let task = "x; touch ran; $(touch ran) `touch ran` '; touch ran; ' \"; touch ran; \"\ntouch ran\n";
        if let Ok(rendered) = render(&format!("{before}{{{{task}}}}{after}"), &Values::new(task, "", "", None)) {
            shell(&rendered, dir.path());
            prop_assert!(!dir.path().join("ran").exists(), "{}", rendered.command);
        }
    }
}

#[test]
fn a_here_document_carries_the_value() {
    for (template, expected) in [
        (
            "cat <<EOF\nit's {{task}}\nEOF\nprintf %s {{task}}",
            "it's $x \"y\"\n$x \"y\"",
        ),
        (
            "cat <<-END\n\t{{task}}\n\tEND\nprintf %s '{{task}}'",
            "$x \"y\"\n$x \"y\"",
        ),
        (
            "cat <<A; cat <<B\n{{task}}\nA\n\"{{task}}\"\nB",
            "$x \"y\"\n\"$x \"y\"\"\n",
        ),
        (
            "cat <<'Q'\nno 'token\nQ\nprintf %s {{task}}",
            "no 'token\n$x \"y\"",
        ),
    ] {
        assert_eq!(printed(template, "$x \"y\""), expected, "{template}");
    }
}

#[test]
fn a_token_where_nothing_expands_is_refused() {
    for delimiter in ["'EOF'", "\"EOF\"", "\\EOF"] {
        let template = format!("cat <<{delimiter}\n{{{{task}}}}\nEOF");
        let fault = render(&template, &Values::new("t", "", "", None)).unwrap_err();
        assert!(fault.message.contains("here-document"), "{fault}");
    }
}

#[test]
fn a_comment_is_no_place_for_a_value() {
    let template = "# it's {{task}}\nprintf %s {{task}} # \"{{task}}";
    assert_eq!(printed(template, "a\necho injected"), "a\necho injected");
}

#[test]
fn unknown_tokens_and_near_misses_stay() {
    let task = "t";
    for template in [
        "{{unknown}}",
        "{{ task }}",
        "{task}",
        "{{task",
        "{{}}",
        "$& $$ {{tasks}}",
    ] {
        let rendered = rendered(template, task);
        assert_eq!((rendered.command.as_str(), rendered.env.len()), (template, 0));
    }
    assert_eq!(rendered("{{{task}}}", task).command, "{\"${EVERDICT_VALUE_0}\"}");
}

#[test]
fn one_value_has_one_variable() {
    let rendered = rendered("{{task}} {{model}} {{task}} {{run_id}}", "say 'hi'");
    assert_eq!(
        rendered.command,
        "\"${EVERDICT_VALUE_0}\" \"${EVERDICT_VALUE_1}\" \"${EVERDICT_VALUE_0}\" \"${EVERDICT_VALUE_2}\""
    );
    let values: Vec<_> = rendered.env.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["say 'hi'", "the model", "run-1"]);
    assert_eq!(
        rendered.shown,
        r"'say '\''hi'\''' 'the model' 'say '\''hi'\''' 'run-1'"
    );
}

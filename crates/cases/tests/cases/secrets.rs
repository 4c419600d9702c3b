//! Nothing that a case shows or returns has a known secret in it.

use serde_json::json;

use super::*;

const SECRET: &str = "kX9-pQ4/zz+Tok\"en";

/// `SECRET` by the book.
const BASE64: [&str; 3] = [
    "a1g5LXBRNC96eitUb2siZW4", // secret
    "tYOS1wUTQvenorVG9rImVu",  // x + secret + y, without the characters that hold bits of x and y
    "rWDktcFE0L3p6K1RvayJlb",  // xx + secret + yy, likewise
];

/// A case with the secret in its environment.
fn leaky(command: &str) -> Value {
    command_job(
        command,
        json!({ "harnessSpec": { "env": { "MY_TOKEN": SECRET } } }),
    )
}

fn all_of_it(world: &World, result: &CaseResult) -> String {
    let batches = world.seen.batches.lock().unwrap().clone();
    format!(
        "{}\n{}\n{}",
        world.lines().join("\n"),
        serde_json::to_string(&batches).unwrap(),
        serde_json::to_string(result).unwrap()
    )
}

#[track_caller]
fn assert_clean(shown: &str) {
    let json = SECRET.replace('"', "\\\"");
    for form in [SECRET, &json].into_iter().chain(BASE64) {
        assert!(!shown.contains(form), "{form} is in {shown}");
    }
}

#[tokio::test]
async fn a_secret_printed_in_two_writes_is_masked_in_view_and_result() {
    let world = World::new();
    let job = leaky(
        r#"printf 'a %.6s' "$MY_TOKEN"; sleep 0.2; printf '%s b\n' "${MY_TOKEN#??????}"; printf 'err %s' "$MY_TOKEN" >&2"#,
    );
    let result = world.run(job).await.unwrap();
    let lines = world.lines();
    assert!(lines.contains(&"a *** b".to_owned()), "{lines:?}");
    assert!(lines.contains(&"err ***".to_owned()), "{lines:?}");
    assert_eq!(answers(&result), ["a *** b"]);
    assert_clean(&all_of_it(&world, &result));
}

#[tokio::test]
async fn a_secret_across_the_read_buffer_and_the_longest_line_is_masked() {
    for filler in [16_000 - 5, 16_384 - 5, 32_768 - 3] {
        let world = World::new();
        let job = leaky(&format!(
            "head -c {filler} /dev/zero | tr '\\0' x; printf '%s%s\\n' \"$MY_TOKEN\" end"
        ));
        let result = world.run(job).await.unwrap();
        let lines = world.lines().concat();
        assert!(lines.contains("x***end"), "{filler}: {}", lines.len());
        assert_clean(&all_of_it(&world, &result));
    }
}

#[tokio::test]
async fn a_secret_is_masked_in_every_common_encoding() {
    let world = World::new();
    let job = leaky(concat!(
        r#"printf '%s' "$MY_TOKEN" | base64; printf 'x%sy' "$MY_TOKEN" | base64; printf 'xx%syy' "$MY_TOKEN" | base64; "#,
        r#"echo 'kX9-pQ4%2Fzz%2BTok%22en'; echo 'kX9-pQ4/zz+Tok\"en'; echo 'kX9-pQ4/zz+Tok&quot;en'"#,
    ));
    let result = world.run(job).await.unwrap();
    let shown = all_of_it(&world, &result);
    assert_clean(&shown);
    for escaped in ["kX9-pQ4%2Fzz%2BTok%22en", "kX9-pQ4/zz+Tok&quot;en"] {
        assert!(!shown.contains(escaped), "{escaped} is in {shown}");
    }
    assert_eq!(
        world.lines().iter().filter(|line| line.contains("***")).count(),
        6
    );
}

#[tokio::test]
async fn a_secret_in_a_file_a_diff_or_a_grader_is_masked_in_the_result() {
    let world = World::new();
    let change = json!({
        "evalCase": {
            "env": { "kind": "repo", "source": { "files": { "a.txt": "a\n" } } },
            "graders": [{ "id": "command", "config": { "cmd": "cat leak.txt; exit 1" } }],
        },
        "harnessSpec": { "env": { "MY_TOKEN": SECRET }, "trace": { "kind": "file", "path": "t.json" } },
    });
    let job = command_job(
        r#"printf '%s\n' "$MY_TOKEN" > leak.txt; printf '[{"t":1,"kind":"message","role":"assistant","text":"kX9-pQ4/zz+Tok\\"en"}]' > t.json"#,
        change,
    );
    let result = world.run(job).await.unwrap();
    let text = serde_json::to_string(&result).unwrap();
    assert!(
        text.contains("+***"),
        "the diff shows that there was something: {text}"
    );
    assert_eq!(answers(&result), ["***"]);
    assert_clean(&all_of_it(&world, &result));
}

#[tokio::test]
async fn a_secret_of_the_host_is_masked_although_the_case_never_got_it() {
    let world = World::new().with_host("CLOUD_API_KEY", "host-secret-1234");
    let result = world
        .run(command_job("echo host-secret-1234", json!({})))
        .await
        .unwrap();
    assert_eq!(answers(&result), ["***"]);
}

#[tokio::test]
async fn a_fault_shows_no_secret() {
    let world = World::new();
    let change = json!({ "harnessSpec": { "env": { "MY_TOKEN": SECRET }, "setup": ["echo \"$MY_TOKEN\" >&2; exit 1"] } });
    let fault = world.run(command_job("true", change)).await.unwrap_err();
    assert!(fault.full_message().contains("***"), "{fault}");
    assert_clean(&format!("{} {:?}", fault.full_message(), fault.extra.log_tail));
}

//! What a file holds, told before anything is submitted and without a harness being chosen.

use everdict_contracts::{BUILT_IN_HARNESSES, HarnessRef, HarnessSpec, RunRequest, decode};
use serde_json::{Value, json};

use super::{Defaults, HarnessChoice, records, submission};

/// More than this nobody reads through; all of them are still checked.
const MAX_CASES: usize = 1000;

/// More problems than this are the same one again and again.
const MAX_PROBLEMS: usize = 100;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// One case, alone or as a run.
    Case,
    /// Several.
    Dataset,
    /// A harness.
    Harness,
}

/// A readable case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCase {
    /// Where it stands.
    pub place: String,
    /// Its id.
    pub id: String,
    /// The kind of its environment.
    pub env: String,
    /// The graders that it names.
    pub graders: Vec<String>,
    /// The harness that it names itself, `id@version`.
    pub harness: Option<String>,
    /// That harness, where the hub has to know it: it is no built-in one, and its spec isn't in the file.
    pub registered: Option<HarnessRef>,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub contents: Contents,
    /// The readable cases, the first thousand.
    pub cases: Vec<FoundCase>,
    /// Place and what is wrong there, the first hundred.
    pub problems: Vec<(String, String)>,
}

/// Looks at the text of one file; `name` is used in places. Never fails: what is wrong is among the problems.
#[must_use]
pub fn preview(name: &str, text: &str) -> Found {
    let mut found = Found {
        contents: Contents::Case,
        cases: Vec::new(),
        problems: Vec::new(),
    };
    let records = records(name, text);
    if let [Ok((place, value))] = records.as_slice()
        && is_harness(value)
    {
        found.contents = Contents::Harness;
        if let Err(error) = decode::<HarnessSpec>(value) {
            found.problems.push((place.clone(), error.to_string()));
        }
        return found;
    }
    if records.len() > 1 {
        found.contents = Contents::Dataset;
    }
    if records.is_empty() {
        let nothing = "the file holds no case".to_owned();
        found.problems.push((name.to_owned(), nothing));
    }
    for record in records {
        match record.and_then(|(place, value)| case(place, value)) {
            Ok(case) if found.cases.len() < MAX_CASES => found.cases.push(case),
            Ok(_) => {}
            Err(line) if found.problems.len() < MAX_PROBLEMS => found.problems.push(placed(name, &line)),
            Err(_) => {}
        }
    }
    found
}

/// A harness says how it runs; a case says what world it needs, and a run says which case.
fn is_harness(value: &Value) -> bool {
    value.get("kind").is_some_and(Value::is_string)
        && value.get("version").is_some()
        && value.get("env").is_none_or(|env| env.get("kind").is_none())
        && value.get("case").is_none()
}

fn case(place: String, value: Value) -> Result<FoundCase, String> {
    let own = value
        .get("harness")
        .or_else(|| value.get("harnessSpec"))
        .map(|harness| {
            let part = |key: &str| harness.get(key).and_then(Value::as_str).unwrap_or_default();
            format!("{}@{}", part("id"), part("version"))
        });
    let names_one = value.get("harness").is_some() && value.get("harnessSpec").is_none();
    // Which harness runs it is chosen later; until then any will do.
    let any = Defaults {
        harness: Some(HarnessChoice::Registered {
            id: "any".to_owned(),
            version: "1".to_owned(),
        }),
        runtime: None,
    };
    let ready = submission(place.clone(), value, &any)?;
    let request = decode::<RunRequest>(&ready.body).map_err(|error| format!("{place}: {error}"))?;
    // A run of it would be refused for this by whoever leases it.
    everdict_cases::check_graders(&request.case).map_err(|fault| {
        let path = fault.message.replacen("evalCase.", "case.", 1);
        format!("{place}: {path}")
    })?;
    let env = serde_json::to_value(&request.case.env).unwrap_or(json!({}));
    let kind = env.get("kind").and_then(Value::as_str).unwrap_or_default();
    let graders = request.case.graders.iter().map(|grader| grader.id.clone());
    let graders = graders.collect();
    let registered =
        Some(request.harness).filter(|named| names_one && !BUILT_IN_HARNESSES.contains(&named.id.as_str()));
    Ok(FoundCase {
        place,
        id: ready.case_id,
        env: kind.to_owned(),
        graders,
        harness: own,
        registered,
    })
}

/// Splits `place: what` where `place` begins with the name of the file.
fn placed(name: &str, line: &str) -> (String, String) {
    let after = line.strip_prefix(name).and_then(|rest| rest.find(": "));
    match after {
        Some(at) => {
            let (place, what) = line.split_at(name.len() + at);
            (place.to_owned(), what.trim_start_matches(": ").to_owned())
        }
        None => (name.to_owned(), line.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataset_shows_its_cases_and_every_problem_with_its_place() {
        let good = json!({"id": "a", "env": {"kind": "prompt"}, "task": "t", "graders": [{"id": "steps"}]});
        let own = json!({"harness": {"id": "h", "version": "2"}, "case": {"id": "b", "env": {"kind": "prompt"}, "task": "t"}});
        let bad = json!({"id": "c", "env": {"kind": "moon"}, "task": "t"});
        let text = format!("{good}\n{own}\n{bad}\n{{oops\n");
        let found = preview("a: b.jsonl", &text);
        assert_eq!(found.contents, Contents::Dataset);
        let first = &found.cases[0];
        assert_eq!((first.id.as_str(), first.env.as_str()), ("a", "prompt"));
        assert_eq!(
            (&first.graders, &first.harness),
            (&vec!["steps".to_owned()], &None)
        );
        assert_eq!(first.registered, None);
        let second = &found.cases[1];
        assert_eq!(second.harness.as_deref(), Some("h@2"));
        assert_eq!(second.registered, Some(HarnessRef::new("h", "2")));
        assert_eq!(found.problems[0].0, "a: b.jsonl:3");
        assert!(
            found.problems[0].1.starts_with("case.env"),
            "{:?}",
            found.problems
        );
        assert_eq!(found.problems[1].0, "a: b.jsonl:4");
        assert!(
            found.problems[1].1.starts_with("not JSON"),
            "{:?}",
            found.problems
        );
    }

    #[test]
    fn a_grader_that_no_run_could_use_is_a_problem_with_its_path() {
        let with = |graders: Value| {
            let case = json!({"id": "a", "env": {"kind": "prompt"}, "task": "t", "graders": graders});
            preview("a.json", &case.to_string()).problems
        };
        let (place, what) = &with(json!([{"id": "steps"}, {"id": "vibes"}]))[0];
        assert_eq!(place, "a.json:1");
        assert!(
            what.starts_with("case.graders[1].id: no grader is named `vibes`; known are "),
            "{what}"
        );
        let (_, what) = &with(json!([{"id": "answer-match", "config": {"mode": "telepathy"}}]))[0];
        assert!(what.starts_with("case.graders[0].config"), "{what}");
        assert_eq!(with(json!([{"id": "steps"}])), []);
    }

    #[test]
    fn only_a_harness_without_its_spec_has_to_be_known_by_the_hub() {
        let case = json!({"id": "a", "env": {"kind": "prompt"}, "task": "t"});
        let spec = json!({"kind": "command", "id": "h", "version": "2", "command": "true"});
        let registered = |run: Value| preview("a.json", &run.to_string()).cases[0].registered.clone();
        let named = json!({"id": "h", "version": "2"});
        assert_eq!(
            registered(json!({"harness": named, "case": case})),
            Some(HarnessRef::new("h", "2"))
        );
        assert_eq!(
            registered(json!({"harness": named, "harnessSpec": spec, "case": case})),
            None
        );
        assert_eq!(registered(json!({"harnessSpec": spec, "case": case})), None);
        let built_in = json!({"id": "scripted", "version": "1"});
        assert_eq!(registered(json!({"harness": built_in, "case": case})), None);
    }

    #[test]
    fn a_harness_is_told_from_a_case() {
        let harness = json!({"kind": "command", "id": "h", "version": "1", "command": "true"});
        let found = preview("h.json", &harness.to_string());
        assert_eq!((found.contents, found.problems), (Contents::Harness, vec![]));
        let broken = json!({"kind": "command", "id": "h", "version": "1"});
        let found = preview("h.json", &broken.to_string());
        assert_eq!(found.contents, Contents::Harness);
        assert!(found.problems[0].1.contains("command"), "{:?}", found.problems);
        let case = json!({"id": "a", "env": {"kind": "prompt"}, "task": "t"});
        assert_eq!(preview("c.json", &case.to_string()).contents, Contents::Case);
    }

    #[test]
    fn nonsense_is_a_problem_and_not_a_crash() {
        for text in ["", "[]", "null", "\u{0}", "<html></html>", "{\"kind\": 3}"] {
            assert!(!preview("x.json", text).problems.is_empty(), "{text:?}");
        }
    }
}

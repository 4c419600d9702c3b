//! Files of cases, read and checked as a whole before anything is submitted.
//!
//! A file is one JSON object, an array of them, or JSON Lines with one per line. Each is either what `POST /runs`
//! takes (it has `case`) or a bare case, which then needs a harness from the options. A record may say with
//! `expect` which verdict its author wants; it is not sent.

mod preview;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use everdict_contracts::{HarnessSpec, RunRequest, decode};
use serde_json::{Map, Value, json};

use crate::problem::{Problem, Result};
use everdict_contracts::Verdict;
pub use preview::{Contents, Found, FoundCase, preview};

/// More problems than this scroll the first ones away.
const MAX_SHOWN: usize = 20;

/// One record, checked and ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// Where it came from: `file:line`, or `file[index]` in an array.
    pub place: String,
    /// The id of its case.
    pub case_id: String,
    /// The body for `POST /runs`.
    pub body: Value,
    /// The verdict its author wants, where the record says so.
    pub expect: Option<Verdict>,
}

/// What records that don't say it themselves are run with.
#[derive(Debug, Clone, Default)]
pub struct Defaults {
    /// The harness.
    pub harness: Option<HarnessChoice>,
    /// The target.
    pub runtime: Option<String>,
}

/// A harness chosen on the command line.
#[derive(Debug, Clone)]
pub enum HarnessChoice {
    /// One that the hub knows.
    Registered {
        /// Its id.
        id: String,
        /// Its version.
        version: String,
    },
    /// One sent along with each case.
    Inline(Value),
}

impl HarnessChoice {
    /// Parses `id@version`.
    ///
    /// # Errors
    /// A problem about input.
    pub fn registered(text: &str) -> Result<Self> {
        match text.rsplit_once('@') {
            Some((id, version)) if !id.is_empty() && !version.is_empty() => Ok(Self::Registered {
                id: id.to_owned(),
                version: version.to_owned(),
            }),
            _ => Err(Problem::input(format!("\"{text}\" does not name a harness"))
                .fix("write it as id@version, for example fixer@1.0.0")),
        }
    }

    /// Reads a harness spec from a file.
    ///
    /// # Errors
    /// A problem about input with `file:line` or the JSON path.
    pub fn from_file(path: &Path) -> Result<Self> {
        let value = read_object(path)?;
        decode::<HarnessSpec>(&value)
            .map_err(|error| Problem::input(format!("{}: {error}", path.display())))?;
        Ok(Self::Inline(value))
    }
}

/// Reads one JSON object from a file.
///
/// # Errors
/// A problem about input with `file:line`.
pub fn read_object(path: &Path) -> Result<Value> {
    let text = read(path)?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| syntax(&path.display().to_string(), 0, &error))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(Problem::input(format!("{}:1: not a JSON object", path.display())))
    }
}

/// Reads `files` and checks every record.
///
/// # Errors
/// One problem about input that lists each bad record with its place and JSON path.
pub fn load(files: &[PathBuf], defaults: &Defaults) -> Result<Vec<Submission>> {
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for file in files {
        let text = read(file)?;
        let name = file.display().to_string();
        for record in records(&name, &text) {
            match record.and_then(|(place, value)| submission(place, value, defaults)) {
                Ok(submission) => good.push(submission),
                Err(line) => bad.push(line),
            }
        }
    }
    if !bad.is_empty() {
        return Err(refuse(&bad));
    }
    if good.is_empty() {
        return Err(
            Problem::input("the files hold no case").fix("put one JSON object per line, or one in the file")
        );
    }
    Ok(good)
}

/// Checks the text of one file; `name` is used in places.
///
/// # Errors
/// As [`load`].
pub fn parse(name: &str, text: &str, defaults: &Defaults) -> Result<Vec<Submission>> {
    let parts: Vec<_> = records(name, text)
        .into_iter()
        .map(|record| record.and_then(|(place, value)| submission(place, value, defaults)))
        .collect();
    let bad: Vec<String> = parts
        .iter()
        .filter_map(|part| part.as_ref().err().cloned())
        .collect();
    if bad.is_empty() {
        Ok(parts.into_iter().flatten().collect())
    } else {
        Err(refuse(&bad))
    }
}

type Record = Result<(String, Value), String>;

fn records(name: &str, text: &str) -> Vec<Record> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(values)) => values
            .into_iter()
            .enumerate()
            .map(|(index, value)| Ok((format!("{name}[{index}]"), value)))
            .collect(),
        Ok(value) => vec![Ok((format!("{name}:{}", first_line(text)), value))],
        Err(error) if is_json_lines(name, text) => lines(name, text, &error),
        Err(error) => vec![Err(syntax_text(name, 0, &error))],
    }
}

/// A broken single document and JSON Lines both fail to parse as one value; the name or a whole first line tells.
fn is_json_lines(name: &str, text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    name.ends_with(".jsonl")
        || name.ends_with(".ndjson")
        || first.is_some_and(|line| serde_json::from_str::<Value>(line).is_ok())
}

fn lines(name: &str, text: &str, whole: &serde_json::Error) -> Vec<Record> {
    let found: Vec<Record> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            serde_json::from_str(line)
                .map(|value| (format!("{name}:{}", index + 1), value))
                .map_err(|error| syntax_text(name, index, &error))
        })
        .collect();
    if found.is_empty() {
        return vec![Err(syntax_text(name, 0, whole))];
    }
    found
}

fn first_line(text: &str) -> usize {
    1 + text
        .bytes()
        .take_while(u8::is_ascii_whitespace)
        .filter(|byte| *byte == b'\n')
        .count()
}

fn submission(place: String, value: Value, defaults: &Defaults) -> Result<Submission, String> {
    let Value::Object(mut record) = value else {
        return Err(format!("{place}: not a JSON object"));
    };
    let expect = match record.remove("expect") {
        None => None,
        Some(wanted) => Some(serde_json::from_value(wanted.clone()).map_err(|_| {
            format!(
                "{place}: expect: {wanted} is no verdict; allowed: pass, fail, timeout, unmeasured, infra"
            )
        })?),
    };
    let mut body = if record.contains_key("case") {
        record
    } else {
        Map::from_iter([("case".to_owned(), Value::Object(record))])
    };
    add_harness(&place, &mut body, defaults)?;
    add_runtime(&mut body, defaults);
    let body = Value::Object(body);
    let request = decode::<RunRequest>(&body).map_err(|error| format!("{place}: {error}"))?;
    Ok(Submission {
        case_id: request.case.id.to_string(),
        place,
        body,
        expect,
    })
}

fn add_harness(place: &str, body: &mut Map<String, Value>, defaults: &Defaults) -> Result<(), String> {
    if body.contains_key("harness") {
        return Ok(());
    }
    // A spec names itself; saying id and version twice would be one more thing to get wrong.
    let spec = match (body.get("harnessSpec"), &defaults.harness) {
        (Some(spec), _) | (None, Some(HarnessChoice::Inline(spec))) => spec.clone(),
        (None, Some(HarnessChoice::Registered { id, version })) => {
            body.insert("harness".to_owned(), json!({"id": id, "version": version}));
            return Ok(());
        }
        (None, None) => {
            return Err(format!(
                "{place}: no harness; add \"harness\", or give --harness or --harness-file"
            ));
        }
    };
    body.insert(
        "harness".to_owned(),
        json!({"id": spec.get("id"), "version": spec.get("version")}),
    );
    body.insert("harnessSpec".to_owned(), spec);
    Ok(())
}

fn add_runtime(body: &mut Map<String, Value>, defaults: &Defaults) {
    let placed = body
        .get("case")
        .and_then(|case| case.pointer("/placement/target"))
        .is_some();
    if let Some(runtime) = defaults.runtime.as_ref().filter(|_| !placed)
        && !body.contains_key("runtime")
    {
        body.insert("runtime".to_owned(), Value::String(runtime.clone()));
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        Problem::input(format!("can't read {}", path.display()))
            .fix("check the path; the file must be UTF-8 text")
            .because(error)
    })
}

fn refuse(bad: &[String]) -> Problem {
    let mut text = match bad {
        [one] => return Problem::input(one.clone()).fix("correct it and submit again; nothing was sent"),
        _ => format!("{} records can't be used", bad.len()),
    };
    for line in bad.iter().take(MAX_SHOWN) {
        // Writing to a String can't fail.
        let _ = write!(text, "\n  {line}");
    }
    if bad.len() > MAX_SHOWN {
        let _ = write!(text, "\n  and {} more", bad.len() - MAX_SHOWN);
    }
    Problem::input(text).fix("correct them and submit again; nothing was sent")
}

fn syntax(name: &str, lines_before: usize, error: &serde_json::Error) -> Problem {
    Problem::input(syntax_text(name, lines_before, error))
}

fn syntax_text(name: &str, lines_before: usize, error: &serde_json::Error) -> String {
    let line = lines_before + error.line().max(1);
    let text = error.to_string();
    // serde_json ends with its own position, which counts from the start of the record.
    let what = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(what, _)| what);
    format!("{name}:{line}: not JSON: {what} (column {})", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(id: &str) -> Value {
        json!({"id": id, "env": {"kind": "prompt"}, "task": "t"})
    }

    fn harness() -> Value {
        json!({"kind": "command", "id": "h", "version": "1", "command": "true"})
    }

    fn with_harness() -> Defaults {
        Defaults {
            harness: Some(HarnessChoice::Inline(harness())),
            runtime: Some("self".to_owned()),
        }
    }

    #[test]
    fn a_bare_case_gets_the_harness_and_runtime_of_the_options() {
        let found = parse("a.json", &case("one").to_string(), &with_harness()).unwrap();
        assert_eq!(found[0].case_id, "one");
        assert_eq!(found[0].body["harness"], json!({"id": "h", "version": "1"}));
        assert_eq!(found[0].body["harnessSpec"], harness());
        assert_eq!(found[0].body["runtime"], "self");
    }

    #[test]
    fn what_a_record_says_itself_is_kept() {
        let mut placed = case("one");
        placed["placement"] = json!({"target": "self:abc"});
        let run = json!({"harness": {"id": "x", "version": "2"}, "case": placed, "expect": "timeout"});
        let found = parse("a.json", &run.to_string(), &with_harness()).unwrap();
        assert_eq!(found[0].body["harness"]["id"], "x");
        assert_eq!(found[0].body.get("harnessSpec"), None);
        assert_eq!(found[0].body.get("runtime"), None);
        assert_eq!(found[0].body.get("expect"), None);
        assert_eq!(found[0].expect, Some(Verdict::Timeout));
    }

    #[test]
    fn lines_and_arrays_are_read_alike() {
        let (a, b) = (case("a"), case("b"));
        let lines = parse("d.jsonl", &format!("{a}\n\n{b}\n"), &with_harness()).unwrap();
        assert_eq!(lines[1].place, "d.jsonl:3");
        let array = parse("d.json", &json!([a, b]).to_string(), &with_harness()).unwrap();
        assert_eq!(array[1].place, "d.json[1]");
        assert_eq!(lines[1].body, array[1].body);
    }

    #[test]
    fn every_bad_line_is_named_with_its_place() {
        let mut broken = case("b");
        broken["env"]["kind"] = json!("moon");
        let text = format!("{}\n{{oops\n{broken}\n[1]\n", case("a"));
        let problem = parse("d.jsonl", &text, &with_harness()).unwrap_err().to_string();
        assert!(problem.starts_with("3 records can't be used"), "{problem}");
        assert!(problem.contains("d.jsonl:2: not JSON:"), "{problem}");
        assert!(problem.contains("d.jsonl:3: case.env"), "{problem}");
        assert!(problem.contains("d.jsonl:4: not a JSON object"), "{problem}");
    }

    #[test]
    fn a_broken_document_names_its_line() {
        let problem = parse("c.json", "{\n  \"id\": ,\n}", &with_harness()).unwrap_err();
        assert!(
            problem.to_string().starts_with("c.json:2: not JSON:"),
            "{problem}"
        );
    }

    #[test]
    fn a_case_without_harness_and_an_odd_expectation_are_refused() {
        let none = parse("c.json", &case("a").to_string(), &Defaults::default()).unwrap_err();
        assert!(none.to_string().contains("--harness-file"), "{none}");
        let odd = json!({"case": case("a"), "expect": "green"});
        let problem = parse("c.json", &odd.to_string(), &with_harness()).unwrap_err();
        assert!(
            problem.to_string().contains("expect: \"green\" is no verdict"),
            "{problem}"
        );
    }

    #[test]
    fn a_harness_is_named_as_id_at_version() {
        assert!(HarnessChoice::registered("a@b@1.0").is_ok());
        for text in ["a", "@1", "a@"] {
            assert!(HarnessChoice::registered(text).is_err(), "{text}");
        }
    }
}

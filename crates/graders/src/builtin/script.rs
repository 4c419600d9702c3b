//! `script`: a program of the case's author reads what happened and answers with scores.

use std::collections::BTreeMap;
use std::time::Duration;

use everdict_contracts::{Fault, Score, decode};
use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};

use super::command::{COMMAND_TIMEOUT, explain, require};
use super::private;
use crate::compute::{Compute, ComputeExec};
use crate::config::Config;
use crate::grader::{GradeError, GradeInput, Grader, Needs};

/// Runs a script with the case, its trace and its snapshot in a JSON file.
#[derive(Debug)]
pub(super) struct Script {
    id: String,
    language: Language,
    program: Program,
    cwd: Option<String>,
    /// Where the script also wants the file, beside being told where it is.
    context_path: Option<String>,
    timeout: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Language {
    Python,
    Node,
}

#[derive(Debug)]
enum Program {
    /// Text of the config, which the agent has never seen.
    Code(String),
    /// A file of the case's tree.
    Entrypoint(String),
}

impl Script {
    /// `None` for a script that wants a container of its own.
    pub(super) fn new(config: &Config<'_>) -> Result<Option<Self>, Fault> {
        let language = match config.text("language")? {
            None | Some("python") => Language::Python,
            Some("node") => Language::Node,
            Some(other) => {
                return Err(config.fault("language", format_args!("`{other}` is neither python nor node")));
            }
        };
        let path = |key: &'static str| -> Result<Option<String>, Fault> {
            match config.name(key)? {
                Some(path)
                    if path.starts_with('/')
                        || path.contains('\0')
                        || path.split('/').any(|part| part == "..") =>
                {
                    Err(config.fault(key, "must be a relative path without `..`"))
                }
                path => Ok(path.map(str::to_owned)),
            }
        };
        let program = match (config.name("code")?, path("entrypoint")?) {
            (Some(code), None) => Program::Code(code.to_owned()),
            (None, Some(entrypoint)) => Program::Entrypoint(entrypoint),
            (Some(_), Some(_)) => {
                return Err(config.fault("code", "stands beside `entrypoint`; give one of them"));
            }
            (None, None) => return Err(config.fault("code", "is required, or an `entrypoint`")),
        };
        let script = Self {
            id: config.name("id")?.unwrap_or("script").to_owned(),
            language,
            program,
            cwd: config.name("cwd")?.map(str::to_owned),
            context_path: path("contextPath")?,
            timeout: config
                .timeout("timeoutSec", COMMAND_TIMEOUT)?
                .min(COMMAND_TIMEOUT),
        };
        Ok(config.name("image")?.is_none().then_some(script))
    }

    async fn measure(&self, input: GradeInput<'_>, compute: &dyn Compute) -> Result<Vec<Score>, GradeError> {
        let own = private::folder(compute).await?;
        let context = json!({ "case": input.case, "trace": input.trace, "snapshot": input.snapshot });
        let context_file = format!("{own}/everdict-grade-context.json");
        private::write(compute, &context_file, context.to_string().as_bytes()).await?;
        let (program, ending) = match self.language {
            Language::Python => ("python3", "py"),
            Language::Node => ("node", "js"),
        };
        let script = match &self.program {
            Program::Entrypoint(path) => path.clone(),
            Program::Code(code) => {
                let file = format!("{own}/grade.{ending}");
                private::write(compute, &file, code.as_bytes()).await?;
                file
            }
        };
        if let Some(wanted) = &self.context_path {
            self.place_context(compute, &context_file, wanted).await?;
        }
        let line = format!(
            "exec {program} {} {}",
            private::quoted(&script),
            private::quoted(&context_file)
        );
        let result_file = format!("{own}/result.json");
        let mut exec = ComputeExec::new(line, self.timeout);
        exec.cwd.clone_from(&self.cwd);
        exec.env = BTreeMap::from([("EVERDICT_RESULT_FILE".to_owned(), result_file.clone())]);
        let output = compute.exec(exec).await?;
        if output.exit_code != 0 || output.timed_out {
            return Err(GradeError::Failed(format!(
                "the script ended with {}\n{}",
                output.exit_code,
                explain(&output, self.timeout)
            )));
        }
        let answer = match private::read(compute, &result_file).await? {
            Some(text) => serde_json::from_str(&text).map_err(|error| {
                GradeError::Failed(format!("the script's result file is no JSON: {error}"))
            })?,
            None => last_json(&output.stdout).ok_or_else(|| {
                GradeError::Failed(format!(
                    "the script printed no JSON\n{}",
                    explain(&output, self.timeout)
                ))
            })?,
        };
        self.scores(answer)
    }

    /// Copies the context to where the script looks for it, without following a link that leads out of the case.
    async fn place_context(&self, compute: &dyn Compute, from: &str, wanted: &str) -> Result<(), GradeError> {
        let line = "root=$(cd -P . && pwd) && mkdir -p -- \"$(dirname -- \"$TO\")\" && dir=$(cd -P \"$(dirname -- \"$TO\")\" && pwd) && \
                    case \"$dir/\" in \"$root/\"*) ;; *) echo \"$TO leads out of the case\" >&2; exit 9;; esac && \
                    rm -f -- \"$TO\" && cp -- \"$FROM\" \"$TO\"";
        let mut exec = ComputeExec::new(line, COMMAND_TIMEOUT);
        exec.cwd.clone_from(&self.cwd);
        exec.env = BTreeMap::from([
            ("FROM".to_owned(), from.to_owned()),
            ("TO".to_owned(), wanted.to_owned()),
        ]);
        let output = compute.exec(exec).await?;
        if output.exit_code == 0 {
            return Ok(());
        }
        Err(GradeError::Failed(format!(
            "the script's context could not be put at {wanted}: {}",
            output.stderr.trim()
        )))
    }

    fn scores(&self, answer: Value) -> Result<Vec<Score>, GradeError> {
        let items = match answer {
            Value::Array(items) => items,
            one => vec![one],
        };
        items
            .into_iter()
            .map(|mut item| {
                if let Value::Object(map) = &mut item {
                    // A script speaks for itself alone.
                    map.insert("graderId".to_owned(), Value::String(self.id.clone()));
                }
                decode(item)
                    .map_err(|error| GradeError::Failed(format!("the script's answer is no score: {error}")))
            })
            .collect()
    }
}

/// The last JSON value of a text: the whole, a line, or what begins a line and goes on to the end.
fn last_json(text: &str) -> Option<Value> {
    let is_answer = |value: &Value| value.is_object() || value.is_array();
    let parse = |text: &str| serde_json::from_str::<Value>(text.trim()).ok().filter(is_answer);
    if let Some(whole) = parse(text) {
        return Some(whole);
    }
    let mut starts: Vec<usize> = text
        .match_indices(['{', '['])
        .map(|(at, _)| at)
        .filter(|at| {
            text[..*at]
                .chars()
                .next_back()
                .is_none_or(|before| before == '\n')
        })
        .collect();
    starts.reverse();
    starts.into_iter().find_map(|start| {
        let rest = &text[start..];
        let line = rest.lines().next().unwrap_or_default();
        // What follows the value is the script's own noise.
        parse(line).or_else(|| {
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            values.next()?.ok().filter(is_answer)
        })
    })
}

impl Grader for Script {
    fn grader_id(&self) -> &str {
        &self.id
    }

    fn metric(&self) -> &str {
        "script"
    }

    fn needs(&self) -> Needs {
        Needs::Compute
    }

    fn grade<'a>(
        &'a self,
        input: GradeInput<'a>,
        compute: Option<&'a dyn Compute>,
    ) -> BoxFuture<'a, Result<Vec<Score>, GradeError>> {
        async move { self.measure(input, require(compute)?).await }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_json_counts_whatever_is_printed_around_it() {
        let metric = |text: &str| last_json(text).map(|value| value["metric"].clone());
        assert_eq!(
            metric("{\"metric\":\"a\"}\n{\"metric\":\"b\"}\nbye"),
            Some("b".into())
        );
        assert_eq!(metric("log {x}\n{\n \"metric\": \"p\"\n}\n"), Some("p".into()));
        assert_eq!(metric("log: {\"metric\":\"inline\"}"), None);
        assert_eq!(metric("17"), None);
    }
}

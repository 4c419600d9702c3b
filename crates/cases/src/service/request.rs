//! The request that hands a case to the front door.

use std::collections::BTreeMap;

use bytes::Bytes;
use everdict_contracts::{BodyEncoding, EnvSpec, Fault, FrontDoorRequest, RepoSource};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use serde_json::{Map, Value};

use super::interpolate::{self, Vars};
use super::multipart::{self, Part};
use super::wiring::{DEFAULT_FIELDS, TARGET_CDP_URL};

/// Where the headers stand in a job.
pub(crate) const HEADERS_FIELD: &str = "harnessSpec.frontDoor.request.headers";

/// What every call of the front door carries, filled in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Content {
    /// With the content type.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The fields of the body: the harness' own template, or the protocol's five and the names that services ask for.
pub(crate) fn fields(request: &FrontDoorRequest, per_run: &[String], vars: &Vars) -> Map<String, Value> {
    if let Some(template) = &request.body_template {
        let entries = template
            .iter()
            .map(|(key, value)| (key.clone(), interpolate::json(value, vars)));
        return entries.collect();
    }
    let known = |name: &str| Value::String(vars.get(name).cloned().unwrap_or_default());
    let mut body: Map<String, Value> = DEFAULT_FIELDS
        .iter()
        .map(|name| ((*name).to_owned(), known(name)))
        .collect();
    if vars.contains_key(TARGET_CDP_URL) {
        body.insert("browser_cdp_url".to_owned(), known(TARGET_CDP_URL));
    }
    for name in per_run {
        body.insert(name.clone(), known(name));
    }
    body
}

/// Writes headers and body.
///
/// # Errors
/// `BAD_REQUEST` naming a header whose filled-in value can't stand in one.
pub(crate) fn content(
    request: &FrontDoorRequest,
    fields: &Map<String, Value>,
    files: &[Part],
    vars: &Vars,
) -> Result<Content, Fault> {
    let declared = headers(request, vars)?;
    let is_form = request.encoding == Some(BodyEncoding::Form) || !files.is_empty();
    let (content_type, body) = if is_form {
        let mut parts: Vec<Part> = fields
            .iter()
            .map(|(name, value)| text_part(name, value))
            .collect();
        parts.extend_from_slice(files);
        let form = multipart::write(&parts);
        (form.content_type, form.body)
    } else {
        let body =
            serde_json::to_vec(fields).map_err(|error| Fault::internal("write the body").caused_by(error))?;
        ("application/json".to_owned(), body)
    };
    let mut headers = HeaderMap::new();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::try_from(content_type).expect("BUG: own content types are plain"),
    );
    for (name, value) in declared {
        // A form without its own boundary could not be read.
        let breaks_form = is_form && name == CONTENT_TYPE && value.as_bytes().starts_with(b"multipart/");
        if !breaks_form {
            headers.insert(name, value);
        }
    }
    Ok(Content {
        headers,
        body: body.into(),
    })
}

/// The declared headers, filled in; those that describe the body's length are ours alone.
///
/// # Errors
/// As [`content`].
pub(crate) fn headers(
    request: &FrontDoorRequest,
    vars: &Vars,
) -> Result<Vec<(HeaderName, HeaderValue)>, Fault> {
    let mut headers = Vec::new();
    for (name, template) in request.headers.iter().flatten() {
        let refused = |why: &str| Fault::bad_request(format!("{HEADERS_FIELD}.{name}: {why}"));
        let known =
            HeaderName::try_from(name.as_str()).map_err(|_| refused("no header can have this name"))?;
        let value = interpolate::text(template, vars);
        let value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| refused("the value holds a line break or another sign that no header can hold"))?;
        if known != CONTENT_LENGTH && known != TRANSFER_ENCODING {
            headers.push((known, value));
        }
    }
    Ok(headers)
}

fn text_part(name: &str, value: &Value) -> Part {
    let content = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Part {
        name: name.to_owned(),
        filename: None,
        content: content.into_bytes(),
    }
}

/// The files of the request, from those that the case brings along.
///
/// # Errors
/// `BAD_REQUEST` naming the file that the case doesn't have.
pub(crate) fn files(request: &FrontDoorRequest, env: &EnvSpec) -> Result<Vec<Part>, Fault> {
    let none = BTreeMap::new();
    let sources = match env {
        EnvSpec::Repo(repo) => match &repo.source {
            RepoSource::Files { files } => files,
            RepoSource::Git { .. } | RepoSource::Path { .. } => &none,
        },
        _ => &none,
    };
    let declared = request.files.iter().flatten().enumerate();
    declared
        .map(|(index, file)| {
            let content = sources.get(&file.from).ok_or_else(|| {
                Fault::bad_request(format!(
                    "harnessSpec.frontDoor.request.files[{index}].from: the case brings no file `{}` in \
                     evalCase.env.source.files",
                    file.from
                ))
            })?;
            let last = file.from.rsplit('/').next().unwrap_or(&file.from);
            let filename = file.filename.clone().unwrap_or_else(|| last.to_owned());
            Ok(Part {
                name: file.field.clone(),
                filename: Some(filename),
                content: content.clone().into_bytes(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use everdict_contracts::decode;
    use serde_json::json;

    use super::*;

    fn vars() -> Vars {
        let pairs = [
            ("task", "do \"it\""),
            ("run_id", "r1"),
            ("thread_id", "run-r1"),
            ("stream_channel", "run-r1"),
            ("minio_prefix", "runs/r1/"),
            ("schema", "r_1"),
        ];
        pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    fn request(value: Value) -> FrontDoorRequest {
        decode(value).unwrap()
    }

    fn body(content: &Content) -> String {
        String::from_utf8(content.body.to_vec()).unwrap()
    }

    #[test]
    fn without_a_template_the_body_has_the_protocols_fields() {
        let plain = json!({ "task": "do \"it\"", "thread_id": "run-r1", "stream_channel": "run-r1", "minio_prefix": "runs/r1/" });
        assert_eq!(Value::Object(fields(&request(json!({})), &[], &vars())), plain);
        let mut with_target = vars();
        with_target.insert(TARGET_CDP_URL.to_owned(), "http://10.0.0.2:9222".to_owned());
        let all = fields(
            &request(json!({})),
            &["schema".to_owned(), "run_id".to_owned()],
            &with_target,
        );
        assert_eq!(all["browser_cdp_url"], "http://10.0.0.2:9222");
        assert_eq!((&all["schema"], &all["run_id"]), (&json!("r_1"), &json!("r1")));
        assert_eq!(all.len(), 7);
    }

    #[test]
    fn a_template_is_the_whole_body() {
        let request = request(json!({ "bodyTemplate": { "q": ["{{task}}"], "n": 1 } }));
        let content = content(
            &request,
            &fields(&request, &["schema".to_owned()], &vars()),
            &[],
            &vars(),
        )
        .unwrap();
        let sent: Value = serde_json::from_slice(&content.body).unwrap();
        assert_eq!(sent, json!({ "q": ["do \"it\""], "n": 1 }));
        assert_eq!(content.headers[CONTENT_TYPE], "application/json");
    }

    #[test]
    fn declared_headers_are_filled_in_and_win_except_over_the_length() {
        let request = request(json!({ "headers": {
            "X-Run": "run {{run_id}}", "Content-Type": "application/vnd.x+json", "Content-Length": "1", "Transfer-Encoding": "chunked",
        } }));
        let content = content(&request, &Map::new(), &[], &vars()).unwrap();
        assert_eq!(content.headers["x-run"], "run r1");
        assert_eq!(content.headers[CONTENT_TYPE], "application/vnd.x+json");
        assert_eq!(content.headers.len(), 2);
    }

    #[test]
    fn a_value_can_not_add_a_header() {
        let request = request(json!({ "headers": { "X-Task": "{{task}}" } }));
        let mut vars = vars();
        vars.insert("task".to_owned(), "a\r\nX-Admin: 1".to_owned());
        let fault = headers(&request, &vars).unwrap_err();
        assert!(
            fault
                .message
                .starts_with("harnessSpec.frontDoor.request.headers.X-Task: "),
            "{fault}"
        );
    }

    #[test]
    fn a_form_has_texts_as_they_are_other_values_as_json_and_the_cases_files() {
        let request = request(json!({
            "bodyTemplate": { "a": "x y", "b": { "c": 1 } },
            "headers": { "content-type": "multipart/form-data" },
            "files": [{ "field": "f", "from": "data/in.csv" }, { "field": "g", "from": "data/in.csv", "filename": "g.csv" }],
        }));
        let env: EnvSpec =
            decode(json!({ "kind": "repo", "source": { "files": { "data/in.csv": "1,2" } } })).unwrap();
        let files = files(&request, &env).unwrap();
        let content = content(&request, &fields(&request, &[], &vars()), &files, &vars()).unwrap();
        let text = body(&content);
        assert!(
            text.contains("name=\"a\"\r\n\r\nx y\r\n") && text.contains("name=\"b\"\r\n\r\n{\"c\":1}\r\n"),
            "{text}"
        );
        assert!(
            text.contains("name=\"f\"; filename=\"in.csv\"")
                && text.contains("name=\"g\"; filename=\"g.csv\""),
            "{text}"
        );
        assert!(
            content.headers[CONTENT_TYPE]
                .to_str()
                .unwrap()
                .contains("boundary="),
            "{content:?}"
        );
    }

    #[test]
    fn a_file_that_the_case_does_not_bring_is_named() {
        let request = request(json!({ "files": [{ "field": "f", "from": "a.txt" }] }));
        for env in [
            json!({ "kind": "prompt" }),
            json!({ "kind": "repo", "source": { "files": { "b.txt": "" } } }),
        ] {
            let fault = files(&request, &decode(env).unwrap()).unwrap_err();
            assert!(
                fault
                    .message
                    .starts_with("harnessSpec.frontDoor.request.files[0].from: "),
                "{fault}"
            );
        }
    }
}

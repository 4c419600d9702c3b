//! A method and a path, as a harness writes them: `POST /runs`.

use everdict_contracts::Fault;
use reqwest::{Method, Url};

use super::interpolate::{self, Vars};

/// One call of a service, not yet filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) verb: Method,
    path: String,
}

impl Call {
    /// Reads `VERB /path`, in whatever case; without a verb it is `default`.
    ///
    /// # Errors
    /// `BAD_REQUEST` naming `field`: no path, or a verb that can be none.
    pub(crate) fn parse(text: &str, default: Method, field: &str) -> Result<Self, Fault> {
        let refused =
            |why: String| Fault::bad_request(format!("{field}: {why}, expected one like `POST /runs`"));
        let (verb, path) = match text.trim().split_once(char::is_whitespace) {
            None => (default, text.trim()),
            Some((verb, path)) => {
                let upper = verb.to_ascii_uppercase();
                let known = upper.bytes().all(|byte| byte.is_ascii_uppercase());
                let verb = Method::from_bytes(upper.as_bytes()).ok().filter(|_| known);
                (
                    verb.ok_or_else(|| refused(format!("`{text}` has no method in front")))?,
                    path.trim(),
                )
            }
        };
        if path.is_empty() {
            return Err(refused("the call is empty".to_owned()));
        }
        Ok(Self {
            verb,
            path: path.to_owned(),
        })
    }

    /// The address below `base`, with the run's variables.
    ///
    /// # Errors
    /// `BAD_REQUEST` when a value or the whole is no address.
    pub(crate) fn url(&self, base: &str, vars: &Vars) -> Result<Url, Fault> {
        // A variable at the start stands for a path here, never for another host.
        let path = interpolate::path(
            &format!("/{}", self.path.strip_prefix('/').unwrap_or(&self.path)),
            vars,
        )?;
        let joined = format!("{}{path}", base.strip_suffix('/').unwrap_or(base));
        Url::parse(&joined)
            .map_err(|error| Fault::bad_request(format!("`{joined}` is no address")).caused_by(error))
    }
}

/// Prints it as it is written.
impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Call {
        Call::parse(text, Method::POST, "x").unwrap()
    }

    #[test]
    fn a_call_has_a_verb_in_any_case_or_the_default() {
        assert_eq!(parsed("get /a").verb, Method::GET);
        assert_eq!(parsed("  DELETE   /a/b ").to_string(), "DELETE /a/b");
        assert_eq!(parsed("/a").to_string(), "POST /a");
        for bad in ["", "  ", "/a b/c", "GE-T /x"] {
            let fault = Call::parse(bad, Method::POST, "frontDoor.submit").unwrap_err();
            assert!(fault.message.starts_with("frontDoor.submit: "), "{fault}");
        }
    }

    #[test]
    fn base_and_path_meet_in_one_slash() {
        let vars = Vars::from([("id".to_owned(), "a/b".to_owned())]);
        for base in ["http://h:1", "http://h:1/"] {
            for path in ["GET /runs/{id}", "GET runs/{id}"] {
                assert_eq!(
                    parsed(path).url(base, &vars).unwrap().as_str(),
                    "http://h:1/runs/a%2Fb"
                );
            }
        }
        assert_eq!(
            parsed("/s?id={id}")
                .url("http://h:1/api", &vars)
                .unwrap()
                .as_str(),
            "http://h:1/api/s?id=a%2Fb"
        );
    }

    #[test]
    fn a_value_can_not_name_another_host() {
        let vars = Vars::from([("id".to_owned(), "//evil.test/x".to_owned())]);
        let url = parsed("{id}").url("http://h:1", &vars).unwrap();
        assert_eq!(url.host_str(), Some("h"));
    }
}

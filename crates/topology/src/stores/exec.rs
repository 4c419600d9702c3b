//! Commands in store containers, and what their ends mean.

use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault, StoreKind};

use super::{MINIO_SECRET, PASSWORD, USER, kind_name};
use crate::engine::{Engine, EngineError, ExecInput, ExecOutcome, ExecRequest};

/// The most of an error output that goes into a message: the first lines say what is wrong.
const SHOWN_CHARS: usize = 1500;

/// A command to run in a store's container. The input goes in by stream, so it may be as long as it likes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreExec {
    pub kind: StoreKind,
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub stdin: Vec<u8>,
    pub(super) replies: Replies,
    /// What it was meant to do, such as `seed postgres`.
    pub(super) purpose: String,
    /// Place in the job that asked for it.
    pub(super) path: String,
}

/// Where a store's error replies are found when the exit code keeps silent about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replies {
    Unchecked,
    RedisOnStdout,
    RedisOnStderr,
}

impl StoreExec {
    pub(super) fn new(kind: StoreKind, argv: Vec<String>, stdin: Vec<u8>) -> Self {
        let env: &[(&str, String)] = match kind {
            StoreKind::Postgres => &[
                ("PGPASSWORD", PASSWORD.to_owned()),
                ("PGCLIENTENCODING", "UTF8".to_owned()),
            ],
            StoreKind::Redis => &[],
            StoreKind::Minio => &[
                (
                    "MC_HOST_local",
                    format!("http://{USER}:{MINIO_SECRET}@127.0.0.1:9000"),
                ),
                ("MC_CONFIG_DIR", "/tmp/.mc".to_owned()),
            ],
        };
        Self {
            kind,
            argv,
            env: env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            stdin,
            replies: Replies::Unchecked,
            purpose: String::new(),
            path: String::new(),
        }
    }

    pub(super) fn meant_to(mut self, purpose: &str, path: &str) -> Self {
        self.purpose = format!("{purpose} {}", kind_name(self.kind));
        path.clone_into(&mut self.path);
        self
    }

    /// Returns the call that runs the command; `limit` is for all of it.
    pub fn request(&self, limit: Duration) -> ExecRequest {
        let mut request = ExecRequest::new(self.argv.clone(), limit);
        request.env.clone_from(&self.env);
        if !self.stdin.is_empty() {
            request.input = ExecInput::Bytes(self.stdin.clone());
        }
        request
    }

    /// Runs the command in the store's container and judges its end.
    ///
    /// # Errors
    /// As [`StoreExec::judge`], and when the daemon can't run it or it takes longer than `limit`.
    pub async fn run(&self, engine: &Engine, container: &str, limit: Duration) -> Result<String, Fault> {
        let outcome = engine
            .exec(container, self.request(limit))
            .await
            .map_err(EngineError::into_fault)?;
        self.judge(&outcome)
    }

    /// Judges how the command ended, and gives out what it printed.
    ///
    /// # Errors
    /// `BAD_REQUEST` with the place in the job when the store refused the text or answered more than is kept,
    /// `UPSTREAM_MISCONFIGURED` when the image lacks the program, `UPSTREAM_ERROR` when the store could not be talked to.
    pub fn judge(&self, outcome: &ExecOutcome) -> Result<String, Fault> {
        let (out, err) = (
            String::from_utf8_lossy(&outcome.stdout),
            String::from_utf8_lossy(&outcome.stderr),
        );
        if !outcome.success() {
            let words = if err.trim().is_empty() { &out } else { &err };
            let code = self.code(outcome.exit_code, words);
            return Err(self.fault(code, &format!("exit code {}", outcome.exit_code), words));
        }
        let replies = match self.replies {
            Replies::Unchecked => None,
            Replies::RedisOnStdout => Some(&out),
            Replies::RedisOnStderr => Some(&err),
        };
        if let Some(line) = replies.and_then(|replies| replies.lines().find(|line| is_redis_error(line))) {
            return Err(self.fault(ErrorCode::BadRequest, "a command was refused", line));
        }
        if outcome.left_out > 0 {
            let words = format!("{} bytes too many; ask for less, or split it", outcome.left_out);
            return Err(self.fault(ErrorCode::BadRequest, "the store's answer is too long", &words));
        }
        Ok(out.into_owned())
    }

    fn code(&self, exit_code: i64, words: &str) -> ErrorCode {
        match (self.kind, exit_code) {
            (_, 126 | 127) => ErrorCode::UpstreamMisconfigured,
            // psql: 2 stands for a connection that was lost or never came to be.
            (StoreKind::Postgres, 2) => ErrorCode::UpstreamError,
            (StoreKind::Redis, _) if words.contains("Could not connect") => ErrorCode::UpstreamError,
            _ => ErrorCode::BadRequest,
        }
    }

    fn fault(&self, code: ErrorCode, what: &str, words: &str) -> Fault {
        let shown: String = words.trim().chars().take(SHOWN_CHARS).collect();
        Fault::new(
            code,
            format!("{}: failed to {}: {what}: {shown}", self.path, self.purpose),
        )
    }
}

/// An error in the client's readable form, also inside the reply to EXEC; a value in this form is in quotes.
fn is_redis_error(line: &str) -> bool {
    let mut rest = line.trim_start();
    while let Some((number, tail)) = rest.split_once(") ") {
        if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
            break;
        }
        rest = tail.trim_start();
    }
    rest.starts_with("(error)")
        || rest == "Invalid argument(s)"
        || rest.starts_with("Could not connect to Redis")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(kind: StoreKind, replies: Replies) -> StoreExec {
        let mut exec = StoreExec::new(kind, vec![], vec![]).meant_to("seed", "evalCase.fixtures[0]");
        exec.replies = replies;
        exec
    }

    fn outcome(exit_code: i64, stdout: &str, stderr: &str) -> ExecOutcome {
        ExecOutcome {
            exit_code,
            stdout: stdout.into(),
            stderr: stderr.into(),
            left_out: 0,
        }
    }

    #[test]
    fn an_answer_that_was_cut_is_no_answer() {
        let cut = ExecOutcome {
            left_out: 9,
            ..outcome(0, "1\n", "")
        };
        let fault = exec(StoreKind::Postgres, Replies::Unchecked)
            .judge(&cut)
            .unwrap_err();
        assert!(
            fault
                .message
                .ends_with("the store's answer is too long: 9 bytes too many; ask for less, or split it")
        );
    }

    #[test]
    fn the_exit_code_tells_a_bad_text_from_a_bad_machine() {
        let cases = [
            (StoreKind::Postgres, 3, "ERROR: syntax", ErrorCode::BadRequest),
            (StoreKind::Postgres, 1, "ERROR: relation", ErrorCode::BadRequest),
            (
                StoreKind::Postgres,
                2,
                "connection refused",
                ErrorCode::UpstreamError,
            ),
            (
                StoreKind::Redis,
                1,
                "Could not connect to Redis at 127.0.0.1",
                ErrorCode::UpstreamError,
            ),
            (
                StoreKind::Minio,
                127,
                "mc: not found",
                ErrorCode::UpstreamMisconfigured,
            ),
            (
                StoreKind::Minio,
                1,
                "bucket does not exist",
                ErrorCode::BadRequest,
            ),
        ];
        for (kind, exit_code, words, code) in cases {
            let fault = exec(kind, Replies::Unchecked)
                .judge(&outcome(exit_code, "", words))
                .unwrap_err();
            assert_eq!(fault.code, code, "{kind:?} {exit_code}");
            assert!(
                fault.message.starts_with("evalCase.fixtures[0]: failed to seed "),
                "{fault}"
            );
            assert!(fault.message.ends_with(words), "{fault}");
        }
    }

    #[test]
    fn an_error_reply_fails_although_the_client_exits_with_zero() {
        let exec = exec(StoreKind::Redis, Replies::RedisOnStdout);
        for replies in [
            "OK\n(error) ERR unknown\n",
            "1) OK\n2) (error) WRONGTYPE\n",
            "Invalid argument(s)\n",
        ] {
            let fault = exec.judge(&outcome(0, replies, "")).unwrap_err();
            assert_eq!(fault.code, ErrorCode::BadRequest);
        }
        for replies in [
            "OK\n",
            "\"(error) a value\"\n",
            "1) \"(error)\"\n",
            "(nil)\n(integer) 3\n",
            "",
        ] {
            assert_eq!(exec.judge(&outcome(0, replies, "")).unwrap(), replies);
        }
    }
}

//! Arguments and replies of the tools by which a runner leases, renews and settles a job.

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::decode::fields::{opt, opt_int, opt_min1, positive, wait_ms};
use crate::decode::{DecodeError, carry, decode, from_value};
use crate::ids::JobId;
use crate::job::CaseJob;
use crate::result::CaseResult;

/// Proof of holding a lease: every report quotes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptToken {
    pub job_id: JobId,
    /// Grows with each lease of the job, by whichever runner.
    #[serde(deserialize_with = "positive")]
    pub lease_epoch: u64,
}

/// How urgent a status text is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatusLevel {
    #[default]
    Info,
    Warn,
    Error,
}

impl StatusLevel {
    /// Returns the literal of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Arguments of `lease_job`. Texts of any length are read; clients clip `status` with [`crate::clip_status`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseArgs {
    /// Milliseconds to wait for a job; the one field of the protocol in snake case.
    #[serde(
        rename = "wait_ms",
        default,
        deserialize_with = "wait_ms",
        skip_serializing_if = "Option::is_none"
    )]
    pub wait_ms: Option<u32>,
    /// Absent means no gate at all; empty means able to do nothing. Unknown words are allowed.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
    /// `linux`, `darwin` or `win32`.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// See [`crate::PROTOCOL_VERSION`]; absent counts as 0.
    #[serde(default, with = "opt_int", skip_serializing_if = "Option::is_none")]
    pub protocol: Option<i64>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub status_level: Option<StatusLevel>,
}

impl LeaseArgs {
    /// Tells whether the runner speaks too old a protocol to be given jobs.
    pub fn is_outdated(&self) -> bool {
        self.protocol.unwrap_or(0) < crate::PROTOCOL_VERSION
    }
}

/// Reply of `lease_job`.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseReply {
    /// Nothing to do within the wait.
    Idle,
    /// The runner's protocol is too old; it gets no job until it is updated.
    UpdateRequired { server_protocol: Option<i64> },
    /// The runner is paused at the hub; it gets no job until that ends.
    Paused { reason: String },
    /// A job, held until its lease runs out.
    Leased(Lease),
}

/// A lease: the job as it came, so that a job that can't be read can still be failed by its token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    pub job_id: JobId,
    pub job: Value,
    /// Absent from servers that are older than the token.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptToken>,
    /// Milliseconds from now until the lease runs out, where the server announces it;
    /// [`crate::DEFAULT_LEASE_TTL_MS`] otherwise.
    #[serde(default, with = "opt_min1", skip_serializing_if = "Option::is_none")]
    pub lease_ttl_ms: Option<u64>,
}

impl Lease {
    /// Wraps a job for its holder.
    ///
    /// # Errors
    /// Only when the job holds a number that JSON can't carry.
    pub fn new(
        job: &CaseJob,
        attempt: AttemptToken,
        lease_ttl_ms: Option<u64>,
    ) -> Result<Self, serde_json::Error> {
        let job_id = attempt.job_id.clone();
        Ok(Self {
            job_id,
            job: serde_json::to_value(job)?,
            attempt: Some(attempt),
            lease_ttl_ms,
        })
    }

    /// Reads the job.
    ///
    /// # Errors
    /// The first fault with its path within the job.
    pub fn case_job(&self) -> Result<CaseJob, DecodeError> {
        decode(&self.job)
    }

    /// Returns how long the lease lasts without a renewal, in milliseconds.
    pub fn ttl_ms(&self) -> u64 {
        self.lease_ttl_ms.unwrap_or(crate::DEFAULT_LEASE_TTL_MS)
    }
}

impl Serialize for LeaseReply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Leased(lease) => lease.serialize(serializer),
            Self::Idle => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("job", &())?;
                map.end()
            }
            Self::Paused { reason } => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("job", &())?;
                map.serialize_entry("paused", reason)?;
                map.end()
            }
            Self::UpdateRequired { server_protocol } => {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("job", &())?;
                map.serialize_entry("updateRequired", &true)?;
                if let Some(protocol) = server_protocol {
                    map.serialize_entry("serverProtocol", protocol)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for LeaseReply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let Value::Object(object) = &value else {
            return Err(D::Error::invalid_type(
                crate::decode::unexpected(&value),
                &"an object",
            ));
        };
        if object.get("job").is_some_and(|job| !job.is_null()) {
            return from_value(value).map(Self::Leased).map_err(|error| carry(&error));
        }
        if object.get("updateRequired") == Some(&Value::Bool(true)) {
            return Ok(Self::UpdateRequired {
                server_protocol: object.get("serverProtocol").and_then(Value::as_i64),
            });
        }
        if let Some(Value::String(reason)) = object.get("paused") {
            return Ok(Self::Paused {
                reason: reason.clone(),
            });
        }
        Ok(Self::Idle)
    }
}

/// Arguments of `submit_job_result`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SubmitArgs {
    #[serde(flatten)]
    pub attempt: AttemptToken,
    pub result: CaseResult,
}

/// Arguments of `fail_job`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailArgs {
    #[serde(flatten)]
    pub attempt: AttemptToken,
    pub message: String,
}

// A flattened token would lose the path of its faults, so both argument types are read flat.
macro_rules! report_with_token {
    ($name:ident { $field:ident: $type:ty }) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Flat {
                    job_id: JobId,
                    #[serde(deserialize_with = "positive")]
                    lease_epoch: u64,
                    $field: $type,
                }
                let Flat {
                    job_id,
                    lease_epoch,
                    $field,
                } = Flat::deserialize(deserializer)?;
                Ok(Self {
                    attempt: AttemptToken {
                        job_id,
                        lease_epoch,
                    },
                    $field,
                })
            }
        }
    };
}

report_with_token!(SubmitArgs { result: CaseResult });
report_with_token!(FailArgs { message: String });

/// Reply of `submit_job_result` and `fail_job`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedReply {
    pub job_id: JobId,
    /// False when the token is no longer that of a current lease; not an error.
    pub accepted: bool,
}

/// Arguments of `heartbeat_job`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatArgs {
    /// Absent: the runner lives, no job is renewed.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    #[serde(default, with = "opt_min1", skip_serializing_if = "Option::is_none")]
    pub lease_epoch: Option<u64>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub status_level: Option<StatusLevel>,
}

impl HeartbeatArgs {
    /// Returns the token, when both halves are there.
    pub fn attempt(&self) -> Option<AttemptToken> {
        attempt_of(self.job_id.as_ref(), self.lease_epoch)
    }
}

pub(crate) fn attempt_of(job_id: Option<&JobId>, lease_epoch: Option<u64>) -> Option<AttemptToken> {
    Some(AttemptToken {
        job_id: job_id?.clone(),
        lease_epoch: lease_epoch?,
    })
}

/// Reply of `heartbeat_job`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatReply {
    pub ok: bool,
    /// Whether the lease was renewed; absent when no job was named.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub extended: Option<bool>,
    /// Whether the holder is to stop.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<bool>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the runner is paused at the hub, while it is. The job goes on.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
}

//! The engine shared by the command line and the desktop app.
//!
//! It knows where things lie on this machine, what the person set, where tokens are kept, which runners are paired,
//! how to talk to a hub, and how to run runners and a hub in this process. It never prints, never falls back from
//! one token store to another by itself, and never writes a token anywhere but into the store that was chosen.
//!
//! Every failure that reaches a person is a [`Problem`]: what, why and the next step, with a class to decide by.

mod autostart;
mod containers;
pub mod control;
pub mod dataset;
mod doctor;
mod engine;
mod hub_client;
mod hub_host;
pub mod hub_url;
pub mod notices;
mod own_log;
mod pairing;
mod panel;
mod paths;
mod policy;
mod private_file;
mod problem;
mod profile_lock;
mod registrations;
pub mod rendering;
pub mod secrets;
mod settings;
mod signin;
pub mod update;
mod watch;

pub use autostart::Autostart;
pub use containers::{
    ContainerOptions, ContainerReport, EgressReport, GcReport, Item, PreparedItem, clean_up, look_around,
    missing_images, size, watchdog_main,
};
pub use doctor::{Check, CheckState, Findings, Patient};
pub use engine::{Engine, EngineSnapshot, RunnerPlan, RunnerView};
pub use everdict_contracts::{Judged, Verdict, judge, judge_result};
pub use everdict_hub::OidcConfig;
pub use everdict_runner_core::attempt::Outcome;
pub use everdict_runner_core::capabilities::Offer;
pub use everdict_runner_core::{RunnerEvent, RunnerState};
pub use hub_client::{AuthMethods, HubClient, HubFault, LogEvent, LogFollow, OidcOffer, TlsFault};
pub use hub_host::{HubHost, HubOptions, backup_hub, create_api_key};
pub use own_log::OwnLog;
pub use pairing::{HubSide, Pairing, check_label, host_name, is_runner_token, platform, unpair};
pub use panel::{Page, Panel};
pub use paths::{HOME_VAR, Paths};
pub use problem::{Problem, ProblemClass, Result};
pub use profile_lock::ProfileLock;
pub use registrations::{Registration, Registrations};
pub use reqwest::Url;
pub use secrets::{EnvSecrets, SecretFault, SecretName, SecretStore, StoreKind};
pub use settings::{DEFAULTS as DEFAULT_SETTINGS, Hours, OnBattery, Settings, Terms, TopologySettings};
pub use signin::{SIGN_IN_LIMIT, SignIn, SignedIn, sign_in_methods};
pub use watch::{RunRow, follow_to_end};

//! What seeds, reads and drops do to real stores, and what images and discovery find on a real daemon. Without one each
//! test is listed as skipped.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod images;
mod minio;
mod postgres;
mod redis;
#[path = "../shared/skip.rs"]
mod skip;
mod world;

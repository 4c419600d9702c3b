//! Tests that kill, stop or starve a daemon: each has one of its own. They need root, and are listed as skipped without.

mod addresses;
mod bad_input;
mod ends;
mod engine;
mod outages;
mod ports;
mod silence;
mod world;

//! What the runtime promises, shown on a real daemon. Without one each test is listed as skipped.

mod world;

mod browser;
mod case_image;
mod data;
mod deploy;
mod prepared;
mod one_shot;
mod process;
mod reaper;

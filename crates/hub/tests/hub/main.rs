//! The hub over real HTTP on loopback.

mod access;
mod kit;
mod lease;
mod life;
mod logs;
mod runs;
mod shapes;

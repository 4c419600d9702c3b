//! The hub over real HTTP on loopback.

mod kit;
mod lease;
mod life;
mod logs;
mod runs;
mod shapes;

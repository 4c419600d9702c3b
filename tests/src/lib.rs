//! A hermetic world for acceptance tests: a hub process and runner processes of the real binary in a folder of their
//! own, spoken to over HTTP and MCP as any client would. Everything a world starts ends with it, by process id.
#![expect(
    clippy::disallowed_methods,
    reason = "tests start the binary under test and look for a folder named in the environment"
)]

mod docker;
mod mcp;
mod service;
mod shapes;
mod world;

pub use docker::{Bystanders, Docker, Object};
pub use mcp::{McpClient, Reply};
pub use service::service_run;
pub use shapes::{Shape, shape_of};
pub use world::{
    Child, World, eventually, free_port, process_count, process_ids, recorded_traffic, setting, skip,
};

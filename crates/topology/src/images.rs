//! Images: what a reference means, and how one comes to be there.

mod reference;

pub use reference::{ImageRef, ImageRefError};

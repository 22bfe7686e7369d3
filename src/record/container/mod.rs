//! Containers that a command starts or works in: their processes hang under another process, so they are followed by
//! their control group.
//!
//! ```text
//! launch (before the run) ── follow (during it) ── image (after it)
//!   └ client, cgroup::tree     └ probe/cgroup, probe/process
//! ```

mod client;
mod ended;
mod follow;
pub mod image;
mod inside;
mod launch;
pub mod waiter;

pub use client::Client;
pub use follow::Follow;
pub use launch::{Attached, Launch, Start, WAITER};

use super::cgroup::tree::ID_LENGTH;

/// Whether a text is a container's full id.
fn is_id(text: &str) -> bool {
    text.len() == ID_LENGTH && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

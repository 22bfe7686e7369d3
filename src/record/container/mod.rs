//! Containers that a command starts or works in: their processes hang under another process, so they are followed by
//! their control group.
//!
//! ```text
//! words ── launch (before the run) ── follow (during it) ── image (after it)
//!             └ client, cgroup::tree     └ probe/cgroup, probe/process
//! ```

mod client;
mod ended;
mod follow;
pub mod image;
mod inside;
mod launch;
pub mod waiter;
mod words;

pub use client::Client;
pub use follow::Follow;
pub use launch::{Attached, Launch, Start, WAITER};

use super::cgroup::tree::ID_LENGTH;

/// Programs that start containers through a daemon or a monitor, and share their command line.
const CLIENTS: [&str; 3] = ["docker", "podman", "nerdctl"];

/// The client that a word calls, by name or path.
fn is_client(word: &str) -> Option<&'static str> {
    let name = word.rsplit('/').next()?;
    CLIENTS.into_iter().find(|client| *client == name)
}

/// Whether a text is a container's full id.
fn is_id(text: &str) -> bool {
    text.len() == ID_LENGTH && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

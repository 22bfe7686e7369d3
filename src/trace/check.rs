//! What a readiness check found. Its words are made where it is read, in the reader's language.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that an environment needs, or that makes its figures doubtful.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What was looked at: `shm`, `nvidia_driver`, …
    pub name: String,
    pub state: CheckState,
    /// Which of the check's outcomes it is: a state can have several causes.
    pub cause: String,
    /// The evidence, with the threshold where there is one; numbers carry their unit in the key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
}

/// In the order in which a reader wants to hear of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// What needs it will not work.
    Failed,
    /// It works, but slower, less safely, or not as one may expect.
    Warning,
    /// It could not be found out, or does not matter here; the cause says which.
    Unknown,
    Ok,
}

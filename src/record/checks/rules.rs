//! The catalogue of checks: pure rules over gathered facts. Their words are `check.<name>` and `check.<name>.<outcome>`
//! in templates/{zh,en}/checks.json.

use serde_json::{Value, json};

use super::facts::Facts;
use crate::trace::check::CheckState::{self, Failed, Ok, Unknown, Warning};

mod cuda;
mod driver;
pub mod host;
mod safety;

pub use cuda::served;

/// A check: all that can come of it, and how that is decided.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub name: &'static str,
    /// It tells of the machine, whatever container a run is in.
    pub of_machine: bool,
    /// Every outcome with what it means for readiness.
    pub outcomes: &'static [(&'static str, CheckState)],
    pub judge: fn(&Facts) -> Verdict,
}

impl Rule {
    /// What an outcome means.
    pub fn state_of(&self, outcome: &str) -> CheckState {
        self.outcomes.iter().find(|(name, _)| *name == outcome).map_or(Unknown, |(_, state)| *state)
    }
}

/// An outcome with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub outcome: &'static str,
    pub values: Vec<(&'static str, Value)>,
}

impl Verdict {
    pub(super) fn of(outcome: &'static str) -> Self {
        Self { outcome, values: Vec::new() }
    }

    /// Adds a piece of evidence; numbers carry their unit in the key.
    pub(super) fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.values.push((key, value.into()));
        self
    }
}

/// The check that a run's loaded CUDA runtime can settle.
pub const DRIVER_CUDA: &str = "driver_cuda";
/// Its outcome as long as nobody knows which runtime will be loaded.
pub const NO_RUNTIME: &str = "no_runtime";

/// In the order in which they are shown.
pub const RULES: &[Rule] = &[
    Rule {
        name: "nvidia_driver",
        of_machine: true,
        outcomes: &[
            ("ok", Ok),
            ("no_gpu", Unknown),
            ("left_alone", Unknown),
            ("requested", Failed),
            ("image", Warning),
            ("container", Failed),
            ("no_module", Failed),
            ("refused", Failed),
        ],
        judge: driver::driver,
    },
    Rule {
        name: "device_nodes",
        of_machine: false,
        outcomes: &[
            ("ok", Ok),
            ("wsl", Ok),
            ("no_gpu", Unknown),
            ("no_driver", Unknown),
            ("container", Failed),
            ("missing", Failed),
            ("refused", Failed),
            ("no_uvm", Warning),
            ("no_uvm_in_container", Failed),
        ],
        judge: driver::nodes,
    },
    Rule {
        name: "cuda_kernel",
        of_machine: false,
        outcomes: &[
            ("ok", Ok),
            ("no_gpu", Unknown),
            ("no_driver", Unknown),
            ("not_tried", Unknown),
            ("no_program", Unknown),
            ("no_cuda_half", Unknown),
            ("hidden", Unknown),
            ("no_device", Failed),
            ("kernel", Failed),
            ("broke", Failed),
            ("hung", Failed),
        ],
        judge: cuda::kernel,
    },
    Rule {
        name: DRIVER_CUDA,
        of_machine: true,
        outcomes: &[
            ("ok", Ok),
            ("same_major", Ok),
            ("no_gpu", Unknown),
            ("no_driver", Unknown),
            (NO_RUNTIME, Unknown),
            ("older", Failed),
        ],
        judge: cuda::driver_cuda,
    },
    Rule {
        name: "compute_capability",
        of_machine: false,
        outcomes: &[
            ("ok", Ok),
            ("no_gpu", Unknown),
            ("no_driver", Unknown),
            ("not_tried", Unknown),
            ("unsupported", Failed),
        ],
        judge: cuda::capability,
    },
    Rule {
        name: "gpu_memory",
        of_machine: true,
        outcomes: &[
            ("ok", Ok),
            ("no_gpu", Unknown),
            ("no_driver", Unknown),
            ("not_told", Unknown),
            ("taken", Warning),
            ("full", Failed),
        ],
        judge: driver::memory,
    },
    Rule {
        name: "gpu_throttling",
        of_machine: true,
        outcomes: &[
            ("ok", Ok),
            ("no_gpu", Unknown),
            ("no_driver", Unknown),
            ("not_told", Unknown),
            ("throttled", Warning),
        ],
        judge: driver::throttling,
    },
    Rule {
        name: "shm",
        of_machine: false,
        outcomes: &[("ok", Ok), ("missing", Failed), ("default", Failed), ("small", Warning), ("filled", Warning)],
        judge: host::shm,
    },
    Rule {
        name: "memory_limit",
        of_machine: false,
        outcomes: &[("ok", Ok), ("limited", Warning)],
        judge: host::memory_limit,
    },
    Rule {
        name: "cpu_limit",
        of_machine: false,
        outcomes: &[("ok", Ok), ("pinned", Ok), ("threads_set", Ok), ("limited", Warning)],
        judge: host::cpu_limit,
    },
    Rule {
        name: "swap",
        of_machine: true,
        outcomes: &[("ok", Ok), ("none", Ok), ("not_told", Unknown), ("used", Warning)],
        judge: host::swap,
    },
    Rule {
        name: "cpu_governor",
        of_machine: true,
        outcomes: &[("ok", Ok), ("not_told", Unknown), ("saving", Warning)],
        judge: host::governor,
    },
    Rule {
        name: "root_login",
        of_machine: false,
        outcomes: &[
            ("no_server", Ok),
            ("keys_only", Ok),
            ("locked", Ok),
            ("unreadable", Unknown),
            ("empty", Failed),
            ("known", Failed),
            ("by_password", Failed),
        ],
        judge: safety::root_login,
    },
    Rule {
        name: "jupyter",
        of_machine: false,
        outcomes: &[("none", Ok), ("guarded", Ok), ("unseen", Unknown), ("open", Failed)],
        judge: safety::jupyter,
    },
];

/// A list as evidence.
fn list<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Value {
    json!(items.into_iter().map(Into::into).collect::<Vec<Value>>())
}

//! The shipped workloads: which there are, their program, and how settings become its options.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;

use crate::record::child::{self, CannotStart};

/// The shipped workloads with their settings, as `shice-workloads` knows them.
pub const SHIPPED: [(&str, &[&str]); 4] = [
    ("idle", &["device", "seconds", QUICK]),
    ("small-cnn", &TRAINING),
    ("resnet50-cifar10", &RESNET),
    ("llama2-finetune", &LLAMA),
];
/// The settings of all training loops.
const TRAINING: [&str; 10] =
    ["device", "batch-size", "epochs", "steps", "workers", "threads", "precision", "accumulate", "seed", QUICK];
const RESNET: [&str; 11] =
    ["device", "batch-size", "epochs", "steps", "workers", "threads", "precision", "accumulate", "seed", QUICK, "data"];
const LLAMA: [&str; 16] = [
    "device",
    "batch-size",
    "epochs",
    "steps",
    "workers",
    "threads",
    "precision",
    "accumulate",
    "seed",
    QUICK,
    "model",
    "sequence-length",
    "offload",
    "weights",
    "text",
    "tokenizer",
];
/// Setting of the shipped workloads that has no value of its own.
pub const QUICK: &str = "quick";
const PROGRAM: &str = "shice-workloads";

/// Whether a workload is a shipped one.
pub fn is_shipped(workload: &str) -> bool {
    settings(workload).is_some()
}

/// The names of the shipped workloads, for people.
pub fn names() -> String {
    SHIPPED.map(|(name, _)| name).join(", ")
}

/// The settings of a shipped workload; `None` where there is no workload of that name.
pub fn settings(workload: &str) -> Option<&'static [&'static str]> {
    SHIPPED.iter().find(|(name, _)| *name == workload).map(|(_, settings)| *settings)
}

/// The command of a shipped workload. Values that it has no setting for are of the words before the command.
pub fn command(workload: &str, values: &BTreeMap<String, String>) -> Vec<String> {
    let known = settings(workload).unwrap_or_default();
    let mut command = vec![PROGRAM.to_owned(), workload.to_owned()];
    for (key, value) in values.iter().filter(|(key, _)| *key != QUICK && known.contains(&key.as_str())) {
        command.extend([format!("--{key}"), value.clone()]);
    }
    command.extend(values.get(QUICK).map(|_| format!("--{QUICK}")));
    command
}

/// The program of the shipped workloads: beside this one, else on PATH.
///
/// # Errors
/// There is none.
pub fn program() -> Result<PathBuf> {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(PROGRAM));
    match beside.filter(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => child::resolve(PROGRAM).map_err(|error: CannotStart| {
            anyhow::Error::new(error)
                .context("the shipped workloads need the program shice-workloads; `make build` builds it")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_options_quick_without_a_value_and_others_not_at_all() {
        let settings = [("threads", "2"), ("quick", "true"), ("device", "cpu"), ("cpus", "4")];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(
            command("small-cnn", &settings),
            ["shice-workloads", "small-cnn", "--device", "cpu", "--threads", "2", "--quick"]
        );
    }
}

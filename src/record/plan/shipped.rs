//! The shipped workloads: which there are, their program, and how settings become its options.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::record::child::{self, CannotStart};

/// The shipped workloads, as `shice-workloads` knows them.
pub const SHIPPED: [&str; 2] = ["idle", "small-cnn"];
/// Setting of the shipped workloads that has no value of its own.
pub const QUICK: &str = "quick";
const PROGRAM: &str = "shice-workloads";

/// Whether a workload is a shipped one.
pub fn is_shipped(workload: &str) -> bool {
    SHIPPED.contains(&workload)
}

/// The command of a shipped workload.
pub fn command(workload: &str, settings: &BTreeMap<String, String>) -> Vec<String> {
    let mut command = vec![PROGRAM.to_owned(), workload.to_owned()];
    for (key, value) in settings.iter().filter(|(key, _)| *key != QUICK) {
        command.extend([format!("--{key}"), value.clone()]);
    }
    command.extend(settings.get(QUICK).map(|_| format!("--{QUICK}")));
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

/// Asks the workloads' own libtorch which devices it can use.
///
/// # Errors
/// One of `devices` is not among them, or they cannot be told.
pub fn check_devices(program: &Path, devices: &[&String]) -> Result<()> {
    if devices.iter().all(|device| matches!(device.as_str(), "cpu" | "auto")) {
        return Ok(());
    }
    let output =
        Command::new(program).arg("devices").output().with_context(|| format!("cannot run {}", program.display()))?;
    let usable: Vec<String> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if usable.is_empty() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("{} cannot tell its devices: {}", program.display(), why.trim());
    }
    match devices.iter().find(|device| device.as_str() != "auto" && !usable.contains(device)) {
        Some(missing) => bail!("device {missing:?} cannot be used here; usable are {}", usable.join(", ")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_options_and_quick_has_no_value() {
        let settings = [("threads", "2"), ("quick", "true"), ("device", "cpu")];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(
            command("small-cnn", &settings),
            ["shice-workloads", "small-cnn", "--device", "cpu", "--threads", "2", "--quick"]
        );
    }
}

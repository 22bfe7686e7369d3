//! `shice-workloads`: training loops and an idle process to record, the only program that links libtorch.
//!
//! It tells its phases and steps through `SHICE_STEPS`, as any other workload would, and knows nothing of the recorder.

mod cli;
mod cuda;
mod data;
mod device;
mod idle;
mod steps;
mod training;
mod vision;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use crate::cli::{Cli, Command};

/// What a shell shows for a call that was wrong, and clap's own code for it.
const FAILURE: u8 = 2;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A reader that went away is no reason to panic.
            let _ = writeln!(std::io::stderr(), "shice-workloads: {}", one_line(&error));
            ExitCode::from(FAILURE)
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    if let Some(training) = cli.command.training() {
        training.precision.prepare(training.device)?;
    }
    cuda::load();
    match cli.command {
        Command::Devices => {
            let devices = serde_json::to_string(&device::usable())?;
            writeln!(std::io::stdout(), "{devices}").context("cannot write the list of devices")
        }
        Command::Cuda => {
            let told = serde_json::to_string(&device::tried())?;
            writeln!(std::io::stdout(), "{told}").context("cannot write what became of the kernels")
        }
        Command::Idle(options) => idle::run(&options),
        Command::SmallCnn(options) => vision::small_cnn::run(&options),
    }
}

/// The chain of causes without the C++ backtraces that libtorch appends to its own.
fn one_line(error: &anyhow::Error) -> String {
    let causes = error.chain().map(|cause| cause.to_string().lines().next().unwrap_or_default().to_owned());
    causes.collect::<Vec<_>>().join(": ")
}

//! `shice-workloads`: training loops and an idle process to record, the only program that links libtorch.
//!
//! It tells its phases and steps through `SHICE_STEPS`, as any other workload would, and knows nothing of a
//! recording: of the library it takes only how files are opened and how much memory there is.

mod cli;
mod cuda;
mod data;
mod device;
mod idle;
mod llama;
mod optimizer;
mod out_of_memory;
mod steps;
mod training;
mod vision;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use crate::cli::{Cli, Command};
use crate::out_of_memory::OutOfMemory;
use crate::steps::Steps;

/// What a shell shows for a call that was wrong, and clap's own code for it.
const FAILURE: u8 = 2;
/// Memory ran out: the number of `ENOMEM`.
const NO_MEMORY: u8 = 12;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A reader that went away is no reason to panic.
            let _ = writeln!(std::io::stderr(), "shice-workloads: {}", one_line(&error));
            ExitCode::from(if error.is::<OutOfMemory>() { NO_MEMORY } else { FAILURE })
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
        Command::Idle(options) => tell(|steps| idle::run(&options, steps)),
        Command::SmallCnn(options) => tell(|steps| vision::small_cnn::run(&options, steps)),
        Command::Llama2Finetune(options) => tell(|steps| llama::run(&options, steps)),
        Command::Resnet50Cifar10(options) => tell(|steps| vision::resnet50_cifar10::run(&options, steps)),
    }
}

/// Runs a workload; where memory runs out, that is told as an outcome.
fn tell(run: impl FnOnce(&Steps) -> Result<()>) -> Result<()> {
    let steps = Steps::from_environment()?;
    run(&steps).map_err(|error| {
        let Some(out_of_memory) = OutOfMemory::of(&error, &steps) else { return error };
        match out_of_memory.tell(&steps) {
            Ok(()) => error.context(out_of_memory),
            Err(untold) => error.context(out_of_memory).context(one_line(&untold)),
        }
    })
}

/// The chain of causes without the C++ backtraces that libtorch appends to its own.
fn one_line(error: &anyhow::Error) -> String {
    let causes = error.chain().map(|cause| cause.to_string().lines().next().unwrap_or_default().to_owned());
    causes.collect::<Vec<_>>().join(": ")
}

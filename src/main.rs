//! The `shice` program: parse, dispatch, print the chain of causes, exit code.

mod cli;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use shice::commands;
use shice::record::child;

use cli::{Cli, Command};

/// Exit code of everything but `record` on an error.
const ERROR: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == child::SHIM) {
        eprintln!("shice: {:#}", child::run_shim(&arguments[2..]));
        return ExitCode::from(commands::record::OWN_FAILURE);
    }
    let (result, code_of_error): (Result<u8>, fn(&anyhow::Error) -> u8) = match Cli::parse().command {
        Command::Record(args) => (commands::record::run(args.into()), commands::record::exit_code),
        Command::Render(args) => (commands::render::run(&args.traces, &args.out), |_| ERROR),
        Command::List(args) => (commands::list::run(&args.traces), |_| ERROR),
    };
    result.map_or_else(
        |error| {
            eprintln!("shice: {error:#}");
            ExitCode::from(code_of_error(&error))
        },
        ExitCode::from,
    )
}

impl From<cli::RecordArgs> for shice::record::plan::Request {
    fn from(args: cli::RecordArgs) -> Self {
        Self {
            environment: args.environment,
            workloads: args.workload.map_or(args.workloads, |name| vec![name]),
            command: args.command,
            devices: args.device,
            settings: args.settings,
            quick: args.quick,
            repeats: args.repeats,
            interval: args.interval,
            out: args.out,
            append: args.append,
        }
    }
}

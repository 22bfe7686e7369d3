//! The `shice` program: parse, dispatch, print the chain of causes, exit code.

mod cli;
mod misuse;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use shice::commands;
use shice::commands::render;
use shice::console::say;
use shice::record::plan::{Existing, Request};
use shice::record::probe::gpu::GpuChoice;
use shice::record::{child, container, finisher};
use shice::report::language::Language;
use shice::trace::run::StepReading;

use cli::{Cli, Command};

/// Exit code of everything but `record` on an error.
const ERROR: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == child::SHIM) {
        return ExitCode::from(child::run_shim(&arguments[2..]));
    }
    if arguments.get(1).is_some_and(|first| first == container::WAITER) {
        return ExitCode::from(container::waiter::run(&arguments[2..]));
    }
    if arguments.get(1).is_some_and(|first| first == finisher::FINISHER) {
        return ExitCode::from(finisher::run(&arguments[2..]));
    }
    let command = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli.command,
        Err(error) => return misuse::tell(&error, &arguments),
    };
    let (result, code_of_error): (Result<u8>, fn(&anyhow::Error) -> u8) = match command {
        Command::Record(args) => (commands::record::run((*args).into()), commands::record::exit_code),
        Command::Render(args) => (commands::render::run(&args.into()), |_| ERROR),
        Command::Check(args) => (commands::check::run(args.json, &languages(args.lang)), |_| ERROR),
        Command::List(args) => (commands::list::run(&args.traces), |_| ERROR),
        Command::Verify(args) => (commands::verify::run(&args.traces), |_| ERROR),
    };
    result.map_or_else(
        |error| {
            say(&format!("shice: {error:#}"));
            ExitCode::from(code_of_error(&error))
        },
        ExitCode::from,
    )
}

/// Those asked for, else that of the locale.
fn languages(asked: Option<cli::Lang>) -> Vec<Language> {
    match asked {
        Some(cli::Lang::Zh) => vec![Language::Chinese],
        Some(cli::Lang::En) => vec![Language::English],
        Some(cli::Lang::Both) => Language::ALL.to_vec(),
        None => vec![commands::check::language_of_locale()],
    }
}

fn step_reading(steps: cli::Steps, pattern: Option<String>) -> StepReading {
    match (steps, pattern) {
        (cli::Steps::Off, _) => StepReading::Off,
        (cli::Steps::Auto, Some(pattern)) => StepReading::Pattern { pattern },
        (cli::Steps::Auto, None) => StepReading::Auto,
    }
}

impl From<cli::RenderArgs> for render::Request {
    fn from(args: cli::RenderArgs) -> Self {
        let form = match (args.format, args.single_file) {
            (Some(cli::RenderFormat::Json), _) => render::Form::Json,
            (None, true) => render::Form::SingleFile,
            (None, false) => render::Form::Site { with_traces: args.with_traces, address: args.site_url },
        };
        Self { traces: args.traces, out: args.out, form, open: args.open }
    }
}

impl From<cli::RecordArgs> for Request {
    fn from(args: cli::RecordArgs) -> Self {
        Self {
            environment: args.environment,
            suite: args.suite,
            workloads: args.workload.map_or(args.workloads, |name| vec![name]),
            command: args.command,
            devices: args.device,
            settings: args.settings,
            sweeps: args.sweeps,
            quick: args.quick,
            repeats: args.repeats,
            interval: args.interval,
            gpus: match (args.no_gpu, args.gpu.is_empty()) {
                (true, _) => GpuChoice::Off,
                (false, true) => GpuChoice::Visible,
                (false, false) => GpuChoice::Listed(args.gpu),
            },
            out: args.out,
            existing: match (args.append, args.replace) {
                (false, false) => Existing::Refuse,
                (true, _) => Existing::Append,
                (false, true) => Existing::Replace,
            },
            fail_fast: args.fail_fast,
            keep_identity: args.keep_identity,
            leave_children: args.leave_children,
            dry_run: args.dry_run,
            step_reading: step_reading(args.steps, args.step_pattern),
            keep_output: args.keep_output,
            container: args.container,
            duration: args.duration,
            time_limit: args.minutes,
        }
    }
}

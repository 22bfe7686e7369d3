//! The chain from the command down to the chip, as far as it was seen, and the options of a container's launch.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use super::method;
use crate::report::context::Context;
use crate::report::{checks, escape, format};
use crate::trace::check::CheckState;
use crate::trace::client::{self, RunOption};

/// A link of the chain: the phrase `chain.<name>`, and the check whose sign stands beside it.
struct Link {
    name: &'static str,
    check: Option<&'static str>,
}

/// From the command down.
const LINKS: [Link; 5] = [
    Link { name: "program", check: None },
    Link { name: "container", check: None },
    Link { name: "kernel", check: None },
    Link { name: "driver", check: Some("nvidia_driver") },
    Link { name: "hardware", check: Some("cuda_kernel") },
];

/// Variables of the phrases `chain.*`; empty where nothing was seen.
#[derive(Serialize)]
struct Seen {
    programs: String,
    torch: String,
    cuda: String,
    container: String,
    image: String,
    kernel: String,
    os: String,
    virtual_machine: bool,
    driver: String,
    driver_cuda: String,
    gpus: String,
    cpu: String,
    cores: String,
}

/// A client's `run` up to the image, and what its options mean.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Launch {
    /// The command as a fenced block.
    command: String,
    options: Vec<LaunchOption>,
}

#[derive(Clone, Debug, Serialize)]
struct LaunchOption {
    option: String,
    meaning: String,
}

/// The chain as a fenced block; absent where no link of it was seen.
pub(super) fn chain(context: &Context<'_>) -> Result<Option<String>> {
    let seen = seen(context)?;
    let mut lines: Vec<String> = Vec::new();
    for link in LINKS {
        let line = context.words.fill(&format!("chain.{}", link.name), &seen)?;
        if line.is_empty() {
            continue;
        }
        let sign = link.check.and_then(|name| state(context, name)).filter(|state| *state != CheckState::Unknown);
        // One line each: what a value holds must not pass for a link.
        let line = escape::line(&line);
        lines.push(sign.map_or_else(|| line.clone(), |state| format!("{line} {}", checks::sign(state))));
    }
    Ok((lines.len() > 1).then(|| escape::block(&lines.join("\n  ↓\n"), "text")))
}

fn state(context: &Context<'_>, check: &str) -> Option<CheckState> {
    context.summary.checks.iter().find(|summary| summary.check.name == check).map(|summary| summary.check.state)
}

fn seen(context: &Context<'_>) -> Result<Seen> {
    let found = &context.summary.fingerprint;
    let text = |key: &str| found.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let software = |key: &str| -> Result<String> {
        let versions = context.summary.loaded.software.get(key);
        context.words.list(&versions.into_iter().flatten().cloned().collect::<Vec<_>>())
    };
    let programs: BTreeSet<String> = context.summary.cases.iter().filter_map(|case| program(&case.command)).collect();
    Ok(Seen {
        programs: context.words.list(&programs.into_iter().collect::<Vec<_>>())?,
        torch: software("torch")?,
        cuda: software("cuda_runtime")?,
        container: text("container"),
        image: text("container_image"),
        kernel: text("kernel"),
        os: text("os"),
        virtual_machine: found.get("virtual_machine").and_then(Value::as_bool).unwrap_or_default(),
        driver: text("nvidia_driver"),
        driver_cuda: text("cuda_driver"),
        gpus: gpus(context, found.get("gpus"))?,
        cpu: text("cpu_model"),
        cores: context.summary.limits.cores_online.map(|cores| cores.to_string()).unwrap_or_default(),
    })
}

/// `NVIDIA A100 × 2`, each kind once.
fn gpus(context: &Context<'_>, found: Option<&Value>) -> Result<String> {
    let names = found.and_then(Value::as_array).into_iter().flatten();
    let names: Vec<&str> = names.filter_map(|gpu| gpu.get("name").and_then(Value::as_str)).collect();
    let kinds: BTreeSet<&str> = names.iter().copied().collect();
    let kind = |kind: &str| match names.iter().filter(|name| **name == kind).count() {
        1 => kind.to_owned(),
        count => format!("{kind} × {}", format::count(count as u64)),
    };
    context.words.list(&kinds.into_iter().map(kind).collect::<Vec<_>>())
}

/// The program that a command calls, without its folder; in a container, the one that is called there.
fn program(command: &[String]) -> Option<String> {
    let call = client::call(command).filter(|call| matches!(call.verb, "run" | "exec"));
    let command = call.map_or(command, |call| call.run_words().command);
    command.first().and_then(|word| word.rsplit('/').next()).map(str::to_owned)
}

/// How containers were launched, each way once; empty where no command launched one.
pub(super) fn launches(context: &Context<'_>) -> Result<Vec<Launch>> {
    let mut launches: Vec<Launch> = Vec::new();
    for case in &context.summary.cases {
        let Some(call) = client::call(&case.command).filter(|call| call.verb == "run") else { continue };
        let run = call.run_words();
        // The image ends the launch; what follows is the workload's.
        let end = case.command.len() - run.command.len();
        let command = escape::block(&method::command(&case.command[..end]), "sh");
        if launches.iter().any(|launch| launch.command == command) {
            continue;
        }
        let options = run.options.iter().map(|option| explained(context, option)).collect::<Result<_>>()?;
        launches.push(Launch { command, options });
    }
    Ok(launches)
}

fn explained(context: &Context<'_>, option: &RunOption<'_>) -> Result<LaunchOption> {
    let written = option.value.map_or_else(|| option.name.clone(), |value| format!("{} {value}", option.name));
    let meaning = context.words.find(&format!("launch.{}", option.name.trim_start_matches('-')));
    Ok(LaunchOption {
        option: escape::code_cell(&written),
        meaning: meaning.map_or_else(|| context.words.get("launch.unknown"), Ok)?.to_owned(),
    })
}

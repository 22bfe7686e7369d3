//! The environment: its component table, its limits, and whether it was ready.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use super::Row;
use crate::aggregate::summary::{CheckSummary, EnvironmentSummary};
use crate::report::context::Context;
use crate::report::{checks, escape, format};
use crate::trace::check::CheckState;

/// Rows of the component table in the order in which readers look for them; what is not listed follows.
const ORDER: [Part; 35] = [
    Part::Hardware("os"),
    Part::Hardware("kernel"),
    Part::Hardware("architecture"),
    Part::Hardware("container"),
    Part::Hardware("container_image"),
    Part::Hardware("container_image_id"),
    Part::Hardware("image_product"),
    Part::Hardware("image_pytorch"),
    Part::Hardware("image_cuda"),
    Part::Processor,
    Part::Hardware("cpu_instructions"),
    Part::Hardware("numa_nodes"),
    Part::Hardware("shm_bytes"),
    Part::Hardware("swap_total_bytes"),
    Part::Hardware("gpus"),
    Part::Hardware("nvidia_driver"),
    Part::Hardware("cuda_driver"),
    Part::Software("python"),
    Part::Software("torch"),
    Part::Software("torch_cuda"),
    Part::Software("cuda_runtime"),
    Part::Software("cudnn"),
    Part::Software("cublas"),
    Part::Software("nccl"),
    Part::Software("mkl"),
    Part::Software("openblas"),
    Part::Software("onednn"),
    Part::Software("openmp"),
    Part::Packages,
    Part::Software("package_index"),
    Part::Software("conda_channels"),
    Part::Variables,
    Part::Hardware("virtual_machine"),
    Part::Hardware("virtualisation"),
    Part::Hardware("cpu_governor"),
];

/// Where a row of the table comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A key of the fingerprint.
    Hardware(&'static str),
    /// The processor's model with its shape.
    Processor,
    /// A component that was loaded.
    Software(&'static str),
    Packages,
    Variables,
}

/// Keys that stand elsewhere: the limits below the table, the processor's shape beside its model.
const ELSEWHERE: [&str; 8] = [
    "cores_online",
    "cpu_limit_cores",
    "memory_limit_bytes",
    "memory_total_bytes",
    "cpu_model",
    "cpu_sockets",
    "cpu_physical_cores",
    "cpu_threads_per_core",
];

/// Packages that readers ask for; of the others the table tells the number.
const KNOWN_PACKAGES: [&str; 26] = [
    "torch",
    "torchvision",
    "torchaudio",
    "triton",
    "numpy",
    "scipy",
    "pandas",
    "scikit-learn",
    "matplotlib",
    "pillow",
    "opencv-python",
    "opencv-python-headless",
    "jupyterlab",
    "notebook",
    "ipykernel",
    "transformers",
    "datasets",
    "tokenizers",
    "accelerate",
    "peft",
    "deepspeed",
    "lightning",
    "pytorch-lightning",
    "xformers",
    "flash-attn",
    "tensorboard",
];

#[derive(Clone, Debug, Serialize)]
pub(super) struct Limits {
    // Absent where that is not known, or not the same in all runs.
    cores: Option<String>,
    cores_online: Option<String>,
    memory: Option<String>,
    memory_total: Option<String>,
}

/// Whether the environment was ready.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Readiness {
    rows: Vec<CheckRow>,
    /// What is to be done, and how.
    problems: Vec<Problem>,
    /// Checks that other runs found in another state, a sentence each.
    differing: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct CheckRow {
    sign: &'static str,
    title: String,
    text: String,
}

#[derive(Clone, Debug, Serialize)]
struct Problem {
    sign: &'static str,
    title: String,
    fix: String,
    /// A fenced block.
    commands: String,
}

/// The component table; what could not be read has no row.
pub(super) fn components(context: &Context<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for part in ORDER {
        rows.extend(row(context, part)?);
    }
    let listed = |key: &String| {
        ELSEWHERE.contains(&key.as_str())
            || ORDER.iter().any(|part| matches!(part, Part::Hardware(name) if name == key))
    };
    for key in context.summary.fingerprint.keys().filter(|key| !listed(key)) {
        rows.extend(hardware(context, key)?);
    }
    let listed = |key: &String| ORDER.iter().any(|part| matches!(part, Part::Software(name) if name == key));
    for key in context.summary.loaded.software.keys().filter(|key| !listed(key)) {
        rows.extend(software(context, key)?);
    }
    rows.extend(libraries(context)?);
    Ok(rows)
}

fn row(context: &Context<'_>, part: Part) -> Result<Option<Row>> {
    match part {
        Part::Hardware(key) => hardware(context, key),
        Part::Processor => processor(context),
        Part::Software(key) => software(context, key),
        Part::Packages => packages(context),
        Part::Variables => variables(context),
    }
}

pub(super) fn hardware(context: &Context<'_>, key: &str) -> Result<Option<Row>> {
    let Some(value) = context.summary.fingerprint.get(key) else { return Ok(None) };
    Ok(Some(Row { label: label(context, key), value: context.component(key, value)? }))
}

/// The catalogue's name of a key, or the key itself where it is another version's.
fn label(context: &Context<'_>, key: &str) -> String {
    context.words.find(&format!("component.{key}")).map_or_else(|| escape::code_cell(key), str::to_owned)
}

/// `AMD EPYC (1 socket, 8 cores, 2 threads each)`; the model alone where the machine does not tell its shape.
fn processor(context: &Context<'_>) -> Result<Option<Row>> {
    #[derive(Serialize)]
    struct Shape {
        model: String,
        sockets: u64,
        cores: u64,
        threads: u64,
    }
    let found = &context.summary.fingerprint;
    let Some(model) = found.get("cpu_model") else { return Ok(None) };
    let model = context.component("cpu_model", model)?;
    let number = |key: &str| found.get(key).and_then(Value::as_u64);
    let shape = number("cpu_sockets").zip(number("cpu_physical_cores")).zip(number("cpu_threads_per_core"));
    let value = match shape {
        Some(((sockets, cores), threads)) => {
            context.words.fill("component.cpu_shape", &Shape { model, sockets, cores, threads })?
        }
        None => model,
    };
    Ok(Some(Row { label: label(context, "cpu_model"), value }))
}

pub(super) fn software(context: &Context<'_>, key: &str) -> Result<Option<Row>> {
    let Some(versions) = context.summary.loaded.software.get(key) else { return Ok(None) };
    let versions: Vec<String> = versions.iter().map(|version| escape::text(version)).collect();
    let value = if versions.is_empty() {
        context.words.get("component.no_version")?.to_owned()
    } else {
        context.words.list(&versions)?
    };
    Ok(Some(Row { label: label(context, key), value }))
}

/// Those that readers ask for, and how many there are.
fn packages(context: &Context<'_>) -> Result<Option<Row>> {
    #[derive(Serialize)]
    struct Packages {
        known: String,
        count: usize,
    }
    let installed = &context.summary.loaded.packages;
    if installed.is_empty() {
        return Ok(None);
    }
    let known = KNOWN_PACKAGES.iter().filter_map(|name| Some(named(name, installed.get(*name)?)));
    let packages = Packages { known: context.words.list(&known.collect::<Vec<_>>())?, count: installed.len() };
    Ok(Some(Row {
        label: label(context, "packages"),
        value: context.words.fill("component.packages.value", &packages)?,
    }))
}

/// `numpy 2.4.6`; several versions, of several runs, are separated by strokes.
fn named(name: &str, versions: &BTreeSet<String>) -> String {
    let versions: Vec<String> = versions.iter().map(|version| escape::text(version)).collect();
    format!("{} {}", escape::text(name), versions.join(" / ")).trim_end().to_owned()
}

fn variables(context: &Context<'_>) -> Result<Option<Row>> {
    let found: &BTreeMap<String, BTreeSet<String>> = &context.summary.loaded.variables;
    if found.is_empty() {
        return Ok(None);
    }
    let pairs = found.iter().flat_map(|(name, values)| values.iter().map(move |value| format!("{name}={value}")));
    let pairs: Vec<String> = pairs.map(|pair| escape::code_cell(&pair)).collect();
    Ok(Some(Row { label: label(context, "variables"), value: context.words.list(&pairs)? }))
}

fn libraries(context: &Context<'_>) -> Result<Option<Row>> {
    let found = &context.summary.loaded.libraries;
    if found.is_empty() {
        return Ok(None);
    }
    let names: Vec<String> = found.keys().map(|name| escape::code_cell(name)).collect();
    Ok(Some(Row { label: label(context, "libraries"), value: context.words.list(&names)? }))
}

pub(super) fn limits(summary: &EnvironmentSummary) -> Limits {
    let limits = summary.limits;
    Limits {
        cores: limits.cpu_cores.map(format::plain),
        cores_online: limits.cores_online.map(|cores| cores.to_string()),
        memory: limits.memory_bytes.map(format::bytes),
        memory_total: limits.memory_total_bytes.map(format::bytes),
    }
}

/// The checks in words; absent where no run has any.
pub(super) fn readiness(context: &Context<'_>) -> Result<Option<Readiness>> {
    let found = &context.summary.checks;
    if found.is_empty() {
        return Ok(None);
    }
    let told = found.iter().map(|summary| checks::tell(&context.words, &summary.check)).collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    for told in checks::grouped(&context.words, &told)? {
        rows.push(CheckRow {
            sign: checks::sign(told.state),
            title: escape::text(&told.title),
            text: escape::text(&told.text),
        });
    }
    let problem = |told: &checks::Told| {
        Some(Problem {
            sign: checks::sign(told.state),
            title: escape::text(&told.title),
            // Ours, and without values: the one text of a check that may hold marks.
            fix: told.fix.clone()?,
            commands: escape::block(told.commands.as_deref()?, "sh"),
        })
    };
    Ok(Some(Readiness {
        problems: told.iter().filter_map(problem).collect(),
        differing: found
            .iter()
            .map(|summary| differing(context, summary))
            .filter_map(Result::transpose)
            .collect::<Result<_>>()?,
        rows,
    }))
}

/// That other runs found a check in another state.
fn differing(context: &Context<'_>, summary: &CheckSummary) -> Result<Option<String>> {
    #[derive(Serialize)]
    struct Differing {
        title: String,
        states: String,
        runs: usize,
    }
    #[derive(Serialize)]
    struct State {
        state: String,
        runs: usize,
    }
    if summary.others.is_empty() {
        return Ok(None);
    }
    let state = |(state, runs): (&CheckState, &usize)| {
        let name = format!("{} {}", checks::sign(*state), context.words.get(checks::key(*state))?);
        context.words.fill("check.other", &State { state: name, runs: *runs })
    };
    let states = summary.others.iter().map(state).collect::<Result<Vec<_>>>()?;
    let title = escape::text(&checks::tell(&context.words, &summary.check)?.title);
    let differing = Differing { title, states: context.words.list(&states)?, runs: summary.runs };
    Ok(Some(context.words.fill("check.differing", &differing)?))
}

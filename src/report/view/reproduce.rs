//! How to get to the same figures: on what to record, what to record, and how to compute a figure from the raw traces.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use super::{Row, environment, method};
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::{CaseSummary, EnvironmentSummary, RunSummary};
use crate::report::Beside;
use crate::report::context::Context;
use crate::report::escape;
use crate::report::format::{self, Scale};
use crate::trace::fingerprint::{IMAGE, IMAGE_DIGEST, IMAGE_ID};
use crate::trace::run::StepReading;

/// How the commands of the shipped workloads begin.
const SHIPPED_PROGRAM: &str = "shice-workloads";

/// Begins what stands for the command of a run that only watched a container.
const WATCHED: &str = "--container";

/// What `shice record` takes where nothing is said.
const DEFAULT_INTERVAL_NS: i64 = 100_000_000;

/// Of more processes the smallest share a row of the table, whose peaks are no process's.
const MOST_WITH_OWN_ROWS: f64 = 64.0;

/// Versions that figures depend on most.
const HARDWARE: [&str; 7] = [IMAGE, IMAGE_DIGEST, IMAGE_ID, "image_product", "kernel", "nvidia_driver", "cuda_driver"];
const SOFTWARE: [&str; 7] = ["python", "torch", "torch_cuda", "cuda_runtime", "cudnn", "nccl", "mkl"];

#[derive(Clone, Debug, Serialize)]
pub(super) struct Reproduce {
    versions: Vec<Row>,
    /// A fenced block that fetches the image; absent where no registry is known to have it.
    image: Option<String>,
    /// A fenced block.
    verify: String,
    recompute: Option<Recompute>,
    /// Absent where the report stands alone.
    beside: Option<Beside>,
    /// Folder of the environment below the folder of traces.
    folder: String,
}

/// A figure of the report and how to compute it from the raw traces.
#[derive(Clone, Debug, Serialize)]
struct Recompute {
    case: String,
    run: u32,
    label: String,
    /// As the report has it, and in full.
    shown: String,
    bytes: String,
    /// A fenced block.
    code: String,
}

pub(super) fn build(context: &Context<'_>) -> Result<Reproduce> {
    let summary = context.summary;
    Ok(Reproduce {
        versions: versions(context)?,
        image: image(summary).map(|image| escape::block(&format!("docker pull {}", escape::shell(&image)), "sh")),
        verify: escape::block("shice verify traces\nshice render traces --out site", "sh"),
        recompute: recompute(context)?,
        beside: context.beside.cloned(),
        folder: escape::code_cell(&format!("environment={}", summary.slug)),
    })
}

fn versions(context: &Context<'_>) -> Result<Vec<Row>> {
    let runs = context.summary.cases.iter().flat_map(|case| &case.runs);
    let recorders: BTreeSet<&str> = runs.map(|run| run.shice_version.as_str()).collect();
    let recorders: Vec<String> = recorders.into_iter().map(escape::text).collect();
    let mut rows = vec![Row { label: "shice".to_owned(), value: context.words.list(&recorders)? }];
    for key in HARDWARE {
        rows.extend(environment::hardware(context, key)?);
    }
    for key in SOFTWARE {
        rows.extend(environment::software(context, key)?);
    }
    Ok(rows)
}

/// The image by its digest, which names the same one for ever.
fn image(summary: &EnvironmentSummary) -> Option<String> {
    let text = |key: &str| summary.fingerprint.get(key).and_then(Value::as_str);
    let (name, digest) = text(IMAGE).zip(text(IMAGE_DIGEST))?;
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    // What follows the last colon is a tag, but for the port of a registry.
    let name = name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).map_or(name, |(name, _)| name);
    Some(format!("{name}@{digest}"))
}

/// Peak memory of the first finished run of a case where the sum over its processes is all there is to it.
fn recompute(context: &Context<'_>) -> Result<Option<Recompute>> {
    const METRIC: Metric = Metric::MemorySumOfPeaks;
    let summary = context.summary;
    let is_plain = |case: &&CaseSummary| {
        let processes = case.metric(Metric::Processes).map(|figure| figure.max);
        processes.is_some_and(|most| most <= MOST_WITH_OWN_ROWS) && case.container.is_none()
    };
    // In a container the client's processes are recorded too, and count for nothing.
    if summary.fingerprint.contains_key(IMAGE_ID) {
        return Ok(None);
    }
    let value = |run: &RunSummary| run.values.get(&METRIC).copied();
    let found = summary.cases.iter().rev().filter(is_plain).find_map(|case| {
        let run = case.runs.iter().find(|run| run.outcome.is_finished())?;
        Some((case, run, value(run)?))
    });
    let Some((case, run, bytes)) = found else { return Ok(None) };
    let greatest = case.runs.iter().filter_map(value).reduce(f64::max).unwrap_or(bytes);
    Ok(Some(Recompute {
        case: escape::text(&context.case_title(case)?),
        run: run.run,
        label: context.label(METRIC)?,
        shown: Scale::of(METRIC.unit(), greatest).text(bytes),
        bytes: format::count(bytes as u64),
        code: escape::block(&code(&summary.slug, &case.slug), "python"),
    }))
}

/// Slugs are plain ASCII, so nothing in them can leave a string.
fn code(environment: &str, case: &str) -> String {
    [
        "import polars as pl".to_owned(),
        format!("files = \"traces/environment={environment}/case={case}/**/process_sample.parquet\""),
        "samples = pl.scan_parquet(files, hive_partitioning=True)".to_owned(),
        "peaks = samples.group_by(\"run\", \"process\").agg(pl.col(\"rss_peak_bytes\").max())".to_owned(),
        "print(peaks.group_by(\"run\").agg(pl.col(\"rss_peak_bytes\").sum()).sort(\"run\").collect())".to_owned(),
    ]
    .join("\n")
}

/// The command that was run, after the variables that were set for it.
pub(super) fn command(case: &CaseSummary) -> String {
    let variables = case.set_variables.iter().map(|(name, value)| format!("{name}={} ", escape::shell(value)));
    variables.chain([method::command(&case.command)]).collect()
}

/// The `shice record` line that records the case again.
pub(super) fn line(environment: &str, case: &CaseSummary) -> String {
    let mut words = vec!["shice".to_owned(), "record".to_owned(), format!("--env={environment}")];
    for (key, value) in &case.settings {
        match key.as_str() {
            "device" => words.extend(["--device".to_owned(), value.clone()]),
            "quick" => words.push("--quick".to_owned()),
            _ => words.extend(["--set".to_owned(), format!("{key}={value}")]),
        }
    }
    if case.container.is_none() {
        words.extend(["--repeats".to_owned(), case.runs.len().to_string()]);
    }
    if let Some(run) = case.runs.first().filter(|run| run.interval_ns != DEFAULT_INTERVAL_NS) {
        words.extend(["--interval".to_owned(), format!("{}ms", format::plain(run.interval_ns as f64 / 1e6))]);
    }
    match &case.step_reading {
        Some(StepReading::Off) => words.extend(["--steps", "off"].map(str::to_owned)),
        Some(StepReading::Pattern { pattern }) => words.extend(["--step-pattern".to_owned(), pattern.clone()]),
        Some(StepReading::Auto) | None => {}
    }
    if case.command.first().is_some_and(|program| program == SHIPPED_PROGRAM) {
        words.push(case.workload.clone());
    } else {
        words.extend(["--workload".to_owned(), case.workload.clone()]);
        // A container that was only watched has its options for a command.
        let is_watched = case.command.first().is_some_and(|word| word == WATCHED);
        if let Some(container) = case.container.clone().filter(|_| !is_watched) {
            words.extend([WATCHED.to_owned(), container]);
        }
        words.extend((!is_watched).then(|| "--".to_owned()));
        words.extend(case.command.iter().cloned());
    }
    method::command(&words)
}

//! `shice list`: what a folder of traces holds, as plain text.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use crate::trace::open::Environment;
use crate::trace::{Run, Trace};

/// Prints environments, their cases, how their runs ended, and what cannot be read. Tables are not decoded for it: of those
/// it tells that are missing or of another length than was written, and `shice verify` tells the rest.
///
/// # Errors
/// The folder holds no run that can be read.
pub fn run(traces: &Path) -> Result<u8> {
    let trace = Trace::open(traces)?;
    let mut text: String = trace.environments.iter().map(environment).collect();
    for damaged in &trace.damaged {
        text += &format!("damaged: {}\n", damaged.reason);
    }
    for run in &trace.recording {
        text += &format!("being recorded: {}\n", run.display());
    }
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(0)
}

fn environment(environment: &Environment) -> String {
    let mut text = format!("{}  ({})\n", environment.name, environment.dir.display());
    for runs in environment.runs.chunk_by(|a, b| a.case_slug == b.case_slug) {
        text += &case(runs);
    }
    let faults = environment.runs.iter().flat_map(Run::faults);
    for reason in faults.chain(environment.damaged.iter().map(|damaged| damaged.reason.clone())) {
        text += &format!("  damaged: {reason}\n");
    }
    text
}

fn case(runs: &[Run]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for run in runs {
        *outcomes.entry(run.record.outcome.word()).or_default() += 1;
    }
    let outcomes: Vec<String> = outcomes.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let durations: Vec<f64> = runs.iter().filter_map(|run| run.record.duration_ns).map(|ns| ns as f64 / 1e9).collect();
    let span = match (durations.iter().copied().reduce(f64::min), durations.iter().copied().reduce(f64::max)) {
        (Some(least), Some(most)) => format!("{least:.1}–{most:.1} s"),
        _ => "–".to_owned(),
    };
    format!("  {}: {}, {span}\n", first.record.case(), outcomes.join(", "))
}

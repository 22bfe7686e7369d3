//! Trace -> summaries: what was recorded, as one number a metric and run, statistics over runs, and time courses.
//!
//! Rates are over fixed windows of one second from the run's start, so that no result depends on the sampling interval.
//! A span without readings is a gap and has no windows; a mean over a run rests on counters and is exact.

mod courses;
mod coverage;
mod figures;
mod gpu;
mod host;
mod memory;
mod processes;
mod readings;
mod rows;
mod run;
mod statistics;
mod steps;
pub mod summary;
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use self::courses::Courses;
use self::summary::{CaseSummary, EnvironmentSummary, Metric, RunSummary};
use crate::trace::{Environment, Run};

/// Sums up an environment, one run at a time.
///
/// Runs that did not finish are listed with their own values, but enter no statistics.
///
/// # Errors
/// The environment has no run, or a table of a run cannot be read; which is named.
pub fn summarise(environment: &Environment) -> Result<EnvironmentSummary> {
    let Some(newest) = environment.runs.iter().max_by_key(|run| run.record.started_unix_ns) else {
        bail!("the environment {} has no run", environment.name);
    };
    let records = || environment.runs.iter().map(|run| &run.record);
    let fingerprints: BTreeSet<String> =
        records().map(|record| serde_json::to_string(&record.fingerprint)).collect::<Result<_, _>>()?;
    let libraries: BTreeSet<&String> = records().flat_map(|record| &record.libraries).collect();
    Ok(EnvironmentSummary {
        name: environment.name.clone(),
        slug: environment.slug.clone(),
        fingerprint: newest.record.fingerprint.clone(),
        fingerprints: fingerprints.len(),
        limits: newest.record.limits,
        libraries: libraries.into_iter().cloned().collect(),
        coverage: coverage::merge(records().flat_map(|record| &record.coverage)),
        cases: environment
            .runs
            .chunk_by(|a, b| a.case_slug == b.case_slug)
            .map(summarise_case)
            .collect::<Result<_>>()?,
    })
}

/// Sums up the runs of one case.
fn summarise_case(runs: &[Run]) -> Result<CaseSummary> {
    let finished = |run: &&Run| run.record.outcome.is_finished();
    let any_finished = runs.iter().any(|run| finished(&run));
    let mut courses = Courses::default();
    let mut cores: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    let mut summaries = Vec::new();
    for run in runs {
        let figures = run::figures(run)?;
        if finished(&run) || !any_finished {
            courses.add(&figures.windows);
            figures.cores.iter().for_each(|(core, share)| cores.entry(*core).or_default().push(*share));
        }
        summaries.push(summarise_run(run, figures.values));
    }
    // A run that was cut may not have told all that a finished one has.
    let record = &runs.iter().find(finished).unwrap_or(&runs[0]).record;
    Ok(CaseSummary {
        name: record.case(),
        slug: runs[0].case_slug.clone(),
        workload: record.workload.clone(),
        settings: record.settings.clone(),
        effective: record.effective.clone(),
        command: record.command.clone(),
        metrics: statistics::over_runs(&summaries),
        runs: summaries,
        courses: courses.finish(),
        cores: cores.into_iter().filter_map(|(core, shares)| statistics::core_usage(core, &shares)).collect(),
    })
}

fn summarise_run(run: &Run, values: BTreeMap<Metric, f64>) -> RunSummary {
    let record = &run.record;
    RunSummary {
        run: record.run,
        outcome: record.outcome,
        started_unix_ns: record.started_unix_ns,
        interval_ns: record.interval_ns,
        survivors: record.survivors.clone(),
        events: record.events.clone(),
        output_tail: record.output_tail.clone(),
        recorder: record.recorder,
        values,
    }
}

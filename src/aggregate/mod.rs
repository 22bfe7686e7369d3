//! Trace -> summaries: what was recorded, as one number a metric and run, statistics over runs, and time courses.
//!
//! Rates are over fixed windows of one second from the run's start, so that no result depends on the sampling interval.
//! A span without readings is a gap and has no windows; a mean over a run rests on counters and is exact.

mod cgroup;
pub mod compare;
mod courses;
mod coverage;
mod figures;
mod foreign;
mod gpu;
mod heat;
mod histogram;
mod host;
mod limits;
mod loaded;
mod memory;
pub mod metric;
mod peak;
mod pressure;
mod processes;
mod readings;
mod rows;
mod run;
mod series;
mod statistics;
mod step_times;
mod steps;
pub mod summary;
#[cfg(test)]
mod testing;
mod trend;
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use self::courses::Courses;
use self::figures::Figures;
use self::heat::Heat;
#[cfg(test)]
pub(crate) use self::statistics::over_runs;
use self::step_times::Times;
use self::summary::{CaseSummary, EnvironmentSummary, ForeignProgram, Lack, LeftOut, RunSummary};
use crate::trace::fingerprint::{Keys, may_be_the_same};
use crate::trace::open::and_others;
use crate::trace::run::Coverage;
use crate::trace::{Damaged, Environment, Run};

/// Sums up an environment, one run at a time.
///
/// Runs that did not finish are listed with their own values, but enter no statistics. Runs that cannot be read are left
/// out and named.
///
/// # Errors
/// The environment has no run that can be read; the first that cannot is named.
pub fn summarise(environment: &Environment) -> Result<EnvironmentSummary> {
    let mut left_out = environment.damaged.clone();
    let mut cases = Vec::new();
    for runs in environment.runs.chunk_by(|a, b| a.case_slug == b.case_slug) {
        cases.extend(summarise_case(runs, &mut left_out)?);
    }
    let kept = || environment.runs.iter().filter(|run| left_out.iter().all(|damaged| damaged.dir != run.dir));
    let Some(newest) = kept().max_by_key(|run| run.record.started_unix_ns) else {
        match left_out.as_slice() {
            [] => bail!("the environment {0} has no run; record one with `shice record --env={0}`", environment.name),
            [first, others @ ..] => bail!("{}{}", first.reason, and_others(others.len())),
        }
    };
    let records = || kept().map(|run| &run.record);
    let mut fingerprints: Vec<&Keys> = Vec::new();
    for record in records() {
        if !fingerprints.iter().any(|known| may_be_the_same(known, &record.fingerprint)) {
            fingerprints.push(&record.fingerprint);
        }
    }
    let coverage: Vec<Coverage> = kept().flat_map(coverage::of_run).collect();
    Ok(EnvironmentSummary {
        name: environment.name.clone(),
        slug: environment.slug.clone(),
        fingerprint: newest.record.fingerprint.clone(),
        fingerprints: fingerprints.len(),
        limits: limits::common(records()),
        loaded: loaded::loaded(records()),
        checks: loaded::checks(&records().collect::<Vec<_>>()),
        coverage: coverage::merge(coverage.iter()),
        left_out: left_out.iter().map(|damaged| as_left_out(environment, damaged)).collect(),
        cases,
    })
}

/// Names a run from its environment's folder on: where the folder lies on this machine is nobody's business.
fn as_left_out(environment: &Environment, damaged: &Damaged) -> LeftOut {
    let folder = environment.dir.display().to_string();
    let run = damaged.dir.strip_prefix(&environment.dir).unwrap_or(&damaged.dir).display().to_string();
    LeftOut { run, reason: damaged.reason.replace(&folder, &format!("environment={}", environment.slug)) }
}

/// Sums up the runs of one case; `None` where none can be read.
fn summarise_case(runs: &[Run], left_out: &mut Vec<Damaged>) -> Result<Option<CaseSummary>> {
    let finished = |run: &&Run| run.record.outcome.is_finished();
    let (mut of_finished, mut of_others) = (Shown::default(), Shown::default());
    let mut summaries = Vec::new();
    // A run that was cut may not have told all that a finished one has.
    let mut told: Option<&Run> = None;
    for run in runs {
        let mut figures = match run::figures(run) {
            Ok(figures) => figures,
            Err(error) => {
                left_out.push(Damaged { dir: run.dir.clone(), reason: format!("{error:#}") });
                continue;
            }
        };
        if finished(&run) {
            of_finished.add(&mut figures)
        } else {
            of_others.add(&mut figures)
        }
        if told.is_none_or(|told| !finished(&told) && finished(&run)) {
            told = Some(run);
        }
        summaries.push(summarise_run(run, figures));
    }
    let Some(told) = told else { return Ok(None) };
    // Where a run finished, of the others no course is shown.
    let shown = if of_finished.runs > 0 { of_finished } else { of_others };
    let record = &told.record;
    Ok(Some(CaseSummary {
        name: record.case(),
        slug: told.case_slug.clone(),
        workload: record.workload.clone(),
        settings: record.settings.clone(),
        effective: record.effective.clone(),
        command: record.command.clone(),
        set_variables: record.set_variables.clone(),
        step_reading: record.step_reading.clone(),
        container: record.container.as_ref().and_then(|container| container.attached.clone()),
        limits: limits::common(runs.iter().map(|run| &run.record)),
        metrics: statistics::over_runs(&summaries),
        foreign: foreign_programs(&summaries),
        runs: summaries,
        courses: shown.courses.finish(),
        gpus_used: gpus_used(runs),
        core_heat: shown.core_heat.finish(),
        step_times: shown.step_times.finish(steps::WARM_UP_STEPS),
        cores: shown.cores.into_iter().filter_map(|(core, shares)| statistics::core_usage(core, &shares)).collect(),
    }))
}

/// What else ran during the finished runs; where there are none, during the others.
fn foreign_programs(runs: &[RunSummary]) -> Vec<ForeignProgram> {
    let any_finished = runs.iter().any(|run| run.outcome.is_finished());
    let shown = runs.iter().filter(|run| !any_finished || run.outcome.is_finished());
    foreign::over_runs(shown.map(|run| run.foreign.as_slice()))
}

/// What charts show of some runs.
#[derive(Default)]
struct Shown {
    runs: usize,
    courses: Courses,
    cores: BTreeMap<u32, Vec<f64>>,
    core_heat: Heat,
    step_times: Times,
}

impl Shown {
    fn add(&mut self, figures: &mut Figures) {
        self.runs += 1;
        self.core_heat.add(std::mem::take(&mut figures.core_heat));
        self.step_times.add(std::mem::take(&mut figures.step_times));
        self.courses.add(&figures.windows);
        figures.cores.iter().for_each(|(core, share)| self.cores.entry(*core).or_default().push(*share));
    }
}

/// Over the runs whose driver told.
fn gpus_used(runs: &[Run]) -> Option<BTreeSet<u32>> {
    let told: Vec<&Vec<u32>> = runs.iter().filter_map(|run| run.record.gpus_used.as_ref()).collect();
    (!told.is_empty()).then(|| told.into_iter().flatten().copied().collect())
}

fn summarise_run(run: &Run, figures: Figures) -> RunSummary {
    let record = &run.record;
    RunSummary {
        run: record.run,
        shice_version: record.shice_version.clone(),
        session_unix_ns: record.session_unix_ns,
        sequence: record.sequence,
        block: record.block,
        outcome: record.outcome,
        lack: Lack::told(&record.effective),
        started_unix_ns: record.started_unix_ns,
        interval_ns: record.interval_ns,
        survivors: record.survivors.clone(),
        left_children: record.left_children,
        events: record.events.clone(),
        missing_tables: run.missing_tables(),
        output_tail: record.output_tail.clone(),
        recorder: record.recorder,
        tables_bytes: (!record.files.is_empty()).then(|| record.files.values().map(|sum| sum.bytes).sum()),
        cpu: record.cpu,
        foreign: figures.foreign,
        values: figures.values,
        step_source: figures.step_source,
        reported_by: figures.reported_by,
    }
}

#[cfg(test)]
mod tests {
    use super::metric::Metric;
    use super::summary::Quantity;
    use super::testing::{Recorded, SECOND, record, store, ticks};
    use super::*;
    use crate::trace::RunRecord;
    use crate::trace::run::Outcome;
    use crate::trace::tables::{Host, ProcessSample};

    /// Adds a run whose root uses `cores` cores for as long as it lasts.
    fn add(recorded: &mut Recorded, case: &str, number: u32, seconds: i64, cores: i64, outcome: Outcome) {
        let record = RunRecord {
            run: number,
            started_unix_ns: i64::from(number),
            outcome,
            duration_ns: Some(seconds * SECOND),
            libraries: [format!("lib{cores}.so"), "libc.so".into()].map(|name| (name, None)).into(),
            ..record()
        };
        let run = recorded.run(case, record);
        let row = |t_ns: i64| ProcessSample { t_ns, cpu_ns: Some(t_ns * cores), ..ProcessSample::default() };
        store(run, ticks(SECOND / 10, seconds * SECOND).map(row));
    }

    #[test]
    fn finished_runs_enter_the_statistics_and_failed_ones_are_listed() {
        let mut recorded = Recorded::new();
        for (number, seconds) in [(1, 4), (2, 6), (3, 5)] {
            add(&mut recorded, "a", number, seconds, 1, Outcome::Finished);
        }
        add(&mut recorded, "a", 4, 100, 2, Outcome::Failed { exit_code: 3 });
        let case = &summarise(&recorded.environment).unwrap().cases[0];
        assert_eq!((case.runs.len(), case.finished()), (4, 3));
        assert_eq!(case.runs[3].values[&Metric::Duration], 100.0);
        let duration = case.metric(Metric::Duration).unwrap();
        assert_eq!((duration.n, duration.mean, duration.min, duration.max), (3, 5.0, 4.0, 6.0));
        // scipy.stats.t.interval(0.95, 2, 5, scipy.stats.sem([4, 6, 5]))
        let (low, high) = duration.ci95.unwrap();
        assert!((low - 2.5158622882496697).abs() < 1e-9 && (high - 7.48413771175033).abs() < 1e-9, "{low} {high}");
        let course = case.course(Quantity::RunCpu).unwrap();
        assert_eq!((course.runs, course.points.len()), (3, 5));
        assert!(course.points.iter().all(|point| (point.max - 0.5).abs() < 1e-9));
        assert!(case.metric(Metric::GpuEnergy).is_none() && case.metric(Metric::CpuTime).is_none());
    }

    #[test]
    fn what_outlives_the_root_is_in_no_course() {
        let mut recorded = Recorded::new();
        add(&mut recorded, "a", 1, 6, 1, Outcome::Finished);
        recorded.environment.runs[0].record.duration_ns = Some(4_200_000_000);
        let case = &summarise(&recorded.environment).unwrap().cases[0];
        assert_eq!(case.course(Quantity::RunCpu).unwrap().points.len(), 4);
    }

    #[test]
    fn one_run_has_no_interval() {
        let mut recorded = Recorded::new();
        add(&mut recorded, "a", 1, 4, 1, Outcome::Finished);
        let case = &summarise(&recorded.environment).unwrap().cases[0];
        let peak = case.metric(Metric::CpuUsageMax).unwrap();
        assert_eq!((peak.n, peak.ci95), (1, None));
        assert!((peak.mean - 0.5).abs() < 1e-9);
    }

    #[test]
    fn where_no_run_finished_the_courses_show_what_was_kept() {
        let mut recorded = Recorded::new();
        add(&mut recorded, "a", 1, 4, 1, Outcome::Incomplete);
        let case = &summarise(&recorded.environment).unwrap().cases[0];
        assert!(case.metrics.is_empty());
        assert_eq!(case.course(Quantity::RunCpu).unwrap().points.len(), 4);
    }

    #[test]
    fn cases_stay_apart_and_what_the_runs_share_is_merged() {
        let mut recorded = Recorded::new();
        add(&mut recorded, "b", 1, 2, 1, Outcome::Finished);
        add(&mut recorded, "b", 2, 2, 1, Outcome::Finished);
        add(&mut recorded, "a", 1, 2, 2, Outcome::Finished);
        recorded.environment.runs[1].record.fingerprint.insert("os".into(), "b".into());
        let summary = summarise(&recorded.environment).unwrap();
        let cases: Vec<_> = summary.cases.iter().map(|case| (case.slug.as_str(), case.runs.len())).collect();
        assert_eq!(cases, [("b", 2), ("a", 1)]);
        assert_eq!(summary.loaded.libraries.keys().collect::<Vec<_>>(), ["lib1.so", "lib2.so", "libc.so"]);
        assert_eq!((summary.fingerprints, &summary.fingerprint["os"]), (2, &"b".into()));
    }

    #[test]
    fn a_run_without_tables_has_what_its_record_tells() {
        let mut recorded = Recorded::new();
        let mut bare = record();
        bare.cpu.rusage_user_ns = Some(4 * SECOND);
        bare.cpu.rusage_system_ns = Some(SECOND);
        recorded.run("a", bare);
        let case = &summarise(&recorded.environment).unwrap().cases[0];
        let values = [(Metric::Duration, 10.0), (Metric::CpuTime, 5.0), (Metric::CpuUsage, 0.25)];
        assert_eq!(case.runs[0].values, BTreeMap::from(values));
        assert!(case.courses.is_empty() && case.cores.is_empty());
    }

    #[test]
    fn where_memory_ran_out_is_told_of_the_run_that_met_it() {
        let mut recorded = Recorded::new();
        add(&mut recorded, "a", 1, 4, 1, Outcome::OutOfMemory { signal: None, exit_code: Some(12) });
        let told = [("oom_phase", "train"), ("oom_step", "0"), ("oom_bytes", "1024")];
        recorded.environment.runs[0].record.effective =
            told.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        add(&mut recorded, "a", 2, 4, 1, Outcome::Finished);
        let case = &summarise(&recorded.environment).unwrap().cases[0];
        let lack = Lack { phase: "train".to_owned(), step: Some(1), bytes: Some(1024) };
        assert_eq!((case.runs[0].lack.as_ref(), case.runs[1].lack.as_ref()), (Some(&lack), None));
    }

    #[test]
    fn a_damaged_table_is_named() {
        let mut recorded = Recorded::new();
        let run = recorded.run("a", record());
        store(run, [Host::default()]);
        let path = run.dir.join("host.parquet");
        std::fs::write(&path, "PAR1").unwrap();
        let message = format!("{:#}", summarise(&recorded.environment).unwrap_err());
        assert!(message.contains(path.to_str().unwrap()), "{message}");
    }

    #[test]
    fn an_environment_without_runs_is_an_error() {
        assert!(summarise(&Recorded::new().environment).unwrap_err().to_string().contains("test"));
    }
}

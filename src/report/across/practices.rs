//! Practices that a measurement of this environment speaks for. The phrases of a row are `practice.<name>.what`, `.why`
//! and `.how`.

use super::advice::{Cite, Ground, Line, Value, code};
use super::sweeps::{Kind, meaning};
use super::{IDLE, advice};
use crate::aggregate::metric::{Metric, Unit};
use crate::aggregate::summary::CaseSummary;
use crate::trace::check::CheckState;

/// In the order of the table's rows.
const RULES: [for<'a> fn(&Ground<'a>) -> Option<Line<'a>>; 8] =
    [readiness, baseline, repeats, quiet, workers, threads, precision, memory];

/// Beyond the greatest peak that was measured.
const HEADROOM: f64 = 1.25;
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
/// As few runs as an interval can rest on tell nothing of how much they differ.
const FEWEST_RUNS: usize = 3;

/// All rows that hold.
pub(crate) fn practices<'a>(ground: &Ground<'a>) -> Vec<Line<'a>> {
    RULES.iter().filter_map(|rule| rule(ground)).collect()
}

/// Finished cases that do something.
fn busy<'a>(ground: &Ground<'a>) -> impl Iterator<Item = &'a CaseSummary> + use<'a> {
    ground.summary.cases.iter().filter(|case| case.workload != IDLE && case.finished() > 0)
}

fn greatest<'a>(ground: &Ground<'a>, metric: Metric) -> Option<(&'a CaseSummary, f64)> {
    advice::greatest(busy(ground), metric)
}

fn readiness<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let count = |state| ground.summary.checks.iter().filter(|summary| summary.check.state == state).count();
    let number = |count: usize| Value::Of(Unit::Count, count as f64);
    let (ok, warning, failed) = (count(CheckState::Ok), count(CheckState::Warning), count(CheckState::Failed));
    let values = vec![("ok", number(ok)), ("warning", number(warning)), ("failed", number(failed))];
    (ok + warning + failed > 0).then(|| Line::plain("readiness", values))
}

/// What an idle machine has in use already.
fn baseline<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let mut idle: Vec<&CaseSummary> =
        ground.summary.cases.iter().filter(|case| case.workload == IDLE && case.finished() > 0).collect();
    idle.sort_by_key(|case| !case.uses_gpu());
    let case = *idle.first()?;
    let host = case.metric(Metric::HostMemoryPeak)?.mean;
    let gpu = case.metric(Metric::GpuMemoryPeak).filter(|_| case.uses_gpu()).map(|figure| figure.mean);
    let gpu = gpu.map_or(Value::Text(String::new()), |bytes| Value::Of(Unit::Bytes, bytes));
    Some(Line::new("baseline", Cite::Case(case), vec![("host", Value::Of(Unit::Bytes, host)), ("gpu", gpu)]))
}

/// The case whose runs differ most.
fn repeats<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let spread = |case: &'a CaseSummary| {
        let time = case.metric(Metric::Duration).filter(|time| time.n >= FEWEST_RUNS && time.mean > 0.0)?;
        Some((case, (time.max - time.min) / time.mean, time.n))
    };
    let (case, spread, n) = busy(ground).filter_map(spread).reduce(|a, b| if b.1 > a.1 { b } else { a })?;
    let values = vec![
        ("case", Value::Case(case)),
        ("spread", Value::Of(Unit::Ratio, spread)),
        ("n", Value::Of(Unit::Count, n as f64)),
    ];
    Some(Line::new("repeats", Cite::Case(case), values))
}

fn quiet<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let (case, share) = greatest(ground, Metric::ForeignCpu)?;
    let values = vec![("case", Value::Case(case)), ("share", Value::Of(Unit::Ratio, share))];
    Some(Line::new("quiet", Cite::Case(case), values))
}

fn workers<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let (case, wait) = greatest(ground, Metric::DataWait)?;
    let values = vec![("case", Value::Case(case)), ("wait", Value::Of(Unit::Ratio, wait))];
    Some(Line::new("workers", Cite::Case(case), values))
}

fn threads<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let (case, usage) = advice::greatest(busy(ground).filter(|case| !case.uses_gpu()), Metric::CpuUsage)?;
    let cores = case.limits.cpu_cores?;
    let values = vec![
        ("case", Value::Case(case)),
        ("usage", Value::Of(Unit::Ratio, usage)),
        ("cores", Value::Of(Unit::Count, cores)),
    ];
    Some(Line::new("threads", Cite::Case(case), values))
}

/// A precision that is clearly faster than another.
fn precision<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let of = |(index, sweep): (usize, &'a super::sweeps::Sweep<'a>)| {
        let verdict = sweep.verdict.as_ref().filter(|verdict| verdict.kind == Kind::Clear)?;
        let values = vec![
            ("best", Value::Code(verdict.best.value.to_owned())),
            ("worst", Value::Code(verdict.worst.value.to_owned())),
            ("ratio", Value::Times(verdict.over_worst)),
            ("code", Value::Code(code(sweep.key, verdict.best.value, sweep.is_on_gpu()))),
        ];
        Some(Line::new("precision", Cite::Sweep(index), values))
    };
    ground.sweeps.iter().enumerate().filter(|(_, sweep)| meaning(sweep.key) == "precision").find_map(of)
}

/// A limit that the measured peaks keep clear of.
fn memory<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let (case, peak) = greatest(ground, Metric::MemorySumOfPeaks)?;
    let limit = format!("docker run --memory={:.0}g …", (peak * HEADROOM / GIB).ceil());
    let values =
        vec![("case", Value::Case(case)), ("peak", Value::Of(Unit::Bytes, peak)), ("limit", Value::Code(limit))];
    Some(Line::new("memory", Cite::Case(case), values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::summary::EnvironmentSummary;
    use crate::report::across::{devices, sweeps};
    use crate::report::fixture;

    fn names(summary: &EnvironmentSummary) -> Vec<&'static str> {
        let (sweeps, pairs) = (sweeps::sweeps(summary), devices::pairs(summary));
        practices(&Ground { summary, sweeps: &sweeps, pairs: &pairs }).iter().map(|line| line.name).collect()
    }

    #[test]
    fn a_practice_stands_only_where_something_was_measured_that_speaks_for_it() {
        let all = ["baseline", "repeats", "workers", "threads", "precision", "memory"];
        assert_eq!(names(&fixture::both_devices()), all);
        assert!(names(&fixture::with_gpu()).contains(&"readiness"));
        let mut nothing = fixture::both_devices();
        nothing.cases.clear();
        assert!(names(&nothing).is_empty());
    }
}

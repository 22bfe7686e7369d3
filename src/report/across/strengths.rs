//! What the measurements of an environment speak for, over all of its cases, and whom it is for. The phrases are
//! `summary.strength.<name>` and `summary.fit.<name>`.

use super::advice::{Cite, Ground, Line, Scenario, Value, greatest};
use super::sweeps::is_out_of_memory;
use super::{IDLE, Standing};
use crate::aggregate::metric::{Metric, Unit};
use crate::aggregate::summary::CaseSummary;
use crate::report::findings;
use crate::trace::check::CheckState;

const STRENGTHS: [for<'a> fn(&Ground<'a>) -> Option<Line<'a>>; 8] =
    [ready, finished, gpu_busy, faster, cpu_busy, data, memory, steady];

/// Runs of a case that differ by less count as steady.
const STEADY: f64 = 0.05;
const FEWEST_RUNS: usize = 3;

/// All strengths that hold.
pub(crate) fn strengths<'a>(ground: &Ground<'a>) -> Vec<Line<'a>> {
    STRENGTHS.iter().filter_map(|rule| rule(ground)).collect()
}

/// For whom it is, for whom not, and what nobody knows: a line a scenario.
pub(crate) fn fits<'a>(ground: &Ground<'a>) -> Vec<Line<'a>> {
    Scenario::ALL.into_iter().map(|scenario| fit(ground, scenario)).collect()
}

fn fit<'a>(ground: &Ground<'a>, scenario: Scenario) -> Line<'a> {
    let names: [&'static str; 3] = match scenario {
        Scenario::Laptop => ["laptop", "laptop.short", "laptop.unknown"],
        Scenario::SingleGpu => ["single_gpu", "single_gpu.short", "single_gpu.unknown"],
        Scenario::Large => ["large", "large.short", "large.unknown"],
    };
    let cases: Vec<&CaseSummary> = ground.cases(scenario).collect();
    let of = |wanted: fn(&CaseSummary) -> bool| {
        let mut workloads: Vec<String> = Vec::new();
        for case in cases.iter().filter(|case| wanted(case)) {
            let named = if case.effective.get("model").is_some_and(|_| scenario == Scenario::Large) {
                format!("{} {}", case.workload, case.effective["model"])
            } else {
                case.workload.clone()
            };
            if !workloads.contains(&named) {
                workloads.push(named);
            }
        }
        workloads
    };
    let (fitting, broken) = (of(|case| case.finished() > 0), of(is_out_of_memory));
    let is_tiny = |case: &&CaseSummary| case.effective.get("model").is_some_and(|model| model == "tiny");
    let (name, workloads) = match (fitting.is_empty(), broken.is_empty()) {
        (false, true) if scenario == Scenario::Large && cases.iter().all(is_tiny) => ("large.tiny", fitting),
        (false, _) => (names[0], fitting),
        (true, false) => (names[1], broken),
        (true, true) => (names[2], Vec::new()),
    };
    Line::plain(name, vec![("workloads", Value::List(workloads))])
}

fn busy<'a>(ground: &Ground<'a>) -> Vec<&'a CaseSummary> {
    ground.summary.cases.iter().filter(|case| case.workload != IDLE && case.finished() > 0).collect()
}

/// Whether every case that a metric was measured of has earned a finding, and the case with the greatest value.
fn everywhere<'a>(ground: &Ground<'a>, metric: Metric, finding: &str) -> Option<(&'a CaseSummary, f64)> {
    let cases: Vec<_> = busy(ground).into_iter().filter(|case| case.metric(metric).is_some()).collect();
    let earned =
        |case: &&CaseSummary| findings::of_case(ground.summary, case).iter().any(|found| found.rule.name == finding);
    if cases.iter().all(earned) { greatest(cases.into_iter(), metric) } else { None }
}

fn ready<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let known: Vec<CheckState> = ground.summary.checks.iter().map(|summary| summary.check.state).collect();
    let ok = known.iter().filter(|state| **state == CheckState::Ok).count();
    let others = known.iter().any(|state| matches!(state, CheckState::Failed | CheckState::Warning));
    (ok > 0 && !others).then(|| Line::plain("ready", vec![("ok", Value::Of(Unit::Count, ok as f64))]))
}

fn finished<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let runs: usize = ground.summary.cases.iter().map(|case| case.runs.len()).sum();
    let finished: usize = ground.summary.cases.iter().map(CaseSummary::finished).sum();
    let all = runs > 0 && finished == runs && ground.summary.left_out.is_empty();
    all.then(|| Line::plain("finished", vec![("runs", Value::Of(Unit::Count, runs as f64))]))
}

fn gpu_busy<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let high = busy(ground)
        .into_iter()
        .filter(|case| findings::of_case(ground.summary, case).iter().any(|found| found.rule.name == "gpu_high"));
    let (case, usage) = greatest(high, Metric::GpuUtilisation)?;
    let values = vec![("case", Value::Case(case)), ("usage", Value::Of(Unit::Ratio, usage))];
    Some(Line::new("gpu_busy", Cite::Case(case), values))
}

fn faster<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let clear =
        |pair: &&super::devices::Pair<'_>| pair.whole().is_some_and(|whole| Standing::of(whole) == Standing::Faster);
    let pair = ground.pairs.iter().find(clear)?;
    let values = vec![("case", Value::Case(pair.gpu)), ("ratio", Value::Times(*pair.whole()?))];
    Some(Line::new("faster", Cite::Case(pair.cpu), values))
}

/// Of environments in which only the CPU computes.
fn cpu_busy<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let cases = busy(ground);
    if cases.iter().any(|case| case.uses_gpu()) {
        return None;
    }
    let (case, usage) = everywhere(ground, Metric::CpuUsage, "cpu_saturated")?;
    let values = vec![
        ("case", Value::Case(case)),
        ("usage", Value::Of(Unit::Ratio, usage)),
        ("cores", Value::Of(Unit::Count, case.limits.cpu_cores?)),
    ];
    Some(Line::new("cpu_busy", Cite::Case(case), values))
}

fn data<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let (case, wait) = everywhere(ground, Metric::DataWait, "data_wait_low")?;
    let values = vec![("case", Value::Case(case)), ("wait", Value::Of(Unit::Ratio, wait))];
    Some(Line::new("data", Cite::Case(case), values))
}

fn memory<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let (case, peak) = everywhere(ground, Metric::MemorySumOfPeaks, "memory_ample")?;
    let values = vec![
        ("case", Value::Case(case)),
        ("peak", Value::Of(Unit::Bytes, peak)),
        ("limit", Value::Of(Unit::Bytes, case.limits.memory_bytes? as f64)),
    ];
    Some(Line::new("memory", Cite::Case(case), values))
}

fn steady<'a>(ground: &Ground<'a>) -> Option<Line<'a>> {
    let spread = |case: &&'a CaseSummary| {
        let time = case.metric(Metric::Duration).filter(|time| time.n >= FEWEST_RUNS && time.mean > 0.0)?;
        Some((*case, (time.max - time.min) / time.mean))
    };
    let cases = busy(ground);
    let spreads: Option<Vec<_>> = cases.iter().map(spread).collect();
    let (case, most) = spreads?.into_iter().reduce(|a, b| if b.1 > a.1 { b } else { a })?;
    let values = vec![("case", Value::Case(case)), ("spread", Value::Of(Unit::Ratio, most))];
    (most < STEADY).then(|| Line::new("steady", Cite::Case(case), values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::summary::EnvironmentSummary;
    use crate::report::across::{devices, sweeps};
    use crate::report::fixture;

    fn names(summary: &EnvironmentSummary, of: for<'a> fn(&Ground<'a>) -> Vec<Line<'a>>) -> Vec<&'static str> {
        let (sweeps, pairs) = (sweeps::sweeps(summary), devices::pairs(summary));
        of(&Ground { summary, sweeps: &sweeps, pairs: &pairs }).iter().map(|line| line.name).collect()
    }

    #[test]
    fn whom_it_is_for_follows_from_what_finished_and_what_did_not() {
        assert_eq!(names(&fixture::both_devices(), fits), ["laptop", "single_gpu", "large.short"]);
        assert_eq!(names(&fixture::cpu_only(), fits), ["laptop", "single_gpu.unknown", "large.unknown"]);
    }

    #[test]
    fn a_strength_has_to_hold_for_every_case() {
        let found = names(&fixture::both_devices(), strengths);
        assert_eq!(found, ["gpu_busy", "faster", "memory", "steady"], "runs out of memory, and waiting for data");
        let mut summary = fixture::both_devices();
        summary.cases.retain(|case| !case.uses_gpu() && case.name != "small-cnn device=cpu threads=4");
        assert_eq!(names(&summary, strengths), ["finished", "cpu_busy", "data", "memory", "steady"]);
    }
}

//! What is in use when nothing is done.

use super::IDLE;
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::{CaseSummary, EnvironmentSummary};

/// The idle case that a case is held against: on the same kind of device, and where there are several, as short or long.
pub(crate) fn beside<'a>(summary: &'a EnvironmentSummary, case: &CaseSummary) -> Option<&'a CaseSummary> {
    if case.workload == IDLE {
        return None;
    }
    let mut idle: Vec<&CaseSummary> = summary.cases.iter().filter(|idle| is_beside(idle, case)).collect();
    idle.sort_by_key(|idle| idle.is_quick() != case.is_quick());
    idle.first().copied()
}

fn is_beside(idle: &CaseSummary, case: &CaseSummary) -> bool {
    idle.workload == IDLE && idle.finished() > 0 && idle.uses_gpu() == case.uses_gpu()
}

/// How much more of something a case has than the idle case: a difference of means.
pub(crate) fn above(summary: &EnvironmentSummary, case: &CaseSummary, metric: Metric) -> Option<f64> {
    let idle = beside(summary, case)?.metric(metric)?;
    Some(case.metric(metric)?.mean - idle.mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn the_baseline_is_that_of_the_same_device() {
        let summary = fixture::both_devices();
        let cnn =
            |device: &str| summary.cases.iter().find(|case| case.name == format!("small-cnn device={device}")).unwrap();
        let gib = |value: Option<f64>| (value.unwrap() / f64::from(1 << 30) * 100.0).round() / 100.0;
        // By hand: 1.3 + 64 · 0.0125 − 0.61, and (5.1 + 5.2 + 5.1 − 2.1 − 2.2 − 2.1) ÷ 3.
        assert_eq!(gib(above(&summary, cnn("cuda:0"), Metric::GpuMemoryPeak)), 1.49);
        assert_eq!(gib(above(&summary, cnn("cuda:0"), Metric::HostMemoryPeak)), 3.0);
        assert_eq!(above(&summary, cnn("cpu"), Metric::GpuMemoryPeak), None);
        assert!(beside(&summary, &summary.cases[0]).is_none(), "an idle case has no baseline");
    }
}

//! The same work on a GPU and on the CPU.

use super::{IDLE, speed};
use crate::aggregate::compare::Ratio;
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::{CaseSummary, EnvironmentSummary};

/// The setting that the two differ in.
const DEVICE: &str = "device";

/// Effective settings that say how much is to be done. Where one differs, the two did not do the same.
const WORK: [&str; 11] = [
    "accumulate",
    "batch_size",
    "data",
    "epochs",
    "images",
    "model",
    "parameters",
    "seconds",
    "sequence_length",
    "steps",
    "weights",
];

/// Effective settings that follow from the device, and that a reader would look for where times differ.
const FOLLOWING: [&str; 4] = ["offload", "precision", "threads", "workers"];

/// Metrics in which they are compared, where both have them. Times of single steps are left out: on a GPU they may be
/// those of handing over.
const COMPARED: [Metric; 7] = [
    Metric::Duration,
    Metric::TrainTime,
    Metric::EpochTime,
    Metric::Throughput,
    Metric::ShownThroughput,
    Metric::ShownStepRate,
    Metric::ShownEpochTime,
];

/// Rates that leave start and warm-up out.
const RATES: [Metric; 3] = [Metric::Throughput, Metric::ShownThroughput, Metric::ShownStepRate];

/// A case on a GPU, and the same on the CPU.
#[derive(Clone, Debug)]
pub(crate) struct Pair<'a> {
    pub(crate) gpu: &'a CaseSummary,
    pub(crate) cpu: &'a CaseSummary,
    /// How many times as fast the GPU is, by metric; never empty, the first is of the whole run.
    pub(crate) speeds: Vec<(Metric, Ratio)>,
    /// Effective settings that differ as they follow from the device: key, on the GPU, on the CPU.
    pub(crate) differing: Vec<(&'static str, &'a str, &'a str)>,
}

impl Pair<'_> {
    /// Of the whole run, start and end included.
    pub(crate) fn whole(&self) -> Option<&Ratio> {
        self.speeds.iter().find(|(metric, _)| *metric == Metric::Duration).map(|(_, ratio)| ratio)
    }

    /// Of the steady state.
    pub(crate) fn steady(&self) -> Option<&(Metric, Ratio)> {
        self.speeds.iter().find(|(metric, _)| RATES.contains(metric))
    }
}

/// All pairs whose requested settings are the same but for the device, and of which both sides finished.
pub(crate) fn pairs(summary: &EnvironmentSummary) -> Vec<Pair<'_>> {
    let (on_gpu, on_cpu): (Vec<_>, Vec<_>) =
        summary.cases.iter().filter(|case| case.workload != IDLE).partition(|case| case.uses_gpu());
    on_gpu.iter().flat_map(|gpu| on_cpu.iter().filter_map(|cpu| pair(gpu, cpu))).collect()
}

/// Those of a case.
pub(crate) fn pairs_of<'a>(summary: &'a EnvironmentSummary, case: &'a CaseSummary) -> Vec<Pair<'a>> {
    if case.workload == IDLE {
        return Vec::new();
    }
    let on_gpu = case.uses_gpu();
    let others = summary.cases.iter().filter(|other| other.uses_gpu() != on_gpu);
    others.filter_map(|other| if on_gpu { pair(case, other) } else { pair(other, case) }).collect()
}

fn pair<'a>(gpu: &'a CaseSummary, cpu: &'a CaseSummary) -> Option<Pair<'a>> {
    let same = |key: &&str| gpu.effective.get(*key) == cpu.effective.get(*key);
    if gpu.workload != cpu.workload || !is_same_but_for_device(gpu, cpu) || !WORK.iter().all(same) {
        return None;
    }
    let speeds: Vec<_> = COMPARED.iter().filter_map(|metric| Some((*metric, speed(*metric, gpu, cpu)?))).collect();
    let differing = FOLLOWING.iter().filter_map(|key| {
        let (on_gpu, on_cpu) = (gpu.effective.get(*key)?, cpu.effective.get(*key)?);
        (on_gpu != on_cpu).then_some((*key, on_gpu.as_str(), on_cpu.as_str()))
    });
    let differing = differing.collect();
    (!speeds.is_empty()).then_some(Pair { gpu, cpu, speeds, differing })
}

fn is_same_but_for_device(first: &CaseSummary, second: &CaseSummary) -> bool {
    let others = |case: &CaseSummary| {
        let mut settings = case.settings.clone();
        settings.remove(DEVICE);
        settings
    };
    others(first) == others(second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_workload_on_both_devices_is_compared_and_idling_is_not() {
        let summary = fixture::both_devices();
        let pairs = pairs(&summary);
        let names: Vec<_> = pairs.iter().map(|pair| (pair.gpu.name.as_str(), pair.cpu.name.as_str())).collect();
        assert_eq!(names, [("small-cnn device=cuda:0", "small-cnn device=cpu")]);
        // SciPy 1.17.1: exp of stats.ttest_rel(log(cpu), log(gpu)).confidence_interval(0.95), the values in the fixture.
        let whole = pairs[0].whole().unwrap();
        let (low, high) = whole.ci95().unwrap();
        assert!((whole.ratio - 5.902901980493026).abs() < 1e-9, "{whole:?}");
        assert!((low - 5.611406447338713).abs() < 1e-9 && (high - 6.2095398218451745).abs() < 1e-9, "{low} {high}");
        assert_eq!(pairs[0].differing, [("precision", "tf32", "float32")]);
    }

    #[test]
    fn cases_that_did_not_do_the_same_are_not_compared() {
        let mut summary = fixture::both_devices();
        let cnn = summary.cases.iter_mut().find(|case| case.uses_gpu() && case.workload == "small-cnn").unwrap();
        cnn.effective.insert("epochs".to_owned(), "1".to_owned());
        assert!(pairs(&summary).is_empty());
        let mut summary = fixture::both_devices();
        summary.cases.iter_mut().for_each(|case| {
            if case.uses_gpu() {
                case.settings.insert("batch-size".to_owned(), "8".to_owned());
            }
        });
        assert!(pairs(&summary).is_empty());
    }
}

//! How much memory grew over a run by its trend, against the margin below which it does not matter.

use crate::aggregate::metric::Metric;
use crate::aggregate::summary::{CaseSummary, MetricSummary};

/// Growth by less than this share of the peak is none (ours: repeats of one run differ by as much) …
const MARGIN_SHARE: f64 = 0.05;
/// … nor is growth by less than this: allocators take memory from the kernel in pieces of megabytes.
const MARGIN_BYTES: f64 = 16.0 * 1024.0 * 1024.0;
/// A slope of the second half that is at least this part of the whole one has not levelled off (ours). What fills up
/// exponentially, by half of the rest in each quarter of a run, has a third of it.
pub(super) const STILL_GROWING: f64 = 0.5;

/// Whose memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Host,
    Gpu,
}

/// What of the growth over runs. Those of an interval, and the mean that is believed only together with it, need three
/// runs: one run that grows may have met anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Mean,
    /// The ends of the 95 % interval of the mean.
    Low,
    High,
    /// The run that grew least.
    Least,
    /// The trend of the second half as a part of the whole trend; no margins.
    Late,
    /// 1 where the interval reaches beyond the margin without making sure that there is growth, else 0; no margins.
    Open,
}

impl Side {
    /// Name in files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Side::Mean => "mean",
            Side::Low => "low",
            Side::High => "high",
            Side::Least => "least",
            Side::Late => "late",
            Side::Open => "open",
        }
    }
}

impl Kind {
    /// Growth over the run, trend, trend of its second half.
    fn metrics(self) -> [Metric; 3] {
        match self {
            Kind::Host => [Metric::MemoryGrowth, Metric::MemoryTrend, Metric::MemoryTrendLate],
            Kind::Gpu => [Metric::GpuMemoryGrowth, Metric::GpuMemoryTrend, Metric::GpuMemoryTrendLate],
        }
    }

    pub(super) fn growth(self) -> Metric {
        let [growth, ..] = self.metrics();
        growth
    }

    /// Peaks of the memory whose growth it is, the best first.
    fn peaks(self) -> [Metric; 2] {
        match self {
            Kind::Host => [Metric::MemoryPssPeak, Metric::MemorySumOfPeaks],
            Kind::Gpu => [Metric::GpuMemoryOwnPeak, Metric::GpuMemoryPeak],
        }
    }
}

/// Growth in margins, or the part of the trend that is left; none where it was not measured in three runs.
pub(super) fn measure(case: &CaseSummary, kind: Kind, side: Side) -> Option<f64> {
    let [growth, trend, late] = kind.metrics().map(|metric| case.metric(metric));
    let growth: &MetricSummary = growth?;
    let margin = margin(case, kind)?;
    let (low, high) = growth.ci95?;
    Some(match side {
        Side::Mean => growth.mean / margin,
        Side::Low => low / margin,
        Side::High => high / margin,
        Side::Least => growth.min / margin,
        Side::Open => f64::from(u8::from(high >= margin && (low <= 0.0 || growth.mean < margin))),
        Side::Late => return Some(late?.mean / trend?.mean).filter(|part| part.is_finite()),
    })
}

/// Finished runs of a case whose memory was measured, but not for so long or so often that its growth can be judged.
pub(super) fn unjudged(case: &CaseSummary, kind: Kind) -> Option<usize> {
    margin(case, kind)?;
    (case.finished() > 0 && measure(case, kind, Side::Mean).is_none()).then(|| case.finished())
}

/// Bytes by which memory may grow over a run without a word.
pub(crate) fn margin(case: &CaseSummary, kind: Kind) -> Option<f64> {
    let peak = kind.peaks().into_iter().find_map(|metric| case.metric(metric))?;
    Some((MARGIN_SHARE * peak.mean).max(MARGIN_BYTES))
}

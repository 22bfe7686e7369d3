//! Whether memory kept growing over a run: a straight line through its windows that stray values do not move.

use super::figures::Figures;
use super::metric::Metric;
use super::series::Series;
use super::statistics::median;
use super::summary::Quantity;
use super::windows::WINDOW_NS;
use crate::trace::RunRecord;

/// Fewer windows make no trend: a single rise and fall would fill them.
const LEAST_WINDOWS: usize = 20;
/// The line is put through at most so many points, means of neighbouring windows: its cost grows with their square.
const MOST_POINTS: usize = 120;
/// Part of a run that is left out at its beginning where no steps are told: libraries load, data are read, caches fill.
const WARM_UP: f64 = 0.2;

/// Where a trend goes.
const HOST: [Metric; 3] = [Metric::MemoryTrend, Metric::MemoryTrendLate, Metric::MemoryGrowth];
const GPU: [Metric; 3] = [Metric::GpuMemoryTrend, Metric::GpuMemoryTrendLate, Metric::GpuMemoryGrowth];

/// A moment in seconds since the run's start, and bytes.
type Reading = (f64, f64);

/// How memory went.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trend {
    /// Bytes per second.
    slope: f64,
    /// The same over the second half of the time: what fills up and then stays has none.
    late: Option<f64>,
    /// What the slope makes over the time that was looked at, bytes.
    growth: f64,
}

/// Works out the trends of the tree's memory, by PSS where that was read often enough to have windows, and of the GPU
/// whose memory grew most, by the run's own where the driver tells it.
pub(super) fn trends(record: &RunRecord, figures: &mut Figures) {
    let Some(span) = span_s(record, figures) else { return };
    let of = |quantity: &Quantity| trend(&within(figures.windows.get(quantity)?, span));
    let host = of(&Quantity::MemoryPss).or_else(|| of(&Quantity::MemoryRss));
    let any = |wanted: fn(&Quantity) -> Option<u32>| {
        let used = figures.windows.keys().filter(|quantity| wanted(quantity).is_some_and(|gpu| is_used(record, gpu)));
        used.filter_map(of).max_by(|a, b| a.growth.total_cmp(&b.growth))
    };
    let own = any(|quantity| if let Quantity::GpuMemoryOwn(gpu) = quantity { Some(*gpu) } else { None });
    let device = || any(|quantity| if let Quantity::GpuMemory(gpu) = quantity { Some(*gpu) } else { None });
    let gpu = own.or_else(device);
    for (metrics, trend) in [(HOST, host), (GPU, gpu)] {
        let values =
            [trend.map(|trend| trend.slope), trend.and_then(|trend| trend.late), trend.map(|trend| trend.growth)];
        metrics.into_iter().zip(values).for_each(|(metric, value)| figures.set(metric, value));
    }
}

fn is_used(record: &RunRecord, gpu: u32) -> bool {
    record.gpus_used.as_ref().is_none_or(|used| used.is_empty() || used.contains(&gpu))
}

/// The time to look at, in seconds since the run's start: from the end of every rank's third step to that of the last
/// one; where no steps are told, all but the first fifth. A run that was cut has no end.
fn span_s(record: &RunRecord, figures: &Figures) -> Option<(f64, f64)> {
    let seconds = |ns: i64| ns as f64 / WINDOW_NS as f64;
    let end = seconds(record.duration_ns?);
    Some(match figures.steady_ns {
        Some((from, to)) => (seconds(from), seconds(to).min(end)),
        None => (WARM_UP * end, end),
    })
}

/// The windows that lie in a span; of a long run, means of some.
fn within(windows: &Series, (from, to): (f64, f64)) -> Vec<Reading> {
    let width = windows.width() as f64;
    let begins = |place: usize| place as f64 * width;
    let inside = windows.bins().filter(|(place, _)| begins(*place) >= from && begins(place + 1) <= to);
    inside.map(|(place, bin)| (begins(place) + width / 2.0, bin.mean())).collect()
}

fn trend(readings: &[Reading]) -> Option<Trend> {
    let ((first, _), (last, _)) = (readings.first()?, readings.last()?);
    if readings.len() < LEAST_WINDOWS {
        return None;
    }
    let middle = readings.partition_point(|(t, _)| *t < (first + last) / 2.0);
    let slope = theil_sen(&thinned(readings))?;
    let late = theil_sen(&thinned(&readings[middle..]));
    Some(Trend { slope, late, growth: slope * (last - first) })
}

/// Means of neighbours. To take every n-th reading instead could make a slope of a swing.
fn thinned(readings: &[Reading]) -> Vec<Reading> {
    let mean = |part: &[Reading]| {
        let sum = part.iter().fold((0.0, 0.0), |sum, reading| (sum.0 + reading.0, sum.1 + reading.1));
        (sum.0 / part.len() as f64, sum.1 / part.len() as f64)
    };
    readings.chunks(readings.len().div_ceil(MOST_POINTS).max(1)).map(mean).collect()
}

/// The median of the slopes between all pairs of points (Theil 1950, Sen 1968): up to 29 % of the points may stray.
fn theil_sen(points: &[Reading]) -> Option<f64> {
    let slopes = points
        .iter()
        .enumerate()
        .flat_map(|(at, a)| points[at + 1..].iter().filter(|b| b.0 > a.0).map(move |b| (b.1 - a.1) / (b.0 - a.0)));
    median(&mut slopes.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;

//! Times of steps: over the steps of a run, a line for the mean over runs and a band from the least to the greatest; and
//! as a distribution, a bar for each span of time.

use anyhow::Result;

use super::canvas::{self, Axis, Canvas, Labels};
use super::palette::{AXIS, QUIET, SERIES, TEXT};
use super::ticks;
use crate::aggregate::metric::Unit;
use crate::aggregate::summary::{Share, StepBin, StepTimes};
use crate::report::format::Scale;

/// Bars that can be told apart.
const MOST_BARS: f64 = 60.0;
/// Beyond this ratio of the longest to the shortest time equal lengths are equal ratios.
const WIDE: f64 = 5.0;

/// A chart of times over steps.
#[derive(Clone, Debug)]
pub(crate) struct StepChart<'a> {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: String,
    pub(crate) times: &'a StepTimes,
    pub(crate) scale: Scale,
    /// Text in the shade over warm-up.
    pub(crate) warm_up: String,
    /// Text beside the longest step after warm-up, its value filled in.
    pub(crate) peak: String,
}

/// A chart of the distribution.
#[derive(Clone, Debug)]
pub(crate) struct DistributionChart<'a> {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: String,
    pub(crate) times: &'a StepTimes,
    pub(crate) scale: Scale,
    /// Times that are marked, with their labels.
    pub(crate) marks: Vec<(f64, String)>,
}

/// The bin after warm-up with the longest step.
pub(crate) fn longest(times: &StepTimes) -> Option<&StepBin> {
    steady(times).reduce(|longest, bin| if bin.max_s > longest.max_s { bin } else { longest })
}

/// Bins that have a step after warm-up; all where there is none.
fn steady(times: &StepTimes) -> impl Iterator<Item = &StepBin> {
    let after = |bin: &&StepBin| bin.last >= times.warm_up_steps;
    let any = times.bins.iter().any(|bin| after(&bin));
    times.bins.iter().filter(move |bin| is_finite(bin) && (after(bin) || !any))
}

/// Draws the times over steps as SVG. The axis is that of the steps after warm-up, which may end below those of warm-up.
///
/// # Errors
/// The drawing fails.
pub(super) fn draw(chart: &StepChart<'_>) -> Result<String> {
    let times = chart.times;
    let end = times.bins.iter().map(|bin| bin.last + 1).max().unwrap_or(1) as f64;
    let top = longest(times).map_or(0.0, |bin| bin.max_s) * 1.2;
    let labels =
        Labels { title: chart.title.clone(), subtitle: chart.subtitle.clone(), x: chart.x.clone(), legend: Vec::new() };
    canvas::draw(&labels, ticks::plain_axis(end), ticks::value_axis(top, &chart.scale), |canvas| {
        // Up to the middle between the last step of warm-up and the next.
        let warm_up = (times.warm_up_steps as f64 - 0.5).clamp(0.0, end);
        canvas.shade(0.0, warm_up, AXIS)?;
        canvas.beside((warm_up, canvas.height_at(0.94)), &chart.warm_up, QUIET)?;
        for segment in times.bins.chunk_by(|a, b| a.last + 1 == b.first) {
            let line = |value: fn(&StepBin) -> f64| -> Vec<(f64, f64)> {
                segment.iter().filter(|bin| is_finite(bin)).map(|bin| (middle(bin), value(bin))).collect()
            };
            canvas.band(&line(|bin| bin.min_s), &line(|bin| bin.max_s), SERIES[0])?;
            canvas.line(&line(|bin| bin.mean_s), SERIES[0])?;
        }
        match longest(times) {
            Some(bin) => canvas.mark((middle(bin), bin.max_s), &chart.peak, SERIES[0]),
            None => Ok(()),
        }
    })
}

fn middle(bin: &StepBin) -> f64 {
    (bin.first as f64 + bin.last as f64) / 2.0
}

fn is_finite(bin: &StepBin) -> bool {
    [bin.mean_s, bin.min_s, bin.max_s].iter().all(|value| value.is_finite())
}

/// Draws the distribution as SVG.
///
/// # Errors
/// The drawing fails.
pub(super) fn draw_distribution(chart: &DistributionChart<'_>) -> Result<String> {
    let shares: Vec<&Share> = chart.times.distribution.iter().filter(|share| is_span(share)).collect();
    let (low, high) = match (shares.first(), shares.last()) {
        (Some(first), Some(last)) => (first.from_s, last.to_s),
        _ => (1.0, 1.0),
    };
    let bars = grouped(&shares, low, high);
    let all = shares.iter().map(|share| share.steps).sum::<u64>().max(1) as f64;
    let top = bars.iter().map(|(_, _, steps)| *steps as f64 / all).fold(0.0, f64::max) * 1.25;
    let labels =
        Labels { title: chart.title.clone(), subtitle: chart.subtitle.clone(), x: chart.x.clone(), legend: Vec::new() };
    let y = ticks::value_axis(top, &Scale::of(Unit::Ratio, 1.0));
    canvas::draw(&labels, times_axis(low, high, &chart.scale), y, |canvas| {
        for (from, to, steps) in &bars {
            canvas.bar((*from, *steps as f64 / all), (*to, 0.0), SERIES[0])?;
        }
        marks(canvas, &chart.marks)
    })
}

fn is_span(share: &Share) -> bool {
    share.from_s.is_finite() && share.to_s.is_finite() && share.from_s > 0.0 && share.from_s < share.to_s
}

/// A little beyond the data on each side.
fn times_axis(low: f64, high: f64, scale: &Scale) -> Axis {
    if high / low > WIDE {
        return ticks::log_axis(low / 1.1, high * 1.1, scale);
    }
    let margin = ((high - low) * 0.08).max(low * 0.01);
    ticks::span_axis(low - margin, high + margin, scale)
}

/// Spans of equal ratio with their steps.
fn grouped(shares: &[&Share], low: f64, high: f64) -> Vec<(f64, f64, u64)> {
    // Whole spans go into a bar; else some bars would get more of them than others.
    let fine = shares.first().map_or(1.0, |share| (share.to_s / share.from_s).ln());
    // Rice's rule: of few steps, fine bars would show chance.
    let steps = shares.iter().map(|share| share.steps).sum::<u64>() as f64;
    let most = (2.0 * steps.cbrt()).ceil().clamp(1.0, MOST_BARS);
    let ratio = fine * ((high / low).ln() / fine / most).ceil().max(1.0);
    let group = |share: &Share| ((share.from_s * share.to_s).sqrt() / low).ln().div_euclid(ratio);
    let bar = |shares: &[&Share]| {
        let place = shares.first().map_or(0.0, |share| group(share));
        let edge = |place: f64| low * (place * ratio).exp();
        (edge(place), edge(place + 1.0), shares.iter().map(|share| share.steps).sum())
    };
    shares.chunk_by(|a, b| group(a) == group(b)).map(bar).collect()
}

fn marks(canvas: &Canvas<'_, '_>, marks: &[(f64, String)]) -> Result<()> {
    for (line, (time, label)) in (0..).zip(marks) {
        canvas.upright(*time, label, line, TEXT)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(bins: Vec<StepBin>, distribution: Vec<Share>) -> StepTimes {
        StepTimes { runs: 2, warm_up_steps: 2, bins, distribution }
    }

    fn both(times: &StepTimes) -> [String; 2] {
        let text = || "x".to_owned();
        let scale = Scale::of(Unit::Second, 0.1);
        let over =
            StepChart { title: text(), subtitle: text(), x: text(), times, scale, warm_up: text(), peak: text() };
        let marks = vec![(0.1, text()), (f64::NAN, text()), (1e300, text())];
        let spread = DistributionChart { title: text(), subtitle: text(), x: text(), times, scale, marks };
        [draw(&over).unwrap(), draw_distribution(&spread).unwrap()]
    }

    #[test]
    fn empty_constant_and_unusable_times_end() {
        let bin = |first, mean_s, min_s, max_s| StepBin { first, last: first, mean_s, min_s, max_s };
        let share = |from_s, to_s| Share { from_s, to_s, steps: 5 };
        for (bins, shares) in [
            (vec![], vec![]),
            (vec![bin(1, 0.0, 0.0, 0.0)], vec![share(0.0, 0.0)]),
            (vec![bin(0, 1.0, 1.0, 1.0), bin(1, 1.0, 1.0, 1.0)], vec![share(1.0, 1.001)]),
            (vec![bin(0, f64::NAN, f64::NEG_INFINITY, f64::INFINITY)], vec![share(f64::NAN, 1.0), share(2.0, 1.0)]),
            (vec![bin(5, 1e300, -1e300, 1e300)], vec![share(1e-300, 1e-299), share(1e299, 1e300)]),
        ] {
            assert!(both(&times(bins, shares)).iter().all(|svg| svg.ends_with("</svg>\n")));
        }
    }

    #[test]
    fn bars_add_up_to_all_steps_and_are_not_too_many() {
        let shares: Vec<Share> = (0..2000)
            .map(|place| Share { from_s: 1.001_f64.powi(place), to_s: 1.001_f64.powi(place + 1), steps: 3 })
            .collect();
        let shares: Vec<&Share> = shares.iter().collect();
        let bars = grouped(&shares, 1.0, 1.001_f64.powi(2000));
        assert_eq!(bars.iter().map(|(_, _, steps)| steps).sum::<u64>(), 6000);
        assert!(bars.len() <= 38, "{}", bars.len());
    }
}

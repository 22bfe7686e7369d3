//! How busy each core was: a bar for the mean over runs, a whisker from the least to the greatest run.

use anyhow::Result;

use super::canvas::{self, Axis, Labels};
use super::palette::SERIES;
use super::ticks;
use crate::aggregate::metric::Unit;
use crate::aggregate::summary::CoreUsage;
use crate::report::format::Scale;

/// Labels that fit below the bars.
const MOST_LABELS: usize = 24;

/// A chart of busy shares by core.
#[derive(Clone, Debug)]
pub(crate) struct CoreChart<'a> {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: String,
    pub(crate) cores: &'a [CoreUsage],
    /// The share above which a core counts as busy, and its label.
    pub(crate) threshold: f64,
    pub(crate) threshold_label: String,
    /// Whether there is more than one run, so that a spread can be drawn.
    pub(crate) spread: bool,
}

/// Draws the chart as SVG.
///
/// # Errors
/// The drawing fails.
pub(super) fn draw(chart: &CoreChart<'_>) -> Result<String> {
    let cores: Vec<&CoreUsage> = chart
        .cores
        .iter()
        .filter(|core| [core.mean, core.min, core.max].iter().all(|share| share.is_finite()))
        .collect();
    let each = cores.len().div_ceil(MOST_LABELS).max(1);
    let names = cores
        .iter()
        .enumerate()
        .step_by(each)
        .map(|(place, core)| (place as f64 + 0.5, core.core.to_string()))
        .collect();
    let labels =
        Labels { title: chart.title.clone(), subtitle: chart.subtitle.clone(), x: chart.x.clone(), legend: Vec::new() };
    let top = cores.iter().map(|core| core.max).fold(1.0, f64::max);
    let axis = ticks::value_axis(top, &Scale::of(Unit::Ratio, 1.0));
    canvas::draw(&labels, Axis::new(0.0, cores.len() as f64, names), axis, |canvas| {
        for (place, core) in cores.iter().enumerate() {
            let middle = place as f64 + 0.5;
            canvas.bar((middle - 0.36, core.mean), (middle + 0.36, 0.0), SERIES[0])?;
            if chart.spread {
                canvas.whisker((middle, core.min), (middle, core.max))?;
            }
        }
        canvas.level(chart.threshold, &chart.threshold_label)
    })
}

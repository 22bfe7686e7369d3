//! A quantity over the values of a setting: a dot for the mean over runs, a whisker from the least to the greatest run,
//! and a line through the dots of cases that are otherwise alike.

use anyhow::Result;

use super::canvas::{self, Axis, Labels};
use super::palette::SERIES;
use super::ticks;
use crate::report::format::Scale;

/// A chart of lines over values that stand at equal distances.
#[derive(Clone, Debug)]
pub(crate) struct LineChart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: String,
    /// The values of the setting, in their order.
    pub(crate) places: Vec<String>,
    pub(crate) lines: Vec<Line>,
    pub(crate) scale: Scale,
    pub(crate) less_is_better: bool,
    /// Text beside the best mean, its value filled in.
    pub(crate) best: String,
}

/// Cases that differ in nothing but the setting.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Empty where there is no other line.
    pub(crate) label: String,
    pub(crate) dots: Vec<Dot>,
}

/// One case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dot {
    /// Which of the places it stands at.
    pub(crate) place: usize,
    pub(crate) mean: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Dot {
    fn is_finite(&self) -> bool {
        [self.mean, self.min, self.max].iter().all(|value| value.is_finite())
    }
}

/// Draws the chart as SVG.
///
/// # Errors
/// The drawing fails.
pub(super) fn draw(chart: &LineChart) -> Result<String> {
    let dots = || chart.lines.iter().flat_map(|line| &line.dots).filter(|dot| dot.is_finite());
    let top = dots().map(|dot| dot.max).fold(0.0, f64::max) * 1.2;
    let places = chart.places.iter().enumerate().map(|(place, label)| (place as f64 + 0.5, label.clone())).collect();
    let labelled = chart.lines.iter().zip(SERIES.iter().cycle()).filter(|(line, _)| !line.label.is_empty());
    let labels = Labels {
        title: chart.title.clone(),
        subtitle: chart.subtitle.clone(),
        x: chart.x.clone(),
        legend: labelled.map(|(line, ink)| (line.label.clone(), *ink)).collect(),
    };
    let x = Axis::new(0.0, chart.places.len() as f64, places);
    canvas::draw(&labels, x, ticks::value_axis(top, &chart.scale), |canvas| {
        for (line, ink) in chart.lines.iter().zip(SERIES.iter().cycle()) {
            let dots = line.dots.iter().filter(|dot| dot.is_finite());
            let path: Vec<_> = dots.clone().map(|dot| (dot.place as f64 + 0.5, dot.mean)).collect();
            canvas.line(&path, *ink)?;
            for (dot, at) in dots.zip(path) {
                if dot.min < dot.max {
                    canvas.whisker((at.0, dot.min), (at.0, dot.max))?;
                }
                canvas.dot(at, *ink)?;
            }
        }
        match best(chart) {
            Some(dot) => canvas.note((dot.place as f64 + 0.5, dot.max), &chart.best),
            None => Ok(()),
        }
    })
}

fn best(chart: &LineChart) -> Option<&Dot> {
    let dots = chart.lines.iter().flat_map(|line| &line.dots).filter(|dot| dot.is_finite());
    dots.reduce(|best, dot| {
        let is_better = if chart.less_is_better { dot.mean < best.mean } else { dot.mean > best.mean };
        if is_better { dot } else { best }
    })
}

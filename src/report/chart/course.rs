//! Quantities over time: a line for the mean over runs, a band from the least to the greatest run.

use anyhow::Result;

use super::canvas::{self, Canvas, Labels};
use super::palette::{Ink, SERIES};
use super::ticks;
use crate::aggregate::summary::{Course, Point};
use crate::report::format::Scale;

/// More points than this cannot be told apart on the sheet.
const MOST_POINTS: usize = 800;

/// Windows are a second long; a longer step between two points is a gap.
const GAP_S: f64 = 1.5;

/// One line of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Series<'a> {
    pub(crate) label: String,
    pub(crate) course: &'a Course,
}

/// A chart of courses that share a unit.
#[derive(Clone, Debug)]
pub(crate) struct CourseChart<'a> {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: String,
    pub(crate) series: Vec<Series<'a>>,
    pub(crate) scale: Scale,
    /// The axis of values reaches at least this, so that charts of one kind can be compared.
    pub(crate) least_top: f64,
    /// Text beside the peak of the first series, its value filled in.
    pub(crate) peak: String,
}

/// The first point with the greatest mean.
pub(crate) fn peak(course: &Course) -> Option<Point> {
    course
        .points
        .iter()
        .copied()
        .filter(is_finite)
        .reduce(|best, point| if point.mean > best.mean { point } else { best })
}

/// Whether a course has enough points for a line.
pub(crate) fn is_drawable(course: &Course) -> bool {
    course.points.iter().filter(|point| is_finite(point)).count() >= 2
}

/// Draws the chart as SVG.
///
/// # Errors
/// The drawing fails.
pub(super) fn draw(chart: &CourseChart<'_>) -> Result<String> {
    let points = || chart.series.iter().flat_map(|series| &series.course.points).filter(|point| is_finite(point));
    let end = points().map(|point| point.t_s).fold(0.0, f64::max);
    let highest = points().map(|point| point.max).fold(0.0, f64::max);
    // Room above the highest point for the label of the peak.
    let top = if highest <= chart.least_top { chart.least_top } else { highest * 1.1 };
    let legend =
        chart.series.iter().zip(SERIES.iter().cycle()).map(|(series, ink)| (series.label.clone(), *ink)).collect();
    let labels = Labels { title: chart.title.clone(), subtitle: chart.subtitle.clone(), x: chart.x.clone(), legend };
    canvas::draw(&labels, ticks::time_axis(end), ticks::value_axis(top, &chart.scale), |canvas| {
        // The first series matters most, so it is drawn last, on top.
        for (index, series) in chart.series.iter().enumerate().rev() {
            course(canvas, series.course, SERIES[index % SERIES.len()])?;
        }
        match chart.series.first().and_then(|series| peak(series.course)) {
            Some(point) => canvas.mark((point.t_s, point.mean), &chart.peak, SERIES[0]),
            None => Ok(()),
        }
    })
}

fn course(canvas: &Canvas<'_>, course: &Course, ink: Ink) -> Result<()> {
    for segment in segments(&course.points) {
        let line = |value: fn(&Point) -> f64| -> Vec<(f64, f64)> {
            segment.iter().map(|point| (point.t_s, value(point))).collect()
        };
        if course.runs > 1 {
            canvas.band(&line(|point| point.min), &line(|point| point.max), ink)?;
        }
        canvas.line(&line(|point| point.mean), ink)?;
    }
    Ok(())
}

/// Unbroken stretches of finite points, thinned to what a sheet can show.
fn segments(points: &[Point]) -> Vec<Vec<Point>> {
    let mut segments: Vec<Vec<Point>> = Vec::new();
    for point in points.iter().copied().filter(is_finite) {
        match segments.last_mut() {
            Some(segment) if segment.last().is_some_and(|last| point.t_s - last.t_s <= GAP_S) => segment.push(point),
            _ => segments.push(vec![point]),
        }
    }
    let group = points.len().div_ceil(MOST_POINTS / 2);
    segments
        .into_iter()
        .map(|segment| if points.len() > MOST_POINTS { thinned(&segment, group) } else { segment })
        .collect()
}

/// Keeps, of each group of neighbours, the points with the least and the greatest mean: peaks stay.
fn thinned(points: &[Point], group: usize) -> Vec<Point> {
    points.chunks(group).flat_map(extremes).collect()
}

fn extremes(group: &[Point]) -> Vec<Point> {
    let by_mean = |a: &&Point, b: &&Point| a.mean.total_cmp(&b.mean);
    let mut kept: Vec<Point> =
        group.iter().min_by(by_mean).into_iter().chain(group.iter().max_by(by_mean)).copied().collect();
    kept.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
    kept.dedup();
    kept
}

fn is_finite(point: &Point) -> bool {
    [point.t_s, point.mean, point.min, point.max].iter().all(|value| value.is_finite())
}

//! Quantities over time: a line for the mean over runs, a band from the least to the greatest run.

use anyhow::Result;

use super::canvas::{self, Canvas, Labels};
use super::palette::{Ink, SERIES};
use super::ticks;
use crate::aggregate::summary::{Course, Point};
use crate::report::format::Scale;

/// More points than this cannot be told apart on the sheet.
const MOST_POINTS: usize = 800;

/// A step between two points that is longer than this, in what a point stands for, is a gap.
const GAP: f64 = 1.5;

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

/// The first point with the greatest mean over runs; where it stands for several windows, with the greatest window of
/// any run, for a peak of one window is in no mean over many.
pub(crate) fn peak(course: &Course) -> Option<(Point, f64)> {
    let height = |point: &Point| if course.is_joined() { point.max } else { point.mean };
    let points = course.points.iter().copied().filter(is_finite);
    let peak = points.reduce(|best, point| if height(&point) > height(&best) { point } else { best })?;
    Some((peak, height(&peak)))
}

/// Where the last point of some courses is.
pub(crate) fn end_s<'a>(courses: impl IntoIterator<Item = &'a Course>) -> f64 {
    let points = courses.into_iter().flat_map(|course| &course.points).filter(|point| is_finite(point));
    points.map(|point| point.t_s).fold(0.0, f64::max)
}

/// Whether a course has enough points for a line.
pub(crate) fn is_drawable(course: &Course) -> bool {
    course.points.iter().filter(|point| is_finite(point)).count() >= 2
}

/// So many points of a course share two on the sheet; none where each has its own.
pub(crate) fn thinning(course: &Course) -> Option<usize> {
    (course.points.len() > MOST_POINTS).then(|| course.points.len().div_ceil(MOST_POINTS / 2))
}

/// Draws the chart as SVG.
///
/// # Errors
/// The drawing fails.
pub(super) fn draw(chart: &CourseChart<'_>) -> Result<String> {
    let points = || chart.series.iter().flat_map(|series| &series.course.points).filter(|point| is_finite(point));
    let end = end_s(chart.series.iter().map(|series| series.course));
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
            Some((point, height)) => canvas.mark((point.t_s, height), &chart.peak, SERIES[0]),
            None => Ok(()),
        }
    })
}

pub(super) fn course(canvas: &Canvas<'_, '_>, course: &Course, ink: Ink) -> Result<()> {
    for segment in segments(course) {
        let line = |value: fn(&Point) -> f64| -> Vec<(f64, f64)> {
            segment.iter().map(|point| (point.t_s, value(point))).collect()
        };
        if course.runs > 1 || course.is_joined() {
            canvas.band(&line(|point| point.min), &line(|point| point.max), ink)?;
        }
        canvas.line(&line(|point| point.mean), ink)?;
    }
    Ok(())
}

/// Unbroken stretches of finite points, thinned to what a sheet can show.
fn segments(course: &Course) -> Vec<Vec<Point>> {
    let (points, gap_s) = (&course.points, GAP * course.point_s as f64);
    let mut segments: Vec<Vec<Point>> = Vec::new();
    for point in points.iter().copied().filter(is_finite) {
        match segments.last_mut() {
            Some(segment) if segment.last().is_some_and(|last| point.t_s - last.t_s <= gap_s) => segment.push(point),
            _ => segments.push(vec![point]),
        }
    }
    match thinning(course) {
        Some(group) => segments.iter().map(|segment| thinned(segment, group)).collect(),
        None => segments,
    }
}

/// Keeps, of each group of neighbours, the points with the least and the greatest mean, and those with the least and the
/// greatest value of any run: peaks stay, of the line and of the band.
fn thinned(points: &[Point], group: usize) -> Vec<Point> {
    points.chunks(group).flat_map(extremes).collect()
}

fn extremes(group: &[Point]) -> Vec<Point> {
    let by = |value: fn(&Point) -> f64| move |a: &&Point, b: &&Point| value(a).total_cmp(&value(b));
    let least = [group.iter().min_by(by(|point| point.mean)), group.iter().min_by(by(|point| point.min))];
    let greatest = [group.iter().max_by(by(|point| point.mean)), group.iter().max_by(by(|point| point.max))];
    let mut kept: Vec<Point> = least.into_iter().chain(greatest).flatten().copied().collect();
    kept.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
    kept.dedup();
    kept
}

pub(super) fn is_finite(point: &Point) -> bool {
    [point.t_s, point.mean, point.min, point.max].iter().all(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::summary::Quantity;

    fn course(point_s: i64, points: &[(f64, f64, f64)]) -> Course {
        let point = |(t_s, mean, max): &(f64, f64, f64)| Point { t_s: *t_s, mean: *mean, min: 0.0, max: *max };
        Course { quantity: Quantity::HostCpu, runs: 1, point_s, points: points.iter().map(point).collect() }
    }

    #[test]
    fn the_peak_of_joined_windows_is_the_highest_window() {
        let points = [(16.0, 0.5, 0.6), (48.0, 0.2, 0.9), (80.0, 0.3, 0.4)];
        assert_eq!(peak(&course(32, &points)).map(|(point, height)| (point.t_s, height)), Some((48.0, 0.9)));
        assert_eq!(peak(&course(1, &points)).map(|(point, height)| (point.t_s, height)), Some((16.0, 0.5)));
    }

    #[test]
    fn thinning_keeps_the_peaks_of_the_line_and_of_the_band() {
        let point = |i: usize| match i {
            777 => (777.0, 0.5, 1.0),
            4321 => (4321.0, 0.6, 0.7),
            _ => (i as f64, 0.4, 0.5),
        };
        let kept = segments(&course(1, &(0..5000).map(point).collect::<Vec<_>>())).concat();
        assert!(kept.len() <= 2 * MOST_POINTS, "{}", kept.len());
        for (t_s, mean, max) in [point(777), point(4321)] {
            assert!(kept.contains(&Point { t_s, mean, min: 0.0, max }), "{t_s}");
        }
    }

    #[test]
    fn joined_windows_that_follow_each_other_are_one_line_and_a_gap_ends_it() {
        let points = [(16.0, 0.5, 0.6), (48.0, 0.2, 0.9), (112.0, 0.3, 0.4)];
        let lengths: Vec<usize> = segments(&course(32, &points)).iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 1]);
    }
}

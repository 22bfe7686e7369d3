//! Time courses over runs, aligned by the time from each run's start.

use std::collections::BTreeMap;

use super::series::{Bin, Series};
use super::summary::{Course, Point, Quantity};

/// Courses while runs are added to them; memory does not grow with the number of runs, nor with their length.
#[derive(Default)]
pub(super) struct Courses(BTreeMap<Quantity, Joined>);

struct Joined {
    runs: usize,
    /// Windows of one point, as in [`Series`].
    width: i64,
    points: Vec<Spread>,
}

/// A bin over runs.
#[derive(Clone, Copy)]
struct Spread {
    runs: usize,
    sum: f64,
    min: f64,
    max: f64,
}

impl Courses {
    /// Adds the windows of one run.
    pub(super) fn add(&mut self, run: &BTreeMap<Quantity, Series>) {
        for (quantity, series) in run {
            let course = self.0.entry(*quantity).or_insert_with(|| Joined::new(series.width()));
            course.add(series);
        }
    }

    /// A point stays where at least half of the runs have it: beyond, a few long runs would pass for all.
    pub(super) fn finish(self) -> Vec<Course> {
        self.0.into_iter().map(|(quantity, joined)| joined.course(quantity)).collect()
    }
}

impl Joined {
    fn new(width: i64) -> Self {
        Self { runs: 0, width, points: Vec::new() }
    }

    fn add(&mut self, series: &Series) {
        let mut series = std::borrow::Cow::Borrowed(series);
        while series.width() < self.width {
            series.to_mut().widen();
        }
        while self.width < series.width() {
            self.widen();
        }
        self.runs += 1;
        for (place, bin) in series.bins() {
            if self.points.len() <= place {
                self.points.resize(place + 1, Spread::EMPTY);
            }
            self.points[place].add(bin);
        }
    }

    /// Joins points two by two, where a longer run comes. A run that has both counts once, its mean being that of both.
    fn widen(&mut self) {
        let joined = self.points.chunks(2).map(|pair| {
            let runs = pair.iter().map(|spread| spread.runs).max().unwrap_or_default();
            let all: usize = pair.iter().map(|spread| spread.runs).sum();
            let sum: f64 = pair.iter().map(|spread| spread.sum).sum();
            Spread {
                runs,
                sum: if all > 0 { sum / all as f64 * runs as f64 } else { 0.0 },
                min: pair.iter().map(|spread| spread.min).fold(f64::INFINITY, f64::min),
                max: pair.iter().map(|spread| spread.max).fold(f64::NEG_INFINITY, f64::max),
            }
        });
        self.points = joined.collect();
        self.width *= 2;
    }

    fn course(self, quantity: Quantity) -> Course {
        let kept = self.points.iter().enumerate().filter(|(_, spread)| spread.runs > 0 && spread.runs * 2 >= self.runs);
        let points = kept.map(|(place, spread)| spread.point(place, self.width)).collect();
        Course { quantity, runs: self.runs, point_s: self.width, points }
    }
}

impl Spread {
    const EMPTY: Self = Self { runs: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    fn add(&mut self, bin: &Bin) {
        self.runs += 1;
        self.sum += bin.mean();
        self.min = self.min.min(bin.min);
        self.max = self.max.max(bin.max);
    }

    fn point(&self, place: usize, width: i64) -> Point {
        let mean = (self.sum / self.runs as f64).clamp(self.min, self.max);
        Point { t_s: (place as f64 + 0.5) * width as f64, mean, min: self.min, max: self.max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(runs: &[&[(i64, f64)]]) -> Course {
        let mut courses = Courses::default();
        for run in runs {
            let mut series = Series::new();
            run.iter().for_each(|(window, value)| series.push(*window, *value));
            courses.add(&BTreeMap::from([(Quantity::HostCpu, series)]));
        }
        courses.finish().pop().unwrap()
    }

    /// As many windows of one value, but for one of 9.
    fn peaked(windows: i64, value: f64, at: i64) -> Vec<(i64, f64)> {
        (0..windows).map(|k| (k, if k == at { 9.0 } else { value })).collect()
    }

    #[test]
    fn runs_of_different_lengths_share_the_widest_points_and_no_peak_is_lost() {
        let (short, long) = (peaked(600, 1.0, 17), peaked(10_000, 3.0, 9_000));
        for runs in [[&short[..], &long[..]], [&long[..], &short[..]]] {
            let course = course(&runs);
            assert_eq!((course.runs, course.point_s, course.points.len()), (2, 4, 2500));
            // By hand: windows 16 to 19 are 1, 9, 1, 1 in the one and 3 in the other: (3 + 3) / 2.
            let of_peak = Point { t_s: 18.0, mean: 3.0, min: 1.0, max: 9.0 };
            assert_eq!(course.points[4], of_peak);
            assert_eq!(course.points[5], Point { t_s: 22.0, mean: 2.0, min: 1.0, max: 3.0 });
            assert_eq!(course.points[2250], Point { t_s: 9002.0, mean: 4.5, min: 3.0, max: 9.0 });
        }
    }

    #[test]
    fn the_number_of_points_does_not_grow_with_length() {
        for windows in [5_000, 86_400, 1_000_000] {
            let points = course(&[&peaked(windows, 1.0, 3)]).points.len();
            assert!((2048..=4096).contains(&points), "{windows}: {points}");
        }
    }

    #[test]
    fn a_point_is_the_mean_least_and_greatest_over_runs() {
        let course = course(&[&[(0, 0.2)], &[(0, 0.6)], &[(0, 0.1)]]);
        assert_eq!(course.runs, 3);
        assert!((course.points[0].mean - 0.3).abs() < 1e-12);
        assert_eq!((course.points[0].t_s, course.points[0].min, course.points[0].max), (0.5, 0.1, 0.6));
    }

    #[test]
    fn a_window_that_fewer_than_half_of_the_runs_have_is_left_out() {
        let course = course(&[&[(0, 1.0), (1, 1.0), (2, 1.0)], &[(0, 1.0), (2, 1.0)], &[(0, 1.0)]]);
        let kept: Vec<f64> = course.points.iter().map(|point| point.t_s).collect();
        assert_eq!(kept, [0.5, 2.5]);
    }
}

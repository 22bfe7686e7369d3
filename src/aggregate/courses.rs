//! Time courses over runs, aligned by the time from each run's start.

use std::collections::BTreeMap;

use super::summary::{Course, Point, Quantity};

/// Courses while runs are added to them; memory does not grow with the number of runs.
#[derive(Default)]
pub(super) struct Courses(BTreeMap<Quantity, Windows>);

#[derive(Default)]
struct Windows {
    runs: usize,
    points: BTreeMap<i64, Spread>,
}

struct Spread {
    runs: usize,
    sum: f64,
    min: f64,
    max: f64,
}

impl Courses {
    /// Adds the windows of one run.
    pub(super) fn add(&mut self, run: &BTreeMap<Quantity, BTreeMap<i64, f64>>) {
        for (quantity, windows) in run {
            let course = self.0.entry(*quantity).or_default();
            course.runs += 1;
            for (k, value) in windows {
                course.points.entry(*k).or_insert(Spread::EMPTY).add(*value);
            }
        }
    }

    /// A window stays where at least half of the runs have it: beyond, a few long runs would pass for all.
    pub(super) fn finish(self) -> Vec<Course> {
        let course = |(quantity, course): (Quantity, Windows)| {
            let kept = course.points.iter().filter(|(_, spread)| spread.runs * 2 >= course.runs);
            Course { quantity, runs: course.runs, points: kept.map(|(k, spread)| spread.point(*k)).collect() }
        };
        self.0.into_iter().map(course).collect()
    }
}

impl Spread {
    const EMPTY: Self = Self { runs: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    fn add(&mut self, value: f64) {
        self.runs += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn point(&self, k: i64) -> Point {
        let mean = (self.sum / self.runs as f64).clamp(self.min, self.max);
        Point { t_s: k as f64 + 0.5, mean, min: self.min, max: self.max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(runs: &[&[(i64, f64)]]) -> Course {
        let mut courses = Courses::default();
        for run in runs {
            courses.add(&BTreeMap::from([(Quantity::HostCpu, run.iter().copied().collect())]));
        }
        courses.finish().pop().unwrap()
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

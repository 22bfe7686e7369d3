//! Time in which tasks could not go on: the kernel's pressure stall information, and what a CPU quota takes away.

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::metric::Metric;
use super::rows::{Rows, each_row};

/// First and last reading of a counter that only grows.
#[derive(Clone, Copy, Default)]
struct Ends {
    first: Option<(i64, f64)>,
    last: Option<(i64, f64)>,
}

impl Ends {
    fn push(&mut self, t_ns: i64, value: Option<f64>) {
        let Some(value) = value else { return };
        self.first = self.first.or(Some((t_ns, value)));
        self.last = Some((t_ns, value));
    }

    /// Absent where it was read once, or stepped back.
    fn growth(&self) -> Option<f64> {
        let ((from_ns, first), (to_ns, last)) = (self.first?, self.last?);
        (to_ns > from_ns && last >= first).then_some(last - first)
    }

    /// Growth of a counter of nanoseconds over the time between the readings.
    fn share_of_time(&self) -> Option<f64> {
        Some(self.growth()? / (self.last?.0 - self.first?.0) as f64)
    }
}

/// Sums up the pressure columns of the `host` table.
///
/// # Errors
/// The table cannot be read.
pub(super) fn host(table: impl Into<Rows>, figures: &mut Figures) -> Result<()> {
    let mut ends = [Ends::default(); 3];
    let columns = ["pressure_cpu_ns", "pressure_memory_ns", "pressure_io_full_ns"].map(col);
    each_row(table, ["t_ns"], columns, |[t], values| {
        ends.iter_mut().zip(values).for_each(|(ends, value)| ends.push(t, value));
    })?;
    let metrics = [Metric::CpuPressure, Metric::MemoryPressure, Metric::IoPressure];
    metrics.into_iter().zip(ends).for_each(|(metric, ends)| figures.set(metric, ends.share_of_time()));
    Ok(())
}

/// Sums up what the quota of the `cgroup` table's group took away. Also where others share that group: it held the run.
///
/// # Errors
/// The table cannot be read.
pub(super) fn quota(table: impl Into<Rows>, figures: &mut Figures) -> Result<()> {
    let [mut throttled, mut periods] = [Ends::default(); 2];
    each_row(table, ["t_ns"], ["throttled_periods", "periods"].map(col), |[t], [held, all]| {
        throttled.push(t, held);
        periods.push(t, all);
    })?;
    let all = periods.growth().filter(|periods| *periods > 0.0);
    figures.set(Metric::CpuThrottled, throttled.growth().zip(all).map(|(held, all)| held / all));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::testing::{SECOND, frame};
    use crate::trace::tables::{Cgroup, Host};

    fn values(host_rows: Vec<Host>, group_rows: Vec<Cgroup>) -> Vec<(Metric, f64)> {
        let mut figures = Figures::default();
        host(frame(host_rows), &mut figures).unwrap();
        quota(frame(group_rows), &mut figures).unwrap();
        figures.values.into_iter().collect()
    }

    #[test]
    fn shares_are_of_the_time_between_the_first_and_the_last_reading() {
        let row = |t: i64, cpu: Option<i64>| Host {
            t_ns: t * SECOND,
            pressure_cpu_ns: cpu,
            pressure_memory_ns: Some(500 + t * SECOND / 50),
            pressure_io_full_ns: Some(t * SECOND / 4),
            ..Host::default()
        };
        let rows = vec![row(0, None), row(1, Some(7)), row(5, Some(7 + 2 * SECOND)), row(10, None)];
        let right = [(Metric::CpuPressure, 0.5), (Metric::IoPressure, 0.25), (Metric::MemoryPressure, 0.02)];
        assert_eq!(values(rows, Vec::new()), right);
    }

    #[test]
    fn the_share_of_periods_that_a_quota_cut_short() {
        let row = |t: i64, held: i64, periods: Option<i64>| Cgroup {
            t_ns: t,
            throttled_periods: Some(held),
            periods,
            ..Cgroup::default()
        };
        let rows = vec![row(0, 10, Some(100)), row(1, 40, Some(200))];
        assert_eq!(values(Vec::new(), rows), [(Metric::CpuThrottled, 0.3)]);
        assert!(values(Vec::new(), vec![row(0, 0, Some(0)), row(1, 0, Some(0))]).is_empty(), "there is no quota");
        assert!(values(Vec::new(), vec![row(0, 0, None), row(1, 0, None)]).is_empty());
    }

    #[test]
    fn what_a_kernel_does_not_tell_is_absent_and_so_is_a_counter_that_stepped_back() {
        let row = |t: i64, cpu: i64| Host { t_ns: t * SECOND, pressure_cpu_ns: Some(cpu), ..Host::default() };
        assert!(values(vec![row(0, 9), row(1, 3)], Vec::new()).is_empty());
        assert!(values(vec![row(0, 9)], Vec::new()).is_empty());
    }
}

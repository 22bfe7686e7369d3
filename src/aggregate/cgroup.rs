//! Figures of the run's own control group, or of its container's.

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::metric::Metric;
use super::readings::{CounterWindows, raise};
use super::rows::{Rows, each_row};
use super::summary::Quantity;
use super::windows::{Span, share_of_limit};
use crate::trace::RunRecord;
use crate::trace::run::GroupScope;

/// Sums up the `cgroup` table. What a group tells that others share is none of the run's figures.
///
/// The group's CPU time has that of processes too, which came and went between two samples, so its windows stand in for
/// those of the processes' clocks.
///
/// # Errors
/// The table cannot be read.
pub(super) fn group(table: impl Into<Rows>, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    let mut cpu = CounterWindows::new(Span::of(record), share_of_limit(record));
    let (mut peak, mut charged) = (None, None);
    let columns = ["cpu_ns", "memory_peak_bytes", "memory_bytes"].map(col);
    each_row(table, ["t_ns"], columns, |[t], [cpu_ns, peak_bytes, bytes]| {
        cpu.push(t, cpu_ns);
        raise(&mut peak, peak_bytes);
        raise(&mut charged, bytes);
    })?;
    let is_the_runs = |scope: Option<GroupScope>| scope.is_some_and(GroupScope::is_the_runs);
    if is_the_runs(record.cgroup.memory) {
        // Where the kernel keeps no peak, or one from before the run stands, the greatest reading is all there is: no bound.
        figures.set(Metric::MemoryGroupPeak, peak);
        figures.set(Metric::MemoryGroupRead, charged.filter(|_| peak.is_none()));
    }
    if is_the_runs(record.cgroup.cpu) {
        // Where there are none, those of the processes stay.
        figures.set_windows(Quantity::RunCpu, cpu.finish());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::testing::{SECOND, frame, record, ticks};
    use crate::trace::run::Groups;
    use crate::trace::tables::Cgroup;

    /// One of two cores busy; the peak of memory lies between two samples.
    fn measured(scope: GroupScope, peak: Option<i64>) -> Figures {
        let record =
            RunRecord { cgroup: Groups { cpu: Some(scope), memory: Some(scope), ..Groups::default() }, ..record() };
        let row = |t_ns: i64| Cgroup {
            t_ns,
            cpu_ns: Some(t_ns),
            memory_bytes: Some(if t_ns == 3 * SECOND { 600 } else { 400 }),
            memory_peak_bytes: peak.filter(|_| t_ns > 2 * SECOND),
            ..Cgroup::default()
        };
        let mut figures = Figures::default();
        group(frame(ticks(SECOND / 2, 10 * SECOND).map(row)), &record, &mut figures).unwrap();
        figures
    }

    #[test]
    fn a_group_of_the_runs_own_gives_its_peak_and_its_share_of_the_limit() {
        let figures = measured(GroupScope::Own, Some(700));
        assert_eq!(figures.values[&Metric::MemoryGroupPeak], 700.0);
        assert_eq!(figures.values.get(&Metric::MemoryGroupRead), None);
        let windows = figures.windows[&Quantity::RunCpu].windows();
        assert_eq!(windows.len(), 10);
        assert!(windows.values().all(|share| (share - 0.5).abs() < 1e-9), "{windows:?}");
    }

    #[test]
    fn without_a_peak_of_the_kernels_the_greatest_reading_is_told_and_called_so() {
        let values = measured(GroupScope::Container, None).values;
        assert_eq!((values.get(&Metric::MemoryGroupPeak), values[&Metric::MemoryGroupRead]), (None, 600.0));
    }

    #[test]
    fn a_group_that_others_share_is_not_the_runs() {
        let figures = measured(GroupScope::Shared, Some(700));
        assert!(figures.values.is_empty() && figures.windows.is_empty(), "{figures:?}");
    }
}

//! Figures of the run's process tree, from the samples of its processes.

use std::collections::BTreeMap;

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::readings::{greatest, sum};
use super::rows::each_row;
use super::summary::{Metric, Quantity};
use super::windows::{WINDOW_NS, Windows, longest_step_ns};
use crate::trace::RunRecord;

/// The tree while its samples are read.
struct Tree {
    longest_step_ns: i64,
    processes: BTreeMap<i64, Process>,
    cpu: Windows,
    rss: Windows,
    /// Change of the tree's number of threads at a moment.
    threads: Vec<(i64, i64)>,
    last_ns: i64,
}

/// What is kept of one process.
struct Process {
    first_ns: i64,
    last_ns: i64,
    cpu: (i64, f64),
    /// Since when resident memory is what it is.
    rss: Option<(i64, f64)>,
    /// When resident memory could no longer be read: the process had ended, or was a zombie.
    left_ns: Option<i64>,
    threads: Option<f64>,
    rss_peak: Option<f64>,
    virtual_peak: Option<f64>,
    read: Option<f64>,
    written: Option<f64>,
}

/// Sums up the `process_sample` table; `starts` tells when each process started (see [`starts`]).
///
/// The tree's CPU time is the sum over processes of their own CPU clocks. A clock is 0 when its process starts, is
/// interpolated between samples, and keeps its last value after the process has ended.
///
/// Resident memory keeps its value until the next sample, and the first sample stands for the time since the process
/// started. It is zero from the first sample that no longer has it (a last reading of the clock, or a zombie). Where
/// there is none such, a process has ended after its last sample if the table goes on for longer than an unchanged
/// process would stay silent; that sample then holds for one sampling interval.
///
/// # Errors
/// The table cannot be read.
pub(super) fn tree(
    samples: LazyFrame,
    starts: &BTreeMap<i64, i64>,
    record: &RunRecord,
    figures: &mut Figures,
) -> Result<()> {
    let mut tree = Tree::new(longest_step_ns(record.interval_ns));
    let columns = ["cpu_ns", "rss_bytes", "threads", "rss_peak_bytes", "virtual_bytes", "read_bytes", "written_bytes"];
    each_row(samples, ["t_ns", "process"], columns.map(col), |[t, process], values| {
        // The root exists, stopped, before the run starts, and the kernel tells starts in ticks.
        let start_ns = starts.get(&process).map_or(t, |start| t.min(*start).max(0));
        tree.push(t, process, start_ns, values);
    })?;
    tree.hold_to_the_end(record.interval_ns);
    tree.report(record, figures);
    Ok(())
}

/// When each process started, by its number, in nanoseconds since the run's start.
///
/// # Errors
/// The table cannot be read.
pub(super) fn starts(processes: LazyFrame) -> Result<BTreeMap<i64, i64>> {
    let mut starts = BTreeMap::new();
    each_row(processes, ["process"], [col("start_ns")], |[process], [start]| {
        starts.extend(start.map(|start| (process, start as i64)));
    })?;
    Ok(starts)
}

impl Tree {
    fn new(longest_step_ns: i64) -> Self {
        Self {
            longest_step_ns,
            processes: BTreeMap::new(),
            cpu: Windows::from_start(longest_step_ns),
            rss: Windows::from_start(longest_step_ns),
            threads: Vec::new(),
            last_ns: 0,
        }
    }

    fn push(&mut self, t_ns: i64, process: i64, start_ns: i64, values: [Option<f64>; 7]) {
        let [cpu, rss, threads, rss_peak, virtual_peak, read, written] = values;
        let process = self.processes.entry(process).or_insert_with(|| Process::new(t_ns, start_ns));
        self.last_ns = self.last_ns.max(t_ns);
        process.last_ns = t_ns;
        if let Some(cpu) = cpu {
            let (from_ns, before) = std::mem::replace(&mut process.cpu, (t_ns, cpu));
            if cpu >= before {
                self.cpu.add(from_ns, t_ns, cpu - before);
            } else {
                self.cpu.void(from_ns, t_ns);
            }
            self.cpu.reach(t_ns);
        }
        if let Some(rss) = rss {
            hold(&mut self.rss, process.rss.replace((t_ns, rss)).or(Some((start_ns, rss))), t_ns);
            self.rss.reach(t_ns);
            process.left_ns = None;
        } else if process.rss.is_some() {
            process.left_ns = process.left_ns.or(Some(t_ns));
        }
        if let Some(threads) = threads {
            let before = process.threads.replace(threads).unwrap_or_default();
            if threads != before {
                self.threads.push((t_ns, (threads - before) as i64));
            }
        }
        // The greatest value so far: a last reading of a process that is just ending must not take anything back.
        process.rss_peak = greatest([process.rss_peak, rss_peak].into_iter());
        process.virtual_peak = greatest([process.virtual_peak, virtual_peak].into_iter());
        process.read = greatest([process.read, read].into_iter());
        process.written = greatest([process.written, written].into_iter());
    }

    /// Lets the last readings of resident memory hold: to the end of the table where the process was still alive then.
    fn hold_to_the_end(&mut self, interval_ns: i64) {
        for process in self.processes.values() {
            let alive = self.last_ns.saturating_sub(process.last_ns) <= self.longest_step_ns;
            let silent_ns = if alive { self.last_ns } else { process.last_ns.saturating_add(interval_ns) };
            let until_ns = process.left_ns.unwrap_or(silent_ns).min(self.last_ns);
            hold(&mut self.rss, process.rss, until_ns);
        }
    }

    fn report(self, record: &RunRecord, figures: &mut Figures) {
        let over = |value: fn(&Process) -> Option<f64>| self.processes.values().map(value);
        figures.set(Metric::MemorySumOfPeaks, sum(over(|process| process.rss_peak)));
        figures.set(Metric::VirtualPeak, greatest(over(|process| process.virtual_peak)));
        figures.set(Metric::DiskRead, sum(over(|process| process.read)));
        figures.set(Metric::DiskWritten, sum(over(|process| process.written)));
        let gone = |process: &Process| process.last_ns.saturating_add(1);
        let lives = self.processes.values().flat_map(|process| [(process.first_ns, 1), (gone(process), -1)]).collect();
        figures.set(Metric::Processes, highest_sum(lives));
        let ends = self.processes.values().filter_map(|process| Some((gone(process), -(process.threads? as i64))));
        figures.set(Metric::Threads, highest_sum(self.threads.into_iter().chain(ends).collect()));
        let allowed = WINDOW_NS as f64 * record.limits.cpu_cores;
        let cpu = self.cpu.full().into_iter().map(|(k, used_ns)| (k, used_ns / allowed)).collect();
        figures.set_windows(Quantity::RunCpu, cpu);
        figures.set_windows(Quantity::MemoryRss, self.rss.full());
    }
}

impl Process {
    fn new(first_ns: i64, start_ns: i64) -> Self {
        Self {
            first_ns,
            last_ns: first_ns,
            cpu: (start_ns, 0.0),
            rss: None,
            left_ns: None,
            threads: None,
            rss_peak: None,
            virtual_peak: None,
            read: None,
            written: None,
        }
    }
}

/// A reading of resident memory held from its moment to another; nothing where there was no reading.
fn hold(rss: &mut Windows, reading: Option<(i64, f64)>, until_ns: i64) {
    if let Some((from_ns, value)) = reading {
        let span_s = until_ns.saturating_sub(from_ns) as f64 / WINDOW_NS as f64;
        rss.add(from_ns, until_ns, value * span_s);
    }
}

/// Highest running sum of changes, in the order of their moments.
fn highest_sum(mut changes: Vec<(i64, i64)>) -> Option<f64> {
    changes.sort_unstable();
    let sums = changes.iter().scan(0, |sum, (_, change)| {
        *sum += change;
        Some(*sum)
    });
    sums.max().map(|highest| highest as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::testing::{SECOND, frame, ns, record, ticks};
    use crate::trace::tables::{self, ProcessSample};

    fn measured(rows: Vec<ProcessSample>, starts: &[(i64, f64)], interval_ns: i64) -> Figures {
        let mut figures = Figures::default();
        let record = RunRecord { interval_ns, ..record() };
        let starts = starts.iter().map(|(process, start)| (*process, ns(*start))).collect();
        tree(frame(rows), &starts, &record, &mut figures).unwrap();
        figures
    }

    fn sample(t_ns: i64, process: i64) -> ProcessSample {
        ProcessSample { t_ns, process, ..ProcessSample::default() }
    }

    /// A root at half a core, and two workers that live from 2.03 s to 7.41 s and use one core each.
    fn forked(interval_ns: i64) -> Vec<ProcessSample> {
        let mut rows = Vec::new();
        for t in ticks(interval_ns, 10 * SECOND) {
            rows.push(ProcessSample { cpu_ns: Some(t / 2), rss_bytes: Some(100), threads: Some(3), ..sample(t, 0) });
            for worker in (1..=2).filter(|_| t >= ns(2.03) && t <= ns(7.41)) {
                let cpu_ns = Some(t - ns(2.03));
                rows.push(ProcessSample { cpu_ns, rss_bytes: Some(50), threads: Some(1), ..sample(t, worker) });
            }
        }
        rows
    }

    #[test]
    fn forked_workers_count_with_the_root_at_any_interval() {
        let starts = [(0, 0.0), (1, 2.03), (2, 2.03)];
        for interval in [0.1, 0.25] {
            let figures = measured(forked(ns(interval)), &starts, ns(interval));
            let cpu = &figures.windows[&Quantity::RunCpu];
            assert_eq!(cpu.len(), 10);
            for (k, share) in cpu {
                // By hand, in cores: the root's half, and for each worker the part of the window in which it lived.
                // What it used after its last sample is not seen, which is less than one interval of each.
                let lived = (*k as f64 + 1.0).min(7.41) - (*k as f64).max(2.03);
                let right = 0.5 + 2.0 * lived.max(0.0);
                let tolerance = if *k == 7 { 2.0 * interval } else { 1e-6 };
                assert!((share * 2.0 - right).abs() < tolerance, "{interval} s, window {k}: {share} {right}");
            }
            assert_eq!(figures.values[&Metric::Processes], 3.0);
            assert_eq!(figures.values[&Metric::Threads], 5.0);
        }
    }

    #[test]
    fn a_process_that_ends_half_way_leaves_the_sum_of_memory() {
        for interval in [0.1, 0.25] {
            let figures = measured(forked(ns(interval)), &[], ns(interval));
            let rss = &figures.windows[&Quantity::MemoryRss];
            assert!([0, 1, 8, 9].iter().all(|k| (rss[k] - 100.0).abs() < 1e-6), "{rss:?}");
            assert!((3..=6).all(|k| (rss[&k] - 200.0).abs() < 1e-6), "{rss:?}");
            // It lived for 0.41 s of the window; the last sample holds for one interval.
            assert!((rss[&7] - (100.0 + 100.0 * 0.41)).abs() <= 100.0 * interval, "{rss:?}");
        }
    }

    #[test]
    fn memory_ends_with_the_sample_that_no_longer_has_it() {
        let row = |t: f64, process, rss_bytes| ProcessSample { cpu_ns: Some(0), rss_bytes, ..sample(ns(t), process) };
        let mut rows: Vec<_> = (0..=30).map(|tick| row(f64::from(tick) * 0.1, 0, Some(100))).collect();
        rows.extend([row(1.0, 1, Some(10)), row(1.75, 1, None), row(2.75, 1, None)]);
        rows.sort_by_key(|row| row.t_ns);
        let rss = measured(rows, &[(1, 0.8)], ns(0.1)).windows.remove(&Quantity::MemoryRss).unwrap();
        // By hand: from its start at 0.8 s to 1.75 s.
        let right = [100.0 + 10.0 * 0.2, 100.0 + 10.0 * 0.75, 100.0];
        assert!(rss.values().zip(right).all(|(bytes, right)| (bytes - right).abs() < 1e-6), "{rss:?}");
    }

    #[test]
    fn a_process_that_does_not_change_is_written_rarely_and_stays_in_the_sums() {
        let mut rows = Vec::new();
        for t in ticks(ns(0.1), ns(9.5)) {
            rows.push(ProcessSample { cpu_ns: Some(t), rss_bytes: Some(10), ..sample(t, 0) });
            if t % ns(1.1) == 0 {
                rows.push(ProcessSample { cpu_ns: Some(7), rss_bytes: Some(1), threads: Some(1), ..sample(t, 1) });
            }
        }
        let figures = measured(rows, &[], ns(0.1));
        let rss = &figures.windows[&Quantity::MemoryRss];
        assert!(rss.len() == 9 && rss.values().all(|bytes| (bytes - 11.0).abs() < 1e-9), "{rss:?}");
        let cpu = &figures.windows[&Quantity::RunCpu];
        assert!(cpu.values().all(|share| (share - 0.5).abs() < 1e-6), "{cpu:?}");
    }

    #[test]
    fn short_workers_never_add_up_to_more_than_they_used() {
        // One after the other, each 0.2 s at one core, seen once or twice.
        let mut rows = Vec::new();
        let mut starts = Vec::new();
        for worker in 0..50_i64 {
            let start = worker * ns(0.2) + ns(0.03);
            starts.push((worker, start as f64 / 1e9));
            for t in ticks(ns(0.1), 10 * SECOND).filter(|t| (start..start + ns(0.2)).contains(t)) {
                rows.push(ProcessSample { cpu_ns: Some(t - start), ..sample(t, worker) });
            }
        }
        let cpu = measured(rows, &starts, ns(0.1)).windows.remove(&Quantity::RunCpu).unwrap();
        assert!(cpu.values().all(|share| *share > 0.3 && *share <= 0.5 + 1e-9), "{cpu:?}");
    }

    #[test]
    fn a_clock_that_steps_back_voids_its_windows_only() {
        let rows = ticks(ns(0.5), 5 * SECOND).map(|t| {
            let cpu = if t <= 2 * SECOND { t } else { t - ns(2.4) };
            ProcessSample { cpu_ns: Some(cpu), ..sample(t, 0) }
        });
        let cpu = measured(rows.collect(), &[], ns(0.5)).windows.remove(&Quantity::RunCpu).unwrap();
        assert_eq!(cpu.keys().copied().collect::<Vec<_>>(), [0, 1, 3, 4]);
        assert!(cpu.values().all(|share| (share - 0.5).abs() < 1e-9), "{cpu:?}");
    }

    #[test]
    fn a_gap_in_sampling_has_no_windows() {
        let rows = ticks(ns(0.1), 10 * SECOND)
            .filter(|t| *t <= 3 * SECOND || *t >= 6 * SECOND)
            .map(|t| ProcessSample { cpu_ns: Some(t), rss_bytes: Some(5), ..sample(t, 0) });
        let figures = measured(rows.collect(), &[], ns(0.1));
        for quantity in [Quantity::RunCpu, Quantity::MemoryRss] {
            let kept: Vec<i64> = figures.windows[&quantity].keys().copied().collect();
            assert_eq!(kept, [0, 1, 2, 6, 7, 8, 9], "{quantity:?}");
        }
    }

    #[test]
    fn peaks_and_bytes_are_the_greatest_so_far_summed_over_processes() {
        let row = |t: f64, process, peak, read| ProcessSample {
            rss_peak_bytes: Some(peak),
            virtual_bytes: Some(peak * 10),
            read_bytes: read,
            ..sample(ns(t), process)
        };
        // The last reading of process 0 is that of a process on its way out.
        let rows =
            vec![row(0.0, 0, 30, Some(5)), row(0.1, 0, 40, Some(9)), row(0.1, 1, 7, None), row(0.2, 0, 0, Some(0))];
        let values = measured(rows, &[], ns(0.1)).values;
        assert_eq!(values[&Metric::MemorySumOfPeaks], 47.0);
        assert_eq!(values[&Metric::VirtualPeak], 400.0);
        assert_eq!((values[&Metric::DiskRead], values.get(&Metric::DiskWritten)), (9.0, None));
    }

    #[test]
    fn processes_that_follow_each_other_are_not_there_at_once() {
        let rows = vec![sample(0, 0), sample(ns(0.1), 0), sample(ns(0.2), 1), sample(ns(0.3), 1)];
        let figures = measured(rows, &[], ns(0.1));
        assert_eq!(figures.values, BTreeMap::from([(Metric::Processes, 1.0)]));
        assert!(figures.windows.is_empty());
    }

    #[test]
    fn starts_are_read_from_the_identities() {
        let rows = [
            tables::Process { process: 0, start_ns: Some(0), ..tables::Process::default() },
            tables::Process { process: 1, start_ns: Some(50), ..tables::Process::default() },
            tables::Process { process: 2, ..tables::Process::default() },
        ];
        assert_eq!(starts(frame(rows)).unwrap(), BTreeMap::from([(0, 0), (1, 50)]));
    }

    #[test]
    fn an_empty_table_gives_nothing() {
        let figures = measured(Vec::new(), &[], ns(0.1));
        assert!(figures.values.is_empty() && figures.windows.is_empty());
    }
}

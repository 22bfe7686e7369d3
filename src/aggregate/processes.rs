//! Figures of the run's process tree, from the samples of its processes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::metric::Metric;
use super::peak::Peak;
use super::readings::{greatest, raise, sum};
use super::rows::{Rows, each_row};
use super::series::Series;
use super::summary::Quantity;
use super::windows::{Span, WINDOW_NS, Windows, share_of_limit};
use crate::trace::RunRecord;

/// The tree while its samples are read.
struct Tree {
    interval_ns: i64,
    longest_step_ns: i64,
    processes: BTreeMap<i64, Process>,
    cpu: Windows<Series>,
    rss: Windows<Series>,
    threads: Peak,
    alive: Peak,
    last_ns: i64,
    /// When those that had fallen silent were last looked for.
    looked_ns: i64,
}

/// What is kept of one process.
struct Process {
    start_ns: i64,
    last_ns: i64,
    cpu: (i64, f64),
    /// Since when resident memory is what it is.
    rss: Option<(i64, f64)>,
    /// Resident memory could no longer be read: the process had ended, or was a zombie.
    left: bool,
    threads: f64,
    /// When a row without any value said that the process was there no more, or in these rows.
    ended_ns: Option<i64>,
    /// How many processes the rows sum up; none when they have ended.
    processes: f64,
    /// The rows are those of `other`.
    is_sum: bool,
    rss_peak: Option<f64>,
    virtual_peak: Option<f64>,
    open_files: Option<f64>,
    read: Option<f64>,
    written: Option<f64>,
}

/// Sums up the `process_sample` table. What clients of a container used is left out (see [`clients`]).
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
pub(super) fn tree(samples: impl Into<Rows>, known: &Known, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    let mut tree = Tree::new(record);
    let columns = [
        "cpu_ns",
        "rss_bytes",
        "threads",
        "rss_peak_bytes",
        "virtual_bytes",
        "read_bytes",
        "written_bytes",
        "processes",
        "open_files",
    ];
    each_row(samples, ["t_ns", "process"], columns.map(col), |[t, process], values| {
        if known.clients.is_empty() || !known.clients.contains(&process) {
            tree.push(t, process, known, values);
        }
    })?;
    tree.hold_to_the_end();
    tree.report(known, figures);
    Ok(())
}

/// What the `process` table tells of the processes, by their numbers.
#[derive(Default)]
pub(super) struct Known {
    /// When each process started, or got rows of its own, in nanoseconds since the run's start.
    starts: BTreeMap<i64, i64>,
    /// The first number of each process: one that had left its rows for `other` comes back under another.
    first_numbers: BTreeMap<i64, i64>,
    clients: BTreeSet<i64>,
}

impl Known {
    /// The root exists, stopped, before the run starts, and the kernel tells starts in ticks.
    fn start_ns(&self, process: i64, first_ns: i64) -> i64 {
        self.starts.get(&process).map_or(first_ns, |start| first_ns.min(*start).max(0))
    }
}

/// Reads the `process` table.
///
/// # Errors
/// The table cannot be read.
pub(super) fn known(processes: LazyFrame) -> Result<Known> {
    let mut known = Known { clients: clients(processes.clone())?, ..Known::default() };
    let mut numbers: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    let columns = ["start_ns", "own_rows_since_ns", "pid"].map(col);
    each_row(processes, ["process"], columns, |[process], [start, since, pid]| {
        known.starts.extend(greatest([start, since].into_iter()).map(|start| (process, start as i64)));
        if let Some((pid, start)) = pid.zip(start) {
            let first = *numbers.entry((pid as i64, start as i64)).or_insert(process);
            known.first_numbers.insert(process, first);
        }
    })?;
    Ok(known)
}

/// Numbers of the processes that only call a container's: what they use is not the run's.
///
/// # Errors
/// The table cannot be read.
fn clients(processes: LazyFrame) -> Result<BTreeSet<i64>> {
    let with_role = |role: &'static str| {
        let mut numbers = BTreeSet::new();
        let rows = processes.clone().filter(col("role").eq(lit(role)));
        each_row(rows, ["process"], [], |[process], []| {
            numbers.insert(process);
        })?;
        Ok::<_, anyhow::Error>(numbers)
    };
    // A monitor's child is the container's from the moment on that it enters its group.
    Ok(&with_role("client")? - &with_role("container")?)
}

impl Tree {
    fn new(record: &RunRecord) -> Self {
        let span = Span::of(record);
        Self {
            interval_ns: record.interval_ns,
            longest_step_ns: span.longest_step_ns,
            processes: BTreeMap::new(),
            cpu: Windows::of_many(span, Series::times(share_of_limit(record))),
            rss: Windows::of_many(span, Series::new()),
            threads: Peak::default(),
            alive: Peak::default(),
            last_ns: 0,
            looked_ns: 0,
        }
    }

    fn push(&mut self, t_ns: i64, process: i64, known: &Known, values: [Option<f64>; 9]) {
        let [cpu, rss, threads, rss_peak, virtual_peak, read, written, sums_up, open_files] = values;
        let is_end = values.iter().all(Option::is_none);
        self.last_ns = self.last_ns.max(t_ns);
        self.end_silent();
        let process =
            self.processes.entry(process).or_insert_with(|| Process::new(t_ns, known.start_ns(process, t_ns)));
        process.last_ns = process.last_ns.max(t_ns);
        if let Some(cpu) = cpu {
            let (from_ns, before) = std::mem::replace(&mut process.cpu, (t_ns, cpu));
            if cpu >= before {
                self.cpu.add(from_ns, t_ns, [cpu - before]);
            } else {
                self.cpu.void(from_ns, t_ns);
            }
            self.cpu.reach(t_ns);
        }
        if let Some(rss) = rss {
            hold(&mut self.rss, process.rss.replace((t_ns, rss)).or(Some((process.start_ns, rss))), t_ns);
            self.rss.reach(t_ns);
            process.left = false;
        } else if !process.left {
            process.leave(&mut self.rss, t_ns);
        }
        process.ended_ns = is_end.then_some(t_ns);
        let threads = threads.unwrap_or(process.threads);
        self.threads.change(t_ns, threads - std::mem::replace(&mut process.threads, threads));
        let processes = sums_up.unwrap_or(if process.is_sum { process.processes } else { 1.0 });
        self.alive.change(t_ns, processes - std::mem::replace(&mut process.processes, processes));
        process.is_sum |= sums_up.is_some();
        process.raise([rss_peak, virtual_peak, open_files, read, written]);
    }

    /// Ends the processes that have been silent for longer than an unchanged one would be: no row told of their end.
    /// That is looked for once a second.
    fn end_silent(&mut self) {
        if self.last_ns < self.looked_ns.saturating_add(WINDOW_NS) {
            return;
        }
        self.looked_ns = self.last_ns;
        for process in self.processes.values_mut() {
            if self.last_ns.saturating_sub(process.last_ns) > self.longest_step_ns {
                process.leave(&mut self.rss, process.last_ns.saturating_add(self.interval_ns).min(self.last_ns));
                process.end(&mut self.threads, &mut self.alive);
            }
        }
        // Of a process that fell silent, the end is told no later than this.
        let settled_ns = self.last_ns.saturating_sub(self.longest_step_ns).saturating_sub(WINDOW_NS);
        self.threads.settle(settled_ns);
        self.alive.settle(settled_ns);
    }

    /// Lets the last readings of resident memory hold: to the end of the table where the process was still alive then.
    fn hold_to_the_end(&mut self) {
        for process in self.processes.values_mut() {
            let alive = self.last_ns.saturating_sub(process.last_ns) <= self.longest_step_ns;
            let silent_ns = if alive { self.last_ns } else { process.last_ns.saturating_add(self.interval_ns) };
            process.leave(&mut self.rss, silent_ns.min(self.last_ns));
            process.end(&mut self.threads, &mut self.alive);
        }
    }

    /// The sum of the highest resident memory of each process, also of one that had several numbers.
    fn sum_of_peaks(&self, known: &Known) -> Option<f64> {
        let mut peaks: BTreeMap<i64, Option<f64>> = BTreeMap::new();
        for (number, process) in &self.processes {
            let first = known.first_numbers.get(number).unwrap_or(number);
            let peak = peaks.entry(*first).or_default();
            *peak = greatest([*peak, process.rss_peak].into_iter());
        }
        sum(peaks.into_values())
    }

    fn report(self, known: &Known, figures: &mut Figures) {
        let over = |value: fn(&Process) -> Option<f64>| self.processes.values().map(value);
        figures.set(Metric::MemorySumOfPeaks, self.sum_of_peaks(known));
        figures.set(Metric::VirtualPeak, greatest(over(|process| process.virtual_peak)));
        figures.set(Metric::OpenFiles, greatest(over(|process| process.open_files)));
        figures.set(Metric::DiskRead, sum(over(|process| process.read)));
        figures.set(Metric::DiskWritten, sum(over(|process| process.written)));
        figures.set(Metric::Processes, self.alive.highest());
        figures.set(Metric::Threads, self.threads.highest());
        figures.set_windows(Quantity::RunCpu, self.cpu.finish());
        figures.set_windows(Quantity::MemoryRss, self.rss.finish());
    }
}

impl Process {
    /// Takes what a row tells of peaks and totals so far.
    fn raise(&mut self, [rss_peak, virtual_bytes, open_files, read, written]: [Option<f64>; 5]) {
        // The greatest value so far: a last reading of a process that is just ending must not take anything back.
        raise(&mut self.read, read);
        raise(&mut self.written, written);
        if self.is_sum {
            // Whoever leaves the sum takes its peak along; what many have together is no process's.
            self.rss_peak = rss_peak.or(self.rss_peak);
        } else {
            raise(&mut self.rss_peak, rss_peak);
            raise(&mut self.virtual_peak, virtual_bytes);
            raise(&mut self.open_files, open_files);
        }
    }

    /// Its resident memory held until now, and is nothing from here on, unless it is read again.
    fn leave(&mut self, rss: &mut Windows<Series>, until_ns: i64) {
        if self.rss.is_some() && !self.left {
            hold(rss, self.rss, until_ns);
            self.rss = self.rss.map(|(from_ns, value)| (from_ns.max(until_ns), value));
            self.left = true;
        }
    }

    /// It is no more, or not in these rows.
    fn end(&mut self, threads: &mut Peak, alive: &mut Peak) {
        let t_ns = self.ended_ns.unwrap_or(self.last_ns.saturating_add(1));
        threads.change(t_ns, -std::mem::take(&mut self.threads));
        alive.change(t_ns, -std::mem::take(&mut self.processes));
    }

    fn new(first_ns: i64, start_ns: i64) -> Self {
        Self {
            start_ns,
            last_ns: first_ns,
            cpu: (start_ns, 0.0),
            rss: None,
            left: false,
            threads: 0.0,
            ended_ns: None,
            processes: 0.0,
            is_sum: false,
            rss_peak: None,
            virtual_peak: None,
            open_files: None,
            read: None,
            written: None,
        }
    }
}

/// A reading of resident memory held from its moment to another; nothing where there was no reading.
fn hold(rss: &mut Windows<Series>, reading: Option<(i64, f64)>, until_ns: i64) {
    if let Some((from_ns, value)) = reading {
        let span_s = until_ns.saturating_sub(from_ns) as f64 / WINDOW_NS as f64;
        rss.add(from_ns, until_ns, [value * span_s]);
    }
}

#[cfg(test)]
mod tests;

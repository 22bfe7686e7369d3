//! What else runs on the machine: programs that are neither of the run nor the recorder, so that a report can tell who
//! disturbed a run and what runs when it idles.
//!
//! Looking at all of /proc costs about 10 µs a process, so it is done on a thread of its own, at the run's start and end
//! and in between as rarely as its budget asks.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use super::BUDGET;
use super::kernel::{self, KernelUnits, Usage};
use super::process::TreeNow;
use crate::record::clock::{RunClock, boottime_ns, monotonic_ns, thread_cpu_ns};
use crate::record::mask::Mask;
use crate::trace::Journal;
use crate::trace::run::{Coverage, CoverageState};
use crate::trace::table::Table;
use crate::trace::tables::Foreign;

/// Looked at this often where the budget allows.
const EVERY: Duration = Duration::from_secs(5);
/// A program is told of from when it used this share of one core between two looks.
const CPU_SHARE: f64 = 0.01;
/// Or held this share of the machine's memory.
const MEMORY_SHARE: f64 = 0.01;
/// Numbers within the run: all together, the kernel's threads, and then programs as they are told of.
const ALL: i64 = 0;
const KERNEL: i64 = 1;
const FIRST_PROGRAM: i64 = 2;
/// What the kernel's threads are called together.
const KERNEL_NAME: &str = "kernel";
/// No chain of parents is longer; a longer one is a circle, from two looks at a reused pid.
const LONGEST_CHAIN: usize = 1000;

/// Looks at all processes until told to stop.
pub struct ForeignProbe {
    proc: PathBuf,
    clock: RunClock,
    mask: Mask,
    units: KernelUnits,
    memory_total_bytes: i64,
    recorder_pid: i32,
    /// Nanoseconds after boot at which the run started.
    start_boottime_ns: i64,
    known: HashMap<i32, Known>,
    next_number: i64,
    kernel_cpu_ns: i64,
    kernel_told: bool,
    last_ns: Option<i64>,
    looks: u64,
    /// Processes that the kernel would not tell of, at the last look.
    hidden: usize,
    sees_kernel: bool,
    failure: Option<std::io::Error>,
}

/// A process that was seen.
struct Known {
    start_ticks: i64,
    /// CPU time before the run, or before it was first seen.
    base_ticks: i64,
    cpu_ns: i64,
    /// Once it has one it is told of at every look.
    number: Option<i64>,
}

impl ForeignProbe {
    /// `proc` is `/proc`, or a folder that looks like it.
    pub fn new(proc: &Path, clock: RunClock, mask: Mask, memory_total_bytes: i64, units: KernelUnits) -> Self {
        Self {
            proc: proc.to_owned(),
            clock,
            mask,
            units,
            memory_total_bytes,
            recorder_pid: nix::unistd::Pid::this().as_raw(),
            start_boottime_ns: boottime_ns() - clock.since_start(monotonic_ns()),
            known: HashMap::new(),
            next_number: FIRST_PROGRAM,
            kernel_cpu_ns: 0,
            kernel_told: false,
            last_ns: None,
            looks: 0,
            hidden: 0,
            sees_kernel: false,
            failure: None,
        }
    }

    /// Looks now, again and again, and once more when `stop` (which waits as long as it is given) says so; returns the
    /// ledger's line.
    pub fn run(mut self, tree: &Mutex<TreeNow>, journal: &Journal, stop: impl Fn(Duration) -> bool) -> Vec<Coverage> {
        loop {
            let before = thread_cpu_ns();
            self.look(tree, self.clock.now_ns(), journal);
            let cost_ns = (thread_cpu_ns() - before).unsigned_abs() as f64;
            if stop(EVERY.max(Duration::from_nanos((cost_ns / BUDGET) as u64))) {
                break;
            }
        }
        self.look(tree, self.clock.now_ns(), journal);
        vec![self.coverage()]
    }

    fn look(&mut self, tree: &Mutex<TreeNow>, t_ns: i64, journal: &Journal) {
        let Some(mut present) = self.processes() else { return };
        let of_run = tree.lock().map(|tree| tree.pids.clone()).unwrap_or_default();
        let ours: Vec<i32> = present.keys().filter(|pid| self.is_ours(**pid, &present, &of_run)).copied().collect();
        ours.iter().for_each(|pid| drop(present.remove(pid)));
        let threads = present.values().filter(|usage| usage.is_kernel_thread).count();
        self.sees_kernel |= threads > 0;
        let period_ns = self.last_ns.map(|last| t_ns - last);
        let all = count(present.len() - threads);
        journal.append(Foreign { t_ns, foreign: ALL, processes: Some(all), ..Foreign::default() });
        let mut kernel_ns = 0;
        for (pid, usage) in &present {
            let used_ns = self.update(*pid, usage);
            if usage.is_kernel_thread {
                kernel_ns += used_ns;
            } else if self.is_worth_telling(*pid, usage, used_ns, period_ns) {
                self.tell(*pid, usage, t_ns, journal);
            }
        }
        self.tell_kernel(kernel_ns, period_ns, threads, t_ns, journal);
        self.known.retain(|pid, _| present.contains_key(pid));
        self.last_ns = Some(t_ns);
        self.looks += 1;
    }

    /// Everybody whom the kernel tells of.
    fn processes(&mut self) -> Option<HashMap<i32, Usage>> {
        let entries = match std::fs::read_dir(&self.proc) {
            Ok(entries) => entries,
            Err(error) => {
                self.failure = Some(error);
                return None;
            }
        };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let (mut present, mut hidden) = (HashMap::new(), 0);
        for pid in pids {
            match std::fs::read(self.proc.join(pid.to_string()).join("stat")) {
                Ok(text) => present.extend(kernel::usage(&String::from_utf8_lossy(&text)).map(|usage| (pid, usage))),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => hidden += 1,
                // Ended since it was listed.
                Err(_) => {}
            }
        }
        self.hidden = hidden;
        Some(present)
    }

    /// Whether a process is of the run or the recorder: at the last tick it was in the tree, or it descends from the
    /// recorder, to whom orphans of the tree are handed.
    fn is_ours(&self, pid: i32, present: &HashMap<i32, Usage>, of_run: &[i32]) -> bool {
        let parent = |pid: &i32| present.get(pid).map(|usage| usage.identity.parent_pid);
        let mut line = std::iter::successors(Some(pid), parent).take(LONGEST_CHAIN);
        line.any(|pid| pid == self.recorder_pid || of_run.contains(&pid))
    }

    /// Keeps what a process has used; returns what that is more than at the last look.
    fn update(&mut self, pid: i32, usage: &Usage) -> i64 {
        let (tick_ns, start_ticks) = (self.units.tick_ns, usage.identity.start_ticks);
        let within_run = start_ticks * tick_ns >= self.start_boottime_ns;
        let base_ticks = if within_run { 0 } else { usage.cpu_ticks };
        let known = || Known { start_ticks, base_ticks, cpu_ns: 0, number: None };
        let entry = self.known.entry(pid).or_insert_with(known);
        if entry.start_ticks != start_ticks {
            *entry = known();
        }
        let cpu_ns = ((usage.cpu_ticks - entry.base_ticks) * tick_ns).max(entry.cpu_ns);
        let used_ns = cpu_ns - entry.cpu_ns;
        entry.cpu_ns = cpu_ns;
        used_ns
    }

    fn is_worth_telling(&self, pid: i32, usage: &Usage, used_ns: i64, period_ns: Option<i64>) -> bool {
        let rss_bytes = (usage.rss_pages * self.units.page_bytes) as f64;
        self.known.get(&pid).is_some_and(|known| known.number.is_some())
            || is_busy(used_ns, period_ns)
            || rss_bytes > MEMORY_SHARE * self.memory_total_bytes as f64
    }

    fn tell(&mut self, pid: i32, usage: &Usage, t_ns: i64, journal: &Journal) {
        let Some(known) = self.known.get_mut(&pid) else { return };
        let foreign = *known.number.get_or_insert_with(|| {
            self.next_number += 1;
            self.next_number - 1
        });
        journal.append(Foreign {
            t_ns,
            foreign,
            name: Some(self.mask.process_name(&usage.identity.name)),
            cpu_ns: Some(known.cpu_ns),
            rss_bytes: Some(usage.rss_pages * self.units.page_bytes),
            processes: Some(1),
        });
    }

    /// The kernel's threads are many and come and go: they are one program.
    fn tell_kernel(&mut self, used_ns: i64, period_ns: Option<i64>, threads: usize, t_ns: i64, journal: &Journal) {
        self.kernel_cpu_ns += used_ns;
        self.kernel_told |= is_busy(used_ns, period_ns);
        if self.kernel_told {
            journal.append(Foreign {
                t_ns,
                foreign: KERNEL,
                name: Some(KERNEL_NAME.to_owned()),
                cpu_ns: Some(self.kernel_cpu_ns),
                rss_bytes: None,
                processes: Some(count(threads)),
            });
        }
    }

    fn coverage(&self) -> Coverage {
        let (state, reason) = match &self.failure {
            Some(error) if self.looks == 0 => (crate::record::source::state_of(error), error.to_string()),
            Some(error) => (CoverageState::Lost, error.to_string()),
            None => (CoverageState::Measured, self.limits_of_view()),
        };
        line(state, reason)
    }

    /// The ledger's line where there was no looking at all.
    pub fn lost(reason: &str) -> Vec<Coverage> {
        vec![line(CoverageState::Lost, reason.to_owned())]
    }

    fn limits_of_view(&self) -> String {
        if self.hidden > 0 {
            return format!(
                "{} processes of other users are hidden from the recorder and are not counted",
                self.hidden
            );
        }
        // A container sees its own processes; what others use shows in the CPU time of the host alone.
        let container = "only processes of the recorder's own container (PID namespace) can be seen";
        if self.sees_kernel { String::new() } else { container.to_owned() }
    }
}

fn is_busy(used_ns: i64, period_ns: Option<i64>) -> bool {
    period_ns.is_some_and(|period_ns| used_ns as f64 > CPU_SHARE * period_ns as f64)
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn line(state: CoverageState, reason: String) -> Coverage {
    Coverage { metric: Foreign::NAME.to_owned(), state, source: "/proc/PID/stat".to_owned(), reason }
}

#[cfg(test)]
mod tests;

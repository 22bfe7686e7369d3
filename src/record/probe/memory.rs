//! Proportional memory (PSS) of the tree, on a thread of its own: the kernel walks page tables to answer, which takes
//! 1 ms for 50 MB and 60 ms for 4 GB.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

use super::process::TreeNow;
use super::{BUDGET, kernel};
use crate::record::clock::{RunClock, thread_cpu_ns};
use crate::record::source::{UNREAD, has_vanished, standing};
use crate::trace::Journal;
use crate::trace::run::{Coverage, CoverageState};
use crate::trace::table::Table;
use crate::trace::tables::{Memory, ProcessMemory};

const SOURCE: &str = "/proc/PID/smaps_rollup";

/// Read at least this often where the budget allows.
const AT_LEAST_NS: i64 = 1_000_000_000;
/// And whenever the tree's resident memory has moved by this share.
const MOVED: f64 = 0.02;

/// Where the ticks put the tree for the probe, which sleeps until a reading is due.
#[derive(Debug, Default)]
pub struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The tree that is to be read next.
    tree: Option<TreeNow>,
    stopped: bool,
    /// The last reading.
    last: Option<(i64, i64)>,
    /// Before this moment the budget allows none.
    allowed_ns: i64,
}

impl State {
    fn is_due(&self, t_ns: i64, tree: &TreeNow) -> bool {
        let due = self.last.is_none_or(|(last_ns, last_rss)| {
            let moved = (tree.rss_bytes - last_rss).abs() as f64 > MOVED * last_rss as f64;
            moved || t_ns - last_ns >= AT_LEAST_NS
        });
        due && t_ns >= self.allowed_ns && !tree.pids.is_empty()
    }
}

impl Inbox {
    /// Wakes the probe if a reading is due. Never waits for one.
    pub fn offer(&self, t_ns: i64, tree: &TreeNow) {
        let mut state = self.lock();
        if state.is_due(t_ns, tree) {
            state.last = Some((t_ns, tree.rss_bytes));
            // Until it is known what this one costs.
            state.allowed_ns = i64::MAX;
            state.tree = Some(tree.clone());
            self.changed.notify_one();
        }
    }

    /// Lets [`MemoryProbe::run`] return.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_one();
    }

    fn take(&self) -> Option<TreeNow> {
        let waiting = |state: &mut State| state.tree.is_none() && !state.stopped;
        let state = self.changed.wait_while(self.lock(), waiting);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.tree.take().filter(|_| !state.stopped)
    }

    fn allow_after(&self, t_ns: i64) {
        self.lock().allowed_ns = t_ns;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads PSS until told to stop.
pub struct MemoryProbe {
    proc: PathBuf,
    clock: RunClock,
    text: Vec<u8>,
    readings: u64,
    /// Of single processes.
    rows: u64,
    /// Readings of the tree that were torn: a process ended while others were being read.
    torn: u64,
    failures: u64,
    error: Option<io::Error>,
    /// Readings of processes that told proportional swap, and that did not.
    swap_told: u64,
    swap_untold: u64,
}

impl MemoryProbe {
    pub fn new(proc: &Path, clock: RunClock) -> Self {
        Self {
            proc: proc.to_owned(),
            clock,
            text: Vec::new(),
            readings: 0,
            rows: 0,
            torn: 0,
            failures: 0,
            error: None,
            swap_told: 0,
            swap_untold: 0,
        }
    }

    /// Reads the trees that are put into the inbox until it is stopped; returns the ledger's lines and the CPU time that
    /// was used.
    pub fn run(mut self, inbox: &Inbox, journal: &Journal) -> (Vec<Coverage>, i64) {
        let begun_ns = thread_cpu_ns();
        while let Some(tree) = inbox.take() {
            let (now_ns, before_ns) = (self.clock.now_ns(), thread_cpu_ns());
            self.read_tree(&tree, now_ns, journal);
            let cost_ns = (thread_cpu_ns() - before_ns) as f64;
            inbox.allow_after(now_ns + (cost_ns / BUDGET) as i64);
        }
        (self.coverage(), thread_cpu_ns() - begun_ns)
    }

    /// There is no sum over the tree where a living process could not be read, for a part is no sum; nor where one that
    /// was read has ended since: those that shared pages with it and were read after its end have its part of them too.
    fn read_tree(&mut self, tree: &TreeNow, t_ns: i64, journal: &Journal) {
        let (mut sum, mut read_pids, mut whole) = (Proportional::NOTHING, Vec::new(), true);
        let mut by_process: BTreeMap<i64, Proportional> = BTreeMap::new();
        for (pid, process) in tree.pids.iter().zip(&tree.processes) {
            match self.read_process(*pid) {
                Ok(Some(read)) => {
                    sum.add(read);
                    by_process.entry(*process).or_insert(Proportional::NOTHING).add(read);
                    *(if read.swap_bytes.is_some() { &mut self.swap_told } else { &mut self.swap_untold }) += 1;
                    read_pids.push(*pid);
                }
                // Ended since the last walk: it holds no memory.
                Ok(None) => {}
                Err(error) => {
                    whole = false;
                    self.error = Some(error);
                }
            }
        }
        // Of one alone nobody's end can shift anything.
        let is_torn = read_pids.len() > 1 && read_pids.iter().any(|pid| !self.holds_memory(*pid));
        let is_sum = |process: &i64| tree.processes.iter().filter(|other| *other == process).count() > 1;
        for (process, read) in by_process {
            if is_torn && is_sum(&process) {
                continue;
            }
            self.rows += 1;
            let (pss_bytes, uss_bytes, swap_pss_bytes) = read.columns();
            journal.append(ProcessMemory { t_ns, process, pss_bytes, uss_bytes, swap_pss_bytes });
        }
        if !whole {
            self.failures += 1;
        } else if is_torn {
            self.torn += 1;
        } else if let Some(count) = i64::try_from(read_pids.len()).ok().filter(|count| *count > 0) {
            let (pss_bytes, uss_bytes, swap_pss_bytes) = sum.columns();
            journal.append(Memory { t_ns, pss_bytes, uss_bytes, swap_pss_bytes, processes: Some(count) });
            self.readings += 1;
        }
    }

    /// Whether a process is still there and has pages; costs next to nothing.
    fn holds_memory(&self, pid: i32) -> bool {
        let pages = std::fs::read_to_string(self.proc.join(pid.to_string()).join("statm"));
        pages.is_ok_and(|pages| kernel::memory_pages(&pages).is_some_and(|(size, _)| size > 0))
    }

    fn read_process(&mut self, pid: i32) -> io::Result<Option<Proportional>> {
        self.text.clear();
        let folder = self.proc.join(pid.to_string());
        let path = folder.join("smaps_rollup");
        match File::open(path).and_then(|mut file| file.read_to_end(&mut self.text)) {
            // A zombie's.
            Ok(0) => Ok(None),
            Ok(_) => proportional(&String::from_utf8_lossy(&self.text)).map(Some),
            // Kernels before 4.14, and some that emulate Linux, have no such file of a process that is there.
            Err(error) if error.kind() == ErrorKind::NotFound && self.holds_memory(pid) => {
                Err(io::Error::new(ErrorKind::Unsupported, format!("the kernel has no {SOURCE}")))
            }
            Err(error) if has_vanished(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn coverage(&self) -> Vec<Coverage> {
        let torn = format!(
            "{} of {} readings were dropped: a process ended while others that may have shared its pages were being read",
            self.torn,
            self.torn + self.readings + self.failures
        );
        let lines = [(Memory::NAME, self.readings), (ProcessMemory::NAME, self.rows)].map(|(table, readings)| {
            let unread = if self.torn > 0 { &torn } else { UNREAD };
            let (state, reason) = standing(readings, self.failures, self.error.as_ref(), unread);
            let is_told = state == CoverageState::Measured && self.torn > 0;
            line(table.to_owned(), state, if is_told { &torn } else { &reason })
        });
        let mut lines = lines.to_vec();
        if self.swap_untold > 0 {
            let state = if self.swap_told == 0 { CoverageState::Unsupported } else { CoverageState::Lost };
            let (untold, read) = (self.swap_untold, self.swap_untold + self.swap_told);
            let reason = format!("{untold} of {read} readings of processes had no line SwapPss");
            lines.extend(TABLES.map(|table| line(format!("{table}.swap_pss_bytes"), state, &reason)));
        }
        lines
    }

    /// The ledger's lines where nothing was read at all.
    pub fn lost(reason: &str) -> Vec<Coverage> {
        TABLES.map(|table| line(table.to_owned(), CoverageState::Lost, reason)).to_vec()
    }
}

const TABLES: [&str; 2] = [Memory::NAME, ProcessMemory::NAME];

fn line(metric: String, state: CoverageState, reason: &str) -> Coverage {
    Coverage { metric, state, source: SOURCE.to_owned(), reason: reason.to_owned() }
}

/// What a process holds, shared pages by its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Proportional {
    pss_bytes: i64,
    uss_bytes: i64,
    /// `None` where the kernel does not tell, be it of one process of a sum.
    swap_bytes: Option<i64>,
}

impl Proportional {
    const NOTHING: Self = Self { pss_bytes: 0, uss_bytes: 0, swap_bytes: Some(0) };

    fn add(&mut self, other: Self) {
        self.pss_bytes += other.pss_bytes;
        self.uss_bytes += other.uss_bytes;
        self.swap_bytes = self.swap_bytes.zip(other.swap_bytes).map(|(sum, more)| sum + more);
    }

    fn columns(self) -> (Option<i64>, Option<i64>, Option<i64>) {
        (Some(self.pss_bytes), Some(self.uss_bytes), self.swap_bytes)
    }
}

/// Parses /proc/PID/smaps_rollup.
///
/// # Errors
/// The kernel tells of the process, but not its share of pages (emulated kernels leave lines out).
fn proportional(text: &str) -> io::Result<Proportional> {
    let bytes = |key: &str| {
        let missing = || io::Error::new(ErrorKind::Unsupported, format!("{SOURCE} has no line {key}"));
        kernel::keyed_value(text, key).ok_or_else(missing)
    };
    Ok(Proportional {
        pss_bytes: bytes("Pss")?,
        uss_bytes: bytes("Private_Clean")? + bytes("Private_Dirty")?,
        swap_bytes: bytes("SwapPss").ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(rss_bytes: i64) -> TreeNow {
        TreeNow { pids: vec![1], processes: vec![0], rss_bytes, ..TreeNow::default() }
    }

    #[test]
    fn a_reading_is_due_each_second_and_when_memory_moved_within_the_budget() {
        let inbox = Inbox::default();
        let due = |t_ns, rss| {
            inbox.offer(t_ns, &tree(rss));
            inbox.lock().tree.take().is_some()
        };
        assert!(due(0, 1000), "the first");
        assert!(!due(2 * AT_LEAST_NS, 1000), "while one is under way");
        inbox.allow_after(AT_LEAST_NS / 2);
        assert!(!due(AT_LEAST_NS / 4, 2000), "the budget is used up");
        assert!(!due(AT_LEAST_NS - 1, 1020), "nothing has moved");
        assert!(due(AT_LEAST_NS - 1, 1021), "memory has moved by more than 2 %");
        inbox.allow_after(0);
        assert!(!due(AT_LEAST_NS, 1021), "a second from the last one has not passed");
        assert!(due(2 * AT_LEAST_NS, 1021), "a second has passed");
    }

    #[test]
    fn what_is_stopped_reads_no_more() {
        let inbox = Inbox::default();
        inbox.offer(0, &tree(1));
        inbox.stop();
        assert!(inbox.take().is_none());
    }

    #[test]
    fn pages_of_its_own_are_those_that_are_private() {
        let text = "5571a-7ffd [rollup]\nRss: 60 kB\nPss: 40 kB\nPss_Dirty: 9 kB\nShared_Clean: 20 kB\nPrivate_Clean: 10 kB\n\
                    Private_Dirty: 15 kB\nSwap: 8 kB\nSwapPss: 4 kB\n";
        let read = proportional(text).unwrap();
        assert_eq!((read.pss_bytes, read.uss_bytes, read.swap_bytes), (40 << 10, 25 << 10, Some(4 << 10)));
    }

    /// Reads one tree of processes that have these files, and tells what was written and what the ledger says.
    fn read(files: &[&str]) -> (Vec<Memory>, Vec<Coverage>) {
        let folder = tempfile::tempdir().unwrap();
        let pids: Vec<i32> = (1..).take(files.len()).collect();
        for (pid, text) in pids.iter().zip(files) {
            let process = folder.path().join(pid.to_string());
            std::fs::create_dir(&process).unwrap();
            std::fs::write(process.join("statm"), "10 5 0 0 0 0 0\n").unwrap();
            match *text {
                NO_FILE => {}
                // It ends once it was read.
                ENDING => {
                    std::fs::write(process.join("smaps_rollup"), WITH_SWAP).unwrap();
                    std::fs::write(process.join("statm"), "0 0 0 0 0 0 0\n").unwrap();
                }
                text => std::fs::write(process.join("smaps_rollup"), text).unwrap(),
            }
        }
        let journal = Journal::create(&folder.path().join("journal")).unwrap();
        let mut probe = MemoryProbe::new(folder.path(), RunClock::start());
        let processes = pids.iter().map(|pid| i64::from(*pid)).collect();
        probe.read_tree(&TreeNow { pids, processes, ..TreeNow::default() }, 1, &journal);
        journal.flush();
        let mut rows = Vec::new();
        let of_tree = |row| {
            if let crate::trace::Row::Memory(row) = row {
                rows.push(row);
            }
            Ok(())
        };
        crate::trace::journal::read(&folder.path().join("journal"), of_tree).unwrap();
        (rows, probe.coverage())
    }

    fn state(lines: &[Coverage], metric: &str) -> Option<CoverageState> {
        lines.iter().find(|line| line.metric == metric).map(|line| line.state)
    }

    const NO_FILE: &str = "no file";
    const ENDING: &str = "ending";
    const WITHOUT_SWAP: &str = "Pss: 40 kB\nPrivate_Clean: 10 kB\nPrivate_Dirty: 15 kB\n";
    const WITH_SWAP: &str = "Pss: 40 kB\nPrivate_Clean: 10 kB\nPrivate_Dirty: 15 kB\nSwapPss: 4 kB\n";

    #[test]
    fn swap_that_the_kernel_does_not_tell_is_absent_and_has_a_line() {
        let (rows, ledger) = read(&[WITHOUT_SWAP, WITHOUT_SWAP]);
        assert_eq!((rows[0].pss_bytes, rows[0].swap_pss_bytes, rows[0].processes), (Some(80 << 10), None, Some(2)));
        assert_eq!(state(&ledger, "memory"), Some(CoverageState::Measured));
        assert_eq!(state(&ledger, "memory.swap_pss_bytes"), Some(CoverageState::Unsupported));
        let (rows, ledger) = read(&[WITH_SWAP, WITHOUT_SWAP]);
        assert_eq!(rows[0].swap_pss_bytes, None, "a part is no sum");
        assert_eq!(state(&ledger, "process_memory.swap_pss_bytes"), Some(CoverageState::Lost));
        let (rows, ledger) = read(&[WITH_SWAP, ""]);
        assert_eq!((rows[0].swap_pss_bytes, rows[0].processes), (Some(4 << 10), Some(1)), "the other is a zombie");
        assert_eq!(state(&ledger, "memory.swap_pss_bytes"), None);
    }

    #[test]
    fn a_sum_is_dropped_where_one_that_was_read_has_ended_before_the_last() {
        let (rows, ledger) = read(&[ENDING, WITH_SWAP]);
        assert_eq!(rows, []);
        assert_eq!(state(&ledger, "memory"), Some(CoverageState::Lost));
        assert_eq!(state(&ledger, "process_memory"), Some(CoverageState::Measured));
        assert!(ledger[0].reason.starts_with("1 of 1 readings were dropped"), "{}", ledger[0].reason);
        let (rows, _) = read(&[ENDING]);
        assert_eq!(rows[0].pss_bytes, Some(40 << 10), "nobody shared with it");
    }

    #[test]
    fn a_kernel_without_the_file_is_told_from_processes_that_have_ended() {
        let (rows, ledger) = read(&[NO_FILE, NO_FILE]);
        assert_eq!(rows, []);
        assert_eq!(state(&ledger, "memory"), Some(CoverageState::Unsupported));
        assert!(ledger[0].reason.contains("the kernel has no /proc/PID/smaps_rollup"), "{}", ledger[0].reason);
    }

    #[test]
    fn a_kernel_that_tells_no_shares_is_told_from_a_process_that_has_ended() {
        let (rows, ledger) = read(&["Rss: 60 kB\n"]);
        assert_eq!(rows, []);
        assert_eq!(state(&ledger, "memory"), Some(CoverageState::Unsupported));
        assert!(ledger[0].reason.contains("has no line Pss"), "{}", ledger[0].reason);
    }
}

//! Proportional memory (PSS) of the tree, on a thread of its own: the kernel walks page tables to answer, which takes
//! 1 ms for 50 MB and 60 ms for 4 GB.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

use super::kernel;
use super::process::TreeNow;
use crate::record::clock::{RunClock, thread_cpu_ns};
use crate::record::source::{UNREAD, standing};
use crate::trace::Journal;
use crate::trace::run::{Coverage, CoverageState};
use crate::trace::tables::{Memory, ProcessMemory};

/// Share of one core that reading PSS may take.
const BUDGET: f64 = 0.005;
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
    failures: u64,
    error: Option<std::io::Error>,
}

impl MemoryProbe {
    pub fn new(proc: &Path, clock: RunClock) -> Self {
        Self { proc: proc.to_owned(), clock, text: Vec::new(), readings: 0, failures: 0, error: None }
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

    /// The sums over the tree are null where a living process could not be read, for a part is no sum.
    fn read_tree(&mut self, tree: &TreeNow, t_ns: i64, journal: &Journal) {
        let (mut sum, mut count, mut whole) = (Proportional::default(), 0, true);
        let mut by_process: BTreeMap<i64, Proportional> = BTreeMap::new();
        for (pid, process) in tree.pids.iter().zip(&tree.processes) {
            match self.read_process(*pid) {
                Ok(Some(read)) => {
                    sum.add(read);
                    by_process.entry(*process).or_default().add(read);
                    count += 1;
                }
                // Ended since the last walk: it holds no memory.
                Ok(None) => {}
                Err(error) => {
                    whole = false;
                    self.error = Some(error);
                }
            }
        }
        for (process, read) in by_process {
            let (pss_bytes, uss_bytes, swap_pss_bytes) = read.columns();
            journal.append(ProcessMemory { t_ns, process, pss_bytes, uss_bytes, swap_pss_bytes });
        }
        if !whole {
            self.failures += 1;
        } else if count > 0 {
            let (pss_bytes, uss_bytes, swap_pss_bytes) = sum.columns();
            journal.append(Memory { t_ns, pss_bytes, uss_bytes, swap_pss_bytes, processes: Some(count) });
            self.readings += 1;
        }
    }

    fn read_process(&mut self, pid: i32) -> std::io::Result<Option<Proportional>> {
        self.text.clear();
        let path = self.proc.join(pid.to_string()).join("smaps_rollup");
        match File::open(path).and_then(|mut file| file.read_to_end(&mut self.text)) {
            Ok(_) => Ok(proportional(&String::from_utf8_lossy(&self.text))),
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) || error.kind() == ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn coverage(&self) -> Vec<Coverage> {
        let (state, reason) = standing(self.readings, self.failures, self.error.as_ref(), UNREAD);
        let line = |metric: &str, state: CoverageState| Coverage {
            metric: metric.to_owned(),
            state,
            source: "/proc/PID/smaps_rollup".to_owned(),
            reason: reason.clone(),
        };
        vec![line("memory", state), line("process_memory", state)]
    }
}

/// What a process holds, shared pages by its share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Proportional {
    pss_bytes: i64,
    uss_bytes: i64,
    swap_bytes: i64,
}

impl Proportional {
    fn add(&mut self, other: Self) {
        self.pss_bytes += other.pss_bytes;
        self.uss_bytes += other.uss_bytes;
        self.swap_bytes += other.swap_bytes;
    }

    fn columns(self) -> (Option<i64>, Option<i64>, Option<i64>) {
        (Some(self.pss_bytes), Some(self.uss_bytes), Some(self.swap_bytes))
    }
}

/// Parses /proc/PID/smaps_rollup; `None` for a zombie's, which is empty.
fn proportional(text: &str) -> Option<Proportional> {
    let bytes = |key| kernel::keyed_value(text, key);
    Some(Proportional {
        pss_bytes: bytes("Pss")?,
        uss_bytes: bytes("Private_Clean")? + bytes("Private_Dirty")?,
        swap_bytes: bytes("SwapPss").unwrap_or(0),
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
        assert_eq!((read.pss_bytes, read.uss_bytes, read.swap_bytes), (40 << 10, 25 << 10, 4 << 10));
        assert_eq!(proportional(""), None);
    }
}

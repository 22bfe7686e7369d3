//! Proportional memory (PSS) of the tree, on a thread of its own: the kernel walks page tables to answer, which takes
//! 1 ms for 50 MB and 60 ms for 4 GB.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use super::kernel;
use super::process::TreeNow;
use crate::record::clock::{RunClock, thread_cpu_ns};
use crate::trace::Journal;
use crate::trace::run::{Coverage, CoverageState};
use crate::trace::tables::Memory;

/// Share of one core that reading PSS may take.
const BUDGET: f64 = 0.005;
/// Read at least this often where the budget allows.
const AT_LEAST: Duration = Duration::from_secs(1);
/// And whenever the tree's resident memory has moved by this share.
const MOVED: f64 = 0.02;
/// How often the tree's resident memory is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Reads PSS until told to stop.
pub struct MemoryProbe {
    proc: PathBuf,
    clock: RunClock,
    readings: u64,
    failure: Option<std::io::Error>,
}

impl MemoryProbe {
    pub fn new(proc: &Path, clock: RunClock) -> Self {
        Self { proc: proc.to_owned(), clock, readings: 0, failure: None }
    }

    /// Samples the processes in `tree` until `stop` (which waits as long as it is given) says so; returns the ledger's
    /// lines.
    pub fn run(mut self, tree: &Mutex<TreeNow>, journal: &Journal, stop: impl Fn(Duration) -> bool) -> Vec<Coverage> {
        let (mut last_ns, mut allowed_ns, mut last_rss) = (i64::MIN / 2, 0, 0);
        while !stop(LOOK) {
            let now_ns = self.clock.now_ns();
            let current = tree.lock().map(|tree| tree.clone()).unwrap_or_default();
            let due = now_ns - last_ns >= i64::try_from(AT_LEAST.as_nanos()).unwrap_or(i64::MAX);
            let moved = (current.rss_bytes - last_rss).abs() as f64 > MOVED * last_rss as f64;
            if current.pids.is_empty() || now_ns < allowed_ns || !(due || moved) {
                continue;
            }
            let cost_before = thread_cpu_ns();
            if let Some(sample) = self.read(&current.pids, now_ns) {
                journal.append(sample);
                self.readings += 1;
            }
            let cost_ns = (thread_cpu_ns() - cost_before) as f64;
            (last_ns, last_rss) = (now_ns, current.rss_bytes);
            allowed_ns = now_ns + (cost_ns / BUDGET) as i64;
        }
        self.coverage()
    }

    /// The sums over the tree; null where a living process could not be read, for a part is no sum.
    fn read(&mut self, pids: &[i32], t_ns: i64) -> Option<Memory> {
        let (mut pss, mut uss, mut swap, mut processes) = (0, 0, 0, 0);
        for pid in pids {
            let text = match std::fs::read_to_string(self.proc.join(pid.to_string()).join("smaps_rollup")) {
                Ok(text) => text,
                // Ended since the last walk: it holds no memory.
                Err(error)
                    if error.raw_os_error() == Some(nix::libc::ESRCH)
                        || error.kind() == std::io::ErrorKind::NotFound =>
                {
                    continue;
                }
                Err(error) => {
                    self.failure = Some(error);
                    return None;
                }
            };
            let Some(of_process) = kernel::keyed_value(&text, "Pss") else { continue };
            pss += of_process;
            uss += ["Private_Clean", "Private_Dirty"]
                .iter()
                .filter_map(|key| kernel::keyed_value(&text, key))
                .sum::<i64>();
            swap += kernel::keyed_value(&text, "SwapPss").unwrap_or(0);
            processes += 1;
        }
        (processes > 0).then_some(Memory {
            t_ns,
            pss_bytes: Some(pss),
            uss_bytes: Some(uss),
            swap_pss_bytes: Some(swap),
            processes: Some(processes),
        })
    }

    fn coverage(&self) -> Vec<Coverage> {
        let (state, reason) = match &self.failure {
            Some(error) if self.readings == 0 => (crate::record::source::state_of(error), error.to_string()),
            Some(error) => (CoverageState::Lost, error.to_string()),
            None if self.readings == 0 => (CoverageState::Lost, "the run ended before the first reading".to_owned()),
            None => (CoverageState::Measured, String::new()),
        };
        vec![Coverage { metric: "memory".to_owned(), state, source: "/proc/PID/smaps_rollup".to_owned(), reason }]
    }
}

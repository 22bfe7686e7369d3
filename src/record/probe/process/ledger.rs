//! What became of the readings of processes.

use std::io::{self, ErrorKind};

use crate::record::probe::kernel::Status;
use crate::record::source::{UNREAD, standing};
use crate::trace::run::{Coverage, CoverageState};

const SUMMED_UP: &str = "beyond 64 processes at once, or 1024 in all, the smallest are summed up as one named other";
/// A peak is as fresh as its last reading, and of a process that ended in between there is none.
const PEAKS: &str = "peaks are lower bounds: what grew after a process's last reading is not in them";

/// Whether a parent has inherited it the kernel does not tell: one that ignores the ends of its children has not.
const INHERITED: &str = "the kernel adds what a child did to its parent's when the parent waits for it: taken off again \
                         where the parent has grown by that much";

/// Readings by what they are of. That a process vanished is no failure, and counts in none of them.
#[derive(Default)]
pub(super) struct Ledger {
    /// Looks at who is there.
    pub(super) walk: Tally,
    pub(super) cpu: Tally,
    pub(super) faults: Tally,
    pub(super) memory: Tally,
    pub(super) peaks: Tally,
    pub(super) swap: Tally,
    pub(super) switches: Tally,
    pub(super) io: Tally,
    pub(super) open_files: Tally,
}

/// Readings of one kind.
#[derive(Default)]
pub(super) struct Tally {
    read: u64,
    failed: u64,
    error: Option<io::Error>,
}

impl Tally {
    pub(super) fn count<T>(&mut self, result: io::Result<T>) -> Option<T> {
        match result {
            Ok(value) => {
                self.read += 1;
                Some(value)
            }
            Err(error) => {
                self.failed += 1;
                self.error = Some(error);
                None
            }
        }
    }

    fn coverage(&self, metric: &str, source: &str) -> Coverage {
        let (state, reason) = standing(self.read, self.failed, self.error.as_ref(), UNREAD);
        Coverage { metric: metric.to_owned(), state, source: source.to_owned(), reason }
    }
}

impl Ledger {
    /// Counts one reading of /proc/PID/status: a process that has just ended has no memory to tell of, and some kernels
    /// leave lines out.
    pub(super) fn status(&mut self, status: &io::Result<Status>, has_memory: bool, slow: bool) {
        let told = |line: &str, value: fn(&Status) -> Option<i64>| match status {
            Ok(status) => value(status)
                .ok_or_else(|| io::Error::new(ErrorKind::Unsupported, format!("/proc/PID/status has no line {line}"))),
            Err(error) => Err(error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)),
        };
        if has_memory {
            self.peaks.count(told("VmHWM", |status| status.rss_peak_bytes));
            self.swap.count(told("VmSwap", |status| status.swap_bytes));
        }
        if slow {
            self.switches.count(told("voluntary_ctxt_switches", |status| status.context_switches));
        }
    }

    /// The lines for `process` and `process_sample`; `summed_up` tells whether there were more than have rows of their own.
    pub(super) fn coverage(&self, summed_up: bool) -> Vec<Coverage> {
        let note = |mut line: Coverage, note: &str| {
            if line.state == CoverageState::Measured {
                note.clone_into(&mut line.reason);
            }
            line
        };
        let sample = |tally: &Tally, column: &str, file: &str| {
            tally.coverage(&format!("process_sample.{column}"), &format!("/proc/PID/{file}"))
        };
        vec![
            note(self.walk.coverage("process", "/proc"), if summed_up { SUMMED_UP } else { "" }),
            self.cpu.coverage("process_sample.cpu_ns", "process CPU clock"),
            sample(&self.memory, "memory", "statm"),
            note(sample(&self.peaks, "rss_peak_bytes", "status"), PEAKS),
            sample(&self.swap, "swap_bytes", "status"),
            note(sample(&self.switches, "context_switches", "status"), "of each process's first thread"),
            sample(&self.faults, "threads", "stat"),
            sample(&self.faults, "page_faults", "stat"),
            note(sample(&self.io, "io", "io"), INHERITED),
            sample(&self.open_files, "open_files", "fd"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(results: impl IntoIterator<Item = io::Result<()>>) -> (CoverageState, String) {
        let mut tally = Tally::default();
        for result in results {
            tally.count(result);
        }
        let entry = tally.coverage("process_sample.io", "/proc/PID/io");
        (entry.state, entry.reason)
    }

    #[test]
    fn the_states_tell_unread_measured_denied_and_lost_apart() {
        let denied = || Err(io::ErrorKind::PermissionDenied.into());
        assert_eq!(told([]), (CoverageState::Lost, UNREAD.to_owned()));
        assert_eq!(told([Ok(())]), (CoverageState::Measured, String::new()));
        assert_eq!(told([denied()]), (CoverageState::Denied, "permission denied".to_owned()));
        assert_eq!(told([Ok(()), denied(), Ok(())]).1, "1 of 3 readings failed: permission denied");
    }
}

//! What processes used by the kernel's accounting: the run's, and the recorder's own.

use std::path::Path;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::clock::{self, Schedule};
use super::probe::kernel;
use super::run::PROC;
use crate::trace::run::RecorderCost;

/// CPU time of all children of this process that have been waited for, with their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    pub user_ns: i64,
    pub system_ns: i64,
}

impl Used {
    /// Since this process started; `None` where the kernel does not tell.
    pub fn so_far() -> Option<Self> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
        let nanoseconds = |time: TimeVal| clock::nanoseconds(time.tv_sec(), time.tv_usec() * 1000);
        Some(Self { user_ns: nanoseconds(usage.user_time()), system_ns: nanoseconds(usage.system_time()) })
    }

    /// As the kernel tells it of one child.
    pub fn of(usage: &nix::libc::rusage) -> Self {
        let nanoseconds = |time: nix::libc::timeval| clock::nanoseconds(time.tv_sec, time.tv_usec * 1000);
        Self { user_ns: nanoseconds(usage.ru_utime), system_ns: nanoseconds(usage.ru_stime) }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self { user_ns: self.user_ns + other.user_ns, system_ns: self.system_ns + other.system_ns }
    }

    /// This without a part of it.
    pub fn less(self, part: Self) -> Self {
        Self { user_ns: self.user_ns - part.user_ns, system_ns: self.system_ns - part.system_ns }
    }
}

/// Lets the recorder's peak of memory begin anew, so that an earlier run's finishing does not count.
pub fn reset_memory_peak() {
    // Where the kernel refuses, the peak is that since the recorder's start: an upper bound.
    let _ = std::fs::write(Path::new(PROC).join("self/clear_refs"), "5");
}

/// The recorder's own cost in a span that began when its CPU time was `cpu_at_start_ns`.
pub fn recorder(schedule: &Schedule, cpu_at_start_ns: i64) -> RecorderCost {
    let status = std::fs::read_to_string(Path::new(PROC).join("self/status")).unwrap_or_default();
    RecorderCost {
        cpu_ns: Some(clock::process_cpu_ns() - cpu_at_start_ns),
        memory_peak_bytes: kernel::keyed_value(&status, "VmHWM"),
        ticks: Some(schedule.met),
        missed_ticks: Some(schedule.missed),
        late_max_ns: Some(schedule.late_max_ns),
        journal_bytes: None,
        memory_probe_cpu_ns: None,
    }
}

//! Readers of the kernel's text files: pure functions over their text.

mod host;
mod process;

pub use host::*;
use nix::unistd::{SysconfVar, sysconf};
pub use process::*;

/// Link target of /proc/PID/ns/pid in the machine's first pid namespace, whose number is fixed (PROC_PID_INIT_INO).
pub const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The units in which the kernel counts.
#[derive(Clone, Copy, Debug)]
pub struct KernelUnits {
    /// Length of a tick of CPU time in /proc (10 ms on all common kernels).
    pub tick_ns: i64,
    pub page_bytes: i64,
}

impl KernelUnits {
    /// Those of the running kernel; the usual ones where it does not tell.
    pub fn of_this_kernel() -> Self {
        let value = |name, usual| sysconf(name).ok().flatten().filter(|value| *value > 0).unwrap_or(usual);
        Self {
            tick_ns: 1_000_000_000 / value(SysconfVar::CLK_TCK, 100),
            page_bytes: value(SysconfVar::PAGE_SIZE, 4096),
        }
    }
}

/// The value of a line `Key:   123 kB` (/proc/meminfo, status, smaps_rollup), in bytes where the unit is kB.
pub fn keyed_value(text: &str, key: &str) -> Option<i64> {
    in_bytes(text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?)
}

/// The lines `Key: value` of a text.
fn keyed_lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(':'))
}

/// `123`, or `123 kB` in bytes.
fn in_bytes(value: &str) -> Option<i64> {
    let mut words = value.split_ascii_whitespace();
    let value: i64 = words.next()?.parse().ok()?;
    match words.next() {
        None => Some(value),
        Some("kB") => Some(value * 1024),
        Some(_) => None,
    }
}

/// The value of a line `key 123` (/proc/vmstat, cpu.stat, memory.stat).
pub fn flat_value(text: &str, key: &str) -> Option<i64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// A file that holds one number.
pub fn number(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_taken_for_another_that_begins_alike() {
        let text = "MemTotal:  100 kB\nMemAvailable:   60 kB\nSwapCached: 1 kB\nCached: 7 kB\nThreads:\t5\n";
        assert_eq!(keyed_value(text, "Cached"), Some(7 * 1024));
        assert_eq!(keyed_value(text, "Threads"), Some(5));
        assert_eq!(keyed_value(text, "Mem"), None);
        assert_eq!(flat_value("pswpin 3\npswpinx 4\n", "pswpin"), Some(3));
    }
}

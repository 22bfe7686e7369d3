//! Files of a process: /proc/PID/stat, statm and status.

use super::{in_bytes, keyed_lines};

/// What is used of /proc/PID/status. A zombie has no memory lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub rss_peak_bytes: Option<i64>,
    pub swap_bytes: Option<i64>,
    /// Voluntary and involuntary ones, of the first thread only.
    pub context_switches: Option<i64>,
}

/// Parses /proc/PID/status in one pass; `None` for other text.
pub fn status(text: &str) -> Option<Status> {
    let mut status = Status::default();
    for (key, value) in keyed_lines(text) {
        match key {
            "VmHWM" => status.rss_peak_bytes = in_bytes(value),
            "VmSwap" => status.swap_bytes = in_bytes(value),
            "voluntary_ctxt_switches" | "nonvoluntary_ctxt_switches" => {
                status.context_switches = Some(status.context_switches.unwrap_or(0) + in_bytes(value)?);
            }
            _ => {}
        }
    }
    text.starts_with("Name:").then_some(status)
}

/// Virtual and resident memory in pages: the first two numbers of /proc/PID/statm. Unlike those of /proc/PID/stat they
/// are exact on large machines too (since Linux 6.17).
pub fn memory_pages(text: &str) -> Option<(i64, i64)> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<i64>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// What /proc/PID/stat tells of a process's identity and state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    pub state: char,
    pub parent_pid: i32,
    /// Kernel ticks after boot: with the pid it names a process for good.
    pub start_ticks: i64,
}

/// What is used of /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat<'a> {
    pub name: &'a str,
    pub state: char,
    pub parent_pid: i32,
    pub start_ticks: i64,
    pub minor_faults: i64,
    pub major_faults: i64,
    pub threads: i64,
}

/// Parses /proc/PID/stat (proc(5)). The name can hold blanks and brackets: it ends at the last `)`.
pub fn process_stat(text: &str) -> Option<ProcessStat<'_>> {
    let (head, rest) = text.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent_pid = fields.next()?.parse().ok()?;
    // Fields 10, 12, 20 and 22 of the line; the parent is field 4.
    let mut number = |skipped: usize| fields.nth(skipped)?.parse::<i64>().ok();
    Some(ProcessStat {
        name,
        state,
        parent_pid,
        minor_faults: number(5)?,
        major_faults: number(1)?,
        threads: number(7)?,
        start_ticks: number(1)?,
    })
}

/// Parses what /proc/PID/stat tells of a process's identity.
pub fn identity(text: &str) -> Option<Identity> {
    let ProcessStat { name, state, parent_pid, start_ticks, .. } = process_stat(text)?;
    Some(Identity { name: name.to_owned(), state, parent_pid, start_ticks })
}

/// What /proc/PID/stat tells of a process's use of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub identity: Identity,
    pub is_kernel_thread: bool,
    /// User and system time of all its threads, in kernel ticks.
    pub cpu_ticks: i64,
    pub rss_pages: i64,
}

/// The bit of a thread of the kernel's own in /proc/PID/stat (PF_KTHREAD of include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Parses /proc/PID/stat (proc(5)).
pub fn usage(text: &str) -> Option<Usage> {
    let identity = identity(text)?;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<i64>().ok();
    Some(Usage {
        identity,
        is_kernel_thread: fields.get(6)?.parse::<u64>().ok()? & KERNEL_THREAD != 0,
        cpu_ticks: number(11)? + number(12)?,
        rss_pages: number(21)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_brackets_and_blanks_is_read_whole() {
        let text =
            "42 (a) b (c)) S 7 42 42 0 -1 4194304 11 22 33 44 5 6 7 8 20 0 9 0 12345 1000 200 18446744073709551615";
        let used = usage(text).unwrap();
        assert_eq!((used.is_kernel_thread, used.cpu_ticks, used.rss_pages), (false, 5 + 6, 200));
        let read = identity(text).unwrap();
        assert_eq!(read, Identity { name: "a) b (c)".into(), state: 'S', parent_pid: 7, start_ticks: 12345 });
        let stat = process_stat(text).unwrap();
        assert_eq!((stat.minor_faults, stat.major_faults, stat.threads), (11, 33, 9));
    }

    #[test]
    fn what_the_status_of_a_process_tells_is_found_in_one_pass() {
        let text =
            "Name:\tx: y\nVmHWM:\t 8 kB\nVmSwap: 0 kB\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t2\n";
        let expected = Status { rss_peak_bytes: Some(8 << 10), swap_bytes: Some(0), context_switches: Some(9) };
        assert_eq!(status(text), Some(expected));
        assert_eq!(memory_pages("2587 1234 500 1 0 300 0\n"), Some((2587, 1234)));
    }
}

//! The files of a group in both versions of control groups: what they are called and what they tell.

use std::path::Path;

use crate::record::cgroup::accounting::Version;
use crate::record::probe::kernel::{self, Traffic};

/// What the files tell at one moment, as they tell it.
#[derive(Default)]
pub(super) struct Told {
    pub(super) cpu_ns: Option<i64>,
    pub(super) cpu_user_ns: Option<i64>,
    pub(super) cpu_system_ns: Option<i64>,
    pub(super) throttled_ns: Option<i64>,
    pub(super) throttled_periods: Option<i64>,
    pub(super) periods: Option<i64>,
    pub(super) memory_bytes: Option<i64>,
    pub(super) inactive_file_bytes: Option<i64>,
    pub(super) memory_peak_bytes: Option<i64>,
    pub(super) swap_bytes: Option<i64>,
    pub(super) threads: Option<i64>,
    pub(super) oom_kills: Option<i64>,
    pub(super) read_bytes: Option<i64>,
    pub(super) written_bytes: Option<i64>,
}

/// A file of a group, the columns that it tells, and how.
pub(super) struct File {
    pub(super) name: &'static str,
    pub(super) columns: &'static [&'static str],
    pub(super) fill: fn(&str, &mut Told) -> Option<()>,
}

const fn file(name: &'static str, columns: &'static [&'static str], fill: fn(&str, &mut Told) -> Option<()>) -> File {
    File { name, columns, fill }
}

pub(super) static PIDS: [File; 1] = [file("pids.current", &["cgroup.threads"], |text, told| {
    told.threads = kernel::number(text);
    told.threads.map(|_| ())
})];

pub(super) fn cpu_files(version: Version) -> &'static [File] {
    static V1: [File; 3] = [
        file("cpuacct.usage", &["cgroup.cpu"], |text, told| {
            told.cpu_ns = kernel::number(text);
            told.cpu_ns.map(|_| ())
        }),
        file("cpuacct.usage_user", &["cgroup.cpu_user_ns"], |text, told| {
            told.cpu_user_ns = kernel::number(text);
            told.cpu_user_ns.map(|_| ())
        }),
        file("cpuacct.usage_sys", &["cgroup.cpu_system_ns"], |text, told| {
            told.cpu_system_ns = kernel::number(text);
            told.cpu_system_ns.map(|_| ())
        }),
    ];
    static V2: [File; 1] = [file("cpu.stat", &["cgroup.cpu"], |text, told| {
        let nanoseconds = |key| kernel::flat_value(text, key).map(|microseconds| microseconds * 1000);
        told.cpu_ns = nanoseconds("usage_usec");
        told.cpu_user_ns = nanoseconds("user_usec");
        told.cpu_system_ns = nanoseconds("system_usec");
        told.cpu_ns.map(|_| ())
    })];
    match version {
        Version::V1 => &V1,
        Version::V2 => &V2,
    }
}

pub(super) fn throttling_files(version: Version) -> &'static [File] {
    fn fill(text: &str, told: &mut Told, key: &str, unit_ns: i64) -> Option<()> {
        told.throttled_ns = kernel::flat_value(text, key).map(|time| time * unit_ns);
        told.throttled_periods = kernel::flat_value(text, "nr_throttled");
        told.periods = kernel::flat_value(text, "nr_periods");
        told.throttled_ns.map(|_| ())
    }
    static V1: [File; 1] =
        [file("cpu.stat", &["cgroup.throttling"], |text, told| fill(text, told, "throttled_time", 1))];
    static V2: [File; 1] =
        [file("cpu.stat", &["cgroup.throttling"], |text, told| fill(text, told, "throttled_usec", 1000))];
    match version {
        Version::V1 => &V1,
        Version::V2 => &V2,
    }
}

pub(super) fn memory_files(version: Version) -> &'static [File] {
    fn used(text: &str, told: &mut Told) -> Option<()> {
        told.memory_bytes = kernel::number(text);
        told.memory_bytes.map(|_| ())
    }
    fn peak(text: &str, told: &mut Told) -> Option<()> {
        told.memory_peak_bytes = kernel::number(text);
        told.memory_peak_bytes.map(|_| ())
    }
    fn kills(text: &str, told: &mut Told) -> Option<()> {
        told.oom_kills = kernel::flat_value(text, "oom_kill");
        told.oom_kills.map(|_| ())
    }
    static V1: [File; 4] = [
        file("memory.usage_in_bytes", &["cgroup.memory"], used),
        file("memory.max_usage_in_bytes", &["cgroup.memory_peak_bytes"], peak),
        file("memory.stat", &["cgroup.working_set_bytes", "cgroup.swap_bytes"], |text, told| {
            told.inactive_file_bytes = kernel::flat_value(text, "total_inactive_file");
            told.swap_bytes = kernel::flat_value(text, "total_swap");
            told.inactive_file_bytes.map(|_| ())
        }),
        file("memory.oom_control", &["cgroup.oom_kills"], kills),
    ];
    static V2: [File; 5] = [
        file("memory.current", &["cgroup.memory"], used),
        file("memory.peak", &["cgroup.memory_peak_bytes"], peak),
        file("memory.stat", &["cgroup.working_set_bytes"], |text, told| {
            told.inactive_file_bytes = kernel::flat_value(text, "inactive_file");
            told.inactive_file_bytes.map(|_| ())
        }),
        file("memory.swap.current", &["cgroup.swap_bytes"], |text, told| {
            told.swap_bytes = kernel::number(text);
            told.swap_bytes.map(|_| ())
        }),
        file("memory.events", &["cgroup.oom_kills"], kills),
    ];
    match version {
        Version::V1 => &V1,
        Version::V2 => &V2,
    }
}

pub(super) fn io_files(version: Version) -> &'static [File] {
    fn fill(told: &mut Told, traffic: Option<Traffic>) -> Option<()> {
        told.read_bytes = Some(traffic?.inward);
        told.written_bytes = Some(traffic?.outward);
        Some(())
    }
    static V1: [File; 1] = [file("blkio.throttle.io_service_bytes", &["cgroup.io"], |text, told| {
        fill(told, service_bytes(text, is_whole_device))
    })];
    static V2: [File; 1] = [file("io.stat", &["cgroup.io"], |text, told| fill(told, io_stat(text, is_whole_device)))];
    match version {
        Version::V1 => &V1,
        Version::V2 => &V2,
    }
}

/// Sums io.stat over devices: `8:0 rbytes=1 wbytes=2 rios=…`. A group that has done no I/O has no lines.
fn io_stat(text: &str, counts: fn(&str) -> bool) -> Option<Traffic> {
    let mut sum = Traffic::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if !counts(words.next()?) {
            continue;
        }
        for word in words {
            match word.split_once('=')? {
                ("rbytes", bytes) => sum.inward += bytes.parse::<i64>().ok()?,
                ("wbytes", bytes) => sum.outward += bytes.parse::<i64>().ok()?,
                _ => {}
            }
        }
    }
    Some(sum)
}

/// Sums blkio.throttle.io_service_bytes over devices: `8:0 Read 1`. No line of a device is no zero: the kernel counts
/// here only for devices whose throttling it has set up.
fn service_bytes(text: &str, counts: fn(&str) -> bool) -> Option<Traffic> {
    let mut sum = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [device, kind, bytes] = words[..] else { continue };
        if counts(device) {
            let sum = sum.get_or_insert_with(Traffic::default);
            match kind {
                "Read" => sum.inward += bytes.parse::<i64>().ok()?,
                "Write" => sum.outward += bytes.parse::<i64>().ok()?,
                _ => {}
            }
        }
    }
    sum
}

/// What goes through a mapped, RAID or loop device is counted again on the disk beneath it.
fn is_whole_device(number: &str) -> bool {
    let name = std::fs::read_link(Path::new("/sys/dev/block").join(number)).ok();
    let name = name.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.is_none_or(|name| !["loop", "ram", "zram", "dm-", "md"].iter().any(|prefix| name.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_line_of_a_device_version_one_tells_nothing_and_version_two_zero() {
        assert_eq!(service_bytes("Total 0\n", |_| true), None);
        assert_eq!(io_stat("", |_| true), Some(Traffic::default()));
        assert_eq!(
            io_stat("8:0 rbytes=1 wbytes=2\n253:0 rbytes=1 wbytes=2\n", |device| device == "8:0").unwrap().inward,
            1
        );
    }
}

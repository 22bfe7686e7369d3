//! What the group that the run is accounted in has used: CPU time, throttling, memory, threads, I/O.

use std::path::Path;

use super::kernel::{self, Traffic};
use crate::record::cgroup::accounting::{Accounted, Accounting, Version};
use crate::record::source::{Counter, Source};
use crate::trace::Journal;
use crate::trace::run::{Coverage, CoverageState, GroupScope};
use crate::trace::tables::Cgroup;

/// Reads the files of the groups that tell what the run uses.
pub struct CgroupProbe {
    readers: Vec<Reader>,
    counters: Counters,
    accounting: Accounting,
    /// The memory peak that stood when the probe began, and whether the group is older than the run.
    earlier_peak: Option<i64>,
    begun: bool,
    /// The most that was read so far: a container's group is gone before the run has ended.
    most_cpu_ns: Option<i64>,
    most_oom_kills: Option<i64>,
    /// What the ledger says of a resource that no group tells.
    absent: (CoverageState, &'static str),
}

/// One file, what it tells, and of which group.
struct Reader {
    source: Source,
    fill: fn(&str, &mut Told) -> Option<()>,
    /// For the ledger: whose group and which file, but no path, for paths of groups name users.
    name: String,
    note: String,
}

/// What the files tell at one moment, as they tell it.
#[derive(Default)]
struct Told {
    cpu_ns: Option<i64>,
    cpu_user_ns: Option<i64>,
    cpu_system_ns: Option<i64>,
    throttled_ns: Option<i64>,
    throttled_periods: Option<i64>,
    periods: Option<i64>,
    memory_bytes: Option<i64>,
    inactive_file_bytes: Option<i64>,
    memory_peak_bytes: Option<i64>,
    swap_bytes: Option<i64>,
    threads: Option<i64>,
    oom_kills: Option<i64>,
    read_bytes: Option<i64>,
    written_bytes: Option<i64>,
}

#[derive(Default)]
struct Counters {
    cpu: Counter,
    cpu_user: Counter,
    cpu_system: Counter,
    throttled: Counter,
    throttled_periods: Counter,
    periods: Counter,
    oom_kills: Counter,
    read: Counter,
    written: Counter,
}

impl Counters {
    fn from_zero() -> Self {
        let zero = Counter::from_zero;
        Self {
            cpu: zero(),
            cpu_user: zero(),
            cpu_system: zero(),
            throttled: zero(),
            throttled_periods: zero(),
            periods: zero(),
            oom_kills: zero(),
            read: zero(),
            written: zero(),
        }
    }
}

impl CgroupProbe {
    pub fn new(accounting: Accounting) -> Self {
        let mut readers = Vec::new();
        let mut add = |group: &Option<Accounted>, files: fn(Version) -> &'static [File]| {
            let Some(group) = group else { return };
            readers.extend(files(group.version).iter().map(|file| Reader::new(group, file)));
        };
        add(&accounting.cpu, cpu_files);
        add(&accounting.throttling, throttling_files);
        add(&accounting.memory, memory_files);
        add(&accounting.processes, |_| &PIDS);
        add(&accounting.io, io_files);
        Self {
            readers,
            counters: Counters::default(),
            accounting,
            earlier_peak: None,
            begun: false,
            most_cpu_ns: None,
            most_oom_kills: None,
            absent: (
                CoverageState::Unsupported,
                "no control group that the run is in tells it; the root group has no such files",
            ),
        }
    }

    /// Of a container that is not found yet, and may never be.
    pub fn of_no_container() -> Self {
        let absent = (CoverageState::Lost, "the container was not found");
        Self { absent, ..Self::new(Accounting::default()) }
    }

    /// Of a group that was made for the run after the run's start: all that it has used so far is the run's.
    pub fn from_zero(accounting: Accounting, journal: &Journal) -> Self {
        let probe = Self { counters: Counters::from_zero(), begun: true, ..Self::new(accounting) };
        // So that its first second is told too.
        let group = &probe.accounting;
        let zero = |group: &Option<Accounted>| group.as_ref().map(|_| 0);
        journal.append(Cgroup { cpu_ns: zero(&group.cpu), oom_kills: zero(&group.memory), ..Cgroup::default() });
        probe
    }

    /// Whether the group has been removed, as a container's is at its end.
    fn is_gone(&self) -> bool {
        let of_container = |group: &&Accounted| group.scope == GroupScope::Container;
        let group = [&self.accounting.cpu, &self.accounting.memory].into_iter().flatten().find(of_container);
        group.is_some_and(|group| !group.dir.exists())
    }

    /// Takes one sample; the first is what counters count from.
    pub fn sample(&mut self, t_ns: i64, journal: &Journal) {
        if self.readers.is_empty() || self.is_gone() {
            return;
        }
        let mut told = Told::default();
        for reader in &mut self.readers {
            let fill = reader.fill;
            reader.source.read(|text| fill(text, &mut told));
        }
        if !self.begun {
            self.begun = true;
            let own = self.accounting.memory.as_ref().is_some_and(|group| group.scope == GroupScope::Own);
            self.earlier_peak = told.memory_peak_bytes.filter(|_| !own);
        }
        let row = self.row(t_ns, &told);
        self.most_cpu_ns = self.most_cpu_ns.max(row.cpu_ns);
        self.most_oom_kills = self.most_oom_kills.max(row.oom_kills);
        journal.append(row);
    }

    fn row(&mut self, t_ns: i64, told: &Told) -> Cgroup {
        let counters = &mut self.counters;
        let working_set = |(all, inactive): (i64, i64)| (all - inactive).max(0);
        Cgroup {
            t_ns,
            cpu_ns: counters.cpu.since_first(told.cpu_ns),
            cpu_user_ns: counters.cpu_user.since_first(told.cpu_user_ns),
            cpu_system_ns: counters.cpu_system.since_first(told.cpu_system_ns),
            throttled_ns: counters.throttled.since_first(told.throttled_ns),
            throttled_periods: counters.throttled_periods.since_first(told.throttled_periods),
            periods: counters.periods.since_first(told.periods),
            memory_bytes: told.memory_bytes,
            working_set_bytes: told.memory_bytes.zip(told.inactive_file_bytes).map(working_set),
            memory_peak_bytes: told.memory_peak_bytes.filter(|peak| self.earlier_peak.is_none_or(|was| *peak > was)),
            swap_bytes: told.swap_bytes,
            threads: told.threads,
            oom_kills: counters.oom_kills.since_first(told.oom_kills),
            read_bytes: counters.read.since_first(told.read_bytes),
            written_bytes: counters.written.since_first(told.written_bytes),
        }
    }

    /// Which groups are read.
    pub fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    /// CPU time of the group up to the last sample, where the group is the run's.
    pub fn cpu_ns(&self) -> Option<i64> {
        self.most_cpu_ns.filter(|_| self.accounting.cpu.as_ref().is_some_and(|group| group.scope.is_the_runs()))
    }

    /// How many processes of the group were killed for lack of memory up to the last sample, and whose group it is.
    pub fn oom_kills(&self) -> Option<(i64, GroupScope)> {
        Some((self.most_oom_kills?, self.accounting.memory.as_ref()?.scope))
    }

    /// The ledger's lines for `cgroup`.
    pub fn coverage(&self) -> Vec<Coverage> {
        let mut coverage: Vec<Coverage> = self.readers.iter().flat_map(Reader::coverage).collect();
        let groups = &self.accounting;
        let resources = [
            ("cgroup.cpu", &groups.cpu),
            ("cgroup.throttling", &groups.throttling),
            ("cgroup.memory", &groups.memory),
            ("cgroup.threads", &groups.processes),
            ("cgroup.io", &groups.io),
        ];
        coverage.extend(resources.into_iter().filter(|(_, group)| group.is_none()).map(|(metric, _)| Coverage {
            metric: metric.to_owned(),
            state: self.absent.0,
            source: "cgroup".to_owned(),
            reason: self.absent.1.to_owned(),
        }));
        self.tell_steps_back(&mut coverage);
        coverage
    }

    fn tell_steps_back(&self, coverage: &mut [Coverage]) {
        let counters = &self.counters;
        let all = [
            ("cgroup.cpu", vec![&counters.cpu, &counters.cpu_user, &counters.cpu_system]),
            ("cgroup.throttling", vec![&counters.throttled, &counters.throttled_periods, &counters.periods]),
            ("cgroup.oom_kills", vec![&counters.oom_kills]),
            ("cgroup.io", vec![&counters.read, &counters.written]),
        ];
        for (metric, counters) in all {
            let below: u64 = counters.into_iter().map(Counter::below).sum();
            if let Some(entry) = coverage.iter_mut().find(|entry| entry.metric == metric && below > 0) {
                entry.state = CoverageState::Lost;
                entry.reason =
                    format!("counters stood below an earlier reading {below} times; those readings are null");
            }
        }
    }
}

impl Reader {
    fn new(group: &Accounted, file: &File) -> Self {
        let whose = match group.scope {
            GroupScope::Own => "the run's own group",
            GroupScope::Container => "the container's group",
            GroupScope::Shared => "the recorder's group",
        };
        let version = match group.version {
            Version::V1 => "cgroup v1",
            Version::V2 => "cgroup v2",
        };
        Self {
            source: Source::new(group.dir.join(file.name), file.columns),
            fill: file.fill,
            name: format!("{whose} ({version}): {}", file.name),
            note: group.note.clone(),
        }
    }

    fn coverage(&self) -> Vec<Coverage> {
        let mut coverage = self.source.coverage();
        for entry in &mut coverage {
            entry.source.clone_from(&self.name);
            if entry.state == CoverageState::Unsupported {
                let missing = "the group has no such file: the kernel is too old, or the controller is not on";
                let silent = "the file tells nothing of the group";
                entry.reason = if self.source.path().exists() { silent } else { missing }.to_owned();
            }
            let separator = if entry.reason.is_empty() || self.note.is_empty() { "" } else { "; " };
            entry.reason = format!("{}{separator}{}", entry.reason, self.note);
        }
        coverage
    }
}

/// A file of a group, the columns that it tells, and how.
struct File {
    name: &'static str,
    columns: &'static [&'static str],
    fill: fn(&str, &mut Told) -> Option<()>,
}

const fn file(name: &'static str, columns: &'static [&'static str], fill: fn(&str, &mut Told) -> Option<()>) -> File {
    File { name, columns, fill }
}

static PIDS: [File; 1] = [file("pids.current", &["cgroup.threads"], |text, told| {
    told.threads = kernel::number(text);
    told.threads.map(|_| ())
})];

fn cpu_files(version: Version) -> &'static [File] {
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

fn throttling_files(version: Version) -> &'static [File] {
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

fn memory_files(version: Version) -> &'static [File] {
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

fn io_files(version: Version) -> &'static [File] {
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
mod tests;

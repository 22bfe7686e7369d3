//! What the group that the run is accounted in has used: CPU time, throttling, memory, threads, I/O.

mod files;

use files::{File, PIDS, Told, cpu_files, io_files, memory_files, throttling_files};

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

#[cfg(test)]
mod tests;

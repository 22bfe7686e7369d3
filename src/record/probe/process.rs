//! The run's process tree: who belongs to it, and what each process used.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::kernel::{self, Identity, KernelUnits};
use crate::record::clock::{RunClock, boottime_ns, monotonic_ns, nanoseconds};
use crate::record::source::Source;
use crate::trace::Journal;
use crate::trace::run::{Coverage, CoverageState};
use crate::trace::tables::{Process, ProcessSample};

/// An unchanged process is written at least this often, so that a reader can tell "unchanged" from "gone".
const REWRITE_NS: i64 = 1_000_000_000;
/// Processes known not to be ours are looked at again after this many ticks: their pids can be reused.
const FORGET_STRANGERS_TICKS: u64 = 16;

/// Follows the tree of one root process, whose orphans are handed to this recorder (it is a subreaper).
pub struct ProcessProbe {
    proc: PathBuf,
    recorder_pid: i32,
    units: KernelUnits,
    /// Ticks after boot at which the run started; boot's clock counts suspended time.
    start_boottime_ns: i64,
    members: Vec<Member>,
    /// Index into `members` of those that are alive.
    alive: HashMap<i32, usize>,
    strangers: HashSet<i32>,
    ticks: u64,
    root_written: bool,
    ledger: Ledger,
}

/// A process of the tree, identified by pid and start time.
struct Member {
    pid: i32,
    start_ticks: i64,
    name: String,
    clock: Option<ClockId>,
    status: Source,
    io: Source,
    /// CPU time before the run started: what the starting shim used.
    cpu_base_ns: i64,
    last: ProcessSample,
    written_ns: i64,
}

#[derive(Default)]
struct Ledger {
    cpu: (u64, u64),
    status: (u64, u64),
    io: (u64, u64),
}

/// Sums over the tree at one tick, for the progress line and for the schedule of PSS.
#[derive(Clone, Debug, Default)]
pub struct TreeNow {
    pub pids: Vec<i32>,
    pub cpu_ns: i64,
    pub rss_bytes: i64,
}

impl ProcessProbe {
    /// Begins with the root process, stopped before its first instruction.
    pub fn new(proc: &Path, root: Pid, clock: &RunClock, units: KernelUnits) -> Self {
        let mut probe = Self {
            proc: proc.to_owned(),
            recorder_pid: Pid::this().as_raw(),
            units,
            start_boottime_ns: boottime_ns() - clock.since_start(monotonic_ns()),
            members: Vec::new(),
            alive: HashMap::new(),
            strangers: HashSet::new(),
            ticks: 0,
            root_written: false,
            ledger: Ledger::default(),
        };
        if let Some(identity) = probe.identity(root.as_raw()) {
            probe.admit(root.as_raw(), &identity, true);
        }
        probe
    }

    /// Takes one sample of every process of the tree: one walk, and every figure off the same set.
    pub fn sample(&mut self, t_ns: i64, journal: &Journal) -> TreeNow {
        self.write_root(t_ns, journal);
        self.find_members(t_ns, journal);
        let mut pids: Vec<i32> = self.alive.keys().copied().collect();
        pids.sort_unstable();
        let mut now = TreeNow::default();
        for pid in pids {
            if let Some(sample) = self.sample_one(pid, t_ns, journal) {
                now.rss_bytes += sample.rss_bytes.unwrap_or(0);
                now.pids.push(pid);
            }
        }
        now.cpu_ns = self.cpu_ns();
        now
    }

    /// Sum of all processes' CPU time so far, ended ones included.
    pub fn cpu_ns(&self) -> i64 {
        self.members.iter().filter_map(|member| member.last.cpu_ns).sum()
    }

    /// CPU time of the root process before it became the command.
    pub fn shim_cpu_ns(&self) -> i64 {
        self.members.first().map_or(0, |root| root.cpu_base_ns)
    }

    /// Takes the last reading of a process that has ended but was not waited for yet: its CPU clock still stands.
    pub fn last_words(&mut self, pid: i32, t_ns: i64, journal: &Journal) {
        self.write_root(t_ns, journal);
        if !self.alive.contains_key(&pid) {
            // Lived shorter than a tick; what it used is still to be had.
            let Some(identity) = self.identity(pid) else { return };
            self.admit_and_write(pid, &identity, t_ns, journal);
        }
        if let Some(index) = self.alive.remove(&pid) {
            let member = &mut self.members[index];
            if let Some(cpu_ns) = member.cpu_ns() {
                member.last.cpu_ns = Some(cpu_ns);
            }
            // Memory is gone by now; null, not zero.
            let cpu_ns = member.last.cpu_ns;
            let process = member.last.process;
            journal.append(ProcessSample { t_ns, process, cpu_ns, ..ProcessSample::default() });
        }
    }

    /// Pid and name of the processes that are still alive.
    pub fn survivors(&self) -> Vec<(Pid, String)> {
        let mut alive: Vec<_> = self.alive.values().map(|index| &self.members[*index]).collect();
        alive.sort_by_key(|member| member.last.process);
        alive.retain(|member| is_alive(&self.proc, member));
        alive.into_iter().map(|member| (Pid::from_raw(member.pid), member.name.clone())).collect()
    }

    /// Looks who has joined the tree.
    pub fn find_members(&mut self, t_ns: i64, journal: &Journal) {
        self.ticks += 1;
        if self.ticks.is_multiple_of(FORGET_STRANGERS_TICKS) {
            self.strangers.clear();
        }
        let present = self.present_pids();
        self.strangers.retain(|pid| present.contains(pid));
        let mut unknown: Vec<(i32, Identity)> = present
            .iter()
            .filter(|pid| !self.alive.contains_key(pid) && !self.strangers.contains(pid) && **pid != self.recorder_pid)
            .filter_map(|pid| Some((*pid, self.identity(*pid)?)))
            .collect();
        // A parent can have a higher pid than its child, so go on until a pass finds nobody new.
        loop {
            let before = unknown.len();
            unknown.retain(|(pid, identity)| {
                let ours = self.alive.contains_key(&identity.parent_pid) || identity.parent_pid == self.recorder_pid;
                if ours {
                    self.admit_and_write(*pid, identity, t_ns, journal);
                }
                !ours
            });
            if unknown.len() == before {
                break;
            }
        }
        self.strangers.extend(unknown.iter().map(|(pid, _)| *pid));
        // A process that vanished without a last word was waited for by its own parent.
        self.alive.retain(|pid, _| present.contains(pid));
    }

    fn present_pids(&self) -> HashSet<i32> {
        let Ok(entries) = fs::read_dir(&self.proc) else { return HashSet::new() };
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
    }

    fn identity(&self, pid: i32) -> Option<Identity> {
        identity(&self.proc, pid)
    }

    fn admit_and_write(&mut self, pid: i32, identity: &Identity, t_ns: i64, journal: &Journal) {
        let parent = self.alive.get(&identity.parent_pid).map(|index| self.members[*index].last.process);
        let process = self.admit(pid, identity, false);
        self.write_identity(process, identity, parent, t_ns, journal);
    }

    /// Writes the root's identity, once: its name is known only after the shim has become the command.
    fn write_root(&mut self, t_ns: i64, journal: &Journal) {
        if self.root_written {
            return;
        }
        let Some(root) = self.members.first_mut() else { return };
        let Some(identity) = identity(&self.proc, root.pid) else { return };
        root.name.clone_from(&identity.name);
        self.root_written = true;
        self.write_identity(0, &identity, None, t_ns, journal);
    }

    fn write_identity(&self, process: i64, identity: &Identity, parent: Option<i64>, t_ns: i64, journal: &Journal) {
        let pid = self.members.get(usize::try_from(process).unwrap_or(0)).map(|member| i64::from(member.pid));
        journal.append(Process {
            t_ns,
            process,
            pid,
            start_ns: Some(identity.start_ticks * self.units.tick_ns - self.start_boottime_ns),
            parent,
            name: Some(identity.name.clone()),
        });
    }

    fn admit(&mut self, pid: i32, identity: &Identity, started_by_shim: bool) -> i64 {
        let dir = self.proc.join(pid.to_string());
        let process = i64::try_from(self.members.len()).unwrap_or(i64::MAX);
        let mut member = Member {
            pid,
            start_ticks: identity.start_ticks,
            name: identity.name.clone(),
            clock: ClockId::pid_cpu_clock_id(Pid::from_raw(pid)).ok(),
            status: Source::new(dir.join("status"), &[]),
            io: Source::new(dir.join("io"), &[]),
            cpu_base_ns: 0,
            last: ProcessSample { process, ..ProcessSample::default() },
            written_ns: i64::MIN,
        };
        if started_by_shim {
            member.cpu_base_ns = member.cpu_ns().unwrap_or(0);
        }
        self.alive.insert(pid, self.members.len());
        self.members.push(member);
        process
    }

    fn sample_one(&mut self, pid: i32, t_ns: i64, journal: &Journal) -> Option<ProcessSample> {
        let index = *self.alive.get(&pid)?;
        let member = &mut self.members[index];
        let mut sample = ProcessSample { t_ns, process: member.last.process, ..ProcessSample::default() };
        let status = member.status.read(|text| fill_status(&mut sample, text));
        // The open file stays with the process it was opened for, so its failure tells of a death or a reused pid.
        if status.is_none() && !is_alive(&self.proc, member) {
            self.alive.remove(&pid);
            return None;
        }
        count(&mut self.ledger.status, status.is_some());
        sample.cpu_ns = member.cpu_ns();
        count(&mut self.ledger.cpu, sample.cpu_ns.is_some());
        let io = member.io.read(|text| {
            sample.read_bytes = kernel::keyed_value(text, "read_bytes");
            sample.written_bytes = kernel::keyed_value(text, "write_bytes");
            sample.read_bytes
        });
        count(&mut self.ledger.io, io.is_some());
        let unchanged = ProcessSample { t_ns: member.last.t_ns, ..sample.clone() } == member.last;
        if !unchanged || t_ns - member.written_ns >= REWRITE_NS {
            journal.append(sample.clone());
            member.written_ns = t_ns;
        }
        // A reading that failed leaves the last good one: counters are "the most so far".
        let cpu_ns = sample.cpu_ns.max(member.last.cpu_ns);
        member.last = ProcessSample { cpu_ns, ..sample.clone() };
        Some(sample)
    }

    /// The ledger's lines for `process` and `process_sample`.
    pub fn coverage(&self) -> Vec<Coverage> {
        let line = |metric: &str, source: &str, (read, failed): (u64, u64)| Coverage {
            metric: format!("process_sample.{metric}"),
            state: if read > 0 { CoverageState::Measured } else { CoverageState::Denied },
            source: source.to_owned(),
            reason: if read == 0 { format!("{failed} readings, none succeeded") } else { String::new() },
        };
        vec![
            line("cpu_ns", "process CPU clock", self.ledger.cpu),
            line("memory", "/proc/PID/status", self.ledger.status),
            line("io", "/proc/PID/io", self.ledger.io),
        ]
    }
}

fn identity(proc: &Path, pid: i32) -> Option<Identity> {
    kernel::identity(&fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?)
}

/// Whether the process itself, and not another one under its pid, is there and no zombie.
fn is_alive(proc: &Path, member: &Member) -> bool {
    identity(proc, member.pid).is_some_and(|now| now.start_ticks == member.start_ticks && now.state != 'Z')
}

impl Member {
    /// CPU time since the run's start.
    fn cpu_ns(&self) -> Option<i64> {
        let time = clock_gettime(self.clock?).ok()?;
        Some(nanoseconds(time.tv_sec(), time.tv_nsec()) - self.cpu_base_ns)
    }
}

/// Fills what /proc/PID/status tells. A zombie has no memory lines: they stay null.
fn fill_status(sample: &mut ProcessSample, text: &str) -> Option<()> {
    sample.threads = kernel::keyed_value(text, "Threads");
    sample.rss_bytes = kernel::keyed_value(text, "VmRSS");
    sample.rss_peak_bytes = kernel::keyed_value(text, "VmHWM");
    sample.virtual_bytes = kernel::keyed_value(text, "VmSize");
    sample.swap_bytes = kernel::keyed_value(text, "VmSwap");
    sample.threads.map(|_| ())
}

fn count((read, failed): &mut (u64, u64), succeeded: bool) {
    if succeeded { *read += 1 } else { *failed += 1 }
}

//! The run's process tree: who belongs to it, and what each process used.
//!
//! ```text
//! walk -> member (one process, its files and its clock) -> ledger (what became of the readings)
//! ```

mod group;
mod ledger;
mod member;
mod walk;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Pid;

use self::group::Group;
use self::ledger::Ledger;
use self::member::{Fate, Member};
use super::kernel::KernelUnits;
use crate::record::clock::{RunClock, boottime_ns, monotonic_ns};
use crate::record::mask::Mask;
use crate::trace::Journal;
use crate::trace::run::Coverage;
use crate::trace::tables::{Process, ProcessSample};

/// An unchanged process is written at least this often, so that a reader can tell "unchanged" from "gone".
const REWRITE_NS: i64 = 1_000_000_000;
/// Processes whose files stay open between readings; those of the others are opened for each. Two files a process.
const KEPT_OPEN: u64 = 64;

/// Follows the tree of one root process, whose orphans are handed to this recorder (it is a subreaper).
pub struct ProcessProbe {
    proc: PathBuf,
    recorder_pid: i32,
    units: KernelUnits,
    /// Nanoseconds after boot at which the run started; boot's clock counts suspended time.
    start_boottime_ns: i64,
    root_pid: i32,
    root_start_ticks: i64,
    shim_cpu_ns: i64,
    alive: HashMap<i32, Member>,
    next_process: i64,
    /// CPU time of those that have left; `None` while there is no reading.
    ended_cpu_ns: Option<i64>,
    strangers: HashSet<i32>,
    group: Group,
    ticks: u64,
    kept_open: usize,
    ledger: Ledger,
    mask: Mask,
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
            root_pid: root.as_raw(),
            root_start_ticks: i64::MIN,
            shim_cpu_ns: 0,
            alive: HashMap::new(),
            next_process: 0,
            ended_cpu_ns: None,
            strangers: HashSet::new(),
            group: Group::default(),
            ticks: 0,
            kept_open: kept_open(),
            ledger: Ledger::default(),
            mask: Mask::default(),
        };
        probe.begin_with_root();
        probe
    }

    fn begin_with_root(&mut self) {
        let pid = self.root_pid;
        let identity = member::identity(&self.proc, pid);
        let Some(identity) = self.ledger.walk.count(identity).flatten() else { return };
        self.root_start_ticks = identity.start_ticks;
        self.admit(pid, &identity, None);
        if let Some(root) = self.alive.get_mut(&pid) {
            root.cpu_base_ns = root.cpu_ns().unwrap_or(0);
            self.shim_cpu_ns = root.cpu_base_ns;
        }
    }

    /// Takes all processes of a control group for the run's.
    pub fn follow_group(&mut self, dir: &Path) {
        self.group.follow(dir);
    }

    /// From now on only the processes of a container are the run's; where it is not found yet, nobody is.
    pub fn expect_container(&mut self) {
        self.group.expect_container();
    }

    /// Masks the names of processes from here on; the first is written with the first sample.
    pub fn mask_names(&mut self, mask: &Mask) {
        self.mask = mask.clone();
    }

    /// Takes one sample of every process of the tree: one walk, and every figure off the same set.
    pub fn sample(&mut self, t_ns: i64, journal: &Journal) -> TreeNow {
        self.find_members(t_ns, journal);
        let mut pids: Vec<i32> = self.alive.keys().copied().collect();
        pids.sort_unstable();
        let mut now = TreeNow::default();
        for pid in pids {
            let sample = self.sample_one(pid, t_ns, journal);
            let counts = self.alive.get(&pid).is_some_and(|member| self.group.counts(member.inside));
            if let Some(sample) = sample.filter(|_| counts) {
                now.rss_bytes += sample.rss_bytes.unwrap_or(0);
                now.pids.push(pid);
            }
        }
        now.cpu_ns = self.cpu_ns().unwrap_or(0);
        now
    }

    /// Sum of all processes' CPU time so far, ended ones included; `None` while no clock has been read.
    pub fn cpu_ns(&self) -> Option<i64> {
        let alive = self.alive.values().filter(|member| self.group.counts(member.inside));
        let alive = alive.filter_map(|member| member.last.cpu_ns);
        self.ended_cpu_ns.into_iter().chain(alive).reduce(|sum, cpu_ns| sum + cpu_ns)
    }

    /// CPU time of the root process before it became the command.
    pub fn shim_cpu_ns(&self) -> i64 {
        self.shim_cpu_ns
    }

    /// Takes the last reading of a process that has ended but was not waited for yet: its CPU clock still stands.
    ///
    /// Tells whether it was of the tree.
    pub fn last_words(&mut self, pid: i32, t_ns: i64, journal: &Journal) -> bool {
        if self.alive.get_mut(&pid).is_some_and(|member| member.look() == Fate::Gone) {
            // An earlier process had the pid, and was waited for by its own parent.
            self.write_end(pid, t_ns, journal);
            self.forget(pid);
        }
        if !self.alive.contains_key(&pid) {
            self.admit_ended(pid, t_ns, journal);
        }
        self.write_name(pid, t_ns, journal);
        let Some(member) = self.alive.get_mut(&pid) else { return false };
        let read = self.ledger.cpu.count(member.cpu_ns());
        member.last.cpu_ns = read.max(member.last.cpu_ns);
        // Memory is gone by now; null, not zero.
        let (process, cpu_ns) = (member.process(), member.last.cpu_ns);
        journal.append(ProcessSample { t_ns, process, cpu_ns, ..ProcessSample::default() });
        self.forget(pid);
        true
    }

    /// Pid and name of the processes that are still alive; those in the followed group only where they are asked for.
    pub fn survivors(&self, with_group: bool) -> Vec<(Pid, String)> {
        let wanted = |member: &&Member| with_group || !member.inside;
        let mut alive: Vec<&Member> = self.alive.values().filter(wanted).filter(|member| member.is_alive()).collect();
        alive.sort_by_key(|member| member.process());
        alive.into_iter().map(|member| (Pid::from_raw(member.pid), self.mask.process_name(&member.name))).collect()
    }

    /// The ledger's lines for `process` and `process_sample`.
    pub fn coverage(&self) -> Vec<Coverage> {
        self.ledger.coverage()
    }

    fn sample_one(&mut self, pid: i32, t_ns: i64, journal: &Journal) -> Option<ProcessSample> {
        let member = self.alive.get_mut(&pid)?;
        let Some(sample) = member.read(t_ns, &mut self.ledger) else {
            self.write_end(pid, t_ns, journal);
            self.forget(pid);
            return None;
        };
        let unchanged = ProcessSample { t_ns: member.last.t_ns, ..sample.clone() } == member.last;
        if !unchanged || t_ns - member.written_ns >= REWRITE_NS {
            journal.append(sample.clone());
            member.written_ns = t_ns;
        }
        // A reading that failed leaves the last good one: counters are "the most so far".
        let cpu_ns = sample.cpu_ns.max(member.last.cpu_ns);
        member.last = ProcessSample { cpu_ns, ..sample.clone() };
        self.write_name(pid, t_ns, journal);
        Some(sample)
    }

    /// Writes who a process is, if it is not in the journal under its present name. The root's is known only after the
    /// shim has become the command.
    fn write_name(&mut self, pid: i32, t_ns: i64, journal: &Journal) {
        let Some(member) = self.alive.get_mut(&pid) else { return };
        if member.written_name.as_ref() == Some(&member.name) {
            return;
        }
        member.written_name = Some(member.name.clone());
        journal.append(Process {
            t_ns,
            process: member.process(),
            pid: Some(i64::from(pid)),
            start_ns: Some(member.start_ticks * self.units.tick_ns - self.start_boottime_ns),
            parent: member.parent,
            name: Some(self.mask.process_name(&member.name)),
            role: self.group.role(member.inside),
        });
    }
}

/// Half of the descriptors that this process may open at most are for the files of processes.
fn kept_open() -> usize {
    let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    usize::try_from(KEPT_OPEN.min(descriptors / 4)).unwrap_or(0)
}

#[cfg(test)]
mod tests;

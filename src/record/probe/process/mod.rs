//! The run's process tree: who belongs to it, and what each process used.
//!
//! ```text
//! walk -> member (one process, its files and its clock) -> ledger (what became of the readings)
//!           └ others (the sum of those that are too many)
//! ```

mod files;
mod group;
mod ledger;
mod member;
mod others;
mod walk;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Pid;

use self::group::Group;
use self::ledger::Ledger;
use self::member::{Member, Reading, SLOW_NS};
use self::others::{OWN_AT_ONCE, OWN_IN_ALL, Others};
use self::walk::Newest;
use super::identity::who_is;
use super::kernel::KernelUnits;
use crate::record::clock::{RunClock, boottime_ns, monotonic_ns};
use crate::record::ended::Earlier;
use crate::record::mask::Mask;
use crate::trace::Journal;
use crate::trace::run::Coverage;
use crate::trace::tables::{Process, ProcessSample};

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
    others: Option<Others>,
    rank_next_ns: i64,
    admitted: u64,
    next_process: i64,
    /// CPU time of those that have left; `None` while there is no reading.
    ended_cpu_ns: Option<i64>,
    newest: Newest,
    strangers: HashSet<i32>,
    group: Group,
    /// Children of the recorder that are not of the run.
    earlier: Earlier,
    /// Processes in all that get rows of their own as soon as they are seen.
    own_in_all: i64,
    /// Processes that keep their files open.
    kept_open: usize,
    ledger: Ledger,
    mask: Mask,
}

/// The tree at one tick.
#[derive(Clone, Debug, Default)]
pub struct TreeNow {
    pub pids: Vec<i32>,
    /// The number within the run under which each of them has its rows.
    pub processes: Vec<i64>,
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
            others: None,
            rank_next_ns: 0,
            admitted: 0,
            next_process: 0,
            ended_cpu_ns: None,
            newest: Newest::new(proc),
            strangers: HashSet::new(),
            group: Group::default(),
            earlier: Earlier::default(),
            own_in_all: OWN_IN_ALL,
            kept_open: kept_open(),
            ledger: Ledger::default(),
            mask: Mask::default(),
        };
        probe.begin_with_root();
        probe
    }

    fn begin_with_root(&mut self) {
        let pid = self.root_pid;
        let identity = who_is(&self.proc, pid);
        let Some(identity) = self.ledger.walk.count(identity).flatten() else { return };
        self.root_start_ticks = identity.start_ticks;
        self.admit(pid, &identity, 0);
        self.number(pid);
        if let Some(root) = self.alive.get_mut(&pid) {
            // What the shim used that starts the command.
            root.count_from_here();
            self.shim_cpu_ns = root.cpu_base_ns();
        }
    }

    /// Leaves children of the recorder alone that were there before the run.
    pub fn leave_out(&mut self, earlier: &Earlier) {
        self.earlier = earlier.clone();
    }

    /// Whether no child of the recorder is left but those that were to be left out, and what descends from them.
    pub fn earlier_are_all(&self) -> bool {
        self.earlier.are_all(&self.proc)
    }

    /// Takes all processes of a control group for the run's.
    pub fn follow_group(&mut self, dir: &Path) {
        self.group.follow(dir);
        // Who is in it already may be known as a stranger.
        self.newest.forget();
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
        if t_ns >= self.rank_next_ns {
            self.rank_next_ns = t_ns + SLOW_NS;
            self.rank(t_ns, journal);
        }
        // Children first: what a parent has inherited is known only when its child is known to be gone.
        let mut pids: Vec<(u64, i32)> = self.alive.values().map(|member| (member.order, member.pid)).collect();
        pids.sort_unstable_by(|a, b| b.cmp(a));
        let mut now = TreeNow::default();
        for (_, pid) in pids {
            let sampled = self.sample_one(pid, t_ns, journal);
            let counts = self.alive.get(&pid).is_some_and(|member| self.group.counts(member.inside));
            if let Some((process, rss_bytes)) = sampled.filter(|_| counts) {
                now.rss_bytes += rss_bytes;
                now.pids.push(pid);
                now.processes.push(process);
            }
        }
        self.write_others(t_ns, journal);
        now.cpu_ns = self.cpu_ns().unwrap_or(0);
        now
    }

    /// Who belongs to the run, as far as anybody has looked; nothing is read of them.
    pub fn members(&self) -> TreeNow {
        let counts = self.alive.values().filter(|member| self.group.counts(member.inside));
        let others = self.others.as_ref().map(|others| others.process);
        let numbered = counts.filter_map(|member| Some((member.pid, member.process.or(others)?)));
        let (pids, processes) = numbered.unzip();
        TreeNow { pids, processes, ..TreeNow::default() }
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

    /// Takes the last reading of a process that has ended but was not waited for yet: its counters still stand.
    ///
    /// Tells whether it was of the tree.
    pub fn last_words(&mut self, pid: i32, t_ns: i64, journal: &Journal) -> bool {
        // An earlier process had the pid, and was waited for by its own parent; or children were waited for by this one.
        let near = self.alive.values_mut().filter(|member| member.pid == pid || member.parent_pid == pid);
        let gone: Vec<i32> = near.filter_map(|member| member.is_gone().then_some(member.pid)).collect();
        for pid in gone {
            self.let_go(pid, t_ns, journal);
        }
        if !self.alive.contains_key(&pid) {
            self.admit_ended(pid, t_ns, journal);
        }
        self.write_name(pid, t_ns, journal);
        let Some(member) = self.alive.get_mut(&pid) else { return false };
        let before = member.last.clone();
        let sample = member.last_words(t_ns, &mut self.ledger);
        match (member.process, &mut self.others) {
            (Some(process), _) => journal.append(member.row(&sample, process)),
            (None, Some(others)) if self.group.counts(member.inside) => others.count(&before, &member.last),
            (None, _) => {}
        }
        self.forget(pid);
        true
    }

    /// Pid and name of the processes that are still alive; those in the followed group only where they are asked for.
    pub fn survivors(&mut self, with_group: bool) -> Vec<(Pid, String)> {
        let mut alive: Vec<&mut Member> =
            self.alive.values_mut().filter(|member| with_group || !member.inside).collect();
        alive.sort_by_key(|member| member.order);
        let alive = alive.into_iter().filter_map(|member| member.is_alive().then_some(&*member));
        alive.map(|member| (Pid::from_raw(member.pid), self.mask.process_name(&member.name))).collect()
    }

    /// The ledger's lines for `process` and `process_sample`.
    pub fn coverage(&self) -> Vec<Coverage> {
        self.ledger.coverage(self.others.is_some())
    }

    /// The number under which the process has its rows, and its resident memory; `None` if it is gone.
    fn sample_one(&mut self, pid: i32, t_ns: i64, journal: &Journal) -> Option<(i64, i64)> {
        let is_due = self.alive.get(&pid)?.is_due(t_ns, self.newest.may_be_another(pid));
        if is_due {
            self.read_traffic_ahead(pid, t_ns, journal);
        }
        let member = self.alive.get_mut(&pid)?;
        let before = member.last.clone();
        let Some(Reading { sample, slow }) = member.read(t_ns, self.units.page_bytes, is_due, &mut self.ledger) else {
            self.let_go(pid, t_ns, journal);
            return None;
        };
        let rss_bytes = member.last.rss_bytes.unwrap_or(0);
        let Some(process) = member.process else {
            let others = self.others.as_mut().filter(|_| self.group.counts(member.inside))?;
            others.count(&before, &member.last);
            return Some((others.process, rss_bytes));
        };
        if slow || !unchanged(&sample, &before) {
            journal.append(member.row(&sample, process));
        }
        self.write_name(pid, t_ns, journal);
        Some((process, rss_bytes))
    }

    /// Reads a process's I/O, and lets those of its children go that it has waited for since they were read: their I/O is
    /// in its own by now. Read again until nobody has gone: whoever is still there then is not in it.
    fn read_traffic_ahead(&mut self, pid: i32, t_ns: i64, journal: &Journal) {
        while let Some(grown) = self.alive.get_mut(&pid).and_then(Member::read_traffic_ahead) {
            if !self.let_children_go(pid, t_ns, journal, |child| child.traffic.may_be_in(grown)) {
                break;
            }
        }
    }

    /// Lets those children of a process go that have gone, of the ones that come into question; whether there was any.
    fn let_children_go(
        &mut self,
        parent_pid: i32,
        t_ns: i64,
        journal: &Journal,
        in_question: impl Fn(&Member) -> bool,
    ) -> bool {
        let children = self.alive.values_mut().filter(|member| member.parent_pid == parent_pid && in_question(member));
        let gone: Vec<i32> = children.filter_map(|child| child.is_gone().then_some(child.pid)).collect();
        gone.iter().for_each(|child| self.let_go(*child, t_ns, journal));
        !gone.is_empty()
    }

    fn write_others(&mut self, t_ns: i64, journal: &Journal) {
        let Some(others) = &mut self.others else { return };
        // A client's figures are not those of its container.
        let counts = |member: &&Member| member.process.is_none() && self.group.counts(member.inside);
        let members = self.alive.values().filter(counts);
        if let Some(row) = others.row(t_ns, members) {
            journal.append(row);
        }
    }

    /// Gives numbers of their own to those of the `other` that have become great, or have outlived the many.
    fn rank(&mut self, t_ns: i64, journal: &Journal) {
        if self.alive.values().all(|member| member.process.is_some()) {
            return;
        }
        let members: Vec<&Member> = self.alive.values().collect();
        for (new, old) in others::changes(&members, self.root_pid, t_ns) {
            if let Some(process) = old.and_then(|pid| self.alive.get_mut(&pid)?.join_others()) {
                write_end(process, t_ns, journal);
            }
            if let Some(new) = self.alive.get_mut(&new) {
                new.own_rows_since_ns = Some(t_ns);
            }
            self.give_number(new, t_ns, journal);
        }
    }

    /// Lets a process go that has left the tree without a last word: it was waited for by its own parent.
    fn let_go(&mut self, pid: i32, t_ns: i64, journal: &Journal) {
        // What it had inherited of its own children goes on with its own.
        self.let_children_go(pid, t_ns, journal, |_| true);
        let Some(member) = self.alive.get_mut(&pid) else { return };
        if let Some(process) = member.process {
            write_end(process, t_ns, journal);
        }
        let (parent_pid, traffic) = (member.parent_pid, std::mem::take(&mut member.traffic));
        if let Some(parent) = self.alive.get_mut(&parent_pid) {
            parent.traffic.child_has_gone(traffic);
        }
        self.forget(pid);
    }

    /// Writes who a process is, if it is not in the journal under its present name. The root's is known only after the
    /// shim has become the command.
    fn write_name(&mut self, pid: i32, t_ns: i64, journal: &Journal) {
        let Some(member) = self.alive.get_mut(&pid) else { return };
        let Some(process) = member.process.filter(|_| member.written_name.as_ref() != Some(&member.name)) else {
            return;
        };
        member.written_name = Some(member.name.clone());
        journal.append(Process {
            t_ns,
            process,
            pid: Some(i64::from(pid)),
            start_ns: Some(member.start_ticks * self.units.tick_ns - self.start_boottime_ns),
            parent: member.parent,
            name: Some(self.mask.process_name(&member.name)),
            role: self.group.role(member.inside),
            own_rows_since_ns: member.own_rows_since_ns,
        });
    }
}

/// Whether a sample tells nothing but what the one before it told.
fn unchanged(sample: &ProcessSample, before: &ProcessSample) -> bool {
    // Of what is read each second only such a reading tells.
    let mut expected = ProcessSample { t_ns: sample.t_ns, open_files: None, ..before.clone() };
    expected.context_switches = None;
    *sample == expected
}

/// Writes that a process was found gone: without a row of its own its end would be told only by its silence.
fn write_end(process: i64, t_ns: i64, journal: &Journal) {
    journal.append(ProcessSample { t_ns, process, ..ProcessSample::default() });
}

/// A quarter of the descriptors that this process may open at most are for the files of processes.
fn kept_open() -> usize {
    let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    usize::try_from(descriptors / 4 / files::FILES).unwrap_or(usize::MAX).min(OWN_AT_ONCE)
}

#[cfg(test)]
mod tests;

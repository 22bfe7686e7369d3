//! The walk through /proc: who has joined the tree, and who has left it.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};

use super::ProcessProbe;
use super::member::{self, Member};
use crate::record::probe::kernel::Identity;
use crate::trace::Journal;
use crate::trace::tables::ProcessSample;

/// Processes known not to be ours are looked at again after this many ticks: their pids can be reused.
const FORGET_STRANGERS_TICKS: u64 = 16;

impl ProcessProbe {
    /// Looks who has joined the tree. A look that fails changes nothing.
    pub fn find_members(&mut self, t_ns: i64, journal: &Journal) {
        self.ticks += 1;
        if self.ticks.is_multiple_of(FORGET_STRANGERS_TICKS) {
            self.strangers.clear();
        }
        let listed = self.present_pids();
        let Some(present) = self.ledger.walk.count(listed) else { return };
        self.look_at_group();
        self.strangers.retain(|pid| present.contains(pid) && !self.group.holds(*pid));
        let mut unknown = self.unknown_among(&present);
        // A parent can have a higher pid than its child, so go on until a pass finds nobody new.
        loop {
            let before = unknown.len();
            unknown.retain(|(pid, identity)| {
                let ours = self.group.holds(*pid) || self.is_ours(identity);
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
        let vanished: Vec<i32> = self.alive.keys().filter(|pid| !present.contains(pid)).copied().collect();
        for pid in vanished {
            self.write_end(pid, t_ns, journal);
            self.forget(pid);
        }
    }

    fn present_pids(&self) -> io::Result<HashSet<i32>> {
        let mut pids = HashSet::new();
        for entry in fs::read_dir(&self.proc)? {
            pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
        }
        Ok(pids)
    }

    /// Those of whom nothing is known yet. Whom the kernel does not show is a stranger; one that could not be looked at
    /// for another reason is tried again at the next tick.
    fn unknown_among(&mut self, present: &HashSet<i32>) -> Vec<(i32, Identity)> {
        let mut unknown = Vec::new();
        for pid in present {
            if self.alive.contains_key(pid) || self.strangers.contains(pid) || *pid == self.recorder_pid {
                continue;
            }
            match member::identity(&self.proc, *pid) {
                Ok(identity) => unknown.extend(identity.map(|identity| (*pid, identity))),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    self.strangers.insert(*pid);
                }
                Err(error) => {
                    self.ledger.walk.count::<()>(Err(error));
                }
            }
        }
        unknown
    }

    /// Looks who is in the run's control group: it knows of those too that left the tree unseen.
    fn look_at_group(&mut self) {
        self.group.look();
        for member in self.alive.values_mut().filter(|member| !member.inside) {
            if self.group.holds(member.pid) {
                member.inside = true;
                // Its role is another by now.
                member.written_name = None;
            }
        }
    }

    /// Whether a process belongs to the tree. One that is older than the root does not, even as a child of the
    /// recorder: it is left of an earlier run, or was there before the recorder was.
    fn is_ours(&self, identity: &Identity) -> bool {
        let parent = identity.parent_pid;
        let related = parent == self.recorder_pid || self.alive.contains_key(&parent);
        related && identity.start_ticks >= self.root_start_ticks
    }

    /// Admits an ended child of the recorder that no walk has seen: what it used is still to be had.
    pub(super) fn admit_ended(&mut self, pid: i32, t_ns: i64, journal: &Journal) {
        match member::identity(&self.proc, pid) {
            Ok(Some(identity)) if self.is_ours(&identity) => self.admit_and_write(pid, &identity, t_ns, journal),
            Ok(_) => {}
            Err(error) => {
                self.ledger.walk.count::<()>(Err(error));
            }
        }
    }

    fn admit_and_write(&mut self, pid: i32, identity: &Identity, t_ns: i64, journal: &Journal) {
        let parent = self.alive.get(&identity.parent_pid).map(Member::process);
        self.admit(pid, identity, parent);
        self.write_name(pid, t_ns, journal);
    }

    pub(super) fn admit(&mut self, pid: i32, identity: &Identity, parent: Option<i64>) {
        let stay_open = self.alive.values().filter(|member| member.keeps_files_open()).count() < self.kept_open;
        let mut member = Member::new(&self.proc, pid, identity, self.next_process, stay_open);
        member.parent = parent;
        member.inside = self.group.holds(pid);
        if member.inside && identity.start_ticks < self.root_start_ticks {
            // Of a container that was there before: what it used until now is not the run's.
            member.cpu_base_ns = member.cpu_ns().unwrap_or(0);
        }
        self.next_process += 1;
        self.alive.insert(pid, member);
    }

    /// Writes that a process was found gone: without a row of its own its end would be told only by its silence.
    pub(super) fn write_end(&self, pid: i32, t_ns: i64, journal: &Journal) {
        if let Some(member) = self.alive.get(&pid) {
            journal.append(ProcessSample { t_ns, process: member.process(), ..ProcessSample::default() });
        }
    }

    /// Lets a process go that has left the tree: of what was kept for it only its CPU time stays.
    pub(super) fn forget(&mut self, pid: i32) {
        let member = self.alive.remove(&pid).filter(|member| self.group.counts(member.inside));
        if let Some(cpu_ns) = member.and_then(|member| member.last.cpu_ns) {
            self.ended_cpu_ns = Some(self.ended_cpu_ns.unwrap_or(0) + cpu_ns);
        }
    }
}

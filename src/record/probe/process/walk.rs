//! The walk through /proc: who has joined the tree, and who has left it.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::ProcessProbe;
use super::member::{Member, SLOW_NS, counters};
use super::others::{self, OWN_AT_ONCE, Others};
use crate::record::probe::identity::who_is;
use crate::record::probe::kernel::{self, Identity};
use crate::record::source::Source;
use crate::trace::Journal;
use crate::trace::tables::Process;

/// Strangers are looked at again after this many walks: an orphan may have been handed to the recorder meanwhile, and
/// where the kernel does not tell which pids are new, they can have been reused.
const FORGET_STRANGERS_WALKS: u64 = 16;

/// The pid that was given out last. As long as it stays the same nobody has come, and the walk, the dearest of all
/// readings, can be spared.
pub(super) struct Newest {
    /// `None` where it cannot be relied on: emulated files are known to lag behind.
    loadavg: Option<Source>,
    /// At the last walk.
    pid: Option<i32>,
    walk_at_last_ns: i64,
    walks: u64,
    /// What the last look found.
    news: News,
}

/// Which pids can be new since the last walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    None,
    /// Those after the first up to the second; pids begin anew at the end of their range.
    Between(i32, i32),
    /// Nobody knows.
    Any,
}

impl Newest {
    pub(super) fn new(proc: &Path) -> Self {
        let loadavg = Some(Source::new(proc.join("loadavg"), &[]));
        Self { loadavg, pid: None, walk_at_last_ns: i64::MIN, walks: 0, news: News::Any }
    }

    /// Makes the next look a walk, whether or not somebody has come.
    pub(super) fn forget(&mut self) {
        self.pid = None;
    }

    /// Must be asked before the walk: who comes in between is then found again.
    fn news(&mut self) -> News {
        let newest = self.loadavg.as_mut().and_then(|source| source.try_read(kernel::newest_pid).ok());
        self.news = match (std::mem::replace(&mut self.pid, newest), newest) {
            (Some(before), Some(now)) if before == now => News::None,
            (Some(before), Some(now)) => News::Between(before, now),
            _ => News::Any,
        };
        self.news
    }

    /// Whether the pid may have been given out again before the last look.
    pub(super) fn may_be_another(&self, pid: i32) -> bool {
        self.news.has(pid)
    }
}

impl News {
    fn has(self, pid: i32) -> bool {
        match self {
            News::None => false,
            News::Between(before, now) if before < now => pid > before && pid <= now,
            News::Between(before, now) => pid > before || pid <= now,
            News::Any => true,
        }
    }
}

impl ProcessProbe {
    /// Looks who has joined the tree. A look that fails changes nothing.
    pub fn find_members(&mut self, t_ns: i64, journal: &Journal) {
        let news = self.newest.news();
        if news == News::None && t_ns < self.newest.walk_at_last_ns {
            return;
        }
        self.newest.walk_at_last_ns = t_ns + SLOW_NS;
        self.newest.walks += 1;
        let look_again = self.newest.walks.is_multiple_of(FORGET_STRANGERS_WALKS);
        if look_again {
            self.strangers.clear();
        }
        let listed = self.present_pids();
        let Some(present) = self.ledger.walk.count(listed) else {
            // Whoever is new is still new at the next tick.
            self.newest.forget();
            return;
        };
        self.look_at_group();
        let group = &self.group;
        let stays = |pid: &i32| present.contains(pid) && !group.holds(*pid) && (news == News::Any || !news.has(*pid));
        self.strangers.retain(stays);
        let mut unknown = self.unknown_among(&present);
        // A parent can have a higher pid than its child, so go on until a pass finds nobody new.
        loop {
            let before = unknown.len();
            unknown.retain(|(pid, identity)| {
                let in_group = self.group.holds(*pid);
                let ours = in_group || self.is_ours(*pid, identity);
                if ours {
                    self.admit_and_write(*pid, identity, t_ns, journal);
                    if !(news.has(*pid) || look_again || in_group) {
                        self.newest.loadavg = None;
                    }
                }
                !ours
            });
            if unknown.len() == before {
                break;
            }
        }
        self.earlier.add_descendants(&unknown);
        self.strangers.extend(unknown.iter().map(|(pid, _)| *pid));
        // A process that vanished without a last word was waited for by its own parent.
        let vanished = self.alive.values().filter(|member| !present.contains(&member.pid));
        let mut vanished: Vec<(u64, i32)> = vanished.map(|member| (member.order, member.pid)).collect();
        // Children first, so that what they hand on reaches whoever is left.
        vanished.sort_unstable_by(|a, b| b.cmp(a));
        for (_, pid) in vanished {
            self.let_go(pid, t_ns, journal);
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
    /// for another reason is tried again at the next walk.
    fn unknown_among(&mut self, present: &HashSet<i32>) -> Vec<(i32, Identity)> {
        let mut unknown = Vec::new();
        for pid in present {
            if self.alive.contains_key(pid) || self.strangers.contains(pid) || *pid == self.recorder_pid {
                continue;
            }
            match who_is(&self.proc, *pid) {
                Ok(identity) => unknown.extend(identity.map(|identity| (*pid, identity))),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    self.strangers.insert(*pid);
                }
                Err(error) => {
                    self.ledger.walk.count::<()>(Err(error));
                    // It is still new at the next tick.
                    self.newest.forget();
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
    /// recorder: it is left of an earlier run, or was there before the recorder was. Ticks are long, so those that are
    /// known to be older are known by name too.
    fn is_ours(&self, pid: i32, identity: &Identity) -> bool {
        let parent = identity.parent_pid;
        let related = parent == self.recorder_pid || self.alive.contains_key(&parent);
        related && identity.start_ticks >= self.root_start_ticks && !self.earlier.holds(pid, identity.start_ticks)
    }

    /// Admits an ended child of the recorder that no walk has seen: what it used is still to be had.
    pub(super) fn admit_ended(&mut self, pid: i32, t_ns: i64, journal: &Journal) {
        match who_is(&self.proc, pid) {
            Ok(Some(identity)) if self.is_ours(pid, &identity) => self.admit_and_write(pid, &identity, t_ns, journal),
            Ok(_) => {}
            Err(error) => {
                self.ledger.walk.count::<()>(Err(error));
            }
        }
    }

    fn admit_and_write(&mut self, pid: i32, identity: &Identity, t_ns: i64, journal: &Journal) {
        self.admit(pid, identity, t_ns);
        if self.own_rows_left() {
            self.give_number(pid, t_ns, journal);
        } else if self.others.is_none() {
            self.begin_others(t_ns, journal);
        }
    }

    pub(super) fn admit(&mut self, pid: i32, identity: &Identity, t_ns: i64) {
        let mut member = Member::new(&self.proc, pid, identity, self.admitted, t_ns);
        self.admitted += 1;
        let parent = self.alive.get(&identity.parent_pid);
        member.parent = parent.and_then(|parent| parent.process.or(self.others.as_ref().map(|others| others.process)));
        member.inside = self.group.holds(pid);
        if member.inside && identity.start_ticks < self.root_start_ticks {
            // Of a container that was there before: what it used until now is not the run's.
            member.count_from_here();
        }
        self.alive.insert(pid, member);
    }

    fn own_rows_left(&self) -> bool {
        let own = self.alive.values().filter(|member| member.process.is_some()).count();
        own < OWN_AT_ONCE && self.next_process < self.own_in_all
    }

    /// From here on the process has rows of its own.
    pub(super) fn give_number(&mut self, pid: i32, t_ns: i64, journal: &Journal) {
        self.number(pid);
        self.write_name(pid, t_ns, journal);
    }

    pub(super) fn number(&mut self, pid: i32) {
        let open = self.alive.values().filter(|member| member.keeps_files_open()).count();
        let Some(member) = self.alive.get_mut(&pid) else { return };
        member.keep_files_open(open < self.kept_open);
        member.process = Some(self.next_process);
        self.next_process += 1;
        let mut last = member.last.clone();
        member.counted_before = counters(&mut last).map(|value| value.unwrap_or(0));
        member.written_name = None;
        // Its first row is written whether or not anything has changed.
        member.read_all_next();
    }

    fn begin_others(&mut self, t_ns: i64, journal: &Journal) {
        let process = self.next_process;
        self.next_process += 1;
        let name = Some(others::NAME.to_owned());
        journal.append(Process { t_ns, process, start_ns: Some(t_ns), name, ..Process::default() });
        self.others = Some(Others::new(process));
    }

    /// Lets a process go that has left the tree: of what was kept for it only its CPU time stays.
    pub(super) fn forget(&mut self, pid: i32) {
        let Some(member) = self.alive.remove(&pid) else { return };
        if !self.group.counts(member.inside) {
            return;
        }
        if let Some(others) = self.others.as_mut().filter(|_| member.process.is_none()) {
            others.keep_peak(&member);
        }
        if let Some(cpu_ns) = member.last.cpu_ns {
            self.ended_cpu_ns = Some(self.ended_cpu_ns.unwrap_or(0) + cpu_ns);
        }
    }
}

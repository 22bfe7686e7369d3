//! Children of this process that have ended: who, how, and whether any child is left at all.

use std::collections::HashMap;
use std::path::Path;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;

use super::cost::Used;
use super::probe::identity::who_is;
use super::probe::kernel::Identity;
use crate::trace::run::Outcome;

/// What the kernel says of our children: the root process, and orphans of its tree that were handed to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    /// One has ended and waits to be let go; until then its last figures can still be read.
    Ended { pid: Pid, outcome: Outcome },
    /// There are some, and all of them run.
    Running,
    /// There is none, and so no process of the tree is left anywhere.
    None,
}

/// Children of this process that were there before a run: a shell that became this program had started them, or an earlier
/// run has left them. They are not the run's to end, nor does it wait until they have: what they use is not counted, and one
/// that ends meanwhile is let go like any other child, since nobody else can.
#[derive(Clone, Debug, Default)]
pub struct Earlier(HashMap<i32, i64>);

impl Earlier {
    /// Those that are there now, in `proc` (`/proc`, or a folder that looks like it).
    pub fn look(proc: &Path) -> Self {
        match look() {
            // As nearly always; then nobody needs to be looked at.
            Children::None => Self::default(),
            Children::Running | Children::Ended { .. } => Self::of(proc, Pid::this().as_raw()),
        }
    }

    pub(super) fn of(proc: &Path, parent: i32) -> Self {
        Self(children(proc, parent).map(|(pid, identity)| (pid, identity.start_ticks)).collect())
    }

    /// Whether a process is one of them, and not another one under its pid.
    pub fn holds(&self, pid: i32, start_ticks: i64) -> bool {
        self.0.get(&pid) == Some(&start_ticks)
    }

    /// Adds those among `others` that descend from them: once their parents have ended they are children of this process.
    pub fn add_descendants(&mut self, others: &[(i32, Identity)]) {
        if self.0.is_empty() {
            return;
        }
        loop {
            let before = self.0.len();
            let descends = |(_, identity): &&(i32, Identity)| self.0.contains_key(&identity.parent_pid);
            let found: Vec<&(i32, Identity)> = others.iter().filter(descends).collect();
            self.0.extend(found.into_iter().map(|(pid, identity)| (*pid, identity.start_ticks)));
            if self.0.len() == before {
                return;
            }
        }
    }

    /// Whether no other child is left.
    pub fn are_all(&self, proc: &Path) -> bool {
        self.are_all_of(proc, Pid::this().as_raw())
    }

    fn are_all_of(&self, proc: &Path, parent: i32) -> bool {
        !self.0.is_empty() && children(proc, parent).all(|(pid, identity)| self.holds(pid, identity.start_ticks))
    }
}

/// The processes that have this parent.
fn children(proc: &Path, parent: i32) -> impl Iterator<Item = (i32, Identity)> {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let proc = proc.to_owned();
    let identified = pids.filter_map(move |pid| Some((pid, who_is(&proc, pid).ok()??)));
    identified.filter(move |(_, identity)| identity.parent_pid == parent)
}

/// Looks for a child that has ended, without letting it go; [`reap`] does.
///
/// The C function is called because nix has no name for real-time signals, and would turn a child that was ended by one
/// into an error.
#[allow(unsafe_code, reason = "waitid is not wrapped without loss")]
pub fn look() -> Children {
    // SAFETY: siginfo_t is plain data for which zero is a valid value, and waitid fills it or leaves it.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    loop {
        // SAFETY: `info` is valid for writing, and the other arguments are plain numbers.
        let result = Errno::result(unsafe { libc::waitid(libc::P_ALL, 0, &mut info, flags) });
        match result {
            Err(Errno::EINTR) => {}
            Err(_) => return Children::None,
            Ok(_) => break,
        }
    }
    // SAFETY: waitid succeeded, so the fields of a SIGCHLD are the ones that are set; zero where no child has ended.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return Children::Running;
    }
    let outcome = match (info.si_code, status) {
        (libc::CLD_EXITED, 0) => Outcome::Finished,
        (libc::CLD_EXITED, exit_code) => Outcome::Failed { exit_code },
        (_, signal) => Outcome::Killed { signal },
    };
    Children::Ended { pid: Pid::from_raw(pid), outcome }
}

/// Lets an ended child go; returns what it used, with the children that it had waited for.
#[allow(unsafe_code, reason = "nix has no wait4")]
pub fn reap(pid: Pid) -> Option<Used> {
    // SAFETY: rusage is plain data for which zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: `usage` is valid for writing; a null status is not written.
        let result = Errno::result(unsafe { libc::wait4(pid.as_raw(), std::ptr::null_mut(), 0, &mut usage) });
        match result {
            Err(Errno::EINTR) => {}
            Err(_) => return None,
            Ok(_) => return Some(Used::of(&usage)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_that_were_there_before_are_told_from_later_ones_also_under_their_pids() {
        let proc = tempfile::tempdir().unwrap();
        let put = |pid: i32, parent: i32, start_ticks: i64| {
            let dir = proc.path().join(pid.to_string());
            std::fs::create_dir_all(&dir).unwrap();
            let zeros = "0 ".repeat(17);
            std::fs::write(dir.join("stat"), format!("{pid} (sleep) S {parent} {zeros}{start_ticks} 0")).unwrap();
        };
        put(7, 5, 100);
        put(8, 7, 100);
        let earlier = Earlier::of(proc.path(), 5);
        assert!(earlier.holds(7, 100) && !earlier.holds(8, 100) && earlier.are_all_of(proc.path(), 5));
        // A pid is given out again.
        put(7, 5, 200);
        assert!(!earlier.are_all_of(proc.path(), 5));
        put(7, 5, 100);
        put(9, 8, 300);
        let descended = |pid: i32| children(proc.path(), pid).collect::<Vec<_>>();
        let mut more = earlier.clone();
        more.add_descendants(&[descended(8), descended(7)].concat());
        assert!(more.holds(8, 100) && more.holds(9, 300) && !earlier.holds(9, 300));
        put(9, 5, 300);
        assert!(more.are_all_of(proc.path(), 5), "it was handed on");
        assert!(!earlier.are_all_of(proc.path(), 5));
        assert!(!Earlier::default().are_all_of(Path::new("/no/such/proc"), 5), "it knows of nobody");
    }
}

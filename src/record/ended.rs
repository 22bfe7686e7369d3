//! Children of this process that have ended: who, how, and whether any child is left at all.

use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;

use super::cost::Used;
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

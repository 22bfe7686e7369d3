//! A process that is no child of ours, and whose end is to be known at once.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Becomes readable when the process ends, before anybody has waited for it.
#[derive(Debug)]
pub(super) struct End(OwnedFd);

impl End {
    /// `None` where the process is gone, or before Linux 5.3.
    #[allow(unsafe_code, reason = "pidfd_open is not wrapped")]
    pub(super) fn of(pid: i32) -> Option<Self> {
        // SAFETY: the arguments are plain numbers.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let descriptor = i32::try_from(descriptor).ok().filter(|descriptor| *descriptor >= 0)?;
        // SAFETY: the kernel has just given this descriptor to us, closed on exec.
        Some(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Whether the process has ended.
    pub(super) fn has_come(&self) -> bool {
        let mut descriptors = [PollFd::new(self.descriptor(), PollFlags::POLLIN)];
        poll(&mut descriptors, PollTimeout::ZERO) == Ok(1)
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_is_known_before_it_is_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let end = End::of(i32::try_from(child.id()).unwrap());
        let had_come = end.as_ref().map(End::has_come);
        child.kill().unwrap();
        if let Some(end) = end {
            let mut descriptors = [PollFd::new(end.descriptor(), PollFlags::POLLIN)];
            assert_eq!(poll(&mut descriptors, PollTimeout::from(20_000_u16)), Ok(1));
            assert_eq!((had_come, end.has_come()), (Some(false), true));
        }
        child.wait().unwrap();
    }
}

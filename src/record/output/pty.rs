//! Streams of the child: a pseudo-terminal where ours is a terminal, so that a command behaves as without us, else a
//! pipe.

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Stdio;

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

/// Which of our own streams a stream of the child's goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ours {
    Stdout,
    Stderr,
}

impl Ours {
    pub fn is_terminal(self) -> bool {
        match self {
            Ours::Stdout => std::io::stdout().is_terminal(),
            Ours::Stderr => std::io::stderr().is_terminal(),
        }
    }

    /// The stream itself, without a buffer before it; none where it is closed.
    pub(super) fn duplicate(self) -> Option<File> {
        let duplicate = match self {
            Ours::Stdout => std::io::stdout().as_fd().try_clone_to_owned(),
            Ours::Stderr => std::io::stderr().as_fd().try_clone_to_owned(),
        };
        duplicate.ok().map(File::from)
    }

    /// As it is told to the user.
    pub(super) fn name(self) -> &'static str {
        match self {
            Ours::Stdout => "standard output",
            Ours::Stderr => "standard error",
        }
    }

    fn descriptor(self) -> i32 {
        match self {
            Ours::Stdout => libc::STDOUT_FILENO,
            Ours::Stderr => libc::STDERR_FILENO,
        }
    }
}

/// Both ends of a stream.
#[derive(Debug)]
pub struct Ends {
    /// What the child writes to.
    pub child: Stdio,
    /// Where we read it.
    pub stream: File,
    /// The pseudo-terminal's size, where it is one.
    pub window: Option<Window>,
}

/// Makes a stream for the child. Where no pseudo-terminal can be had a pipe does.
///
/// # Errors
/// Not even a pipe could be made.
pub fn ends(ours: Ours) -> Result<Ends> {
    if ours.is_terminal()
        && let Ok(ends) = terminal(ours)
    {
        return Ok(ends);
    }
    let (reader, writer) = std::io::pipe().context("cannot make a pipe for the command's output")?;
    Ok(Ends { child: writer.into(), stream: File::from(OwnedFd::from(reader)), window: None })
}

fn terminal(ours: Ours) -> Result<Ends> {
    let pty = openpty(&size_of(ours.descriptor()).unwrap_or(ORDINARY), None)?;
    for end in [&pty.master, &pty.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    // Our own terminal turns line ends into what it needs: bytes pass here unchanged.
    let mut modes = tcgetattr(&pty.slave)?;
    cfmakeraw(&mut modes);
    tcsetattr(&pty.slave, SetArg::TCSANOW, &modes)?;
    let window = Window { ours, master: pty.master.try_clone()? };
    Ok(Ends { child: pty.slave.into(), stream: File::from(pty.master), window: Some(window) })
}

/// For a terminal that does not tell its size.
const ORDINARY: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// The size of a child's pseudo-terminal, which is to be that of our terminal.
#[derive(Debug)]
pub struct Window {
    ours: Ours,
    master: OwnedFd,
}

impl Window {
    /// Takes the size of our terminal over.
    #[allow(unsafe_code, reason = "nix does not wrap TIOCSWINSZ")]
    pub fn follow(&self) {
        if let Some(size) = size_of(self.ours.descriptor()) {
            // SAFETY: TIOCSWINSZ reads one winsize, which `size` is, and the descriptor is open. A failure changes nothing.
            unsafe { libc::ioctl(self.master.as_fd().as_raw_fd(), libc::TIOCSWINSZ, &size) };
        }
    }
}

#[allow(unsafe_code, reason = "nix does not wrap TIOCGWINSZ")]
fn size_of(descriptor: i32) -> Option<Winsize> {
    let mut size = Winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize, which `size` is.
    let told = unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &mut size) } == 0;
    (told && size.ws_col > 0).then_some(size)
}

//! Signals as bytes on sockets, so that one wait covers them, the child's end and the next tick.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};

/// The signals that a recorder listens to.
#[derive(Debug)]
pub struct Signals {
    stop: UnixStream,
    child: UnixStream,
}

impl Signals {
    /// Registers for the rest of the program's life.
    ///
    /// # Errors
    /// A socket or handler could not be made.
    pub fn listen() -> Result<Self> {
        Ok(Self { stop: receiver(&[SIGINT, SIGTERM])?, child: receiver(&[SIGCHLD])? })
    }

    /// Waits until a signal comes or the time is over.
    pub fn wait(&self, time: Duration) {
        let mut sockets =
            [PollFd::new(self.stop.as_fd(), PollFlags::POLLIN), PollFd::new(self.child.as_fd(), PollFlags::POLLIN)];
        // Interrupted or timed out: the caller looks at everything anyway.
        let _ = ppoll(&mut sockets, Some(TimeSpec::from_duration(time)), None);
        drain(&self.child);
    }

    /// How many times the user asked to stop since the last call.
    pub fn stop_requests(&self) -> usize {
        drain(&self.stop)
    }
}

fn receiver(signals: &[i32]) -> Result<UnixStream> {
    let (receiver, sender) = UnixStream::pair().context("cannot make a socket for signals")?;
    receiver.set_nonblocking(true).context("cannot prepare the socket for signals")?;
    for signal in signals {
        let sender = sender.try_clone().context("cannot prepare the socket for signals")?;
        signal_hook::low_level::pipe::register(*signal, sender)
            .with_context(|| format!("cannot listen to signal {signal}"))?;
    }
    Ok(receiver)
}

fn drain(mut socket: &UnixStream) -> usize {
    let mut bytes = [0; 64];
    let mut drained = 0;
    while let Ok(count @ 1..) = socket.read(&mut bytes) {
        drained += count;
    }
    drained
}

//! Signals as bytes on sockets, so that one wait covers them, the child's end and the next tick.

use std::cell::Cell;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};

/// The signals that a recorder listens to.
#[derive(Debug)]
pub struct Signals {
    stop: UnixStream,
    child: UnixStream,
    resized: UnixStream,
    was_resized: Cell<bool>,
    stop_requests: Cell<usize>,
}

impl Signals {
    /// Registers for the rest of the program's life.
    ///
    /// # Errors
    /// A socket or handler could not be made.
    pub fn listen() -> Result<Self> {
        // A file that may not grow any more (ulimit -f) is an error to be told, no reason to die. With a handler instead
        // of SIG_IGN the workload does not inherit that.
        let ignored = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(nix::libc::SIGXFSZ, ignored).context("cannot listen to SIGXFSZ")?;
        let mut stopping = vec![SIGINT, SIGTERM, SIGQUIT];
        // Under nohup the end of the terminal is to be survived.
        if !is_ignored(SIGHUP) {
            stopping.push(SIGHUP);
        }
        Ok(Self {
            stop: receiver(&stopping)?,
            child: receiver(&[SIGCHLD])?,
            resized: receiver(&[SIGWINCH])?,
            was_resized: Cell::new(false),
            stop_requests: Cell::new(0),
        })
    }

    /// Waits until a signal comes or the time is over.
    pub fn wait(&self, time: Duration) {
        self.wait_also(time, None);
    }

    /// Like [`Signals::wait`], and until there is something to read from `other`.
    pub fn wait_also(&self, time: Duration, other: Option<BorrowedFd<'_>>) {
        let sockets = [&self.stop, &self.child, &self.resized].into_iter().map(AsFd::as_fd).chain(other);
        let mut sockets: Vec<PollFd<'_>> = sockets.map(|socket| PollFd::new(socket, PollFlags::POLLIN)).collect();
        // Interrupted or timed out: the caller looks at everything anyway.
        let _ = ppoll(&mut sockets, Some(TimeSpec::from_duration(time)), None);
        drain(&self.child);
        self.was_resized.set(self.was_resized.get() | (drain(&self.resized) > 0));
    }

    /// Whether our terminal has changed its size since the last call.
    pub fn was_resized(&self) -> bool {
        self.was_resized.take()
    }

    /// How many times the user has asked to stop so far.
    pub fn stop_requests(&self) -> usize {
        self.stop_requests.set(self.stop_requests.get() + drain(&self.stop));
        self.stop_requests.get()
    }
}

/// Whether a signal was set to be ignored before this program started.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// One socket for several signals: with one for each, as signal-hook's own pipes want it, a recorder that may open few
/// files would have none left.
#[allow(unsafe_code, reason = "to register a handler is unsafe by itself")]
fn receiver(signals: &[i32]) -> Result<UnixStream> {
    let (receiver, sender) = UnixStream::pair().context("cannot make a socket for signals")?;
    let ready = receiver.set_nonblocking(true).and_then(|()| sender.set_nonblocking(true));
    ready.context("cannot prepare the socket for signals")?;
    let sender = Arc::new(sender);
    for signal in signals {
        let sender = Arc::clone(&sender);
        // A socket that is full has been told often enough.
        let wake = move || drop((&*sender).write(&[0]));
        // SAFETY: the handler writes a byte to a socket that does not block, which a handler may do; it takes no lock and
        // no memory.
        unsafe { signal_hook::low_level::register(*signal, wake) }
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

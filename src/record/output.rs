//! The command's output: passed through as it comes, its last lines kept for the case that the run fails, and read for
//! what it shows of progress.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::child::Child;
use super::clock;
use super::progress::Progress;
use super::steps::progress::ProgressReader;
use super::threads;

mod keep;
mod pty;
mod tail;

pub use keep::Kept;
pub use pty::{Ends, Ours, Window, ends};
pub(in crate::record) use tail::plain_text;
use tail::{Line, Tail};

/// As much as a pipe holds.
const CHUNK_BYTES: usize = 64 << 10;
/// How long the recorder waits for streams that somebody outside the run still holds open.
const CLOSE_GRACE: Duration = Duration::from_millis(500);

/// The threads that pass a run's output on.
#[derive(Debug)]
pub struct Streams {
    tail: Arc<Tail>,
    kept: Option<Arc<Kept>>,
    not_passed_on: Arc<OnceLock<String>>,
    ended: Receiver<()>,
    count: usize,
}

/// What is left of the output when the run is over.
#[derive(Debug)]
pub struct Remains {
    /// The last lines, oldest first.
    pub tail: Vec<String>,
    /// Why the output could not be kept whole, where it was to be.
    pub not_kept: Option<String>,
    /// Why not all of it reached our own streams, where somebody still wanted it there.
    pub not_passed_on: Option<String>,
}

impl Streams {
    /// Passes both streams of the child on to our own. `reader` gives each a reader of progress, or none.
    ///
    /// # Errors
    /// There is no thread to be had for it: a command that nobody listens to would stand still before long.
    pub fn pass_on(
        child: &mut Child,
        progress: &Progress,
        kept: Option<Kept>,
        reader: impl Fn() -> Option<ProgressReader>,
    ) -> Result<Self> {
        let (sender, ended) = std::sync::mpsc::channel();
        let (tail, not_passed_on) = (Arc::default(), Arc::default());
        let mut streams = Self { tail, kept: kept.map(Arc::new), not_passed_on, ended, count: 0 };
        for (stream, ours) in [(child.stdout.take(), Ours::Stdout), (child.stderr.take(), Ours::Stderr)] {
            if let Some(stream) = stream {
                streams.start(stream, ours, progress.clone(), reader(), sender.clone())?;
            }
        }
        Ok(streams)
    }

    fn start(
        &mut self,
        stream: File,
        ours: Ours,
        progress: Progress,
        reader: Option<ProgressReader>,
        ended: Sender<()>,
    ) -> Result<()> {
        let mut passed_on = ours.duplicate();
        let mut listener =
            Listener { tail: Arc::clone(&self.tail), begun: Line::default(), kept: self.kept.clone(), reader };
        let on_terminal = ours.is_terminal();
        let not_passed_on = Arc::clone(&self.not_passed_on);
        self.count += 1;
        let listen = move || {
            copy(stream, |output| {
                let t_ns = clock::monotonic_ns();
                let passed = progress.beside(on_terminal, output, || pass_on(passed_on.as_mut(), output));
                if let Err(error) = passed {
                    let words = format!("the command's output could not all be written to {} ({error})", ours.name());
                    // Once, whichever stream it is.
                    if not_passed_on.set(words.clone()).is_ok() {
                        progress.say(&format!("{words}; the run goes on"));
                    }
                }
                listener.take(output, t_ns);
            });
            listener.end();
            // Nobody listens any more when the grace is over.
            let _ = ended.send(());
        };
        threads::start("output", listen).context("cannot pass the command's output on")?;
        Ok(())
    }

    /// Waits until both streams have ended, though not for long, and returns what is left of them.
    pub fn close(self) -> Remains {
        let open = (0..self.count).take_while(|_| self.ended.recv_timeout(CLOSE_GRACE).is_ok()).count() < self.count;
        let mut tail = self.tail.lines();
        if open {
            tail.push("(the output was still held open by a process outside the run)".to_owned());
        }
        let not_passed_on = self.not_passed_on.get().cloned();
        Remains { tail, not_kept: self.kept.and_then(|kept| kept.close()), not_passed_on }
    }
}

/// Who else gets what a stream says, once it has been passed on.
struct Listener {
    tail: Arc<Tail>,
    begun: Line,
    kept: Option<Arc<Kept>>,
    reader: Option<ProgressReader>,
}

impl Listener {
    fn take(&mut self, output: &[u8], t_ns: i64) {
        self.tail.take(output, &mut self.begun);
        if let Some(kept) = &self.kept {
            kept.take(output);
        }
        if let Some(reader) = &mut self.reader {
            reader.take(output, t_ns);
        }
    }

    fn end(&mut self) {
        self.tail.end(&mut self.begun);
        if let Some(reader) = &mut self.reader {
            reader.end();
        }
    }
}

/// Reads a stream until it ends, or all who hold it have closed it: then a pseudo-terminal fails to be read.
fn copy(mut stream: impl Read, mut each: impl FnMut(&[u8])) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => each(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
}

/// Writes to our own stream. A reader that went away wants no more, and is no reason to disturb the workload.
///
/// # Errors
/// The stream does not take all, for another reason.
fn pass_on(ours: Option<&mut File>, mut output: &[u8]) -> std::io::Result<()> {
    let Some(ours) = ours else { return Ok(()) };
    while !output.is_empty() {
        match ours.write(output) {
            Ok(count) => output = &output[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Whoever shares our stream may have made it so that a full one does not wait.
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait_for_room(ours),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn wait_for_room(ours: &File) {
    let mut stream = [PollFd::new(ours.as_fd(), PollFlags::POLLOUT)];
    // Tried again either way.
    let _ = poll(&mut stream, PollTimeout::from(100_u8));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_passes_unchanged_whatever_its_bytes() {
        let text: Vec<u8> = (0..500_000_u32).map(|n| (n % 251) as u8).collect();
        let mut passed = Vec::new();
        copy(text.as_slice(), |output| passed.extend_from_slice(output));
        assert_eq!(passed, text);
    }
}

//! The command's output: passed through as it comes, its last lines kept for the case that the run fails.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::child::Child;
use super::progress::Progress;

/// Lines kept of both streams together.
const KEPT_LINES: usize = 200;
/// A line longer than this is kept in part.
const KEPT_LINE_BYTES: usize = 2000;

/// The last lines of a run's output.
#[derive(Debug, Default)]
pub struct Tail {
    lines: Mutex<VecDeque<String>>,
}

impl Tail {
    /// The lines, oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().map(|lines| lines.iter().cloned().collect()).unwrap_or_default()
    }

    fn keep(&self, line: &[u8]) {
        let end = line.len().min(KEPT_LINE_BYTES);
        let text = String::from_utf8_lossy(&line[..end]).trim_end().to_owned();
        if let Ok(mut lines) = self.lines.lock() {
            if lines.len() == KEPT_LINES {
                lines.pop_front();
            }
            lines.push_back(text);
        }
    }

    /// Copies a stream to `out` until it ends, or all who hold it have closed it.
    pub fn copy(&self, mut stream: impl Read, mut out: impl FnMut(&[u8])) {
        let mut chunk = [0; 16 * 1024];
        let mut line: Vec<u8> = Vec::new();
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => {
                    out(&chunk[..count]);
                    self.split(&chunk[..count], &mut line);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        if !line.is_empty() {
            self.keep(&line);
        }
    }

    fn split(&self, chunk: &[u8], line: &mut Vec<u8>) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            // Bounded even for output without a line end.
            let room = KEPT_LINE_BYTES.saturating_sub(line.len());
            line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                self.keep(line);
                line.clear();
            }
        }
    }
}

/// How long the recorder waits for streams that somebody outside the run still holds open.
const CLOSE_GRACE: Duration = Duration::from_millis(500);

/// The threads that pass a run's output on.
#[derive(Debug)]
pub struct Streams {
    tail: Arc<Tail>,
    ended: Receiver<()>,
    count: usize,
}

impl Streams {
    /// Passes both streams of the child on to our own.
    pub fn pass_on(child: &mut Child, progress: &Progress) -> Self {
        let tail = Arc::new(Tail::default());
        let (sender, ended) = std::sync::mpsc::channel();
        let mut streams = Self { tail, ended, count: 0 };
        if let Some(stdout) = child.stdout.take() {
            streams.start(stdout, std::io::stdout, progress.clone(), sender.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            streams.start(stderr, std::io::stderr, progress.clone(), sender);
        }
        streams
    }

    fn start<W: Write + 'static>(
        &mut self,
        stream: impl Read + Send + 'static,
        ours: fn() -> W,
        progress: Progress,
        ended: Sender<()>,
    ) {
        let tail = Arc::clone(&self.tail);
        self.count += 1;
        std::thread::spawn(move || {
            tail.copy(stream, |bytes| progress.beside(|| pass_on(ours(), bytes)));
            // Nobody listens any more when the grace is over.
            let _ = ended.send(());
        });
    }

    /// Waits until both streams have ended, though not for long, and returns the last lines.
    pub fn close(self) -> Vec<String> {
        let open = (0..self.count).take_while(|_| self.ended.recv_timeout(CLOSE_GRACE).is_ok()).count() < self.count;
        let mut lines = self.tail.lines();
        if open {
            lines.push("(the output was still held open by a process outside the run)".to_owned());
        }
        lines
    }
}

/// Writes to our own stream; a reader that went away is no reason to disturb the workload.
fn pass_on(mut stream: impl Write, bytes: &[u8]) {
    let _ = stream.write_all(bytes).and_then(|()| stream.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_passes_unchanged_and_the_last_lines_are_kept() {
        let text: Vec<u8> = (0..500).flat_map(|n| format!("line {n}\n").into_bytes()).chain(*b"no end").collect();
        let (tail, mut passed) = (Tail::default(), Vec::new());
        tail.copy(text.as_slice(), |bytes| passed.extend_from_slice(bytes));
        assert_eq!(passed, text);
        let lines = tail.lines();
        assert_eq!((lines.len(), lines[0].as_str(), lines[199].as_str()), (200, "line 301", "no end"));
    }

    #[test]
    fn invalid_utf8_and_endless_lines_do_no_harm() {
        let (tail, text) = (Tail::default(), [vec![0xff; 100_000], b"\nafter\n".to_vec()].concat());
        tail.copy(text.as_slice(), |_| ());
        assert_eq!(tail.lines().len(), 2);
        assert!(tail.lines()[0].len() <= 3 * KEPT_LINE_BYTES);
    }
}

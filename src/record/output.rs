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
/// Of a longer line the last bytes are kept.
const KEPT_LINE_BYTES: usize = 2000;
/// Words left out where the beginning of a line was let go.
const CUT_WORDS: usize = 3;

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

    fn keep(&self, text: String) {
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
        let mut line = Line::default();
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
        let last = line.take();
        if !last.is_empty() {
            self.keep(last);
        }
    }

    fn split(&self, chunk: &[u8], line: &mut Line) {
        for piece in chunk.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            match piece.split_last() {
                Some((b'\n', piece)) => {
                    line.push(piece);
                    self.keep(line.take());
                }
                Some((b'\r', piece)) => {
                    line.push(piece);
                    line.update();
                }
                _ => line.push(piece),
            }
        }
    }
}

/// A line as it comes, bounded even for output without a line end.
#[derive(Debug, Default)]
struct Line {
    bytes: Vec<u8>,
    /// Whether the line's beginning was let go.
    cut: bool,
    /// What the line said when it was last written over: a progress bar is one line, as on a terminal.
    shown: String,
}

impl Line {
    /// Keeps the end: that is where an error stands.
    fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        if self.bytes.len() > 2 * KEPT_LINE_BYTES {
            self.bytes.drain(..self.bytes.len() - KEPT_LINE_BYTES);
            self.cut = true;
        }
    }

    /// Ends what the next update will write over.
    fn update(&mut self) {
        let text = self.text();
        if !text.is_empty() {
            self.shown = text;
        }
        self.bytes.clear();
        self.cut = false;
    }

    /// Ends the line.
    fn take(&mut self) -> String {
        self.update();
        std::mem::take(&mut self.shown)
    }

    fn text(&self) -> String {
        let start = self.bytes.len().saturating_sub(KEPT_LINE_BYTES);
        let text = without_colours(&String::from_utf8_lossy(&self.bytes[start..]));
        let text = text.trim_end();
        if start == 0 && !self.cut {
            return text.to_owned();
        }
        // A name that was cut off may have told that what follows is secret: `Authorization: Bearer …`.
        let mut words = text.char_indices().filter(|(_, letter)| letter.is_whitespace());
        let begin = words.nth(CUT_WORDS - 1).map_or(0, |(at, _)| at);
        format!("…{}", &text[begin..])
    }
}

/// Leaves out a terminal's control sequences, `ESC [ … letter`: they would part a name from its value.
fn without_colours(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let parameters = piece.find(|c: char| !matches!(c, ' '..='?')).unwrap_or(piece.len());
        let end = piece[parameters..].chars().next().filter(char::is_ascii).map_or(0, char::len_utf8);
        plain.push_str(&piece[parameters + end..]);
    }
    plain
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
        assert!(tail.lines()[0].len() <= 3 * KEPT_LINE_BYTES + "…".len());
    }

    fn kept(text: &str) -> Vec<String> {
        let tail = Tail::default();
        tail.copy(text.as_bytes(), |_| ());
        tail.lines()
    }

    #[test]
    fn a_progress_bar_is_one_line_and_what_comes_after_it_is_kept() {
        let bar: String = (0..=1000).map(|n| format!("\r{n}/1000 |####|")).collect();
        assert_eq!(kept(&format!("start\n{bar}\nerror\n")), ["start", "1000/1000 |####|", "error"]);
        assert_eq!(kept(&format!("{bar}\r\nerror\r\n\r\nend\r")), ["1000/1000 |####|", "error", "", "end"]);
        assert_eq!(kept(&format!("{bar}\rCUDA out of memory")), ["CUDA out of memory"]);
    }

    #[test]
    fn of_a_long_line_the_end_is_kept_but_no_value_whose_name_was_cut_off() {
        let words = "word ".repeat(2000);
        let line = &kept(&format!("{words}the error\n"))[0];
        assert!(line.starts_with("… word") && line.ends_with("the error") && line.len() <= KEPT_LINE_BYTES);
        let tail = "x".repeat(KEPT_LINE_BYTES - 10);
        assert!(!kept(&format!("{words}Authorization: Bearer SECRET a b {tail}\n"))[0].contains("SECRET"));
    }

    #[test]
    fn colours_are_left_out() {
        assert_eq!(kept("\x1b[1;31mpassword\x1b[0m: X\x1b[K\n"), ["password: X"]);
        assert_eq!(kept("\x1b[\n\x1b[3密\n"), ["", "密"]);
    }
}

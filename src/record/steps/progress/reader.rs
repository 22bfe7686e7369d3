//! Finds the lines of one stream that may show progress.

use std::sync::Arc;

use super::Board;
use crate::record::output::plain_text;

/// Longer lines are no progress.
const LONGEST_LINE: usize = 4096;
/// Lines looked at closely in one read, and in one millisecond: what was printed in one instant has one time, and of a
/// bar that was drawn a thousand times in it the last drawing tells all.
const LINES_AT_ONCE: usize = 128;
/// But of each read at least so many.
const LINES_A_READ: usize = 8;
const INSTANT_NS: i64 = 1_000_000;

/// Reads one stream. A line ends where it is ended, or where it is written over by the next drawing of a bar.
#[derive(Debug)]
pub struct ProgressReader {
    board: Arc<Board>,
    /// The line that has no end yet.
    begun: Vec<u8>,
    /// When the last piece of it came.
    begun_ns: i64,
    instant_ns: i64,
    looked_at: usize,
}

impl ProgressReader {
    pub(super) fn new(board: Arc<Board>) -> Self {
        Self { board, begun: Vec::new(), begun_ns: 0, instant_ns: 0, looked_at: 0 }
    }

    /// Takes what was read at a time on the monotonic clock.
    pub fn take(&mut self, output: &[u8], t_ns: i64) {
        if !self.board.is_open() {
            return;
        }
        let Some(first) = memchr::memchr2(b'\n', b'\r', output) else { return self.begin(output, t_ns) };
        if first > 0 {
            self.begin(&output[..first], t_ns);
        }
        self.end_line();
        let rest = &output[first + 1..];
        let last = memchr::memrchr2(b'\n', b'\r', rest).map_or(0, |last| last + 1);
        self.look_at(&rest[..last], t_ns);
        self.begin(&rest[last..], t_ns);
    }

    /// Takes the last line, which nothing ended.
    pub fn end(&mut self) {
        self.end_line();
    }

    fn begin(&mut self, piece: &[u8], t_ns: i64) {
        if !piece.is_empty() {
            // One byte more than allowed tells that the line is too long.
            let room = (LONGEST_LINE + 1).saturating_sub(self.begun.len());
            self.begun.extend_from_slice(&piece[..piece.len().min(room)]);
            self.begun_ns = t_ns;
        }
    }

    fn end_line(&mut self) {
        if !self.begun.is_empty() {
            let line = std::mem::take(&mut self.begun);
            if self.board.formats().may_be_in(&line) {
                self.show(&line, self.begun_ns);
            }
            self.begun = line;
            self.begun.clear();
        }
    }

    /// Looks at whole lines, the last ones where there are too many.
    fn look_at(&mut self, lines: &[u8], t_ns: i64) {
        if !self.board.formats().may_be_in(lines) {
            return;
        }
        if t_ns - self.instant_ns >= INSTANT_NS {
            (self.instant_ns, self.looked_at) = (t_ns, 0);
        }
        let most = LINES_AT_ONCE.saturating_sub(self.looked_at).max(LINES_A_READ);
        let board = Arc::clone(&self.board);
        let mut found: Vec<&[u8]> = lines
            .rsplit(|byte| matches!(byte, b'\n' | b'\r'))
            .filter(|line| !line.is_empty() && board.formats().may_be_in(line))
            .take(most)
            .collect();
        self.looked_at += found.len();
        found.reverse();
        for line in found {
            self.show(line, t_ns);
        }
    }

    fn show(&self, line: &[u8], t_ns: i64) {
        if line.len() <= LONGEST_LINE
            && let Some(shown) = self.board.formats().read(&plain_text(line))
        {
            self.board.show(shown, t_ns);
        }
    }
}

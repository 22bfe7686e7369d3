//! The last lines of a run's output, kept for the case that it fails.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Lines kept of both streams together.
const KEPT_LINES: usize = 200;
/// Of a longer line the last bytes are kept.
const KEPT_LINE_BYTES: usize = 2000;
/// Words left out where the beginning of a line was let go.
const CUT_WORDS: usize = 3;

/// The last lines of both streams, in the order in which they ended. They are kept as they came and become text only
/// when somebody asks, so that a command that prints a gigabyte is not held up.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: Mutex<VecDeque<Line>>,
}

impl Tail {
    /// The lines, oldest first.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lock().iter().map(Line::text).collect()
    }

    /// Takes what was read of one stream; `begun` is that stream's line without an end.
    pub(super) fn take(&self, output: &[u8], begun: &mut Line) {
        let Some(end) = memchr::memrchr(b'\n', output) else { return begun.push(output) };
        let whole = &output[..end];
        // Of more lines than are kept only the last ones are looked at.
        let start = memchr::memrchr_iter(b'\n', whole).nth(KEPT_LINES - 1).map(|at| at + 1);
        if start.is_some() {
            begun.clear();
        }
        let mut lines = self.lock();
        for line in whole[start.unwrap_or(0)..].split(|byte| *byte == b'\n') {
            begun.push(line);
            keep(&mut lines, begun);
        }
        drop(lines);
        begun.push(&output[end + 1..]);
    }

    /// Takes a stream's last line, which nothing ended.
    pub(super) fn end(&self, begun: &mut Line) {
        if !begun.text().is_empty() {
            keep(&mut self.lock(), begun);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Line>> {
        // Lines are pushed whole or not at all.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves a line in, and hands the room of the oldest back for the next.
fn keep(lines: &mut VecDeque<Line>, line: &mut Line) {
    let mut room = if lines.len() == KEPT_LINES { lines.pop_front().unwrap_or_default() } else { Line::default() };
    room.clear();
    lines.push_back(std::mem::replace(line, room));
}

/// A line as it comes, bounded even for output without a line end.
#[derive(Debug, Default)]
pub(super) struct Line {
    bytes: Vec<u8>,
    /// Whether the line's beginning was let go.
    cut: bool,
}

impl Line {
    /// Keeps the end: that is where an error stands.
    fn push(&mut self, piece: &[u8]) {
        let spare = piece.len().saturating_sub(2 * KEPT_LINE_BYTES);
        self.bytes.extend_from_slice(&piece[spare..]);
        let excess = self.bytes.len().saturating_sub(2 * KEPT_LINE_BYTES);
        if excess > 0 {
            // Down to half, so that a line that grows byte by byte is not moved at each of them.
            self.bytes.drain(..self.bytes.len() - KEPT_LINE_BYTES);
        }
        self.cut |= spare + excess > 0;
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.cut = false;
    }

    /// What the line said last: a progress bar, written over again and again, is one line, as on a terminal.
    fn text(&self) -> String {
        let mut updates = self.bytes.rsplit(|byte| *byte == b'\r');
        let shown = updates.find_map(|update| {
            let is_first = update.as_ptr() == self.bytes.as_ptr();
            let text = shown(update, self.cut && is_first);
            (!text.is_empty()).then_some(text)
        });
        shown.unwrap_or_default()
    }
}

/// The end of an update; `cut` where its beginning is gone already.
fn shown(update: &[u8], cut: bool) -> String {
    let start = update.len().saturating_sub(KEPT_LINE_BYTES);
    let text = plain_text(&update[start..]);
    let text = text.trim_end();
    if start == 0 && !cut {
        return text.to_owned();
    }
    // A name that was cut off may have told that what follows is secret: `Authorization: Bearer …`.
    let mut words = text.char_indices().filter(|(_, letter)| letter.is_whitespace());
    let begin = words.nth(CUT_WORDS - 1).map_or(0, |(at, _)| at);
    format!("…{}", &text[begin..])
}

/// Output as text, without a terminal's control sequences, `ESC [ … letter`: they would part a name from its value.
pub(in crate::record) fn plain_text(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let mut pieces = text.split("\x1b[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let parameters = piece.find(|c: char| !matches!(c, ' '..='?')).unwrap_or(piece.len());
        let end = piece[parameters..].chars().next().filter(char::is_ascii).map_or(0, char::len_utf8);
        plain.push_str(&piece[parameters + end..]);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines kept of a stream that was read in pieces of a size.
    fn kept_of(output: &[u8], size: usize) -> Vec<String> {
        let (tail, mut begun) = (Tail::default(), Line::default());
        output.chunks(size).for_each(|piece| tail.take(piece, &mut begun));
        tail.end(&mut begun);
        tail.lines()
    }

    fn kept(text: &str) -> Vec<String> {
        let whole = kept_of(text.as_bytes(), usize::MAX);
        assert_eq!(kept_of(text.as_bytes(), 7), whole, "pieces make no difference");
        whole
    }

    #[test]
    fn the_last_lines_are_kept() {
        let text: String = (0..500).map(|n| format!("line {n}\n")).chain(["no end".to_owned()]).collect();
        let lines = kept(&text);
        assert_eq!((lines.len(), lines[0].as_str(), lines[199].as_str()), (200, "line 301", "no end"));
    }

    #[test]
    fn invalid_utf8_and_endless_lines_do_no_harm() {
        let lines = kept_of(&[vec![0xff; 100_000], b"\nafter\n".to_vec()].concat(), 1000);
        assert_eq!((lines.len(), lines[1].as_str()), (2, "after"));
        assert!(lines[0].len() <= 3 * KEPT_LINE_BYTES + "…".len());
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
        let line = &kept_of(format!("{words}the error\n").as_bytes(), 1000)[0];
        assert!(line.starts_with("… word") && line.ends_with("the error") && line.len() <= KEPT_LINE_BYTES);
        let tail = "x".repeat(KEPT_LINE_BYTES - 10);
        let text = format!("{words}Authorization: Bearer SECRET a b {tail}\n");
        for size in [7, 100, usize::MAX] {
            assert!(!kept_of(text.as_bytes(), size)[0].contains("SECRET"));
        }
    }

    #[test]
    fn colours_are_left_out() {
        assert_eq!(kept("\x1b[1;31mpassword\x1b[0m: X\x1b[K\n"), ["password: X"]);
        assert_eq!(kept("\x1b[\n\x1b[3密\n"), ["", "密"]);
    }
}

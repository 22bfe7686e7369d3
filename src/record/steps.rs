//! Follows the file that `SHICE_STEPS` names: phases, steps and effective settings that a workload tells of itself.
//! Where it tells no step, steps are those that its output shows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::clock::RunClock;
use super::mask::Mask;
use crate::trace::Journal;
use crate::trace::run::{Coverage, CoverageState, StepReading};
use crate::trace::tables::Step;

mod line;
pub mod progress;
mod reading;

use line::Line;
use progress::{Board, Formats, ProgressReader};
pub use reading::{masked, variables};

/// Name of the variable that tells a workload where to write.
pub const VARIABLE: &str = "SHICE_STEPS";

/// The line of the coverage ledger.
const METRIC: &str = "step";
/// What is to be known of steps that were read from the output.
const PRINTED: &str = "the workload told no step itself: times are those of printing, and of a bar that is drawn now and then the steps between two drawings are averaged";
const NO_TRAINING: &str =
    "the workload told no step itself, and its output shows progress of other things than training";
/// How far a time may lie outside the run: a workload may read its clock before it opens the file.
const CLOCK_MARGIN_NS: i64 = 1_000_000_000;

/// Reads what was appended since the last look.
#[derive(Debug)]
pub struct StepsReader {
    path: PathBuf,
    file: File,
    clock: Option<RunClock>,
    mask: Mask,
    rest: Vec<u8>,
    steps: u64,
    unreadable: u64,
    /// Lines whose time is of another clock.
    foreign: u64,
    settings: BTreeMap<String, String>,
    /// What the output shows; none where it is not read.
    board: Option<Arc<Board>>,
    /// Steps among the rows that the workload told itself, phases not counted.
    told_steps: u64,
}

impl StepsReader {
    /// Makes the empty file, and says how the output is read.
    ///
    /// # Errors
    /// Names the file that could not be made, or what is wrong with the user's pattern.
    pub fn create(path: &Path, reading: &StepReading) -> Result<Self> {
        let failed = || format!("cannot create {}", path.display());
        File::create_new(path).with_context(failed)?;
        let file = File::open(path).with_context(failed)?;
        let path = std::path::absolute(path).with_context(failed)?;
        Ok(Self {
            path,
            file,
            clock: None,
            mask: Mask::default(),
            rest: Vec::new(),
            steps: 0,
            unreadable: 0,
            foreign: 0,
            settings: BTreeMap::new(),
            board: Formats::of(reading)?.map(Board::new),
            told_steps: 0,
        })
    }

    /// The file's absolute path: the workload may change its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads one stream of the output; none where steps are not read from it.
    pub fn output_reader(&self) -> Option<ProgressReader> {
        self.board.as_ref().map(Board::reader)
    }

    /// Sets the clock by which times are told, and what is not to be told.
    pub fn start(&mut self, clock: RunClock, mask: &Mask) {
        self.clock = Some(clock);
        self.mask = mask.clone();
    }

    /// Moves what is new and whole into the journal.
    pub fn poll(&mut self, journal: &Journal) {
        let Some(clock) = self.clock else { return };
        self.poll_output(clock, journal);
        // What cannot be read now is still there at the next look.
        if self.file.read_to_end(&mut self.rest).is_err() {
            return;
        }
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return };
        let begun = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, begun);
        for line in whole[..end].split(|byte| *byte == b'\n') {
            self.take(line, clock, journal);
        }
    }

    /// Moves what the output has shown into the journal, until the workload tells of a step itself.
    fn poll_output(&mut self, clock: RunClock, journal: &Journal) {
        let Some(board) = &self.board else { return };
        if self.told_steps > 0 {
            return board.close();
        }
        for row in board.take() {
            journal.append(Step { t_ns: clock.since_start(row.t_ns), ..row });
        }
    }

    fn take(&mut self, line: &[u8], clock: RunClock, journal: &Journal) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let step = match Line::parse(line) {
            Err(_) => return self.unreadable += 1,
            Ok(Line::Setting { name, value }) => {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                self.settings.insert(name, value);
                return;
            }
            Ok(Line::Phase(line)) => since_start(line.t_ns.0, clock).map(|t_ns| line.at(t_ns)),
            Ok(Line::Step(line)) => since_start(line.t_ns.0, clock).map(|t_ns| line.at(t_ns)),
        };
        match step {
            Some(mut step) => {
                self.steps += 1;
                self.told_steps += u64::from(step.kind == "step");
                step.phase = step.phase.map(|phase| self.mask.text(&phase));
                journal.append(step);
            }
            None => self.foreign += 1,
        }
    }

    /// What the workload told of its settings.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// Takes what is left, a last line without its end too; then the ledger's line for `step`, and sentences where lines
    /// are left out.
    pub fn close(&mut self, journal: &Journal) -> (Coverage, Vec<String>) {
        self.poll(journal);
        let last = std::mem::take(&mut self.rest);
        match self.clock {
            Some(clock) => self.take(&last, clock, journal),
            None if !last.is_empty() => self.unreadable += 1,
            None => {}
        }
        if let Some(board) = &self.board {
            board.close();
        }
        let left_out = self.left_out();
        let shown = self.shown().filter(|_| self.told_steps == 0);
        let (source, state, reason) = match (&left_out, self.steps, shown) {
            (Some(why), ..) => (VARIABLE.to_owned(), CoverageState::Lost, why.clone()),
            (None, _, Some((source, reason))) => (source, CoverageState::Measured, reason.to_owned()),
            (None, 0, _) => (VARIABLE.to_owned(), CoverageState::Unsupported, self.nothing().to_owned()),
            (None, ..) => (VARIABLE.to_owned(), CoverageState::Measured, String::new()),
        };
        let events = left_out.into_iter().chain(self.too_many()).collect();
        (Coverage { metric: METRIC.to_owned(), state, source, reason }, events)
    }

    /// `output (tqdm)`, where the output showed steps, and what is to be known of them.
    fn shown(&self) -> Option<(String, &'static str)> {
        let board = self.board.as_ref().filter(|board| board.shows_anything())?;
        let words: Vec<&str> = board.sources().iter().map(|source| source.word()).collect();
        Some(match words.as_slice() {
            [] => ("output".to_owned(), NO_TRAINING),
            words => (format!("output ({})", words.join(", ")), PRINTED),
        })
    }

    fn nothing(&self) -> &'static str {
        match self.board {
            Some(_) => "the workload wrote no steps, and none were found in its output",
            None => "the workload wrote no steps",
        }
    }

    fn too_many(&self) -> Option<String> {
        let dropped = self.board.as_ref().map_or(0, |board| board.dropped());
        (dropped > 0 && self.told_steps == 0).then(|| {
            format!("the output showed progress too often or of too many kinds: {dropped} readings are left out")
        })
    }

    /// Which lines are left out and what to do about it; nothing if none are.
    fn left_out(&self) -> Option<String> {
        let unreadable = format!("{} could not be read", self.unreadable);
        let foreign = format!(
            "{} told a time outside the run (t_ns is CLOCK_MONOTONIC, in Python time.monotonic_ns())",
            self.foreign
        );
        let why = match (self.unreadable, self.foreign) {
            (0, 0) => return None,
            (_, 0) => unreadable,
            (0, _) => foreign,
            _ => format!("{unreadable}, {foreign}"),
        };
        Some(format!("{} line(s) of {VARIABLE} are left out: {why}", self.unreadable + self.foreign))
    }
}

/// Time since the run's start; nothing for a time outside the run, which is of another clock.
fn since_start(t_ns: i64, clock: RunClock) -> Option<i64> {
    let start_ns = clock.since_start(0).checked_neg()?;
    let since = t_ns.checked_sub(start_ns)?;
    let latest = clock.now_ns().checked_add(CLOCK_MARGIN_NS)?;
    (-CLOCK_MARGIN_NS..=latest).contains(&since).then_some(since)
}

#[cfg(test)]
mod tests;

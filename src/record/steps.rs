//! Follows the file that `SHICE_STEPS` names: phases, steps and effective settings that a workload tells of itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::clock::RunClock;
use crate::trace::Journal;
use crate::trace::run::{Coverage, CoverageState};

mod line;

use line::Line;

/// Name of the variable that tells a workload where to write.
pub const VARIABLE: &str = "SHICE_STEPS";

/// The line of the coverage ledger.
const METRIC: &str = "step";
/// How far a time may lie outside the run: a workload may read its clock before it opens the file.
const CLOCK_MARGIN_NS: i64 = 1_000_000_000;

/// Reads what was appended since the last look.
#[derive(Debug)]
pub struct StepsReader {
    path: PathBuf,
    file: File,
    clock: Option<RunClock>,
    rest: Vec<u8>,
    steps: u64,
    unreadable: u64,
    /// Lines whose time is of another clock.
    foreign: u64,
    settings: BTreeMap<String, String>,
}

impl StepsReader {
    /// Makes the empty file.
    ///
    /// # Errors
    /// Names the file that could not be made.
    pub fn create(path: &Path) -> Result<Self> {
        let failed = || format!("cannot create {}", path.display());
        File::create_new(path).with_context(failed)?;
        let file = File::open(path).with_context(failed)?;
        let path = std::path::absolute(path).with_context(failed)?;
        Ok(Self {
            path,
            file,
            clock: None,
            rest: Vec::new(),
            steps: 0,
            unreadable: 0,
            foreign: 0,
            settings: BTreeMap::new(),
        })
    }

    /// The file's absolute path: the workload may change its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the clock by which times are told.
    pub fn start(&mut self, clock: RunClock) {
        self.clock = Some(clock);
    }

    /// Moves what is new and whole into the journal.
    pub fn poll(&mut self, journal: &Journal) {
        let Some(clock) = self.clock else { return };
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
            Some(step) => {
                self.steps += 1;
                journal.append(step);
            }
            None => self.foreign += 1,
        }
    }

    /// What the workload told of its settings.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// Takes what is left, a last line without its end too; then the ledger's line for `step`, and a sentence where
    /// lines are left out.
    pub fn close(&mut self, journal: &Journal) -> (Coverage, Option<String>) {
        self.poll(journal);
        let last = std::mem::take(&mut self.rest);
        match self.clock {
            Some(clock) => self.take(&last, clock, journal),
            None if !last.is_empty() => self.unreadable += 1,
            None => {}
        }
        let left_out = self.left_out();
        let (state, reason) = match (&left_out, self.steps) {
            (Some(why), _) => (CoverageState::Lost, why.clone()),
            (None, 0) => (CoverageState::Unsupported, "the workload wrote no steps".to_owned()),
            (None, _) => (CoverageState::Measured, String::new()),
        };
        (Coverage { metric: METRIC.to_owned(), state, source: VARIABLE.to_owned(), reason }, left_out)
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
mod tests {
    use super::*;
    use crate::record::clock::monotonic_ns;
    use std::io::Write;

    /// A started reader, its file open for writing, and a journal, all in one folder.
    fn bench() -> (tempfile::TempDir, Journal, StepsReader, File) {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::create(&folder.path().join("journal.jsonl")).unwrap();
        let mut reader = StepsReader::create(&folder.path().join("steps.jsonl")).unwrap();
        reader.start(RunClock::start());
        let file = File::options().append(true).open(reader.path()).unwrap();
        (folder, journal, reader, file)
    }

    #[test]
    fn lines_written_in_pieces_are_taken_when_whole() {
        let (_folder, journal, mut reader, mut file) = bench();
        let now = monotonic_ns();
        write!(file, "{{\"kind\":\"setting\",\"name\":\"threads\",\"value\":2}}\n{{\"kind\":\"step\",\"t_ns\":{now},")
            .unwrap();
        reader.poll(&journal);
        assert_eq!((reader.steps, reader.settings()["threads"].as_str()), (0, "2"));
        write!(file, "\"samples\":64}}\nnot json\n\n{{\"kind\":\"phase\",\"t_ns\":{now},\"phase\":\"train\"}}")
            .unwrap();
        reader.poll(&journal);
        assert_eq!((reader.steps, reader.unreadable), (1, 1));
        let (coverage, event) = reader.close(&journal);
        assert_eq!((reader.steps, coverage.state), (2, CoverageState::Lost));
        assert!(coverage.reason.contains("1 line") && event.unwrap().contains("1 could not be read"));
    }

    #[test]
    fn odd_values_of_python_do_not_cost_the_step() {
        let (folder, journal, mut reader, mut file) = bench();
        let now = monotonic_ns();
        for rest in [
            "\"loss\":NaN",
            "\"loss\": -Infinity, \"phase\": \"NaN \\\" Infinity\"",
            "\"samples\":64.0,\"step\":1e3,\"loss\":1",
            "\"samples\":NaN,\"other\":[NaN]",
        ] {
            writeln!(file, "{{\"kind\":\"step\",\"t_ns\":{now},{rest}}}").unwrap();
        }
        writeln!(file, "{{\"kind\":\"step\",\"t_ns\":{now}.0}}").unwrap();
        let (coverage, event) = reader.close(&journal);
        assert_eq!((reader.steps, coverage.state, event), (5, CoverageState::Measured, None));
        drop(journal);
        let written = std::fs::read_to_string(folder.path().join("journal.jsonl")).unwrap();
        assert!(written.contains("NaN \\\" Infinity") && written.contains("1000"), "{written}");
    }

    #[test]
    fn a_time_of_another_clock_is_left_out_and_the_right_clock_is_named() {
        let (_folder, journal, mut reader, mut file) = bench();
        let now = monotonic_ns();
        let wrong = [0, i64::MIN, i64::MAX, 1_790_000_000_000_000_000, now + 60_000_000_000, now - 60_000_000_000];
        for t_ns in wrong.into_iter().chain([now, now + 500_000_000, now - 500_000_000]) {
            writeln!(file, "{{\"kind\":\"phase\",\"t_ns\":{t_ns},\"phase\":\"train\"}}").unwrap();
        }
        let (coverage, event) = reader.close(&journal);
        assert_eq!((reader.steps, reader.foreign, coverage.state), (3, 6, CoverageState::Lost));
        assert!(event.unwrap().contains("6 told a time outside the run (t_ns is CLOCK_MONOTONIC"));
    }

    #[test]
    fn numbers_that_are_no_integers_and_a_torn_last_line_are_counted() {
        let (_folder, journal, mut reader, mut file) = bench();
        let now = monotonic_ns();
        write!(
            file,
            "{{\"kind\":\"step\",\"t_ns\":{now},\"samples\":1.5}}\n{{\"kind\":\"step\",\"t_ns\":1e30}}\n{{\"kind\":"
        )
        .unwrap();
        let (coverage, _) = reader.close(&journal);
        assert_eq!((reader.steps, reader.unreadable, coverage.state), (0, 3, CoverageState::Lost));
    }
}

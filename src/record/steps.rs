//! Follows the file that `SHICE_STEPS` names: phases, steps and effective settings that a workload tells of itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::clock::RunClock;
use crate::trace::Journal;
use crate::trace::run::{Coverage, CoverageState};
use crate::trace::tables::Step;

/// Name of the variable that tells a workload where to write.
pub const VARIABLE: &str = "SHICE_STEPS";

/// Reads what was appended since the last look.
#[derive(Debug)]
pub struct StepsReader {
    path: PathBuf,
    file: File,
    clock: Option<RunClock>,
    rest: Vec<u8>,
    steps: u64,
    bad_lines: u64,
    settings: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Phase { t_ns: i64, phase: String, rank: Option<i64> },
    Step(StepLine),
    Setting { name: String, value: serde_json::Value },
}

#[derive(Debug, Deserialize)]
struct StepLine {
    t_ns: i64,
    phase: Option<String>,
    rank: Option<i64>,
    epoch: Option<i64>,
    step: Option<i64>,
    samples: Option<i64>,
    data_wait_ns: Option<i64>,
    loss: Option<f64>,
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
        Ok(Self { path, file, clock: None, rest: Vec::new(), steps: 0, bad_lines: 0, settings: BTreeMap::new() })
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
        // What cannot be read now is still there at the next look.
        if self.file.read_to_end(&mut self.rest).is_err() {
            return;
        }
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return };
        let begun = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, begun);
        for line in whole[..end].split(|byte| *byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(line) => self.take(line, journal),
                Err(_) => self.bad_lines += 1,
            }
        }
    }

    fn take(&mut self, line: Line, journal: &Journal) {
        let Some(clock) = self.clock else { return };
        let step = match line {
            Line::Setting { name, value } => {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                self.settings.insert(name, value);
                return;
            }
            Line::Phase { t_ns, phase, rank } => Step {
                t_ns: clock.since_start(t_ns),
                kind: "phase".into(),
                phase: Some(phase),
                rank,
                ..Step::default()
            },
            Line::Step(line) => Step {
                t_ns: clock.since_start(line.t_ns),
                kind: "step".into(),
                phase: line.phase,
                rank: line.rank,
                epoch: line.epoch,
                step: line.step,
                samples: line.samples,
                data_wait_ns: line.data_wait_ns,
                loss: line.loss,
            },
        };
        self.steps += 1;
        journal.append(step);
    }

    /// What the workload told of its settings.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// The ledger's line for `step`, and a sentence where lines could not be read.
    pub fn close(self) -> (Coverage, Option<String>) {
        let told = self.steps > 0;
        let coverage = Coverage {
            metric: "step".to_owned(),
            state: if told { CoverageState::Measured } else { CoverageState::Unsupported },
            source: VARIABLE.to_owned(),
            reason: if told { String::new() } else { "the workload wrote no steps".to_owned() },
        };
        let bad = self.bad_lines;
        (coverage, (bad > 0).then(|| format!("{bad} line(s) of {VARIABLE} could not be read and are left out")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_written_in_pieces_are_taken_when_whole() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::create(&folder.path().join("journal.jsonl")).unwrap();
        let mut reader = StepsReader::create(&folder.path().join("steps.jsonl")).unwrap();
        reader.start(RunClock::start());
        let mut file = File::options().append(true).open(reader.path()).unwrap();
        file.write_all(b"{\"kind\":\"setting\",\"name\":\"threads\",\"value\":2}\n{\"kind\":\"step\",\"t_ns\":5,")
            .unwrap();
        reader.poll(&journal);
        assert_eq!((reader.steps, reader.settings()["threads"].as_str()), (0, "2"));
        file.write_all(b"\"samples\":64}\nnot json\n{\"kind\":\"phase\",\"t_ns\":6,\"phase\":\"train\"}\n").unwrap();
        reader.poll(&journal);
        assert_eq!((reader.steps, reader.bad_lines), (2, 1));
        assert!(reader.close().1.unwrap().contains("1 line"));
    }
}

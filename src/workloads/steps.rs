//! What a workload tells of itself: lines of JSON, appended to the file that `SHICE_STEPS` names.

use std::cell::RefCell;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

const VARIABLE: &str = "SHICE_STEPS";

/// The phase whose steps count.
pub(crate) const TRAIN: &str = "train";

/// One optimiser step, told at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// From 0.
    pub(crate) epoch: u32,
    /// Within the run, from 0.
    pub(crate) step: u64,
    pub(crate) samples: u32,
    /// Time until the step had its batch.
    pub(crate) data_wait_ns: u64,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line<'a> {
    /// A phase begins.
    Phase { t_ns: u64, phase: &'a str },
    /// What a setting became.
    Setting { t_ns: u64, name: &'a str, value: String },
    /// A step ended.
    Step { t_ns: u64, phase: &'a str, rank: u32, epoch: u32, step: u64, samples: u32, data_wait_ns: u64 },
}

/// The way to whoever records; silent where nobody does.
pub(crate) struct Steps {
    file: Option<File>,
    /// Where the workload is: its phase, and how many steps it has made.
    place: RefCell<(String, Option<u64>)>,
}

impl Steps {
    /// Opens the file that `SHICE_STEPS` names.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn from_environment() -> Result<Self> {
        match std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Self::open(Path::new(&path)),
            None => Ok(Self::of(None)),
        }
    }

    /// Tells nobody.
    #[cfg(test)]
    pub(crate) fn silent() -> Self {
        Self::of(None)
    }

    fn of(file: Option<File>) -> Self {
        Self { file, place: RefCell::default() }
    }

    /// The phase that was told last, and the number of the step that is being made, where one was told in it.
    pub(crate) fn place(&self) -> (String, Option<u64>) {
        self.place.borrow().clone()
    }

    fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.map(|file| Self::of(Some(file))).with_context(|| {
            format!("cannot append to {}, named by {VARIABLE}; name a writable file, or unset it", path.display())
        })
    }

    pub(crate) fn phase(&self, phase: &str) -> Result<()> {
        // A training's first step tells nothing before its end.
        let first = (phase == TRAIN).then_some(0);
        self.place.replace((phase.to_owned(), first));
        self.tell(&Line::Phase { t_ns: monotonic_ns()?, phase })
    }

    pub(crate) fn setting(&self, name: &str, value: impl Display) -> Result<()> {
        self.tell(&Line::Setting { t_ns: monotonic_ns()?, name, value: value.to_string() })
    }

    pub(crate) fn step(&self, phase: &str, step: Step) -> Result<()> {
        let Step { epoch, step, samples, data_wait_ns } = step;
        self.place.borrow_mut().1 = Some(step + 1);
        self.tell(&Line::Step { t_ns: monotonic_ns()?, phase, rank: 0, epoch, step, samples, data_wait_ns })
    }

    /// One write a line, so that lines of several processes never mix.
    fn tell(&self, line: &Line) -> Result<()> {
        let Some(mut file) = self.file.as_ref() else { return Ok(()) };
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        file.write_all(&text).with_context(|| format!("cannot write to the file named by {VARIABLE}"))
    }
}

/// The clock that the recorder reads too.
fn monotonic_ns() -> Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).context("cannot read CLOCK_MONOTONIC")?;
    Ok(u64::try_from(now.tv_sec())? * 1_000_000_000 + u64::try_from(now.tv_nsec())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_json_with_what_the_recorder_asks_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let before = monotonic_ns().unwrap();
        let steps = Steps::open(file.path()).unwrap();
        steps.phase("train").unwrap();
        steps.setting("threads", 2).unwrap();
        steps.step("train", Step { epoch: 1, step: 9, samples: 16, data_wait_ns: 7 }).unwrap();

        let text = std::fs::read_to_string(file.path()).unwrap();
        let mut lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for line in &mut lines {
            let t_ns = line.as_object_mut().unwrap().remove("t_ns").unwrap().as_u64().unwrap();
            assert!((before..before + 60_000_000_000).contains(&t_ns), "{t_ns}");
        }
        let step = serde_json::json!({
            "kind": "step", "phase": "train", "rank": 0, "epoch": 1, "step": 9, "samples": 16, "data_wait_ns": 7
        });
        assert_eq!(lines[0], serde_json::json!({"kind": "phase", "phase": "train"}));
        assert_eq!(lines[1], serde_json::json!({"kind": "setting", "name": "threads", "value": "2"}));
        assert_eq!(lines[2], step);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let message = format!("{:#}", Steps::open(Path::new("/nowhere/steps")).err().unwrap());
        assert!(message.contains("/nowhere/steps") && message.contains(VARIABLE), "{message}");
    }
}

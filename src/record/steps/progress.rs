//! Steps read from what a command prints: progress bars and lines of well-known spellings, or of the user's own pattern.
//!
//! ```text
//! chunks of output ── reader (lines) ── Format (one file a spelling) ── board (series, thinned) ── the table `step`
//! ```

use std::fmt::Debug;

use anyhow::Result;

use crate::trace::StepSource;
use crate::trace::run::StepReading;

mod bar;
mod board;
mod deepspeed;
mod epoch;
mod lightning;
mod pattern;
mod reader;
mod tqdm;
mod trainer;
mod words;

pub(super) use board::Board;
pub use reader::ProgressReader;

/// What a line says of progress. Numbers are as printed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    source: StepSource,
    /// What the bar, or kind of line, calls itself. It tells series apart and is not kept: it may be anything.
    name: String,
    /// `train`, `eval` or `other`; nothing where the line does not say.
    phase: Option<String>,
    epoch: Option<i64>,
    step: Option<i64>,
    total: Option<i64>,
    samples_done: Option<i64>,
    loss: Option<f64>,
    reported_samples_per_s: Option<f64>,
}

impl Shown {
    fn of(source: StepSource) -> Self {
        Self {
            source,
            name: String::new(),
            phase: None,
            epoch: None,
            step: None,
            total: None,
            samples_done: None,
            loss: None,
            reported_samples_per_s: None,
        }
    }

    /// Whether it counts something of training.
    fn counts_training(&self) -> bool {
        let other = self.phase.as_deref().is_some_and(|phase| matches!(phase, words::EVAL | words::OTHER));
        !other && (self.step.is_some() || self.samples_done.is_some() || self.epoch.is_some())
    }
}

/// One spelling of progress.
trait Format: Debug + Send + Sync {
    /// Whether a stretch of output may hold it: quick, and never wrong in saying no.
    fn may_be_in(&self, output: &[u8]) -> bool;

    /// What a line says; nothing where it is not of this format.
    fn read(&self, line: &str) -> Option<Shown>;
}

/// The formats that are looked for; the first that knows a line has it.
#[derive(Debug)]
pub(super) struct Formats(Vec<Box<dyn Format>>);

impl Formats {
    /// The formats of a way of reading; nothing where steps are not read.
    ///
    /// # Errors
    /// The user's pattern cannot be used; one sentence says why.
    pub(super) fn of(reading: &StepReading) -> Result<Option<Self>> {
        Ok(match reading {
            StepReading::Off => None,
            StepReading::Pattern { pattern } => Some(Self(vec![Box::new(pattern::Pattern::new(pattern)?)])),
            StepReading::Auto => Some(Self(vec![
                Box::new(lightning::Lightning),
                Box::new(tqdm::Tqdm),
                Box::new(deepspeed::Deepspeed),
                Box::new(trainer::Trainer),
                Box::new(epoch::Epoch),
            ])),
        })
    }

    fn may_be_in(&self, output: &[u8]) -> bool {
        self.0.iter().any(|format| format.may_be_in(output))
    }

    fn read(&self, line: &str) -> Option<Shown> {
        self.0.iter().filter(|format| format.may_be_in(line.as_bytes())).find_map(|format| format.read(line))
    }
}

/// Checks the user's pattern.
///
/// # Errors
/// It cannot be used; one sentence says why and what to do.
pub fn check_pattern(pattern: &str) -> Result<()> {
    pattern::Pattern::new(pattern).map(drop)
}

#[cfg(test)]
mod tests;

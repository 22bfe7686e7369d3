//! One line of `SHICE_STEPS`: JSON, and what Python writes in its place.

use serde::Deserialize;

use crate::trace::StepSource;
use crate::trace::tables::Step;

/// What a workload tells in one line.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Line {
    Phase(PhaseLine),
    Step(StepLine),
    Setting { name: String, value: serde_json::Value },
}

#[derive(Debug, Deserialize)]
pub(super) struct PhaseLine {
    pub t_ns: Whole,
    phase: String,
    rank: Option<Whole>,
}

#[derive(Debug, Deserialize)]
pub(super) struct StepLine {
    pub t_ns: Whole,
    phase: Option<String>,
    rank: Option<Whole>,
    epoch: Option<Whole>,
    step: Option<Whole>,
    samples: Option<Whole>,
    data_wait_ns: Option<Whole>,
    loss: Option<f64>,
}

/// An integer, which scripts write as `64.0` as well.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "serde_json::Number")]
pub(super) struct Whole(pub i64);

impl TryFrom<serde_json::Number> for Whole {
    type Error = String;

    fn try_from(number: serde_json::Number) -> Result<Self, String> {
        let from_float = |float: &f64| float.fract() == 0.0 && float.abs() < i64::MAX as f64;
        let whole = number.as_i64().or_else(|| number.as_f64().filter(from_float).map(|float| float as i64));
        whole.map(Self).ok_or_else(|| format!("{number} is no integer"))
    }
}

impl Line {
    /// Reads a line.
    ///
    /// # Errors
    /// It is neither JSON nor nearly so, or lacks what its kind must tell.
    pub(super) fn parse(line: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(line).or_else(|_| serde_json::from_slice(&without_nan(line)))
    }
}

impl PhaseLine {
    /// The table's row.
    pub(super) fn at(self, t_ns: i64) -> Step {
        let rank = self.rank.map(|rank| rank.0);
        Step { kind: "phase".into(), phase: Some(self.phase), rank, ..told(t_ns) }
    }
}

impl StepLine {
    /// The table's row.
    pub(super) fn at(self, t_ns: i64) -> Step {
        let whole = |number: Option<Whole>| number.map(|number| number.0);
        Step {
            kind: "step".into(),
            phase: self.phase,
            rank: whole(self.rank),
            epoch: whole(self.epoch),
            step: whole(self.step),
            samples: whole(self.samples),
            data_wait_ns: whole(self.data_wait_ns),
            loss: self.loss,
            ..told(t_ns)
        }
    }
}

/// A row that the workload itself told.
fn told(t_ns: i64) -> Step {
    Step { t_ns, source: Some(StepSource::ShiceSteps.word().into()), ..Step::default() }
}

/// Writes null for the numbers that Python's `json.dumps` writes though JSON has none of them.
fn without_nan(line: &[u8]) -> Vec<u8> {
    let (mut json, mut rest, mut in_string) = (Vec::with_capacity(line.len()), line, false);
    while let Some((&byte, after)) = rest.split_first() {
        let number: Option<&[u8]> = [b"NaN".as_slice(), b"Infinity", b"-Infinity"]
            .into_iter()
            .find(|name| !in_string && rest.starts_with(name));
        if let Some(number) = number {
            json.extend_from_slice(b"null");
            rest = &rest[number.len()..];
            continue;
        }
        let length = if in_string && byte == b'\\' && !after.is_empty() { 2 } else { 1 };
        in_string ^= byte == b'"';
        json.extend_from_slice(&rest[..length]);
        rest = &rest[length..];
    }
    json
}

//! The user's own pattern: a regular expression whose named groups say what the numbers are.

use anyhow::{Result, bail};
use regex::Regex;

use super::{Format, Shown, words};
use crate::trace::StepSource;

/// What groups may be called.
const GROUPS: [&str; 6] = ["step", "total", "epoch", "loss", "samples", "phase"];
/// Without one of these nothing is counted.
const COUNTS: [&str; 3] = ["step", "samples", "epoch"];
const EXAMPLE: &str = r"--step-pattern 'iter (?P<step>\d+)/(?P<total>\d+)'";

#[derive(Debug)]
pub(super) struct Pattern(Regex);

impl Pattern {
    /// # Errors
    /// It does not compile, has a group of an unknown name, or none that counts.
    pub(super) fn new(pattern: &str) -> Result<Self> {
        let regex = match Regex::new(pattern) {
            Ok(regex) => regex,
            Err(error) => {
                // The crate draws the place over several lines; its last one says what is wrong.
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                bail!("--step-pattern {pattern:?} is no regular expression: {why}; write it like {EXAMPLE}")
            }
        };
        let names = || regex.capture_names().flatten();
        if let Some(unknown) = names().find(|name| !GROUPS.contains(name)) {
            bail!("--step-pattern has a group {unknown:?}; known are {}, as in {EXAMPLE}", GROUPS.join(", "));
        }
        if !names().any(|name| COUNTS.contains(&name)) {
            bail!("--step-pattern names nothing to count; it needs a group of {}, as in {EXAMPLE}", COUNTS.join(", "));
        }
        Ok(Self(regex))
    }
}

impl Format for Pattern {
    fn may_be_in(&self, _output: &[u8]) -> bool {
        true
    }

    fn read(&self, line: &str) -> Option<Shown> {
        let found = self.0.captures(line)?;
        let text = |name: &str| found.name(name).map(|text| text.as_str().trim());
        Some(Shown {
            phase: text("phase").and_then(words::phase).map(str::to_owned),
            epoch: text("epoch").and_then(words::whole),
            step: text("step").and_then(words::whole),
            total: text("total").and_then(words::whole),
            samples_done: text("samples").and_then(words::whole),
            loss: text("loss").and_then(|loss| loss.parse().ok()).filter(|loss: &f64| loss.is_finite()),
            ..Shown::of(StepSource::Pattern)
        })
    }
}

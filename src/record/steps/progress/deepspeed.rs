//! The line of DeepSpeed's throughput timer:
//! `epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=25.0, CurrSamplesPerSec=25.7, …`; older ones begin
//! with `0/10, `.

use std::sync::LazyLock;

use regex::Regex;

use super::{Format, Shown, words};
use crate::trace::StepSource;

#[derive(Debug)]
pub(super) struct Deepspeed;

impl Format for Deepspeed {
    fn may_be_in(&self, output: &[u8]) -> bool {
        memchr::memmem::find(output, b"SamplesPerSec=").is_some()
    }

    fn read(&self, line: &str) -> Option<Shown> {
        #[allow(clippy::expect_used, reason = "a constant, compiled by a test")]
        static TIMER: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(
                r"(?:epoch=(\d+)/micro_step=\d+/global_step=(\d+)|\s(\d+)/(\d+)),\s*(?:RunningAvg)?SamplesPerSec=([\d.]+)",
            )
            .expect("a constant")
        });
        let found = TIMER.captures(line)?;
        let whole = |one: usize, other: usize| words::whole(found.get(one).or_else(|| found.get(other))?.as_str());
        Some(Shown {
            phase: Some(words::TRAIN.to_owned()),
            epoch: whole(1, 3),
            step: whole(2, 4),
            reported_samples_per_s: found.get(5)?.as_str().parse().ok(),
            ..Shown::of(StepSource::Deepspeed)
        })
    }
}

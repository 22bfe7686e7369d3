//! Progress bars of tqdm, whoever draws them.

use std::sync::LazyLock;

use regex::Regex;

use super::bar::Bar;
use super::{Format, Shown, words};
use crate::trace::StepSource;

const STEPS: &[&str] = &["it", "its", "batch", "batches", "step", "steps", "iter", "iters", "ba"];
const SAMPLES: &[&str] = &[
    "img",
    "imgs",
    "image",
    "images",
    "sample",
    "samples",
    "example",
    "examples",
    "ex",
    "seq",
    "seqs",
    "sequence",
    "sequences",
    "sentence",
    "sentences",
];
const BYTES: &[&str] = &["b", "byte", "bytes"];
const EPOCHS: &[&str] = &["epoch", "epochs", "ep"];

#[derive(Debug)]
pub(super) struct Tqdm;

impl Format for Tqdm {
    fn may_be_in(&self, output: &[u8]) -> bool {
        Bar::may_be_in(output)
    }

    fn read(&self, line: &str) -> Option<Shown> {
        Bar::read(line).map(|bar| shown(StepSource::Tqdm, &bar))
    }
}

/// What a bar says of progress. A bar that counts something unknown counts steps only where it says that it trains.
pub(super) fn shown(source: StepSource, bar: &Bar<'_>) -> Shown {
    let unit = bar.unit.to_lowercase();
    let is = |units: &[&str]| units.contains(&unit.as_str());
    let epoch = epoch(bar.description);
    let phase = match words::phase(bar.description) {
        None if epoch.is_some() => Some(words::TRAIN),
        phase => phase,
    };
    let mut shown = Shown {
        name: bar.description.to_owned(),
        phase: phase.map(str::to_owned),
        epoch,
        total: bar.total,
        loss: words::loss(bar.postfix).or_else(|| words::loss(bar.description)),
        ..Shown::of(source)
    };
    let counts_epochs = is(EPOCHS) || matches!(bar.description.to_lowercase().as_str(), "epoch" | "epochs");
    if counts_epochs {
        (shown.epoch, shown.total, shown.phase) = (Some(bar.count), None, None);
    } else if is(SAMPLES) {
        (shown.samples_done, shown.reported_samples_per_s, shown.total) = (Some(bar.count), bar.rate, None);
    } else if is(STEPS) || (phase == Some(words::TRAIN) && !is(BYTES)) {
        shown.step = Some(bar.count);
    } else {
        shown.phase = Some(words::OTHER.to_owned());
    }
    shown
}

/// The epoch that a description names: `Epoch 3/10`, `Train Epoch: 1`.
fn epoch(description: &str) -> Option<i64> {
    #[allow(clippy::expect_used, reason = "a constant, compiled by a test")]
    static EPOCH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)\bepoch[\s:#=\[(]*(\d+)").expect("a constant"));
    EPOCH.captures(description)?.get(1)?.as_str().parse().ok()
}

//! Lines that count epochs, and steps within them: `Epoch 1/10`, `Epoch: 1 | loss 0.5`,
//! `Epoch [1/10], Step [100/600], Loss: 2.3`, `Epoch: [0][  10/5005]`, `Train Epoch: 1 [640/60000 (1%)]`.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{Format, Shown, words};
use crate::trace::StepSource;

/// The word, where it is no part of another; the number of the epoch; and how many there will be.
const EPOCH: &str =
    r"(?i)(?:^|[\s\[\](|>:*#])(epochs?)(?:\s*\(([a-z]+)\))?[\s:=#\[(|-]*(\d+)(?:\s*(?:/|of)\s*(\d+))?\s*[\])]?";
/// Where a step is called one, or a pair follows at once, or a pair stands in brackets. A share in percent within the
/// brackets, after `Train Epoch`, is how the PyTorch examples print samples.
const STEP: &str = r"(?ix)
    \b(?:steps?|batch|batches|iter|iters|iteration|it)\b [\s:=\#\[(]* (?<named>\d+) (?: \s*(?:/|of)\s* (?<named_total>\d+) )?
    | ^ [^0-9a-z]* (?<next>\d+) \s*/\s* (?<next_total>\d+) (?<next_share> \s* \([^)]*%\) )?
    | \[ \s* (?<pair>\d+) \s*/\s* (?<pair_total>\d+) (?<pair_share> \s* \([^)]*%\) )? \s* \]";

#[derive(Debug)]
pub(super) struct Epoch;

impl Format for Epoch {
    fn may_be_in(&self, output: &[u8]) -> bool {
        memchr::memmem::find(output, b"poch").is_some() || memchr::memmem::find(output, b"POCH").is_some()
    }

    fn read(&self, line: &str) -> Option<Shown> {
        #[allow(clippy::expect_used, reason = "a constant, compiled by a test")]
        static REGEXES: LazyLock<(Regex, Regex)> =
            LazyLock::new(|| (Regex::new(EPOCH).expect("a constant"), Regex::new(STEP).expect("a constant")));
        let found = REGEXES.0.captures(line)?;
        let (whole, word) = (found.get(0)?, found.get(1)?);
        let before = &line[..word.start()];
        // `Epochs: 10` is a setting; `saved at epoch 3` speaks of an epoch.
        if (word.len() > "epoch".len() && found.get(4).is_none()) || !begins_a_statement(before) {
            return None;
        }
        let mode = found.get(2).map_or(before, |mode| mode.as_str());
        let rest = &line[whole.end()..];
        let mut shown = Shown {
            // A line that counts epochs speaks of training, unless it says otherwise.
            phase: Some(if words::phase(mode) == Some(words::EVAL) { words::EVAL } else { words::TRAIN }.to_owned()),
            epoch: words::whole(found.get(3)?.as_str()),
            loss: words::loss(rest),
            ..Shown::of(StepSource::Epoch)
        };
        if let Some(step) = REGEXES.1.captures(rest) {
            count(&step, words::phase(before) == Some(words::TRAIN), &mut shown);
        }
        // Lines of the epoch and lines of its steps count different things.
        shown.name = if shown.step.is_some() || shown.samples_done.is_some() { "steps" } else { "epochs" }.to_owned();
        Some(shown)
    }
}

/// Whether the word is the subject of the line: nothing stands before it but a log's prefix or the name of a phase.
fn begins_a_statement(before: &str) -> bool {
    let before = before.trim_end();
    let last = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    before.ends_with(|c: char| !c.is_alphanumeric()) || last.is_empty() || words::phase(last).is_some()
}

fn count(step: &Captures<'_>, says_train: bool, shown: &mut Shown) {
    let whole = |name: &str| step.name(name).and_then(|text| words::whole(text.as_str()));
    let [named, next, pair] = ["named", "next", "pair"].map(whole);
    let share = step.name("next_share").or_else(|| step.name("pair_share")).is_some();
    if share && says_train {
        shown.samples_done = next.or(pair);
    } else {
        shown.step = named.or(next).or(pair);
        shown.total = whole("named_total").or_else(|| whole("next_total")).or_else(|| whole("pair_total"));
    }
}

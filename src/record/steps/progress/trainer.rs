//! What the Hugging Face Trainer prints beside its bar: `{'loss': 2.3, 'learning_rate': 5e-05, 'epoch': 0.5}`, and at
//! the end its own rates. No number of the step is in it.

use super::{Format, Shown, words};
use crate::trace::StepSource;

#[derive(Debug)]
pub(super) struct Trainer;

impl Format for Trainer {
    fn may_be_in(&self, output: &[u8]) -> bool {
        memchr::memmem::find(output, b"{'").is_some()
    }

    fn read(&self, line: &str) -> Option<Shown> {
        let dictionary = line.trim().strip_prefix('{')?.strip_suffix('}')?;
        let value = |name: &str| {
            let (_, rest) = dictionary.split_once(&format!("'{name}':"))?;
            let value = rest.split(',').next().unwrap_or_default().trim().trim_matches('\'');
            value.parse::<f64>().ok().filter(|value| value.is_finite())
        };
        let epoch = value("epoch")?;
        let (loss, rate) = (value("loss"), value("train_samples_per_second"));
        if value("eval_loss").is_some() || value("eval_runtime").is_some() {
            return Some(Shown { phase: Some(words::EVAL.to_owned()), ..Shown::of(StepSource::Trainer) });
        }
        (loss.is_some() || rate.is_some()).then(|| Shown {
            phase: Some(words::TRAIN.to_owned()),
            epoch: Some(epoch as i64),
            loss,
            reported_samples_per_s: rate,
            ..Shown::of(StepSource::Trainer)
        })
    }
}

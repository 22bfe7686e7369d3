//! Ratios of two cases as text.

use anyhow::Result;
use serde::Serialize;

use crate::aggregate::compare::Ratio;
use crate::report::context::Context;
use crate::report::format;

/// For phrases: how many times as great, and how sure that is.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Times {
    times: String,
    /// In parentheses: the interval, or that there are too few runs for one.
    sure: String,
}

impl Times {
    pub(super) fn of(context: &Context<'_>, ratio: &Ratio) -> Result<Self> {
        #[derive(Serialize)]
        struct Interval {
            interval: String,
        }
        let sure = match interval(ratio) {
            Some(interval) => context.words.fill("ratio.sure", &Interval { interval })?,
            None => context.words.get("ratio.few")?.to_owned(),
        };
        Ok(Self { times: times(ratio), sure })
    }
}

pub(super) fn times(ratio: &Ratio) -> String {
    format::times(ratio.ratio)
}

/// Its 95 % interval; none with too few runs.
pub(super) fn interval(ratio: &Ratio) -> Option<String> {
    let (low, high) = ratio.ci95()?;
    let (low, high) = (format::times(low), format::times(high));
    Some(format!("{low}–{high}"))
}

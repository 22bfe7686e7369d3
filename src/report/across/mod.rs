//! What the cases of one environment tell together. Rules over measured values, no text.

pub(crate) mod advice;
pub(crate) mod devices;
pub(crate) mod idle;
pub(crate) mod practices;
pub(crate) mod strengths;
pub(crate) mod sweeps;

use crate::aggregate::compare::{self, Ratio};
use crate::aggregate::metric::{Metric, Unit};
use crate::aggregate::summary::CaseSummary;

/// The workload that only waits.
pub(crate) const IDLE: &str = "idle";

/// How many times as fast `first` is as `second`: of a time the ratio is turned over.
pub(crate) fn speed(metric: Metric, first: &CaseSummary, second: &CaseSummary) -> Option<Ratio> {
    let ratio = compare::of_runs(metric, &first.runs, &second.runs)?;
    Some(if metric.unit() == Unit::Second { ratio.inverse() } else { ratio })
}

/// An interval that reaches so near to 1 would be shown as one that ends at it.
const SHOWN: f64 = 0.005;

/// Whether an interval leaves 1 out, also as it is shown.
pub(crate) fn excludes_one((low, high): (f64, f64)) -> bool {
    low >= 1.0 + SHOWN || high <= 1.0 - SHOWN
}

/// What a comparison allows to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The interval lies above 1.
    Faster,
    /// It lies below 1.
    Slower,
    /// It holds 1: no difference was shown, which is not to say that there is none.
    Open,
    /// There is no interval.
    TooFewRuns,
}

impl Standing {
    pub(crate) fn of(speed: &Ratio) -> Self {
        match speed.ci95() {
            None => Self::TooFewRuns,
            Some(interval) if !excludes_one(interval) => Self::Open,
            Some((low, _)) if low > 1.0 => Self::Faster,
            Some(_) => Self::Slower,
        }
    }

    /// Ending of the phrases for it.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Open => "open",
            Self::TooFewRuns => "few",
        }
    }
}

//! What is worked out of one run.

use std::collections::BTreeMap;

use super::heat::Heat;
use super::metric::Metric;
use super::series::Series;
use super::step_times::Times;
use super::summary::{ForeignProgram, Quantity};
use crate::trace::StepSource;

/// One number a metric, the windows of each quantity, and the busy share of each core.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) values: BTreeMap<Metric, f64>,
    pub(super) windows: BTreeMap<Quantity, Series>,
    pub(super) cores: BTreeMap<u32, f64>,
    pub(super) core_heat: Heat,
    pub(super) step_times: Times,
    /// What else ran, the heaviest first.
    pub(super) foreign: Vec<ForeignProgram>,
    /// When training was past its warm-up, in nanoseconds since the run's start; none where no steps are told.
    pub(super) steady_ns: Option<(i64, i64)>,
    /// Samples of all training steps, warm-up included.
    pub(super) samples: Option<f64>,
    /// Where the figures of steps come from; none where there are no such figures.
    pub(super) step_source: Option<StepSource>,
    /// Which tool said what is kept as [`Metric::ReportedThroughput`].
    pub(super) reported_by: Option<StepSource>,
}

impl Figures {
    /// Keeps a value; what is absent, or no number, stays absent.
    pub(super) fn set(&mut self, metric: Metric, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.values.insert(metric, value);
        }
    }

    /// Keeps the windows of a quantity, where there are any.
    pub(super) fn set_windows(&mut self, quantity: Quantity, windows: Series) {
        if !windows.is_empty() {
            self.windows.insert(quantity, windows);
        }
    }
}

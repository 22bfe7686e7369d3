//! Proportional memory of the run's tree.

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::readings::{Gauge, greatest};
use super::rows::each_row;
use super::summary::{Metric, Quantity};
use super::windows::{WINDOW_NS, longest_step_ns};
use crate::trace::RunRecord;

/// PSS is read again as soon as resident memory has moved, else rarely, because reading it is costly: a reading may
/// stand for this long.
const LONGEST_HOLD_NS: i64 = 10 * WINDOW_NS;

/// Sums up the `memory` table.
///
/// # Errors
/// The table cannot be read.
pub(super) fn pss(table: LazyFrame, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    let mut pss = Gauge::new(longest_step_ns(record.interval_ns).max(LONGEST_HOLD_NS));
    let mut peak = None;
    each_row(table, ["t_ns"], [col("pss_bytes")], |[t], [bytes]| {
        pss.push(t, bytes);
        peak = greatest([peak, bytes].into_iter());
    })?;
    figures.set(Metric::MemoryPssPeak, peak);
    figures.set_windows(Quantity::MemoryPss, pss.windows.full());
    Ok(())
}

//! Proportional memory of the run's tree.

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::metric::Metric;
use super::readings::{Gauge, greatest};
use super::rows::each_row;
use super::summary::Quantity;
use super::windows::{WINDOW_NS, longest_step_ns};
use crate::trace::RunRecord;

/// Sums up the `memory` table.
///
/// # Errors
/// The table cannot be read.
pub(super) fn pss(table: LazyFrame, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    let mut pss = Gauge::new(longest_step_ns(record.interval_ns));
    let mut peak = None;
    each_row(table, ["t_ns"], [col("pss_bytes")], |[t], [bytes]| {
        pss.push(t, bytes);
        peak = greatest([peak, bytes].into_iter());
    })?;
    figures.set(Metric::MemoryPssPeak, peak);
    // Rare readings of a tree that moves would draw a curve of luck; the peak of the readings is still told.
    let windows = pss.windows.full();
    let seconds = record.duration_ns.unwrap_or_default() / WINDOW_NS;
    if i64::try_from(windows.len()).unwrap_or(i64::MAX) * 2 >= seconds {
        figures.set_windows(Quantity::MemoryPss, windows);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::testing::{SECOND, frame, record};
    use crate::trace::tables::Memory;

    fn windows(readings: &[(i64, i64)], duration_s: i64) -> Vec<(i64, f64)> {
        let row =
            |(t, bytes): &(i64, i64)| Memory { t_ns: t * SECOND / 2, pss_bytes: Some(*bytes), ..Memory::default() };
        let record = RunRecord { duration_ns: Some(duration_s * SECOND), ..record() };
        let mut figures = Figures::default();
        pss(frame(readings.iter().map(row)), &record, &mut figures).unwrap();
        assert_eq!(figures.values[&Metric::MemoryPssPeak], 300.0);
        figures.windows.remove(&Quantity::MemoryPss).unwrap_or_default().into_iter().collect()
    }

    #[test]
    fn frequent_readings_hold_until_the_next_one() {
        // By hand: at 0.0, 1.0, 2.0, 3.0 and 4.0 s.
        let readings = [(0, 100), (2, 300), (4, 200), (6, 200), (8, 200)];
        assert_eq!(windows(&readings, 4), [(0, 100.0), (1, 300.0), (2, 200.0), (3, 200.0)]);
    }

    #[test]
    fn rare_readings_have_a_peak_but_no_curve() {
        let readings = [(0, 100), (2, 300), (16, 200)];
        assert!(windows(&readings, 8).is_empty());
    }
}

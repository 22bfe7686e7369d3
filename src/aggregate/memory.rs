//! Proportional memory of the run's tree.

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::readings::{Gauge, greatest};
use super::rows::each_row;
use super::summary::{Metric, Quantity};
use super::windows::{WINDOW_NS, longest_step_ns};
use crate::trace::RunRecord;

/// Reading PSS is costly (60 ms for 4 GB), so the recorder waits the longer the more it costs: a reading may stand for
/// this long.
const LONGEST_HOLD_NS: i64 = 60 * WINDOW_NS;

/// Sums up the `memory` table.
///
/// # Errors
/// The table cannot be read.
pub(super) fn pss(table: LazyFrame, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    let mut pss = Gauge::new(longest_step_ns(record.interval_ns).max(LONGEST_HOLD_NS));
    let (mut peak, mut last) = (None, None);
    each_row(table, ["t_ns"], [col("pss_bytes")], |[t], [bytes]| {
        pss.push(t, bytes);
        peak = greatest([peak, bytes].into_iter());
        last = bytes.or(last);
    })?;
    // No reading can be taken once the tree has gone: the last one stands until the run's end.
    if let Some(end_ns) = record.duration_ns {
        pss.push(end_ns, last);
    }
    figures.set(Metric::MemoryPssPeak, peak);
    figures.set_windows(Quantity::MemoryPss, pss.windows.full());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::testing::{SECOND, frame, record};
    use crate::trace::tables::Memory;

    #[test]
    fn the_last_reading_stands_until_the_end_of_the_run() {
        let rows = [(0, 100), (3, 300)];
        let rows = rows.map(|(t, bytes)| Memory { t_ns: t * SECOND, pss_bytes: Some(bytes), ..Memory::default() });
        let mut figures = Figures::default();
        pss(frame(rows), &RunRecord { duration_ns: Some(5 * SECOND), ..record() }, &mut figures).unwrap();
        let windows: Vec<f64> = figures.windows[&Quantity::MemoryPss].values().copied().collect();
        assert_eq!(windows, [100.0, 100.0, 100.0, 300.0, 300.0]);
    }

    #[test]
    fn a_rare_reading_holds_until_the_next_but_not_for_ever() {
        let readings = [(0, 100), (5, 300), (7, 200), (80, 250), (81, 250)];
        let rows = readings.map(|(t, bytes)| Memory { t_ns: t * SECOND, pss_bytes: Some(bytes), ..Memory::default() });
        let mut figures = Figures::default();
        pss(frame(rows), &record(), &mut figures).unwrap();
        assert_eq!(figures.values[&Metric::MemoryPssPeak], 300.0);
        let windows: Vec<(i64, f64)> = figures.windows[&Quantity::MemoryPss].clone().into_iter().collect();
        let right = [(0, 100.0), (1, 100.0), (2, 100.0), (3, 100.0), (4, 100.0), (5, 300.0), (6, 300.0), (80, 250.0)];
        assert_eq!(windows, right);
    }
}

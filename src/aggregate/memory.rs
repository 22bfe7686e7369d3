//! Proportional memory of the run's tree.

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::metric::Metric;
use super::readings::{GaugeWindows, raise};
use super::rows::{Rows, each_row};
use super::summary::Quantity;
use super::windows::{Span, WINDOW_NS};
use crate::trace::RunRecord;

/// Sums up the `memory` table.
///
/// # Errors
/// The table cannot be read.
pub(super) fn pss(table: impl Into<Rows>, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    let mut pss = GaugeWindows::new(Span::of(record));
    let (mut peak, mut gap_ns, mut last_ns) = (None, 0, 0);
    each_row(table, ["t_ns"], [col("pss_bytes")], |[t], [bytes]| {
        pss.push(t, bytes);
        raise(&mut peak, bytes);
        if bytes.is_some() {
            (gap_ns, last_ns) = (gap_ns.max(t - last_ns), t);
        }
    })?;
    figures.set(Metric::MemoryPssPeak, peak);
    let to_the_end_ns = record.duration_ns.map(|duration_ns| duration_ns - last_ns);
    let gap_ns = to_the_end_ns.map(|to_the_end_ns| gap_ns.max(to_the_end_ns)).filter(|_| peak.is_some());
    figures.set(Metric::MemoryPssGap, gap_ns.map(|gap_ns| gap_ns as f64 / 1e9));
    // Rare readings of a tree that moves would draw a curve of luck; the peak of the readings is still told.
    let windows = pss.finish();
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

    /// The windows, and the longest time without a reading.
    fn measured(readings: &[(i64, i64)], duration_s: i64) -> (Vec<(i64, f64)>, f64) {
        let row =
            |(t, bytes): &(i64, i64)| Memory { t_ns: t * SECOND / 2, pss_bytes: Some(*bytes), ..Memory::default() };
        let record = RunRecord { duration_ns: Some(duration_s * SECOND), ..record() };
        let mut figures = Figures::default();
        pss(frame(readings.iter().map(row)), &record, &mut figures).unwrap();
        assert_eq!(figures.values[&Metric::MemoryPssPeak], 300.0);
        let windows = figures.windows.remove(&Quantity::MemoryPss).map(|series| series.windows());
        (windows.unwrap_or_default().into_iter().collect(), figures.values[&Metric::MemoryPssGap])
    }

    #[test]
    fn frequent_readings_hold_until_the_next_one() {
        // By hand: at 0.0, 1.0, 2.0, 3.0 and 4.0 s.
        let readings = [(0, 100), (2, 300), (4, 200), (6, 200), (8, 200)];
        let expected = vec![(0, 100.0), (1, 300.0), (2, 200.0), (3, 200.0)];
        assert_eq!(measured(&readings, 4), (expected, 1.0));
    }

    #[test]
    fn rare_readings_have_a_peak_but_no_curve() {
        let readings = [(0, 100), (2, 300), (16, 200)];
        assert_eq!(measured(&readings, 8), (Vec::new(), 7.0), "from 1.0 to 8.0 s");
        assert_eq!(measured(&readings[..2], 30).1, 29.0, "to the end");
    }
}

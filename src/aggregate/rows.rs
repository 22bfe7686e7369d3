//! Rows of a table, a batch at a time, so that memory does not grow with the length of a run.

use anyhow::Result;
use polars::prelude::*;

/// Rows of one batch: some row groups of a file. At ten columns this is about 20 MB.
const BATCH_ROWS: usize = 262_144;

/// Calls `each` with every row's keys (columns that are never null) and values (as reals), in the order of the file.
/// A value that is null or no number is missing.
///
/// # Errors
/// The file is damaged, or a column is missing.
pub(super) fn each_row<const K: usize, const V: usize>(
    table: LazyFrame,
    keys: [&str; K],
    values: [Expr; V],
    mut each: impl FnMut([i64; K], [Option<f64>; V]),
) -> Result<()> {
    let key_names = keys.map(PlSmallStr::from_str);
    let value_names: [PlSmallStr; V] = std::array::from_fn(|i| format!("value {i}").into());
    let keys = key_names.iter().map(|name| col(name.clone()));
    let values =
        values.into_iter().zip(&value_names).map(|(value, name)| value.cast(DataType::Float64).alias(name.clone()));
    let table = table.select(keys.chain(values).collect::<Vec<_>>());
    for offset in (0..).step_by(BATCH_ROWS) {
        let batch = table.clone().slice(offset, BATCH_ROWS as IdxSize).collect()?;
        let keys = key_names.iter().map(|name| batch.column(name)?.i64()).collect::<PolarsResult<Vec<_>>>()?;
        let values = value_names.iter().map(|name| batch.column(name)?.f64()).collect::<PolarsResult<Vec<_>>>()?;
        for row in 0..batch.height() {
            each(
                std::array::from_fn(|i| keys[i].get(row).unwrap_or_default()),
                std::array::from_fn(|i| values[i].get(row).filter(|value| value.is_finite())),
            );
        }
        if batch.height() < BATCH_ROWS {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::testing::{Recorded, record, store};
    use crate::trace::tables::Memory;

    #[test]
    fn every_row_comes_once_and_in_order_over_the_edges_of_batches() {
        let rows = 2 * BATCH_ROWS as i64;
        let mut recorded = Recorded::new();
        let run = recorded.run("a", record());
        store(run, (0..rows).map(|t_ns| Memory { t_ns, pss_bytes: Some(3 * t_ns), ..Memory::default() }));
        let mut next = 0;
        let table = run.scan::<Memory>().unwrap().unwrap();
        each_row(table, ["t_ns"], [col("pss_bytes"), col("uss_bytes")], |[t_ns], values| {
            assert_eq!((t_ns, values), (next, [Some(3.0 * next as f64), None]));
            next += 1;
        })
        .unwrap();
        assert_eq!(next, rows);
    }
}

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

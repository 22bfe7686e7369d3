//! Rows of a table, a row group at a time, so that memory does not grow with the length of a run.

use anyhow::Result;
use polars::prelude::*;

use crate::trace::parquet::Groups;

/// A table to be read from its first row to its last.
pub(super) enum Rows {
    /// In memory, or short.
    Whole(Box<LazyFrame>),
    OfFile(Box<Groups>),
}

impl From<LazyFrame> for Rows {
    fn from(table: LazyFrame) -> Self {
        Self::Whole(Box::new(table))
    }
}

impl From<Groups> for Rows {
    fn from(groups: Groups) -> Self {
        Self::OfFile(Box::new(groups))
    }
}

/// Calls `each` with every row's keys (columns that are never null) and values (as reals), in the order of the file.
/// A value that is null or no number is missing.
///
/// # Errors
/// The file is damaged, or a column is missing.
pub(super) fn each_row<const K: usize, const V: usize>(
    table: impl Into<Rows>,
    keys: [&str; K],
    values: [Expr; V],
    mut each: impl FnMut([i64; K], [Option<f64>; V]),
) -> Result<()> {
    let name = |kind: &str, i: usize| PlSmallStr::from_string(format!("{kind} {i}"));
    let wanted: Vec<Expr> = (keys.iter().enumerate().map(|(i, key)| col(*key).alias(name("key", i))))
        // What is null becomes no number, which is missing as well.
        .chain(values.into_iter().enumerate().map(|(i, value)| real(value).alias(name("value", i))))
        .collect();
    let mut take = |table: LazyFrame| -> Result<()> {
        let mut batch = table.select(&wanted).collect()?;
        batch.rechunk_mut();
        let mut keys: [&[i64]; K] = [&[]; K];
        for (i, key) in keys.iter_mut().enumerate() {
            *key = batch.column(&name("key", i))?.i64()?.cont_slice()?;
        }
        let mut values: [&[f64]; V] = [&[]; V];
        for (i, value) in values.iter_mut().enumerate() {
            *value = batch.column(&name("value", i))?.f64()?.cont_slice()?;
        }
        for row in 0..batch.height() {
            each(
                std::array::from_fn(|i| keys[i][row]),
                std::array::from_fn(|i| Some(values[i][row]).filter(|value| value.is_finite())),
            );
        }
        Ok(())
    };
    match table.into() {
        Rows::Whole(table) => take(*table),
        Rows::OfFile(groups) => {
            let names = wanted.iter().flat_map(columns).collect();
            (0..groups.count()).try_for_each(|group| take(groups.read(group, &names)?))
        }
    }
}

fn real(value: Expr) -> Expr {
    value.cast(DataType::Float64).fill_null(lit(f64::NAN))
}

/// Names of the columns that an expression reads.
fn columns(of: &Expr) -> impl Iterator<Item = PlSmallStr> {
    of.into_iter().filter_map(|part| match part {
        Expr::Column(name) => Some(name.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::testing::{Recorded, record, store};
    use crate::trace::tables::Core;

    #[test]
    fn every_row_of_a_file_of_several_row_groups_comes_once_and_in_order() {
        let mut recorded = Recorded::new();
        let run = recorded.run("a", record());
        let row =
            |t_ns: i64| Core { t_ns, core: t_ns % 3, busy_ns: (t_ns % 2 == 0).then_some(t_ns), ..Core::default() };
        store(run, (0..150_000).map(row));
        let groups = run.groups::<Core>().unwrap().unwrap();
        assert_eq!(groups.count(), 3);
        let (mut next, mut sum) = (0, 0.0);
        each_row(
            groups,
            ["t_ns", "core"],
            [col("busy_ns") + col("core"), col("idle_ns")],
            |[t, core], [busy, idle]| {
                assert_eq!((t, core, idle), (next, next % 3, None));
                assert_eq!(busy, (t % 2 == 0).then_some((t + core) as f64));
                sum += busy.unwrap_or_default();
                next += 1;
            },
        )
        .unwrap();
        // By hand: the even t below 150 000 add up to 74 999 × 75 000, and a third of them each has core 0, 1 and 2.
        assert_eq!((next, sum), (150_000, 74_999.0 * 75_000.0 + 75_000.0));
    }
}

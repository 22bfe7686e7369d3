//! Load levels side by side: one row a case.

use anyhow::Result;
use serde::Serialize;

use crate::aggregate::metric::Metric;
use crate::aggregate::summary::CaseSummary;
use crate::report::across::idle;
use crate::report::context::Context;
use crate::report::escape;
use crate::report::format::{self, ABSENT};

const COLUMNS: [Metric; 10] = [
    Metric::Duration,
    Metric::CpuUsage,
    Metric::HostCpu,
    Metric::MemorySumOfPeaks,
    Metric::HostMemoryPeak,
    Metric::ForeignCpu,
    Metric::GpuUtilisation,
    Metric::GpuMemoryPeak,
    Metric::GpuMemoryOthersPeak,
    Metric::GpuEnergy,
];

/// Of these the table shows, too, how much they are above the idle case.
const ABOVE_IDLE: [Metric; 2] = [Metric::HostMemoryPeak, Metric::GpuMemoryPeak];

/// A table whose columns depend on what was measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Table {
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// The table, where there is more than one finished case to compare.
pub(super) fn build(context: &Context<'_>) -> Result<Option<Table>> {
    let cases: Vec<_> = context.summary.cases.iter().filter(|case| case.finished() > 0).collect();
    if cases.len() < 2 {
        return Ok(None);
    }
    let mut table = Table {
        header: vec![context.words.get("case")?.to_owned(), context.words.get("finished")?.to_owned()],
        rows: cases
            .iter()
            .map(|case| Ok(vec![escape::text(&context.case_title(case)?), case.finished().to_string()]))
            .collect::<Result<_>>()?,
    };
    for metric in COLUMNS {
        if cases.iter().all(|case| case.metric(metric).is_none()) {
            continue;
        }
        table.header.push(context.label(metric)?);
        for (row, case) in table.rows.iter_mut().zip(&cases) {
            row.push(
                case.metric(metric).map_or_else(|| Ok(ABSENT.to_owned()), |figure| context.mean_and_range(figure))?,
            );
        }
        if ABOVE_IDLE.contains(&metric) {
            above_idle(context, &cases, metric, &mut table)?;
        }
    }
    Ok(Some(table))
}

/// Adds a column with what is in use above the idle case of the same device, where there is one.
fn above_idle(context: &Context<'_>, cases: &[&CaseSummary], metric: Metric, table: &mut Table) -> Result<()> {
    let above: Vec<Option<f64>> = cases.iter().map(|case| idle::above(context.summary, case, metric)).collect();
    if above.iter().all(Option::is_none) {
        return Ok(());
    }
    table.header.push(context.words.get(&format!("levels.{}", metric.key()))?.to_owned());
    for (row, above) in table.rows.iter_mut().zip(above) {
        row.push(above.map_or_else(|| ABSENT.to_owned(), |above| format::value(metric.unit(), above)));
    }
    Ok(())
}

/// Whether the table has such a column.
pub(super) fn has_baseline(context: &Context<'_>) -> bool {
    let measured = |case| ABOVE_IDLE.iter().any(|metric| idle::above(context.summary, case, *metric).is_some());
    context.summary.cases.iter().any(measured)
}

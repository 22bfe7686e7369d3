//! Load levels side by side: one row a case.

use anyhow::Result;
use serde::Serialize;

use crate::aggregate::metric::Metric;
use crate::report::context::Context;
use crate::report::escape;
use crate::report::format::ABSENT;

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
    }
    Ok(Some(table))
}

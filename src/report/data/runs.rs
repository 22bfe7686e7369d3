//! The runs of an environment as one table, a row each.

use super::{csv, rfc3339};
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::{CaseSummary, EnvironmentSummary, RunSummary};

/// What stands before the figures.
const KEYS: [&str; 8] = ["environment", "case", "workload", "run", "outcome", "exit_code", "signal", "started_utc"];

/// All runs with all figures. The columns are the same for every environment, so that tables can be put together.
pub(super) fn table(summary: &EnvironmentSummary) -> String {
    let figures = Metric::ALL.iter().map(|metric| column(*metric));
    let header: Vec<String> = KEYS.map(str::to_owned).into_iter().chain(figures).collect();
    let rows = summary.cases.iter().flat_map(|case| case.runs.iter().map(move |run| row(summary, case, run)));
    std::iter::once(header).chain(rows).map(|cells| csv::line(&cells)).collect()
}

/// A figure's name with its unit.
fn column(metric: Metric) -> String {
    match metric.unit().suffix() {
        "" => metric.key().to_owned(),
        suffix => format!("{}_{suffix}", metric.key()),
    }
}

fn row(summary: &EnvironmentSummary, case: &CaseSummary, run: &RunSummary) -> Vec<String> {
    let code = |code: Option<i32>| code.map(|code| code.to_string()).unwrap_or_default();
    let keys = [
        csv::text(&summary.name),
        csv::text(&case.name),
        csv::text(&case.workload),
        run.run.to_string(),
        run.outcome.word().to_owned(),
        code(run.outcome.exit_code()),
        code(run.outcome.signal()),
        rfc3339(run.started_unix_ns),
    ];
    let figures = Metric::ALL.iter().map(|metric| csv::number(run.values.get(metric).copied()));
    keys.into_iter().chain(figures).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    /// Cells of the fixture's lines, none of which holds a comma.
    fn cells(table: &str) -> Vec<Vec<&str>> {
        table.lines().map(|line| line.split(',').collect()).collect()
    }

    #[test]
    fn every_run_is_a_row_and_every_figure_a_column() {
        let summary = fixture::cpu_only();
        let table = table(&summary);
        let rows = cells(&table);
        let runs: usize = summary.cases.iter().map(|case| case.runs.len()).sum();
        assert_eq!(rows.len(), 1 + runs);
        assert!(rows.iter().all(|row| row.len() == KEYS.len() + Metric::ALL.len()));
        for (unit, name) in [("s", "duration_s"), ("", "processes"), ("ratio", "cpu_usage_ratio")] {
            assert!(rows[0].contains(&name), "{unit}");
        }
    }

    #[test]
    fn values_are_those_of_the_run_and_what_was_not_measured_is_empty() {
        let summary = fixture::cpu_only();
        let table = table(&summary);
        let rows = cells(&table);
        let at = |name: &str| rows[0].iter().position(|cell| *cell == name).unwrap();
        let runs = summary.cases.iter().flat_map(|case| &case.runs);
        for (row, run) in rows[1..].iter().zip(runs) {
            let right = run.values.get(&Metric::Duration).map(f64::to_string).unwrap_or_default();
            assert_eq!(row[at("duration_s")], right);
            assert_eq!(row[at("gpu_energy_j")], "");
            assert_eq!(row[at("outcome")], run.outcome.word());
        }
    }
}

//! The coverage ledger against what the tables hold.

use std::collections::BTreeMap;
use std::path::Path;

use super::Verdict;
use super::table::Content;
use crate::trace::run::{Coverage, CoverageState, REMEDY, RunRecord};
use crate::trace::table::{Column, Shape};
use crate::trace::tables::SHAPES;

/// Checks every line of a run's ledger. Tables that could not be read are `None`, and were told already.
pub(super) fn check(
    path: &Path,
    record: &RunRecord,
    contents: &BTreeMap<&'static str, Option<Content>>,
    verdict: &mut Verdict,
) {
    for entry in &record.coverage {
        // A newer minor may have tables that this program does not know.
        let Some(shape) = SHAPES.iter().find(|shape| shape.name == entry.table()) else { continue };
        let fault = match contents.get(shape.name) {
            None => missing(entry),
            Some(None) => None,
            Some(Some(content)) => disagreement(entry, *shape, content),
        };
        if let Some(fault) = fault {
            verdict.problem(path, &fault, REMEDY);
        }
    }
}

fn claims_values(state: CoverageState) -> bool {
    matches!(state, CoverageState::Measured | CoverageState::Imported)
}

fn missing(entry: &Coverage) -> Option<String> {
    let table = entry.table();
    claims_values(entry.state)
        .then(|| format!("the ledger says that {:?} was measured, but the table {table:?} is missing", entry.metric))
}

fn disagreement(entry: &Coverage, shape: Shape, content: &Content) -> Option<String> {
    let columns = columns(entry, shape);
    let values: u64 = columns.iter().filter_map(|column| content.filled.get(column.name)).sum();
    match entry.state {
        state if claims_values(state) && !columns.is_empty() && values == 0 => {
            Some(format!("the ledger says that {:?} was measured, but there is no value of it", entry.metric))
        }
        CoverageState::Unsupported | CoverageState::Denied if values > 0 => {
            Some(format!("the ledger says that {:?} could not be measured, but there are values of it", entry.metric))
        }
        _ => None,
    }
}

/// The columns of values that a line is about: one by its name, several by how their names begin (`host.cpu`), or all.
fn columns(entry: &Coverage, shape: Shape) -> Vec<&'static Column> {
    let values = shape.columns.iter().filter(|column| !column.key);
    let Some(wanted) = entry.column() else { return values.collect() };
    let begins = |name: &str| name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    values.filter(|column| begins(column.name)).collect()
}

//! The coverage ledger against what the tables hold.

use std::collections::BTreeMap;
use std::path::Path;

use super::Verdict;
use super::table::Content;
use crate::trace::run::{Coverage, CoverageState, REMEDY, RunRecord};
use crate::trace::table::{Column, Shape};
use crate::trace::tables::{GROUPS, SHAPES};
use crate::trace::version;

/// Checks every line of a run's ledger. Tables that could not be read are `None`, and were told already.
pub(super) fn check(
    path: &Path,
    record: &RunRecord,
    contents: &BTreeMap<&'static str, Option<Content>>,
    verdict: &mut Verdict,
) {
    for entry in &record.coverage {
        let fault = match known(entry) {
            // A newer minor may have tables and columns that this program does not know.
            None if version::is_newer(&record.schema_version) => None,
            None => Some(format!("the ledger tells of {:?}, which no table has", entry.metric)),
            Some(Subject::Elsewhere) => None,
            Some(Subject::Columns(shape, columns)) => match contents.get(shape.name) {
                None => missing(entry, shape.name),
                Some(None) => None,
                Some(Some(content)) => disagreement(entry, &columns, content),
            },
        };
        if let Some(fault) = fault {
            verdict.problem(path, &fault, REMEDY);
        }
    }
}

fn missing(entry: &Coverage, table: &str) -> Option<String> {
    entry
        .state
        .claims_values()
        .then(|| format!("the ledger says that {:?} was measured, but the table {table:?} is missing", entry.metric))
}

fn disagreement(entry: &Coverage, columns: &[&Column], content: &Content) -> Option<String> {
    // Whether there are keys is told by the rows.
    let mut columns = columns.iter().filter(|column| !column.key).peekable();
    let has_columns = columns.peek().is_some();
    let values: u64 = columns.filter_map(|column| content.filled.get(column.name)).sum();
    match entry.state {
        state if state.claims_values() && has_columns && values == 0 => {
            Some(format!("the ledger says that {:?} was measured, but there is no value of it", entry.metric))
        }
        CoverageState::Unsupported | CoverageState::Denied if values > 0 => {
            Some(format!("the ledger says that {:?} could not be measured, but there are values of it", entry.metric))
        }
        _ => None,
    }
}

/// What a line of the ledger is about.
enum Subject {
    Columns(Shape, Vec<&'static Column>),
    /// Something that is in no table.
    Elsewhere,
}

/// Finds out what a line is about; `None` where there is no such thing.
fn known(entry: &Coverage) -> Option<Subject> {
    let Some(table) = entry.table() else { return Some(Subject::Elsewhere) };
    let shape = SHAPES.iter().find(|shape| shape.name == table)?;
    let columns = columns(entry, *shape);
    (!columns.is_empty()).then_some(Subject::Columns(*shape, columns))
}

/// The columns that a line is about: one by its name, several by how their names begin (`host.cpu`) or as a group, or all.
fn columns(entry: &Coverage, shape: Shape) -> Vec<&'static Column> {
    let all = shape.columns.iter();
    let Some(wanted) = entry.column() else { return all.collect() };
    if let Some((_, group)) = GROUPS.iter().find(|(name, _)| *name == entry.metric) {
        return all.filter(|column| group.contains(&column.name)).collect();
    }
    let begins = |name: &str| name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    all.filter(|column| begins(column.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_names_columns_that_there_are() {
        for (name, group) in GROUPS {
            let (table, _) = name.split_once('.').unwrap();
            let shape = SHAPES.iter().find(|shape| shape.name == table).unwrap();
            let has = |wanted: &&str| shape.columns.iter().any(|column| column.name == *wanted);
            assert!(group.iter().all(has), "{name}");
        }
    }
}

//! What the runs of an environment had loaded, and what was found before them, merged.

use std::collections::{BTreeMap, BTreeSet};

use super::summary::{CheckSummary, LoadedSummary};
use crate::trace::RunRecord;

/// Of each name all values that occurred in any run.
pub(super) fn loaded<'a>(records: impl Iterator<Item = &'a RunRecord>) -> LoadedSummary {
    let mut merged = LoadedSummary::default();
    for record in records {
        let known = |value: &'a Option<String>| value.as_deref();
        add(&mut merged.libraries, record.libraries.iter().map(|(name, value)| (name, known(value))));
        add(&mut merged.software, record.software.iter().map(|(name, value)| (name, known(value))));
        add(&mut merged.packages, record.packages.iter().map(|(name, value)| (name, Some(value.as_str()))));
        add(&mut merged.variables, record.variables.iter().map(|(name, value)| (name, Some(value.as_str()))));
    }
    merged
}

/// A name without a value is kept: it was there.
fn add<'a>(
    merged: &mut BTreeMap<String, BTreeSet<String>>,
    entries: impl Iterator<Item = (&'a String, Option<&'a str>)>,
) {
    for (name, value) in entries {
        merged.entry(name.clone()).or_default().extend(value.map(str::to_owned));
    }
}

/// The checks of the newest run that has any, each with how many runs found something else.
pub(super) fn checks(records: &[&RunRecord]) -> Vec<CheckSummary> {
    let with_checks = || records.iter().filter(|record| !record.checks.is_empty());
    let Some(newest) = with_checks().max_by_key(|record| record.started_unix_ns) else { return Vec::new() };
    let summary = |check: &crate::trace::check::Check| {
        let same = |other: &&crate::trace::check::Check| other.name == check.name;
        let found = with_checks().filter_map(|record| record.checks.iter().find(same));
        let (mut runs, mut others) = (0, BTreeMap::new());
        for other in found {
            runs += 1;
            if other.state != check.state {
                *others.entry(other.state).or_default() += 1;
            }
        }
        CheckSummary { check: check.clone(), runs, others }
    };
    newest.checks.iter().map(summary).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::check::{Check, CheckState};
    use crate::trace::run::Outcome;

    fn record(number: i64, shm: CheckState, torch: Option<&str>) -> RunRecord {
        let check =
            |name: &str, state| Check { name: name.to_owned(), state, cause: "x".to_owned(), values: BTreeMap::new() };
        RunRecord {
            started_unix_ns: number,
            checks: vec![check("shm", shm), check("swap", CheckState::Ok)],
            software: BTreeMap::from([("torch".to_owned(), torch.map(str::to_owned))]),
            ..RunRecord::for_tests(Outcome::Finished)
        }
    }

    #[test]
    fn checks_are_those_of_the_newest_run_with_how_often_others_differed() {
        let records = [
            record(3, CheckState::Ok, None),
            record(1, CheckState::Failed, None),
            record(2, CheckState::Ok, None),
            RunRecord::for_tests(Outcome::Finished),
        ];
        let found = checks(&records.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].check.state, found[0].runs), (CheckState::Ok, 3));
        assert_eq!(found[0].others, BTreeMap::from([(CheckState::Failed, 1)]));
        assert!(found[1].others.is_empty());
        assert!(checks(&[&RunRecord::for_tests(Outcome::Finished)]).is_empty());
    }

    #[test]
    fn versions_that_differ_between_runs_stand_side_by_side() {
        let records = [
            record(1, CheckState::Ok, Some("2.11.0")),
            record(2, CheckState::Ok, Some("2.8.0")),
            record(3, CheckState::Ok, None),
        ];
        let merged = loaded(records.iter());
        let expected = BTreeSet::from(["2.11.0".to_owned(), "2.8.0".to_owned()]);
        assert_eq!(merged.software, BTreeMap::from([("torch".to_owned(), expected)]));
    }
}

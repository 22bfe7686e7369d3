//! Whether a run lies where its record says that it belongs, and is no copy of another one: a run that counts twice makes
//! every figure over runs look surer than it is.

use std::collections::BTreeMap;
use std::path::Path;

use super::layout::{partition, slug};
use super::run::RunRecord;

const RENAME: &str = "rename the folder, or remove it where it is a copy";
const REMOVE: &str = "one of them is a copy: remove it";

/// Each folder on the way to a run that is not the one of its record, with what to do. An environment's folder that has
/// another kind of name (runs that are to replace others are recorded aside) is none to judge.
pub(super) fn misplaced(environment: &Path, node: &Path, record: &RunRecord) -> Vec<String> {
    let (Some(run), Some(case)) = (node.parent(), node.ancestors().nth(2)) else { return Vec::new() };
    let expected = [
        (environment, "environment", slug(&record.environment)),
        (case, "case", slug(&record.case())),
        (run, "run", record.run.to_string()),
        (node, "node", record.node.to_string()),
    ];
    let wrong = |(path, key, value): (&Path, &str, String)| {
        let found = partition(path, key);
        let is_right = found.as_ref() == Some(&value) || found.is_none() && key == "environment";
        (!is_right).then(|| format!("{}: run.json below it belongs into {key}={value}; {RENAME}", path.display()))
    };
    expected.into_iter().filter_map(wrong).collect()
}

/// Which of an environment's runs (slug of the case, record) are copies of others before them, by their indices: a session
/// has one run at each place, and no two runs start in the same nanosecond.
pub(super) fn copies<'a>(
    environment: &Path,
    runs: impl Iterator<Item = (&'a str, &'a RunRecord)>,
) -> Vec<(usize, String)> {
    let (mut places, mut starts, mut found) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (index, (case, record)) in runs.enumerate() {
        let name = format!("case={case}/run={}", record.run);
        let of_place = places.insert((record.session_unix_ns, record.sequence), name.clone());
        let of_start = starts.insert(record.started_unix_ns, name.clone());
        let what = match (of_place, of_start) {
            (Some(other), _) => format!("{other} and {name} have the same place in one session"),
            (None, Some(other)) => format!("{other} and {name} started in the same nanosecond"),
            (None, None) => continue,
        };
        found.push((index, format!("{}: {what}; {REMOVE}", environment.display())));
    }
    found
}

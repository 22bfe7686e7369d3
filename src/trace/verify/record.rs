//! What `run.json` tells, beyond what reading refuses: totals against the time.

use std::path::Path;

use super::Verdict;
use crate::trace::plausible::contradictions;
use crate::trace::run::{REMEDY, RunRecord};

/// Checks a record by itself.
pub(super) fn check(path: &Path, record: &RunRecord, verdict: &mut Verdict) {
    contradictions(record).iter().for_each(|fault| verdict.problem(path, fault, REMEDY));
}

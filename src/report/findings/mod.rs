//! The catalogue of findings: every judgement of a report is a rule over measured values. What was not measured earns
//! no finding. The words of a rule are `finding.<name>` and `finding.<name>.short` in the catalogues of words.

mod measure;
mod rules;

use crate::aggregate::summary::{CaseSummary, EnvironmentSummary};
use measure::measure;
pub(crate) use measure::{BOUNDS_OF_MEMORY, Evidence, recorder_cores, share_of_memory};
pub(crate) use rules::{FOREIGN_LOAD, RULES, Rule};

/// A rule that holds, with the value that earned it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) rule: &'static Rule,
    pub(crate) evidence: Evidence,
}

/// All findings of a case.
pub(crate) fn of_case(summary: &EnvironmentSummary, case: &CaseSummary) -> Vec<Finding> {
    let held = |rule: &'static Rule| {
        // What others do on a GPU is no finding on a case that does not use one.
        if rule.name.starts_with("gpu_") && !case.uses_gpu() {
            return None;
        }
        let evidence = measure(rule.measure, summary, case)?;
        rule.holds(evidence.value).then_some(Finding { rule, evidence })
    };
    RULES.iter().filter_map(held).collect()
}

#[cfg(test)]
mod tests;

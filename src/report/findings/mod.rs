//! The catalogue of findings: every judgement of a report is a rule over measured values. What was not measured earns
//! no finding. The words of a rule are `finding.<name>` and `finding.<name>.short` in the catalogues of words.

pub(crate) mod growth;
mod measure;
pub(crate) mod outliers;
mod rules;

use crate::aggregate::summary::{CaseSummary, EnvironmentSummary};
#[cfg(test)]
pub(crate) use measure::Measure;
use measure::measure;
pub(crate) use measure::{BOUNDS_OF_MEMORY, Evidence, gpu_capacity, recorder_cores, share_of_memory};
use rules::OF_ENVIRONMENT;
pub(crate) use rules::{Condition, FOREIGN_LOAD, RULES, Rule};

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
        let met = |condition: &Condition| {
            measure(condition.measure, summary, case).is_some_and(|evidence| condition.holds(evidence.value))
        };
        (rule.condition().holds(evidence.value) && rule.and.iter().all(met)).then_some(Finding { rule, evidence })
    };
    RULES.iter().filter_map(held).collect()
}

/// All findings that concern an environment as a whole.
pub(crate) fn of_environment(summary: &EnvironmentSummary) -> Vec<Finding> {
    let held = |rule: &'static Rule| {
        let evidence = measure::of_environment(rule.measure, summary)?;
        rule.condition().holds(evidence.value).then_some(Finding { rule, evidence })
    };
    OF_ENVIRONMENT.iter().filter_map(held).collect()
}

#[cfg(test)]
mod tests;

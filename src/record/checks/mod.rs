//! Whether an environment is ready to use: facts are gathered once, and rules judge them.
//!
//! ```text
//! nvidia, trial, login, jupyter ── facts ── rules -> Check (in `trace`)
//! ```

pub mod facts;
pub mod jupyter;
pub mod login;
pub mod nvidia;
pub mod rules;
pub mod trial;

use serde_json::json;

use self::facts::Facts;
use self::rules::{RULES, Verdict};
use crate::trace::check::Check;

/// Holds every rule against the facts, in the order of the catalogue.
pub fn judge(facts: &Facts) -> Vec<Check> {
    RULES.iter().map(|rule| rule.check((rule.judge)(facts))).collect()
}

/// Says whether the driver can serve the CUDA runtime that the workload has loaded, which nobody knew before the run.
pub fn settle_runtime(checks: &mut [Check], runtime: &str) {
    let Some(rule) = RULES.iter().find(|rule| rule.name == rules::DRIVER_CUDA) else { return };
    let Some(check) = checks.iter_mut().find(|check| check.name == rule.name && check.cause == rules::NO_RUNTIME)
    else {
        return;
    };
    let (Some(driver), Some(cuda)) = (text(check, "driver"), text(check, "driver_cuda")) else { return };
    *check = rule.check(rules::served(&driver, &cuda, runtime));
}

fn text(check: &Check, key: &str) -> Option<String> {
    check.values.get(key)?.as_str().map(str::to_owned)
}

impl rules::Rule {
    fn check(&self, verdict: Verdict) -> Check {
        Check {
            name: self.name.to_owned(),
            state: self.state_of(verdict.outcome),
            cause: verdict.outcome.to_owned(),
            values: verdict.values.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect(),
        }
    }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

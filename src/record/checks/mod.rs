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
use self::rules::{DRIVER_CUDA, RULES, Rule, Verdict};
use crate::trace::check::Check;
use crate::trace::run::Limits;

/// Holds every rule against the facts, in the order of the catalogue.
pub fn judge(facts: &Facts) -> Vec<Check> {
    RULES.iter().map(|rule| rule.check((rule.judge)(facts))).collect()
}

/// Says whether the driver can serve the CUDA runtime that the workload has loaded, which nobody knew before the run.
pub fn settle_runtime(checks: &mut [Check], runtime: &str) {
    let Some(rule) = RULES.iter().find(|rule| rule.name == DRIVER_CUDA) else { return };
    let Some(check) = checks.iter_mut().find(|check| check.name == rule.name && check.cause == rules::NO_RUNTIME)
    else {
        return;
    };
    let (Some(driver), Some(cuda)) = (text(check, "driver"), text(check, "driver_cuda")) else { return };
    *check = rule.check(rules::served(&driver, &cuda, runtime));
}

/// The checks of a run in a container that this program is not in: what tells of the machine stays, shared memory and
/// limits are the container's, and the rest cannot be seen from here.
pub fn of_container(before: &[Check], seen: &Container) -> Vec<Check> {
    let cores = seen.limits.cores_online;
    let check = |rule: &Rule| match rule.name {
        "shm" => Some(rule.check(rules::host::shm_of(Some(seen.shm_bytes)))),
        "memory_limit" => seen
            .limits
            .memory_bytes
            .map(|bytes| rule.check(rules::host::memory_limit_of(bytes, seen.limits.memory_total_bytes))),
        "cpu_limit" => seen
            .limits
            .cpu_cores
            .map(|quota| rule.check(rules::host::cpu_limit_of(cores, cores as usize, Some(quota), seen.threads))),
        name if rule.of_machine => before.iter().find(|check| check.name == name).cloned(),
        _ => None,
    };
    RULES.iter().filter_map(check).collect()
}

/// What can be seen of a container from outside.
#[derive(Clone, Copy, Debug)]
pub struct Container {
    /// Size of its /dev/shm and what of it is free.
    pub shm_bytes: (i64, i64),
    pub limits: Limits,
    /// `OMP_NUM_THREADS` of its processes.
    pub threads: Option<u32>,
}

fn text(check: &Check, key: &str) -> Option<String> {
    check.values.get(key)?.as_str().map(str::to_owned)
}

impl Rule {
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

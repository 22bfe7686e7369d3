//! The readiness checks of a session: once, before anything is measured.

use crate::record::cgroup::Cgroups;
use crate::record::checks::facts::{Facts, Request};
use crate::record::checks::judge;
use crate::record::fingerprint::Machine;
use crate::record::plan::{Case, Plan, shipped};
use crate::record::probe::gpu::Gpus;
use crate::trace::check::{Check, CheckState};

/// Looks around. A kernel is run only where a shipped workload may use a GPU: it takes seconds, and tells nothing of the
/// libtorch of another command.
pub(super) fn look(plan: &Plan, machine: &Machine, cgroups: &Cgroups, gpus: &Gpus) -> Vec<Check> {
    let cases = || plan.targets.iter().flat_map(|target| &target.cases);
    judge(&Facts::gather(Request {
        machine,
        cgroups,
        driver: &gpus.driver_or_reason(),
        is_left_alone: gpus.are_left_alone(),
        wants_gpu: cases().any(wants_gpu),
        try_kernel: cases().any(|case| shipped::is_shipped(&case.workload) && device(case) != Some("cpu")),
        try_python: false,
    }))
}

/// That something is not ready, in one line; absent where nothing failed.
pub(super) fn in_words(checks: &[Check]) -> Option<String> {
    let failed = checks.iter().filter(|check| check.state == CheckState::Failed);
    let names: Vec<&str> = failed.map(|check| check.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("not ready: {}; `shice check` says why and what to do", names.join(", ")))
}

fn wants_gpu(case: &Case) -> bool {
    device(case).is_some_and(|device| device.starts_with("cuda"))
}

fn device(case: &Case) -> Option<&str> {
    case.settings.get("device").map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::checks::fixture::without_gpu;

    #[test]
    fn what_failed_is_named_before_the_first_run_and_a_ready_environment_is_not_worth_a_word() {
        let mut facts = without_gpu();
        assert_eq!(in_words(&judge(&facts)), None);
        facts.shm_bytes = Some((64 << 20, 64 << 20));
        facts.jupyter.servers = vec![(8888, false)];
        let words = in_words(&judge(&facts)).unwrap();
        assert!(words.starts_with("not ready: shm, jupyter; `shice check`"), "{words}");
    }
}

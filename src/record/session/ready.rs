//! The readiness checks of a session: once, before anything is measured.

use crate::record::cgroup::Cgroups;
use crate::record::checks::facts::{Facts, Request};
use crate::record::checks::judge;
use crate::record::fingerprint::Machine;
use crate::record::plan::{Case, Plan, shipped};
use crate::record::probe::gpu::Gpus;
use crate::trace::check::Check;

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
    }))
}

fn wants_gpu(case: &Case) -> bool {
    device(case).is_some_and(|device| device.starts_with("cuda"))
}

fn device(case: &Case) -> Option<&str> {
    case.settings.get("device").map(String::as_str)
}

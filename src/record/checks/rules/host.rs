//! Memory, CPU and shared memory of the machine, and what of them this environment may use.

use super::{Verdict, list};
use crate::record::checks::facts::Facts;

/// What Docker and Kubernetes give a container where nothing is said (`docker run --shm-size`, 64 MiB). One batch of
/// 64 images of 3×224×224 floats is 37 MiB, and each worker prepares two: PyTorch's README calls this size not enough.
const SHM_DEFAULT_BYTES: i64 = 64 << 20;
/// What NVIDIA's PyTorch container asks for at least (`--shm-size=1g`, NGC PyTorch release notes).
const SHM_ENOUGH_BYTES: i64 = 1 << 30;
/// Less of the swap space holds pages of idle services, which costs nothing; our own.
const SWAP_USED_BYTES: i64 = 256 << 20;

pub(super) fn shm(facts: &Facts) -> Verdict {
    shm_of(facts.shm_bytes)
}

/// By size and free space of /dev/shm.
pub fn shm_of(bytes: Option<(i64, i64)>) -> Verdict {
    let Some((size, free)) = bytes else { return Verdict::of("missing") };
    let (outcome, threshold) = match size {
        _ if size <= SHM_DEFAULT_BYTES => ("default", SHM_DEFAULT_BYTES),
        _ if size < SHM_ENOUGH_BYTES => ("small", SHM_ENOUGH_BYTES),
        _ if free < SHM_DEFAULT_BYTES => ("filled", SHM_DEFAULT_BYTES),
        _ => ("ok", SHM_ENOUGH_BYTES),
    };
    Verdict::of(outcome).with("size_bytes", size).with("free_bytes", free).with("threshold_bytes", threshold)
}

pub(super) fn memory_limit(facts: &Facts) -> Verdict {
    memory_limit_of(
        facts.limits.memory_bytes.unwrap_or(facts.limits.memory_total_bytes),
        facts.limits.memory_total_bytes,
    )
}

/// By what may be used of what there is.
pub fn memory_limit_of(limit_bytes: i64, total_bytes: i64) -> Verdict {
    Verdict::of(if limit_bytes < total_bytes { "limited" } else { "ok" })
        .with("limit_bytes", limit_bytes)
        .with("total_bytes", total_bytes)
}

pub(super) fn cpu_limit(facts: &Facts) -> Verdict {
    cpu_limit_of(facts.limits.cores_online, facts.allowed_cores, facts.quota_cores, facts.threads)
}

/// Libraries count the cores that the affinity allows and start as many threads; a quota of CPU time they do not see.
pub fn cpu_limit_of(online: u32, allowed: usize, quota: Option<f64>, threads: Option<u32>) -> Verdict {
    let Some(quota) = quota.filter(|quota| *quota < allowed as f64) else {
        let pinned = u32::try_from(allowed).is_ok_and(|allowed| allowed < online);
        return Verdict::of(if pinned { "pinned" } else { "ok" }).with("cores", allowed).with("online_cores", online);
    };
    let fitting = quota.floor().max(1.0);
    let set = threads.filter(|set| f64::from(*set) <= quota.ceil());
    Verdict::of(if set.is_some() { "threads_set" } else { "limited" })
        .with("limit_cores", quota)
        .with("cores", allowed)
        .with("threads", set.unwrap_or(fitting as u32))
}

pub(super) fn swap(facts: &Facts) -> Verdict {
    match facts.swap_bytes {
        None => Verdict::of("not_told"),
        Some((0, _)) => Verdict::of("none"),
        Some((total, used)) => Verdict::of(if used >= SWAP_USED_BYTES { "used" } else { "ok" })
            .with("used_bytes", used)
            .with("total_bytes", total)
            .with("threshold_bytes", SWAP_USED_BYTES),
    }
}

pub(super) fn governor(facts: &Facts) -> Verdict {
    if facts.governors.is_empty() {
        return Verdict::of("not_told");
    }
    let performs = facts.governors.iter().all(|governor| governor == "performance");
    Verdict::of(if performs { "ok" } else { "saving" })
        .with("governors", list(facts.governors.iter().map(String::as_str)))
}

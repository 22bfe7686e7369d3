//! Every outcome of every check, on environments made by hand.

use super::fixture::{CASES, with_gpu, without_gpu};
use super::trial::Trial;
use super::*;
use crate::trace::check::CheckState;

fn of(checks: &[Check], name: &str) -> Check {
    checks.iter().find(|check| check.name == name).unwrap().clone()
}

#[test]
fn each_fact_leads_to_its_outcome_and_each_outcome_has_a_fact() {
    let mut reached = Vec::new();
    for (machine, change, name, outcome) in CASES {
        let mut facts = machine();
        change(&mut facts);
        let check = of(&judge(&facts), name);
        assert_eq!(check.cause, *outcome, "{name} of {facts:#?}");
        reached.push((*name, *outcome));
    }
    for rule in RULES {
        for (outcome, _) in rule.outcomes {
            assert!(reached.contains(&(rule.name, outcome)), "nothing leads to {} of {}", outcome, rule.name);
        }
    }
}

#[test]
fn outcomes_are_all_in_the_catalogue() {
    for (machine, change, _, _) in CASES {
        let mut facts = machine();
        change(&mut facts);
        for check in judge(&facts) {
            let rule = RULES.iter().find(|rule| rule.name == check.name).unwrap();
            assert!(rule.outcomes.iter().any(|(outcome, _)| *outcome == check.cause), "{check:?}");
        }
    }
}

#[test]
fn a_machine_without_a_gpu_that_nobody_expects_is_ready() {
    let checks = judge(&without_gpu());
    assert!(checks.iter().all(|check| matches!(check.state, CheckState::Ok | CheckState::Unknown)), "{checks:#?}");
    assert!(judge(&with_gpu()).iter().all(|check| check.state == CheckState::Ok));
}

#[test]
fn a_driver_serves_a_newer_minor_and_not_a_newer_major() {
    for (cuda, runtime, outcome) in [
        ("13.0", "12.8", "ok"),
        ("13.0", "13.0.88", "ok"),
        ("12.4", "12.8", "same_major"),
        ("12.8", "13.0", "older"),
        ("13.0", "?", "no_runtime"),
    ] {
        assert_eq!(rules::served("1", cuda, runtime).outcome, outcome, "{cuda} {runtime}");
    }
}

#[test]
fn the_runtime_that_a_run_has_loaded_settles_what_was_open_before() {
    let mut facts = with_gpu();
    facts.trial = Trial::NotTried;
    let mut checks = judge(&facts);
    settle_runtime(&mut checks, "14.0.12");
    let settled = of(&checks, "driver_cuda");
    assert_eq!((settled.state, settled.cause.as_str()), (CheckState::Failed, "older"));
    let before = checks.clone();
    settle_runtime(&mut checks, "13.0");
    assert_eq!(checks, before, "what is settled stays");
}

#[test]
fn a_container_seen_from_outside_has_its_own_limits_and_shared_memory_and_the_machines_driver() {
    let mut facts = with_gpu();
    facts.jupyter.servers = vec![(8888, false)];
    let limits = Limits { cpu_cores: Some(2.0), memory_bytes: Some(1 << 30), ..facts.limits };
    let seen = Container { shm_bytes: (64 << 20, 64 << 20), limits, threads: Some(2) };
    let checks = of_container(&judge(&facts), &seen);
    for (name, cause) in
        [("nvidia_driver", "ok"), ("shm", "default"), ("memory_limit", "limited"), ("cpu_limit", "threads_set")]
    {
        assert_eq!(of(&checks, name).cause, cause, "{name}");
    }
    for name in ["jupyter", "root_login", "device_nodes", "cuda_kernel"] {
        assert!(checks.iter().all(|check| check.name != name), "{name} is the machine's, not the container's");
    }
}

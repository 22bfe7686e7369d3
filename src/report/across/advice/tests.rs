use super::*;
use crate::report::across::{devices, sweeps};
use crate::report::fixture;
use crate::report::language::Language;
use crate::report::words::Words;

/// Names of the lines of a scenario, with the settings that they name.
fn lines(summary: &EnvironmentSummary, scenario: Scenario) -> Vec<(&'static str, Option<String>)> {
    let (sweeps, pairs) = (sweeps::sweeps(summary), devices::pairs(summary));
    let ground = Ground { summary, sweeps: &sweeps, pairs: &pairs };
    let advice = advice(&ground).into_iter().find(|advice| advice.scenario == scenario).unwrap();
    advice.lines.iter().map(|line| (line.name, line.code().map(str::to_owned))).collect()
}

fn has(lines: &[(&'static str, Option<String>)], name: &str, code: Option<&str>) -> bool {
    lines.iter().any(|(found, concrete)| *found == name && concrete.as_deref() == code)
}

#[test]
fn what_was_tried_on_a_gpu_is_advised_with_the_setting_that_it_favours() {
    let found = lines(&fixture::both_devices(), Scenario::SingleGpu);
    for (name, code) in [
        ("single_gpu.faster", None),
        ("swept.enough", Some("batch_size=128")),
        ("swept.fastest", Some("torch.autocast(\"cuda\", dtype=torch.bfloat16)")),
        ("swept.noise", Some("num_workers=0")),
        ("swept.limit", Some("batch_size=256")),
        ("swept.gpu_memory", None),
    ] {
        assert!(has(&found, name, code), "{name} {code:?}: {found:?}");
    }
    assert!(!found.iter().any(|(name, _)| name.starts_with("workers.")), "workers were tried: {found:?}");
}

#[test]
fn a_model_that_did_not_fit_is_said_so() {
    let found = lines(&fixture::both_devices(), Scenario::Large);
    assert_eq!(found, [("large.does_not_fit", None)]);
}

#[test]
fn without_a_sweep_advice_rests_on_the_findings_of_the_cases() {
    let mut summary = fixture::both_devices();
    summary.cases.retain(|case| case.name == "small-cnn device=cpu");
    let found = lines(&summary, Scenario::Laptop);
    assert!(has(&found, "laptop.busy", Some("torch.set_num_threads(3)")), "{found:?}");
    assert!(has(&found, "workers.none", Some("num_workers=0")), "{found:?}");
    assert!(has(&found, "laptop.memory", None), "{found:?}");
    summary.cases[0].metrics.retain(|figure| figure.metric == crate::aggregate::metric::Metric::Duration);
    assert_eq!(lines(&summary, Scenario::Laptop), [], "what was not measured earns no advice");
    assert_eq!(lines(&summary, Scenario::SingleGpu), []);
}

#[test]
fn findings_that_advice_rests_on_are_in_the_catalogue() {
    for name in ["cpu_saturated", "data_wait_high", "data_wait_low", "gpu_high", "gpu_low", "memory_ample"] {
        Words::of(Language::English).unwrap().get(&format!("finding.{name}")).unwrap();
    }
}

//! The report of environments as one JSON document, for other programs; docs/report-json.md describes it. Keys are words of
//! the trace and of the rules, in no language of the report. What was not measured is absent or null, never 0.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use super::rfc3339;
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::{
    CaseSummary, CheckSummary, CommonLimits, EnvironmentSummary, ForeignProgram, MetricSummary, RunSummary,
};
use crate::report::escape;
use crate::report::findings::{self, Condition, Finding};
use crate::trace::check::{Check, CheckState};
use crate::trace::run::{Coverage, CpuTotals, Outcome, RecorderCost, StepReading};

/// `major.minor` of the document: a new minor only adds keys, a new major changes what keys mean.
pub(crate) const SCHEMA_VERSION: &str = "1.1";

#[derive(Serialize)]
struct Document<'a> {
    schema_version: &'static str,
    shice_version: &'static str,
    environments: Vec<EnvironmentData<'a>>,
}

#[derive(Serialize)]
struct EnvironmentData<'a> {
    name: &'a str,
    slug: &'a str,
    fingerprint: &'a BTreeMap<String, Value>,
    /// Different machines or images among the runs.
    fingerprints: usize,
    limits: LimitsData,
    software: &'a BTreeMap<String, BTreeSet<String>>,
    packages: &'a BTreeMap<String, BTreeSet<String>>,
    libraries: &'a BTreeMap<String, BTreeSet<String>>,
    variables: &'a BTreeMap<String, BTreeSet<String>>,
    checks: Vec<CheckData<'a>>,
    /// That concern all runs.
    findings: Vec<FindingData>,
    cases: Vec<CaseData<'a>>,
    coverage: &'a [Coverage],
    left_out: Vec<LeftOutData<'a>>,
}

#[derive(Serialize)]
struct LimitsData {
    cores_online: Option<u32>,
    cpu_cores: Option<f64>,
    memory_total_bytes: Option<i64>,
    memory_bytes: Option<i64>,
}

#[derive(Serialize)]
struct CheckData<'a> {
    #[serde(flatten)]
    check: &'a Check,
    runs: usize,
    /// Runs that found it in another state.
    other_states: &'a BTreeMap<CheckState, usize>,
}

#[derive(Serialize)]
struct LeftOutData<'a> {
    run: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct CaseData<'a> {
    name: &'a str,
    slug: &'a str,
    workload: &'a str,
    settings: &'a BTreeMap<String, String>,
    effective: &'a BTreeMap<String, String>,
    command: &'a [String],
    set_variables: &'a BTreeMap<String, String>,
    step_reading: Option<&'a StepReading>,
    container: Option<&'a str>,
    limits: LimitsData,
    uses_gpu: bool,
    gpus_used: Option<&'a BTreeSet<u32>>,
    quick: bool,
    finished_runs: usize,
    metrics: BTreeMap<&'static str, MetricData>,
    findings: Vec<FindingData>,
    foreign: Vec<ForeignData<'a>>,
    runs: Vec<RunData<'a>>,
}

/// A figure over the finished runs.
#[derive(Serialize)]
struct MetricData {
    unit: &'static str,
    n: usize,
    mean: f64,
    min: f64,
    max: f64,
    ci95: Option<(f64, f64)>,
}

/// A rule that holds: `from` ≤ `value` < `below`.
#[derive(Serialize)]
struct FindingData {
    rule: &'static str,
    /// Whether it limits what the figures may be used for.
    caution: bool,
    metric: Option<&'static str>,
    unit: &'static str,
    value: f64,
    from: Option<f64>,
    below: Option<f64>,
    /// What holds besides.
    and: Vec<ConditionData>,
    // Over the runs; absent of a count over all runs.
    n: Option<usize>,
    min: Option<f64>,
    max: Option<f64>,
}

#[derive(Serialize)]
struct ConditionData {
    measure: String,
    from: Option<f64>,
    below: Option<f64>,
}

#[derive(Serialize)]
struct ForeignData<'a> {
    name: &'a str,
    cores: f64,
    memory_bytes: f64,
}

#[derive(Serialize)]
struct RunData<'a> {
    run: u32,
    outcome: Outcome,
    started_utc: String,
    started_unix_ns: i64,
    interval_ns: i64,
    values: BTreeMap<&'static str, f64>,
    step_source: Option<&'static str>,
    reported_by: Option<&'static str>,
    cpu: CpuTotals,
    recorder: RecorderCost,
    tables_bytes: Option<u64>,
    missing_tables: &'a BTreeSet<String>,
    survivors: &'a [String],
    left_children: bool,
    foreign: Vec<ForeignData<'a>>,
    events: &'a [String],
    output_tail: &'a [String],
}

/// The document of some environments.
///
/// # Errors
/// A value cannot be put into JSON.
pub fn document<'a>(summaries: impl IntoIterator<Item = &'a EnvironmentSummary>) -> Result<String> {
    let document = Document {
        schema_version: SCHEMA_VERSION,
        shice_version: env!("CARGO_PKG_VERSION"),
        environments: summaries.into_iter().map(environment).collect(),
    };
    let text = serde_json::to_string_pretty(&document).context("cannot put the report into JSON")?;
    Ok(format!("{}\n", inert(&text)))
}

/// Signs that would act on a terminal or turn the writing direction stand as escapes. They can only be within strings,
/// where an escape means the same.
fn inert(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for sign in json.chars() {
        match sign {
            '\n' => text.push(sign),
            _ if escape::acts(sign) => {
                sign.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text += &format!("\\u{unit:04x}"));
            }
            _ => text.push(sign),
        }
    }
    text
}

fn environment(summary: &EnvironmentSummary) -> EnvironmentData<'_> {
    EnvironmentData {
        name: &summary.name,
        slug: &summary.slug,
        fingerprint: &summary.fingerprint,
        fingerprints: summary.fingerprints,
        limits: limits(&summary.limits),
        software: &summary.loaded.software,
        packages: &summary.loaded.packages,
        libraries: &summary.loaded.libraries,
        variables: &summary.loaded.variables,
        checks: summary.checks.iter().map(check).collect(),
        findings: findings::of_environment(summary).iter().map(finding).collect(),
        cases: summary.cases.iter().map(|of_case| case(summary, of_case)).collect(),
        coverage: &summary.coverage,
        left_out: summary.left_out.iter().map(|run| LeftOutData { run: &run.run, reason: &run.reason }).collect(),
    }
}

fn limits(limits: &CommonLimits) -> LimitsData {
    LimitsData {
        cores_online: limits.cores_online,
        cpu_cores: limits.cpu_cores,
        memory_total_bytes: limits.memory_total_bytes,
        memory_bytes: limits.memory_bytes,
    }
}

fn check(summary: &CheckSummary) -> CheckData<'_> {
    CheckData { check: &summary.check, runs: summary.runs, other_states: &summary.others }
}

fn case<'a>(summary: &EnvironmentSummary, case: &'a CaseSummary) -> CaseData<'a> {
    CaseData {
        name: &case.name,
        slug: &case.slug,
        workload: &case.workload,
        settings: &case.settings,
        effective: &case.effective,
        command: &case.command,
        set_variables: &case.set_variables,
        step_reading: case.step_reading.as_ref(),
        container: case.container.as_deref(),
        limits: limits(&case.limits),
        uses_gpu: case.uses_gpu(),
        gpus_used: case.gpus_used.as_ref(),
        quick: case.is_quick(),
        finished_runs: case.finished(),
        metrics: case.metrics.iter().map(metric).collect(),
        findings: findings::of_case(summary, case).iter().map(finding).collect(),
        foreign: foreign(&case.foreign),
        runs: case.runs.iter().map(run).collect(),
    }
}

fn metric(figure: &MetricSummary) -> (&'static str, MetricData) {
    let MetricSummary { metric, n, mean, min, max, ci95 } = *figure;
    (metric.key(), MetricData { unit: metric.unit().word(), n, mean, min, max, ci95 })
}

fn finding(finding: &Finding) -> FindingData {
    let Finding { rule, evidence } = finding;
    let (min, max, n) = match evidence.spread {
        Some((min, max, n)) => (Some(min), Some(max), Some(n)),
        None => (None, None, None),
    };
    FindingData {
        rule: rule.name,
        caution: rule.caution,
        metric: evidence.metric.map(Metric::key),
        unit: evidence.unit.word(),
        value: evidence.value,
        from: rule.from,
        below: rule.below,
        and: rule.and.iter().map(condition).collect(),
        n,
        min,
        max,
    }
}

fn condition(condition: &Condition) -> ConditionData {
    ConditionData { measure: condition.measure.name(), from: condition.from, below: condition.below }
}

fn foreign<'a>(programs: &'a [ForeignProgram]) -> Vec<ForeignData<'a>> {
    let of = |program: &'a ForeignProgram| ForeignData {
        name: &program.name,
        cores: program.cores,
        memory_bytes: program.memory_bytes,
    };
    programs.iter().map(of).collect()
}

fn run(run: &RunSummary) -> RunData<'_> {
    RunData {
        run: run.run,
        outcome: run.outcome,
        started_utc: rfc3339(run.started_unix_ns),
        started_unix_ns: run.started_unix_ns,
        interval_ns: run.interval_ns,
        values: run.values.iter().map(|(metric, value)| (metric.key(), *value)).collect(),
        step_source: run.step_source.map(|source| source.word()),
        reported_by: run.reported_by.map(|source| source.word()),
        cpu: run.cpu,
        recorder: run.recorder,
        tables_bytes: run.tables_bytes,
        missing_tables: &run.missing_tables,
        survivors: &run.survivors,
        left_children: run.left_children,
        foreign: foreign(&run.foreign),
        events: &run.events,
        output_tail: &run.output_tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn parsed(summary: &EnvironmentSummary) -> Value {
        serde_json::from_str(&document([summary]).unwrap()).unwrap()
    }

    #[test]
    fn figures_and_findings_are_those_of_the_summary() {
        let summary = fixture::cpu_only();
        let value = parsed(&summary);
        let case = &value["environments"][0]["cases"][1];
        let duration = summary.cases[1].metric(Metric::Duration).unwrap();
        let told = &case["metrics"]["duration"];
        assert_eq!((told["mean"].as_f64(), told["n"].as_u64()), (Some(duration.mean), Some(3)));
        assert_eq!((told["unit"].as_str(), told["ci95"].as_array().map(Vec::len)), (Some("second"), Some(2)));
        let found = case["findings"].as_array().unwrap();
        let busy = found.iter().find(|finding| finding["rule"] == "cpu_saturated").unwrap();
        assert_eq!((busy["value"].as_f64(), busy["from"].as_f64()), (Some(0.932), Some(0.90)));
        assert_eq!((busy["metric"].as_str(), busy["n"].as_u64()), (Some("cpu_usage"), Some(3)));
        assert_eq!(found.len(), findings::of_case(&summary, &summary.cases[1]).len());
        let steady = found.iter().find(|finding| finding["rule"] == "memory_steady").unwrap();
        let condition = serde_json::json!({"measure": "memory_growth.low", "from": -1.0, "below": null});
        assert_eq!((&steady["and"][0], steady["metric"].as_str()), (&condition, Some("memory_growth")));
        assert_eq!(case["runs"][2]["outcome"], serde_json::json!({"status": "failed", "exit_code": 137}));
    }

    #[test]
    fn what_was_not_measured_is_absent_or_null_and_never_zero() {
        let mut summary = fixture::cpu_only();
        summary.limits.memory_bytes = None;
        let value = parsed(&summary);
        let environment = &value["environments"][0];
        assert!(environment["cases"][1]["metrics"].get("gpu_energy").is_none());
        assert!(environment["limits"]["memory_bytes"].is_null());
    }

    #[test]
    fn what_concerns_all_runs_is_a_finding_of_the_environment() {
        let value = parsed(&fixture::with_gpu());
        let found = &value["environments"][0]["findings"];
        assert_eq!((found[0]["rule"].as_str(), found[0]["value"].as_f64()), (Some("unreadable_runs"), Some(1.0)));
    }

    #[test]
    fn one_run_has_no_interval() {
        assert!(parsed(&fixture::with_gpu())["environments"][0]["cases"][0]["metrics"]["duration"]["ci95"].is_null());
    }

    #[test]
    fn hostile_names_come_back_exactly_and_act_nowhere() {
        let summary = fixture::hostile();
        let text = document([&summary]).unwrap();
        assert!(!text.chars().any(|sign| sign != '\n' && escape::acts(sign)));
        assert_eq!(parsed(&summary)["environments"][0]["name"].as_str(), Some(summary.name.as_str()));
    }

    #[test]
    fn the_description_names_every_key_and_this_version() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/report-json.md");
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(&format!("`\"schema_version\": \"{SCHEMA_VERSION}\"`")));
        fn keys(value: &Value, found: &mut BTreeSet<String>) {
            match value {
                Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
                Value::Object(fields) => fields.iter().for_each(|(key, value)| {
                    found.insert(key.clone());
                    // Keys below these are names of metrics, of settings and of what the machine has.
                    if !OPEN.contains(&key.as_str()) {
                        keys(value, found);
                    } else if key == "metrics" {
                        value
                            .as_object()
                            .into_iter()
                            .flat_map(|figures| figures.values())
                            .for_each(|figure| keys(figure, found));
                    }
                }),
                _ => {}
            }
        }
        const OPEN: [&str; 12] = [
            "fingerprint",
            "software",
            "packages",
            "libraries",
            "variables",
            "settings",
            "effective",
            "set_variables",
            "metrics",
            "values",
            "other_states",
            "step_reading",
        ];
        let mut found = BTreeSet::new();
        [fixture::cpu_only(), fixture::with_gpu(), fixture::hostile()]
            .iter()
            .for_each(|summary| keys(&parsed(summary), &mut found));
        let missing: Vec<_> = found.iter().filter(|key| !text.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "docs/report-json.md does not describe {missing:?}");
    }
}

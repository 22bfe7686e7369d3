//! Findings in words.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use crate::aggregate::metric::{Metric, Unit};
use crate::aggregate::summary::{CaseSummary, MetricSummary, RunSummary};
use crate::report::context::{Context, Wholes};
use crate::report::findings::growth::{self, Kind};
use crate::report::findings::{self, Evidence, Finding, outliers};
use crate::report::format::{self, Scale};
use crate::report::view::{charts, foreign};

/// A sentence that a rule has earned.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FindingView {
    pub(super) text: String,
    /// In a few words.
    #[serde(skip)]
    pub(super) short: String,
    /// Whether it limits what the figures may be used for.
    pub(super) caution: bool,
    /// Path of the chart that shows it.
    pub(super) chart: Option<String>,
}

/// Variables of the phrases `finding.*`.
#[derive(Serialize)]
struct Words {
    value: String,
    spread: String,
    from: String,
    below: String,
    limit: String,
    online: String,
    memory_limit: String,
    /// Which figure the peak of memory is.
    memory_peak: String,
    /// The greatest PSS as a share of the limit; empty where there was no reading.
    memory_read: String,
    /// What else ran; empty where nobody knows.
    programs: String,
    /// The threshold with its decimals.
    from_exact: String,
    /// Memory of one GPU of the run; empty where that is not known.
    gpu_memory: String,
    /// By how much memory may grow without a word; empty in findings on anything else.
    margin: String,
    /// Runs that lie far from the others, with their durations.
    outliers: String,
    /// All figures of the case, by their keys.
    figures: BTreeMap<&'static str, FigureWords>,
}

/// A figure of the case, for sentences that rest on several.
#[derive(Serialize)]
struct FigureWords {
    mean: String,
    /// The 95 % interval of the mean; a dash where there are too few runs.
    interval: String,
    n: usize,
}

/// Findings that concern the environment as a whole.
pub(super) fn of_environment(context: &Context<'_>) -> Result<Vec<FindingView>> {
    #[derive(Serialize)]
    struct Count {
        value: String,
    }
    let view = |Finding { rule, evidence }: &Finding| {
        let words = Count { value: format::value(evidence.unit, evidence.value) };
        let text = context.words.fill(&format!("finding.{}", rule.name), &words)?;
        let short = context.words.fill(&format!("finding.{}.short", rule.name), &words)?;
        Ok(FindingView { text, short, caution: rule.caution, chart: None })
    };
    findings::of_environment(context.summary).iter().map(view).collect()
}

/// All findings of a case; links go only to charts that were drawn.
pub(super) fn build(context: &Context<'_>, case: &CaseSummary) -> Result<Vec<FindingView>> {
    findings::of_case(context.summary, case).iter().map(|finding| view(context, case, finding)).collect()
}

fn view(context: &Context<'_>, case: &CaseSummary, finding: &Finding) -> Result<FindingView> {
    let Finding { rule, evidence } = finding;
    let scale = Scale::of(evidence.unit, evidence.value);
    let threshold = |value: Option<f64>| value.map(|value| threshold(evidence, value)).unwrap_or_default();
    let wholes = Wholes::of(&case.limits);
    let words = Words {
        value: scale.text(evidence.value),
        spread: spread(context, evidence, &scale)?,
        from: threshold(rule.from),
        below: threshold(rule.below),
        limit: wholes.limit,
        online: wholes.online,
        memory_limit: case.limits.memory_bytes.map(format::bytes).unwrap_or_default(),
        memory_peak: memory_peak(context, evidence)?,
        memory_read: memory_read(case),
        programs: foreign::in_words(context, &case.foreign)?,
        from_exact: rule.from.map(|from| Scale::of(evidence.unit, from).text(from)).unwrap_or_default(),
        gpu_memory: findings::gpu_capacity(context.summary, case)
            .map(|bytes| format::value(Unit::Bytes, bytes))
            .unwrap_or_default(),
        margin: margin(case, evidence),
        outliers: outliers(context, case)?,
        figures: case.metrics.iter().map(|figure| (figure.metric.key(), figure_words(figure))).collect(),
    };
    let chart =
        rule.chart.filter(|chart| charts::is_drawn(case, chart)).map(|chart| charts::path(context, case, chart));
    Ok(FindingView {
        text: context.words.fill(&format!("finding.{}", rule.name), &words)?,
        short: context.words.fill(&format!("finding.{}.short", rule.name), &words)?,
        caution: rule.caution,
        chart,
    })
}

fn figure_words(figure: &MetricSummary) -> FigureWords {
    let unit = figure.metric.unit();
    let interval = figure.ci95.map(|(low, high)| {
        // A mean close to zero would choose too small a unit for the ends.
        let widest = [low, high, figure.mean].map(f64::abs).into_iter().fold(0.0, f64::max);
        Scale::of(unit, widest).interval((low, high))
    });
    FigureWords {
        mean: format::value(unit, figure.mean),
        interval: interval.unwrap_or_else(|| format::ABSENT.to_owned()),
        n: figure.n,
    }
}

fn margin(case: &CaseSummary, evidence: &Evidence) -> String {
    let kind = match evidence.metric {
        Some(Metric::MemoryGrowth) => Kind::Host,
        Some(Metric::GpuMemoryGrowth) => Kind::Gpu,
        _ => return String::new(),
    };
    growth::margin(case, kind).map(|bytes| format::value(Unit::Bytes, bytes)).unwrap_or_default()
}

fn outliers(context: &Context<'_>, case: &CaseSummary) -> Result<String> {
    #[derive(Serialize)]
    struct Run {
        run: u32,
        duration: String,
    }
    let words = |run: &RunSummary| {
        let duration = run.values.get(&Metric::Duration).map(|seconds| format::value(Unit::Second, *seconds));
        context.words.fill("run_and_duration", &Run { run: run.run, duration: duration.unwrap_or_default() })
    };
    context.words.list(&outliers::of_case(case).into_iter().map(words).collect::<Result<Vec<_>>>()?)
}

fn memory_peak(context: &Context<'_>, evidence: &Evidence) -> Result<String> {
    let of = |metric: Metric| context.words.get(&format!("memory_peak.{}", metric.key())).map(str::to_owned);
    evidence.metric.filter(|metric| findings::BOUNDS_OF_MEMORY.contains(metric)).map_or(Ok(String::new()), of)
}

fn memory_read(case: &CaseSummary) -> String {
    let share = findings::share_of_memory(case, Metric::MemoryPssPeak);
    share.map(|share| format::value(Unit::Ratio, share.value)).unwrap_or_default()
}

/// Thresholds are round numbers: shares need no decimals.
fn threshold(evidence: &Evidence, value: f64) -> String {
    let scale = Scale::of(evidence.unit, value);
    Scale { decimals: 0, ..scale }.text(value)
}

fn spread(context: &Context<'_>, evidence: &Evidence, scale: &Scale) -> Result<String> {
    #[derive(Serialize)]
    struct Spread {
        range: String,
        n: usize,
    }
    match evidence.spread {
        None => Ok(String::new()),
        Some((_, _, 1)) => Ok(context.words.get("no_spread")?.to_owned()),
        Some((min, max, n)) => context.words.fill("spread", &Spread { range: scale.range(min, max), n }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::findings::RULES;
    use crate::report::fixture;
    use crate::report::language::Language;
    use crate::report::words::Words;

    #[test]
    fn the_words_of_every_rule_can_be_filled_in_from_a_case_that_has_all_figures() {
        let mut summary = fixture::cpu_only();
        let figure = |metric: &Metric| MetricSummary {
            metric: *metric,
            n: 3,
            mean: 2.0,
            min: 1.0,
            max: 3.0,
            ci95: Some((-1.0, 5.0)),
        };
        summary.cases[1].metrics = Metric::ALL.iter().map(figure).collect();
        for language in Language::ALL {
            let context = Context { summary: &summary, words: Words::of(language).unwrap(), beside: None };
            for rule in RULES {
                let metric = if let findings::Measure::Of(metric) = rule.measure { Some(metric) } else { None };
                let evidence = Evidence { unit: Unit::Ratio, value: 0.5, spread: Some((0.4, 0.6, 3)), metric };
                let view = view(&context, &summary.cases[1], &Finding { rule, evidence }).unwrap();
                assert!(view.text.len() > 20 && !view.text.contains("{{"), "{}: {}", rule.name, view.text);
            }
        }
    }

    #[test]
    fn an_interval_around_nothing_is_in_the_unit_of_its_ends() {
        let mib = 1024.0 * 1024.0;
        let growth = MetricSummary {
            metric: Metric::MemoryGrowth,
            n: 3,
            mean: 1024.0,
            min: -mib,
            max: mib,
            ci95: Some((-2.0 * mib, 3.0 * mib)),
        };
        assert_eq!(figure_words(&growth).interval, "[−2.00, 3.00] MiB");
    }
}

//! Findings in words.

use anyhow::Result;
use serde::Serialize;

use crate::aggregate::metric::{Metric, Unit};
use crate::aggregate::summary::CaseSummary;
use crate::report::context::{Context, Wholes};
use crate::report::findings::{self, Evidence, Finding};
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

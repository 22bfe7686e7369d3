//! A case in one sentence: its figures, and the short words of its findings.

use anyhow::Result;
use serde::Serialize;

use super::{CaseSentence, finding};
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::{CaseSummary, EnvironmentSummary, MetricSummary};
use crate::report::context::{Context, Wholes};
use crate::report::escape;

/// What a sentence, and the site's index, name of a case where it was measured.
const FIGURES: [Metric; 9] = [
    Metric::Duration,
    Metric::CpuUsage,
    Metric::MemorySumOfPeaks,
    Metric::MemoryPssPeak,
    Metric::Throughput,
    Metric::ShownThroughput,
    Metric::ShownStepRate,
    Metric::GpuUtilisation,
    Metric::GpuMemoryPeak,
];

/// Readings of PSS that leave out more than this share of the time in one piece do not stand for a run.
const LONGEST_PSS_GAP: f64 = 0.5;

#[derive(Serialize)]
struct Sentence {
    case: String,
    environment: String,
    n: usize,
    figures: String,
    verdicts: String,
    cautions: String,
}

/// Variables of the phrases `clause.*`.
#[derive(Serialize)]
struct Clause {
    limit: String,
    n: usize,
}

/// The sentence on top of the report.
pub(super) fn of_environment(context: &Context<'_>) -> Result<Option<String>> {
    let case = leading(context.summary);
    case.map(|case| sentence(context, case, "headline")).transpose()
}

/// The sentence of a case in the summary.
pub(super) fn of_case(context: &Context<'_>, case: &CaseSummary) -> Result<CaseSentence> {
    let phrase = if case.finished() > 0 { "summary.case" } else { "summary.unfinished" };
    let found = finding::build(context, case)?;
    let cautions = found.into_iter().filter(|finding| finding.caution).map(|finding| finding.text).collect();
    Ok(CaseSentence { sentence: sentence(context, case, phrase)?, cautions })
}

/// Labels and values for the site's index, of the leading case; as text, not Markdown.
pub(crate) fn key_figures(context: &Context<'_>) -> Result<Vec<(String, String)>> {
    let Some(case) = leading(context.summary) else { return Ok(Vec::new()) };
    let mut rows = vec![
        (context.words.get("case")?.to_owned(), escape::line(&context.case_title(case)?)),
        (context.words.get("finished")?.to_owned(), case.finished().to_string()),
    ];
    for figure in figures(case) {
        rows.push((context.label(figure.metric)?, context.mean_and_range(figure)?));
    }
    Ok(rows)
}

/// Figures of a case; those of a GPU only where it uses one, and one of memory.
fn figures(case: &CaseSummary) -> impl Iterator<Item = &MetricSummary> {
    let memory = memory(case);
    let is_told = move |metric: Metric| match metric {
        Metric::GpuUtilisation | Metric::GpuMemoryPeak => case.uses_gpu(),
        Metric::MemorySumOfPeaks | Metric::MemoryPssPeak => metric == memory,
        _ => true,
    };
    FIGURES.iter().filter(move |metric| is_told(**metric)).filter_map(|metric| case.metric(*metric))
}

/// What tells best how much memory a case took. Of one process its peak is exact; of many the sum of peaks counts what they
/// share once each, so the readings of PSS go before it, unless they are of fewer runs or leave too much of the time out.
fn memory(case: &CaseSummary) -> Metric {
    let mean = |metric: Metric| case.metric(metric).map(|figure| figure.mean);
    let count = |metric: Metric| case.metric(metric).map_or(0, |figure| figure.n);
    let is_one = case.metric(Metric::Processes).is_some_and(|figure| figure.max <= 1.0);
    let is_read_enough = mean(Metric::MemoryPssGap)
        .zip(mean(Metric::Duration))
        .is_some_and(|(gap, duration)| gap <= LONGEST_PSS_GAP * duration);
    if !is_one && is_read_enough && count(Metric::MemoryPssPeak) >= count(Metric::MemorySumOfPeaks) {
        Metric::MemoryPssPeak
    } else {
        Metric::MemorySumOfPeaks
    }
}

/// The case that stands for the environment: a busy one before one that idles, on a GPU before one that is not, then the
/// one with the most CPU time.
fn leading(summary: &EnvironmentSummary) -> Option<&CaseSummary> {
    let weight = |case: &CaseSummary| {
        let kind = (case.workload != "idle", case.uses_gpu());
        (kind, case.metric(Metric::CpuTime).or(case.metric(Metric::Duration)).map_or(0.0, |figure| figure.mean))
    };
    let finished = summary.cases.iter().filter(|case| case.finished() > 0);
    finished.reduce(|best, case| {
        let ((best_kind, best_time), (kind, time)) = (weight(best), weight(case));
        if (kind, time) > (best_kind, best_time) { case } else { best }
    })
}

fn sentence(context: &Context<'_>, case: &CaseSummary, phrase: &str) -> Result<String> {
    let mut clauses = Vec::new();
    for figure in figures(case) {
        let clause = Clause { limit: Wholes::of(&case.limits).limit, n: figure.n };
        let label = context.words.fill(&format!("clause.{}", figure.metric.key()), &clause)?;
        clauses.push(format!("{label}{}", context.mean_and_range(figure)?));
    }
    let found = finding::build(context, case)?;
    let comma = context.words.get("comma")?;
    let shorts = |caution: bool| {
        let wanted = found.iter().filter(|finding| finding.caution == caution && !finding.short.is_empty());
        wanted.map(|finding| finding.short.as_str()).collect::<Vec<_>>().join(comma)
    };
    let sentence = Sentence {
        case: escape::text(&context.case_title(case)?),
        environment: escape::text(&context.summary.name),
        n: case.finished(),
        figures: clauses.join(comma),
        verdicts: shorts(false),
        cautions: shorts(true),
    };
    context.words.fill(phrase, &sentence)
}

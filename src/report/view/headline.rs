//! A case in one sentence: its figures, and the short words of its findings.

use anyhow::Result;
use serde::Serialize;

use super::{CaseSentence, finding};
use crate::aggregate::summary::{CaseSummary, EnvironmentSummary, Metric};
use crate::report::context::Context;
use crate::report::escape;

/// What a sentence, and the site's index, name of a case where it was measured.
const FIGURES: [Metric; 6] = [
    Metric::Duration,
    Metric::CpuUsage,
    Metric::MemorySumOfPeaks,
    Metric::Throughput,
    Metric::GpuUtilisation,
    Metric::GpuMemoryPeak,
];

#[derive(Serialize)]
struct Sentence {
    case: String,
    environment: String,
    n: usize,
    figures: String,
    verdicts: String,
    cautions: String,
    quick: bool,
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
        (context.words.get("case")?.to_owned(), escape::line(&case.name)),
        (context.words.get("finished")?.to_owned(), case.finished().to_string()),
    ];
    for figure in FIGURES.iter().filter_map(|metric| case.metric(*metric)) {
        rows.push((context.label(figure.metric)?, context.mean(figure)));
    }
    Ok(rows)
}

/// The case that stands for the environment: the finished one with the most CPU time, idling aside.
fn leading(summary: &EnvironmentSummary) -> Option<&CaseSummary> {
    let weight = |case: &CaseSummary| {
        let busy = case.workload != "idle";
        (busy, case.metric(Metric::CpuTime).or(case.metric(Metric::Duration)).map_or(0.0, |figure| figure.mean))
    };
    let finished = summary.cases.iter().filter(|case| case.finished() > 0);
    finished.reduce(|best, case| {
        let ((best_busy, best_time), (busy, time)) = (weight(best), weight(case));
        if (busy, time) > (best_busy, best_time) { case } else { best }
    })
}

fn sentence(context: &Context<'_>, case: &CaseSummary, phrase: &str) -> Result<String> {
    let mut figures = Vec::new();
    for figure in FIGURES.iter().filter_map(|metric| case.metric(*metric)) {
        let clause = Clause { limit: context.wholes().limit, n: figure.n };
        let label = context.words.fill(&format!("clause.{}", figure.metric.key()), &clause)?;
        figures.push(format!("{label}{}", context.mean(figure)));
    }
    let found = finding::build(context, case)?;
    let comma = context.words.get("comma")?;
    let shorts = |caution: bool| {
        let wanted = found.iter().filter(|finding| finding.caution == caution && !finding.short.is_empty());
        wanted.map(|finding| finding.short.as_str()).collect::<Vec<_>>().join(comma)
    };
    let sentence = Sentence {
        case: escape::text(&case.name),
        environment: escape::text(&context.summary.name),
        n: case.finished(),
        figures: figures.join(comma),
        verdicts: shorts(false),
        cautions: shorts(true),
        quick: case.settings.get("quick").is_some_and(|quick| quick == "true"),
    };
    context.words.fill(phrase, &sentence)
}

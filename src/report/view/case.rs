//! The results of one case: figures, charts, findings.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Serialize;

use super::charts::{self, ChartView};
use super::devices::{self, Against};
use super::endings;
use super::finding::{self, FindingView};
use super::groups::{self, Group};
use crate::aggregate::summary::{CaseSummary, MetricSummary};
use crate::report::chart::Chart;
use crate::report::context::Context;
use crate::report::escape;
use crate::report::format::{ABSENT, Scale};
use crate::trace::StepSource;
use crate::trace::run::CoverageState;

#[derive(Clone, Debug, Serialize)]
pub(super) struct CaseView {
    number: String,
    name: String,
    what: Option<String>,
    runs: usize,
    finished: usize,
    figures: Vec<Group<Figure>>,
    /// What in the output the figures of steps were read from; absent where the workload told them itself.
    shown_by: Option<String>,
    /// Which tool stated a rate of its own.
    reported_by: Option<String>,
    charts: Vec<ChartView>,
    /// What has to be known before the figures are used.
    cautions: Vec<FindingView>,
    findings: Vec<FindingView>,
    /// How its unfinished runs ended.
    endings: Vec<String>,
    /// The same on the other device.
    against: Vec<Against>,
}

#[derive(Clone, Debug, Serialize)]
struct Figure {
    label: String,
    mean: String,
    range: String,
    interval: String,
    n: usize,
}

/// What the ledger says of a GPU that was not measured.
pub(super) fn no_gpu_reasons(context: &Context<'_>) -> Vec<String> {
    let entries =
        context.summary.coverage.iter().filter(|entry| entry.metric == "gpu" || entry.metric.starts_with("gpu."));
    let mut reasons: Vec<String> = entries
        .filter(|entry| {
            !matches!(entry.state, CoverageState::Measured | CoverageState::Imported) && !entry.reason.is_empty()
        })
        .map(|entry| escape::code_cell(&entry.reason))
        .collect();
    reasons.dedup();
    reasons
}

/// The views of the cases of a section; their charts are added to `drawn`.
pub(super) fn build_all(
    context: &Context<'_>,
    cases: &[&CaseSummary],
    section: usize,
    drawn: &mut Vec<Chart>,
) -> Result<Vec<CaseView>> {
    let mut views = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let charts = charts::draw(context, case)?;
        let (cautions, findings) = finding::build(context, case)?.into_iter().partition(|finding| finding.caution);
        views.push(CaseView {
            number: format!("{section}.{}", index + 1),
            name: escape::text(&context.case_title(case)?),
            what: context.words.find(&format!("workload.{}", case.workload)).map(str::to_owned),
            runs: case.runs.len(),
            finished: case.finished(),
            figures: groups::of(context, &case.metrics, |figure| figure.metric, |figure| row(context, figure))?,
            shown_by: sources(context, case.shown_by())?,
            reported_by: sources(context, case.reported_by())?,
            charts: charts.iter().map(charts::view).collect(),
            cautions,
            findings,
            endings: endings::of_case(context, case)?,
            against: devices::of_case(context, case)?,
        });
        drawn.extend(charts);
    }
    Ok(views)
}

/// Sources in words.
fn sources(context: &Context<'_>, sources: BTreeSet<StepSource>) -> Result<Option<String>> {
    let words = sources.into_iter().map(|source| context.words.get(&format!("step_source.{}", source.word())));
    let words = words.map(|words| words.map(str::to_owned)).collect::<Result<Vec<_>>>()?;
    if words.is_empty() { Ok(None) } else { context.words.list(&words).map(Some) }
}

fn row(context: &Context<'_>, figure: &MetricSummary) -> Result<Figure> {
    let scale = Scale::of(figure.metric.unit(), figure.mean);
    Ok(Figure {
        label: context.label(figure.metric)?,
        mean: scale.text(figure.mean),
        range: context.range(figure)?,
        // Runs that all gave the same have an interval without width, which tells nothing.
        interval: figure
            .ci95
            .filter(|_| figure.min < figure.max)
            .map_or_else(|| ABSENT.to_owned(), |interval| scale.interval(interval)),
        n: figure.n,
    })
}

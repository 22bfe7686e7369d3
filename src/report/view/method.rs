//! How it was measured: cases with their parameters, and the metrics with their sources.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Serialize;

use super::groups::{self, Group};
use crate::aggregate::metric::Metric;

use crate::aggregate::summary::CaseSummary;
use crate::report::context::Context;
use crate::report::escape;
use crate::report::format;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Method {
    cases: Vec<CaseMethod>,
    /// Sampling intervals of the runs.
    intervals: String,
    quick: Vec<Quick>,
    metrics: Vec<Group<MetricMethod>>,
}

#[derive(Clone, Debug, Serialize)]
struct CaseMethod {
    name: String,
    requested: String,
    effective: String,
    runs: usize,
    finished: usize,
    what: String,
}

/// A case whose data were shortened.
#[derive(Clone, Debug, Serialize)]
struct Quick {
    case: String,
    /// How many images were left, where the workload told.
    images: Option<String>,
    /// Which form of its model was trained, where the workload has several.
    model: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct MetricMethod {
    label: String,
    meaning: String,
    source: String,
}

pub(super) fn build(context: &Context<'_>) -> Result<Method> {
    let cases = &context.summary.cases;
    let intervals: BTreeSet<i64> = cases.iter().flat_map(|case| &case.runs).map(|run| run.interval_ns).collect();
    let intervals: Vec<String> = intervals.into_iter().map(milliseconds).collect();
    Ok(Method {
        cases: cases.iter().map(|case| case_method(context, case)).collect::<Result<_>>()?,
        intervals: context.words.list(&intervals)?,
        quick: cases.iter().filter(|case| case.is_quick()).map(|case| quick(context, case)).collect::<Result<_>>()?,
        metrics: metrics(context)?,
    })
}

fn case_method(context: &Context<'_>, case: &CaseSummary) -> Result<CaseMethod> {
    let what = context.words.find(&format!("workload.{}", case.workload)).map(str::to_owned);
    Ok(CaseMethod {
        name: escape::text(&context.case_title(case)?),
        requested: context.pairs(&case.settings)?,
        effective: context.pairs(&case.effective)?,
        runs: case.runs.len(),
        finished: case.finished(),
        what: what.unwrap_or_else(|| escape::code_cell(&command(&case.command))),
    })
}

/// A command line that a shell would read the same way.
pub(super) fn command(words: &[String]) -> String {
    words.iter().map(|word| escape::shell(word)).collect::<Vec<_>>().join(" ")
}

fn quick(context: &Context<'_>, case: &CaseSummary) -> Result<Quick> {
    let images =
        case.effective.get("images").map(|images| images.parse().map_or_else(|_| escape::text(images), format::count));
    let model = case.effective.get("model").map(|model| escape::code_cell(model));
    Ok(Quick { case: escape::text(&context.case_title(case)?), images, model })
}

/// Only metrics that at least one case has.
fn metrics(context: &Context<'_>) -> Result<Vec<Group<MetricMethod>>> {
    let measured = |metric: &&Metric| context.summary.cases.iter().any(|case| case.metric(**metric).is_some());
    let row = |metric: &Metric| {
        let key = metric.key();
        Ok(MetricMethod {
            label: context.label(*metric)?,
            meaning: context.words.get(&format!("metric.{key}.is"))?.to_owned(),
            source: context.words.get(&format!("metric.{key}.from"))?.to_owned(),
        })
    };
    let measured: Vec<Metric> = Metric::ALL.iter().filter(measured).copied().collect();
    groups::of(context, &measured, |metric| *metric, row)
}

/// People speak of sampling in milliseconds, also from a second on.
fn milliseconds(span_ns: i64) -> String {
    format!("{} ms", format::plain(span_ns as f64 / 1e6))
}

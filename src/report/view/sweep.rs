//! Settings that were tried: a table a setting, and what it was worth.

use anyhow::Result;
use serde::Serialize;

use super::levels::Table;
use super::places::Place;
use super::ratio::{self, Times};
use super::{appendix, endings};
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::CaseSummary;
use crate::report::across::speed;
use crate::report::across::sweeps::{Link, Sweep, Verdict, WORTHWHILE};
use crate::report::context::Context;
use crate::report::escape;
use crate::report::format::ABSENT;

/// What stands beside the speed, where a case has it.
const BESIDE: [Metric; 6] = [
    Metric::DataWait,
    Metric::CpuUsage,
    Metric::MemorySumOfPeaks,
    Metric::GpuUtilisation,
    Metric::GpuMemoryPeak,
    Metric::GpuEnergy,
];

#[derive(Clone, Debug, Serialize)]
pub(super) struct SweepView {
    number: String,
    title: String,
    sentences: Vec<String>,
    table: Table,
}

/// Variables of the phrases `sweep.*`.
#[derive(Serialize)]
struct Words {
    key: String,
    best: String,
    next: String,
    worst: String,
    ties: String,
    over_next: Times,
    over_worst: Times,
    /// How many values finished.
    values: usize,
    margin: String,
    elsewhere: usize,
    agreeing: usize,
}

/// Headings of sweeps, below the heading that has this number.
pub(super) fn places(context: &Context<'_>, sweeps: &[Sweep<'_>], number: &str) -> Result<Vec<Place>> {
    #[derive(Serialize)]
    struct Title<'a> {
        key: &'a str,
        case: String,
    }
    let place = |(sweep, index): (&Sweep<'_>, usize)| {
        let case = context.title(sweep.workload, &sweep.others)?;
        let title = context.words.fill("sweep.title", &Title { key: sweep.key, case })?;
        Ok(Place { number: format!("{number}.{index}"), title })
    };
    sweeps.iter().zip(1..).map(place).collect()
}

pub(super) fn build(context: &Context<'_>, sweeps: &[Sweep<'_>], places: &[Place]) -> Result<Vec<SweepView>> {
    let view = |(sweep, place): (&Sweep<'_>, &Place)| {
        Ok(SweepView {
            number: place.number.clone(),
            title: escape::text(&place.title),
            sentences: sentences(context, sweep)?,
            table: table(context, sweep)?,
        })
    };
    sweeps.iter().zip(places).map(view).collect()
}

fn sentences(context: &Context<'_>, sweep: &Sweep<'_>) -> Result<Vec<String>> {
    let mut sentences = Vec::new();
    if let Some(verdict) = &sweep.verdict {
        let words = words(context, sweep, verdict)?;
        sentences.push(context.words.fill(&format!("sweep.{}", verdict.kind.key()), &words)?);
        if sweep.elsewhere > 0 {
            sentences.push(context.words.fill("sweep.elsewhere", &words)?);
        }
    }
    sentences.extend(limit(context, sweep)?);
    Ok(sentences)
}

fn words(context: &Context<'_>, sweep: &Sweep<'_>, verdict: &Verdict<'_>) -> Result<Words> {
    let values = sweep.links.iter().filter(|link| link.case.finished() > 0).count();
    let ties: Vec<String> = verdict.ties.iter().map(|link| escape::code_cell(link.value)).collect();
    Ok(Words {
        key: escape::code_cell(sweep.key),
        best: escape::code_cell(verdict.best.value),
        next: escape::code_cell(verdict.next.value),
        worst: escape::code_cell(verdict.worst.value),
        ties: context.words.list(&ties)?,
        over_next: Times::of(context, &verdict.over_next)?,
        over_worst: Times::of(context, &verdict.over_worst)?,
        values,
        margin: format!("{:.0}%", (WORTHWHILE - 1.0) * 100.0),
        elsewhere: sweep.elsewhere,
        agreeing: sweep.agreeing,
    })
}

/// Up to which value memory suffices.
pub(super) fn limit(context: &Context<'_>, sweep: &Sweep<'_>) -> Result<Option<String>> {
    #[derive(Serialize)]
    struct Limit {
        key: String,
        fits: String,
        breaks: String,
        place: String,
    }
    let Some((fits, breaks)) = sweep.limit() else { return Ok(None) };
    let limit = Limit {
        key: escape::code_cell(sweep.key),
        fits: escape::code_cell(fits.value),
        breaks: escape::code_cell(breaks.value),
        place: place(context, breaks.case)?,
    };
    context.words.fill("sweep.limit", &limit).map(Some)
}

/// Where a case ran out of memory; empty where that is not known.
fn place(context: &Context<'_>, case: &CaseSummary) -> Result<String> {
    let lack = case.runs.iter().find_map(|run| run.lack.as_ref());
    lack.map(|lack| endings::place(context, lack)).transpose().map(Option::unwrap_or_default)
}

fn table(context: &Context<'_>, sweep: &Sweep<'_>) -> Result<Table> {
    let speed_metric = sweep.verdict.as_ref().map_or(Metric::Duration, |verdict| verdict.metric);
    let beside: Vec<Metric> = BESIDE
        .into_iter()
        // The CPU is not what limits a case on a GPU.
        .filter(|metric| *metric != Metric::CpuUsage || !sweep.is_on_gpu())
        .filter(|metric| sweep.links.iter().any(|link| link.case.metric(*metric).is_some()))
        .collect();
    let mut header = vec![
        escape::code_cell(sweep.key),
        context.words.get("finished")?.to_owned(),
        context.label(speed_metric)?,
        context.words.get("sweep.relative")?.to_owned(),
    ];
    for metric in &beside {
        header.push(context.label(*metric)?);
    }
    let mut rows = Vec::new();
    for link in &sweep.links {
        let figure = |metric: Metric| {
            link.case.metric(metric).map_or_else(|| Ok(ABSENT.to_owned()), |figure| context.mean_and_range(figure))
        };
        let mut row = vec![value(context, link)?, link.case.finished().to_string()];
        row.push(if link.case.finished() > 0 { figure(speed_metric)? } else { outcome(context, link.case)? });
        let relative = sweep.verdict.as_ref().and_then(|verdict| speed(verdict.metric, link.case, verdict.best.case));
        row.push(relative.map_or_else(|| ABSENT.to_owned(), |ratio| ratio::times(&ratio)));
        for metric in &beside {
            row.push(figure(*metric)?);
        }
        rows.push(row);
    }
    Ok(Table { header, rows })
}

fn value(context: &Context<'_>, link: &Link<'_>) -> Result<String> {
    #[derive(Serialize)]
    struct Value {
        value: String,
    }
    let value = escape::code_cell(link.value);
    if link.is_default { context.words.fill("sweep.default", &Value { value }) } else { Ok(value) }
}

/// How a case without a finished run ended.
fn outcome(context: &Context<'_>, case: &CaseSummary) -> Result<String> {
    let Some(run) = case.runs.first() else { return Ok(ABSENT.to_owned()) };
    let (outcome, place) = (appendix::outcome(context, run.outcome)?, place(context, case)?);
    Ok(if place.is_empty() { outcome } else { format!("{outcome}{}{place}", context.words.get("comma")?) })
}

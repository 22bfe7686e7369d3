//! Times of steps: over the steps of the runs, and as a distribution.

use anyhow::Result;
use serde::Serialize;

use super::{STEP_DISTRIBUTION, STEPS, named};
use crate::aggregate::metric::Unit;
use crate::aggregate::summary::{CaseSummary, StepTimes};
use crate::report::chart::csv::{self, Csv};
use crate::report::chart::steps::{self, DistributionChart, StepChart};
use crate::report::chart::{Chart, Drawing};
use crate::report::context::Context;
use crate::report::format::{self, Scale};

/// Variables of the phrases of these charts.
#[derive(Serialize)]
struct Words {
    case: String,
    n: usize,
    unfinished: bool,
    /// Whether a step ended when it was handed to the GPU.
    enqueued: bool,
    /// Steps of a point of the line.
    width: usize,
    /// Steps of the distribution.
    steps: String,
    warm_up: usize,
    /// The longest step of warm-up; empty where none has a time.
    warm_up_longest: String,
    median: String,
    p95: String,
    peak: String,
    at: String,
}

/// Draws both charts; the distribution where a step came after warm-up.
pub(super) fn draw(context: &Context<'_>, case: &CaseSummary, times: &StepTimes) -> Result<Vec<Chart>> {
    let (median, p95) = (times.quantile_s(0.5), times.quantile_s(0.95));
    let longest = steps::longest(times);
    let scale = Scale::of(Unit::Second, median.or(longest.map(|bin| bin.max_s)).unwrap_or_default());
    let text = |time: Option<f64>| time.map(|time| scale.text(time)).unwrap_or_default();
    let warm_up = times.bins.iter().filter(|bin| bin.last < times.warm_up_steps);
    let words = Words {
        case: context.case_title(case)?,
        n: times.runs,
        unfinished: case.finished() == 0,
        enqueued: case.effective.get("step_clock").is_some_and(|clock| clock == "enqueue"),
        width: times.bins.first().map_or(1, |bin| bin.last - bin.first + 1),
        steps: format::count(times.steps()),
        warm_up: times.warm_up_steps,
        warm_up_longest: text(warm_up.map(|bin| bin.max_s).reduce(f64::max)),
        median: text(median),
        p95: text(p95),
        peak: text(longest.map(|bin| bin.max_s)),
        at: longest.map(|bin| range(bin.first, bin.last)).unwrap_or_default(),
    };
    let mut charts = vec![draw_course(context, case, times, &words, scale)?];
    if let Some((median, p95)) = median.zip(p95) {
        charts.push(draw_distribution(context, case, times, &words, scale, [median, p95])?);
    }
    Ok(charts)
}

fn range(first: usize, last: usize) -> String {
    if first == last { first.to_string() } else { format!("{first}–{last}") }
}

fn draw_course(
    context: &Context<'_>,
    case: &CaseSummary,
    times: &StepTimes,
    words: &Words,
    scale: Scale,
) -> Result<Chart> {
    let chart = StepChart {
        title: context.words.fill("chart.steps.title", words)?,
        subtitle: context.words.fill("chart.steps.subtitle", words)?,
        x: context.words.get("chart.steps.x")?.to_owned(),
        times,
        scale,
        warm_up: context.words.fill("chart.steps.warm_up", words)?,
        peak: context.words.fill("chart.steps.peak", words)?,
    };
    let mut numbers = Csv::new(["first_step", "last_step", "mean_s", "min_s", "max_s"]);
    for bin in &times.bins {
        let values = [bin.first as f64, bin.last as f64, bin.mean_s, bin.min_s, bin.max_s];
        numbers.row(values.map(csv::number));
    }
    let items = context.words.fill("chart.steps.items", words)?;
    let named = named(context, format!("{}-{STEPS}", case.slug), &chart.title, items)?;
    Chart::draw(named, numbers, &Drawing::Steps(chart))
}

fn draw_distribution(
    context: &Context<'_>,
    case: &CaseSummary,
    times: &StepTimes,
    words: &Words,
    scale: Scale,
    [median, p95]: [f64; 2],
) -> Result<Chart> {
    let chart = DistributionChart {
        title: context.words.fill("chart.step-distribution.title", words)?,
        subtitle: context.words.fill("chart.step-distribution.subtitle", words)?,
        x: context.words.get("chart.step-distribution.x")?.to_owned(),
        times,
        scale,
        marks: vec![
            (median, context.words.fill("chart.step-distribution.median", words)?),
            (p95, context.words.fill("chart.step-distribution.p95", words)?),
        ],
    };
    let mut numbers = Csv::new(["from_s", "to_s", "steps"]);
    for share in &times.distribution {
        numbers.row([share.from_s, share.to_s, share.steps as f64].map(csv::number));
    }
    let items = context.words.fill("chart.step-distribution.items", words)?;
    let named = named(context, format!("{}-{STEP_DISTRIBUTION}", case.slug), &chart.title, items)?;
    Chart::draw(named, numbers, &Drawing::Distribution(chart))
}

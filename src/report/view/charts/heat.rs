//! The heat map of cores over time.

use anyhow::Result;
use serde::Serialize;

use super::{HEAT, named, time};
use crate::aggregate::metric::Unit;
use crate::aggregate::summary::{CaseSummary, CoreCourse, CoreHeat};
use crate::report::chart::csv::{self, Csv};
use crate::report::chart::heat::{HeatChart, HeatRow};
use crate::report::chart::{Chart, Drawing};
use crate::report::context::Context;
use crate::report::format::{self, Scale};

/// More rows than this could not be told apart: neighbours share one.
const MOST_ROWS: usize = 128;
/// So many cores are told one by one where the chart cannot be seen; of more, the extremes.
const MOST_TOLD: usize = 8;

/// Variables of the phrases of this chart.
#[derive(Serialize)]
struct Words {
    case: String,
    n: usize,
    unfinished: bool,
    /// Width of a column.
    bin: String,
    /// Cores of a row.
    group: usize,
    label: String,
    mean: String,
    peak: String,
    at: String,
}

/// Draws the chart.
pub(super) fn draw(context: &Context<'_>, case: &CaseSummary, heat: &CoreHeat) -> Result<Chart> {
    let group = heat.cores.len().div_ceil(MOST_ROWS).max(1);
    let mut words = Words {
        case: context.case_title(case)?,
        n: heat.runs,
        unfinished: case.finished() == 0,
        bin: format!("{} s", format::plain(heat.bin_s)),
        group,
        label: String::new(),
        mean: String::new(),
        peak: String::new(),
        at: String::new(),
    };
    let mut rows = Vec::new();
    for cores in heat.cores.chunks(group) {
        words.label = row_label(cores);
        rows.push(HeatRow { label: context.words.fill("chart.heat-map.row", &words)?, shares: mean_row(cores) });
    }
    let items = items(context, heat, &mut words)?;
    let chart = HeatChart {
        title: context.words.fill("chart.heat-map.title", &words)?,
        subtitle: context.words.fill("chart.heat-map.subtitle", &words)?,
        x: time(
            context,
            heat.cores.iter().map(|core| core.shares.len()).max().unwrap_or_default() as f64 * heat.bin_s,
        )?,
        bin_s: heat.bin_s,
        rows,
        ends: ["0%", "100%"].map(str::to_owned),
    };
    let named = named(context, format!("{}-{HEAT}", case.slug), &chart.title, items)?;
    Chart::draw(named, numbers(heat), &Drawing::Heat(chart))
}

fn row_label(cores: &[CoreCourse]) -> String {
    match cores {
        [first, .., last] => format!("{}–{}", first.core, last.core),
        _ => cores.first().map(|core| core.core.to_string()).unwrap_or_default(),
    }
}

/// Means of several cores; of one, its own shares.
fn mean_row(cores: &[CoreCourse]) -> Vec<Option<f64>> {
    let columns = cores.iter().map(|core| core.shares.len()).max().unwrap_or_default();
    (0..columns).map(|column| mean(cores.iter().map(|core| core.shares.get(column).copied().flatten()))).collect()
}

fn mean(shares: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let shares: Vec<f64> = shares.flatten().filter(|share| share.is_finite()).collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

/// Means over time, and the span in which the cores together were busiest.
fn items(context: &Context<'_>, heat: &CoreHeat, words: &mut Words) -> Result<String> {
    let scale = Scale::of(Unit::Ratio, 1.0);
    let mut means: Vec<(u32, f64)> =
        heat.cores.iter().filter_map(|core| Some((core.core, mean(core.shares.iter().copied())?))).collect();
    if means.len() > MOST_TOLD {
        means.sort_by(|a, b| b.1.total_cmp(&a.1));
        means = [means.first(), means.last()].into_iter().flatten().copied().collect();
    }
    let mut told = Vec::new();
    for (core, mean) in means {
        (words.label, words.mean) = (core.to_string(), scale.text(mean));
        told.push(context.words.fill("chart.core.item", words)?);
    }
    let columns = mean_row(&heat.cores);
    let busiest = columns.iter().enumerate().filter_map(|(column, share)| Some((column, (*share)?)));
    let busiest = busiest.reduce(|busiest, column| if column.1 > busiest.1 { column } else { busiest });
    let mut items = vec![context.words.list(&told)?];
    if let Some((column, share)) = busiest {
        let edge = |column: usize| format::plain(column as f64 * heat.bin_s);
        (words.peak, words.at) = (scale.text(share), format!("{}–{} s", edge(column), edge(column + 1)));
        items.push(context.words.fill("chart.heat-map.busiest", words)?);
    }
    Ok(items.join(context.words.get("semicolon")?))
}

fn numbers(heat: &CoreHeat) -> Csv {
    let mut numbers = Csv::new(["core", "from_s", "to_s", "busy_ratio"]);
    for core in &heat.cores {
        for (column, share) in core.shares.iter().enumerate() {
            let [from, to] = [column, column + 1].map(|column| column as f64 * heat.bin_s);
            numbers.row([f64::from(core.core), from, to, share.unwrap_or(f64::NAN)].map(csv::number));
        }
    }
    numbers
}

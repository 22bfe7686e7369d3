//! Cases side by side as bars: the levels of load, and the same work on a GPU and on the CPU.

use anyhow::Result;
use serde::Serialize;

use super::named;
use crate::aggregate::metric::{Metric, Unit};
use crate::aggregate::summary::{CaseSummary, MetricSummary};
use crate::report::across::devices;
use crate::report::chart::bars::{Bar, BarChart, Panel, Row};
use crate::report::chart::csv::{self, Csv};
use crate::report::chart::{Chart, Drawing};
use crate::report::context::Context;
use crate::report::format::Scale;

/// More rows than this are a wall, not a picture.
const MOST_ROWS: usize = 40;
/// Panels that fit beside each other.
const MOST_PANELS: usize = 4;

/// Quantities of the levels of load, those that matter most first; shares have a common axis up to 100 %.
const LEVELS: [Metric; 5] =
    [Metric::CpuUsage, Metric::GpuUtilisation, Metric::MemorySumOfPeaks, Metric::GpuMemoryPeak, Metric::HostCpu];

/// How the speed of devices is compared: by throughput, and by the first of the times that both have.
const TIMES: [Metric; 3] = [Metric::EpochTime, Metric::TrainTime, Metric::Duration];

/// Variables of the phrases of these charts.
#[derive(Serialize)]
struct Words {
    shown: usize,
    all: usize,
    case: String,
    values: String,
    value: String,
    ratio: String,
    label: String,
}

/// A row before it is drawn: its name, its case, and the case that its speed is told relative to.
struct Compared<'a> {
    name: String,
    series: usize,
    case: &'a CaseSummary,
    against: Option<&'a CaseSummary>,
}

/// The levels of load side by side, where there is more than one finished case.
///
/// # Errors
/// A phrase is missing, or the drawing fails.
pub(in crate::report::view) fn levels(context: &Context<'_>) -> Result<Option<Chart>> {
    let finished = || context.summary.cases.iter().filter(|case| case.finished() > 0);
    let cases: Vec<&CaseSummary> = finished().take(MOST_ROWS).collect();
    let metrics: Vec<Metric> = LEVELS
        .into_iter()
        .filter(|metric| cases.iter().any(|case| case.metric(*metric).is_some()))
        .take(MOST_PANELS)
        .collect();
    if cases.len() < 2 || metrics.is_empty() {
        return Ok(None);
    }
    let rows = short_names(context, &cases)?
        .into_iter()
        .zip(&cases)
        .map(|(name, case)| Compared { name, series: 0, case, against: None })
        .collect::<Vec<_>>();
    draw(context, "levels", &rows, &metrics, finished().count()).map(Some)
}

/// The same work on a GPU and on the CPU, where one environment has both.
///
/// # Errors
/// A phrase is missing, or the drawing fails.
pub(in crate::report::view) fn gpu_against_cpu(context: &Context<'_>) -> Result<Option<Chart>> {
    let pairs: Vec<_> = devices::pairs(context.summary).iter().map(|pair| (pair.gpu, pair.cpu)).collect();
    let both =
        |metric: &Metric| pairs.iter().any(|(gpu, cpu)| gpu.metric(*metric).is_some() && cpu.metric(*metric).is_some());
    let metrics: Vec<Metric> =
        Some(Metric::Throughput).into_iter().filter(both).chain(TIMES.into_iter().find(both)).collect();
    if metrics.is_empty() {
        return Ok(None);
    }
    let shown = &pairs[..pairs.len().min(MOST_ROWS / 2)];
    let names = short_names(context, &shown.iter().map(|(gpu, _)| *gpu).collect::<Vec<_>>())?;
    let mut rows = Vec::new();
    for (name, (gpu, cpu)) in names.into_iter().zip(shown) {
        rows.push(Compared { name: format!("{name} · GPU"), series: 2, case: gpu, against: Some(cpu) });
        rows.push(Compared { name: "CPU".to_owned(), series: 0, case: cpu, against: None });
    }
    draw(context, "gpu-against-cpu", &rows, &metrics, 2 * pairs.len()).map(Some)
}

/// Names of cases without the settings that are the same in all.
fn short_names(context: &Context<'_>, cases: &[&CaseSummary]) -> Result<Vec<String>> {
    cases.iter().map(|case| context.case_title_among(case, cases)).collect()
}

fn draw(context: &Context<'_>, id: &str, rows: &[Compared<'_>], metrics: &[Metric], all: usize) -> Result<Chart> {
    let mut words = Words {
        shown: rows.len(),
        all,
        case: String::new(),
        values: String::new(),
        value: String::new(),
        ratio: String::new(),
        label: String::new(),
    };
    let mut panels = Vec::new();
    for metric in metrics {
        panels.push(panel(context, *metric, rows, &mut words)?);
    }
    let mut items = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let mut values = Vec::new();
        for panel in &panels {
            let Some(bar) = &panel.bars[index] else { continue };
            words.label.clone_from(&panel.title);
            words.value.clone_from(&bar.label);
            values.push(context.words.fill("chart.compared.value", &words)?);
        }
        (words.case, words.values) = (context.case_title(row.case)?, values.join(context.words.get("comma")?));
        items.push(context.words.fill("chart.compared.item", &words)?);
    }
    let subtitle = if rows.len() < all { "cut" } else { "subtitle" };
    let chart = BarChart {
        title: context.words.get(&format!("chart.{id}.title"))?.to_owned(),
        subtitle: context.words.fill(&format!("chart.{id}.{subtitle}"), &words)?,
        rows: rows.iter().map(|row| Row { name: row.name.clone(), series: row.series }).collect(),
        panels,
    };
    let named = named(context, id.to_owned(), &chart.title, items.join(context.words.get("semicolon")?))?;
    Chart::draw(named, numbers(rows, metrics), &Drawing::Bars(chart))
}

fn panel(context: &Context<'_>, metric: Metric, rows: &[Compared<'_>], words: &mut Words) -> Result<Panel> {
    let greatest = rows.iter().filter_map(|row| row.case.metric(metric)).map(|figure| figure.mean).fold(0.0, f64::max);
    let scale = Scale::of(metric.unit(), greatest);
    let mut bars = Vec::new();
    for row in rows {
        let Some(figure) = row.case.metric(metric) else {
            bars.push(None);
            continue;
        };
        let mut label = scale.text(figure.mean);
        if let Some(ratio) = row.against.and_then(|against| speed(metric, figure, against.metric(metric)?)) {
            (words.value, words.ratio) = (label, Scale { factor: 1.0, decimals: 1, suffix: "×" }.text(ratio));
            label = context.words.fill("chart.gpu-against-cpu.label", words)?;
        }
        bars.push(Some(Bar { mean: figure.mean, min: figure.min, max: figure.max, label }));
    }
    Ok(Panel {
        title: context.words.get(&format!("chart.metric.{}", metric.key()))?.to_owned(),
        scale,
        least_top: if metric.unit() == Unit::Ratio { 1.0 } else { 0.0 },
        bars,
        absent: context.words.get("chart.absent")?.to_owned(),
    })
}

/// How many times as fast; none where the other took or did nothing.
fn speed(metric: Metric, figure: &MetricSummary, other: &MetricSummary) -> Option<f64> {
    let (fast, slow) = if TIMES.contains(&metric) { (other.mean, figure.mean) } else { (figure.mean, other.mean) };
    (slow > 0.0).then_some(fast / slow).filter(|ratio| ratio.is_finite())
}

fn numbers(rows: &[Compared<'_>], metrics: &[Metric]) -> Csv {
    let columns = metrics.iter().flat_map(|metric| {
        ["mean", "min", "max"].map(|of| format!("{}_{of}{}", metric.key(), csv::unit(metric.unit())))
    });
    let mut numbers = Csv::new(["case", "finished_runs"].map(str::to_owned).into_iter().chain(columns));
    for Compared { case, .. } in rows {
        let values = metrics.iter().flat_map(|metric| match case.metric(*metric) {
            Some(figure) => [figure.mean, figure.min, figure.max].map(csv::number),
            None => Default::default(),
        });
        numbers.row([csv::text(&case.name), case.finished().to_string()].into_iter().chain(values));
    }
    numbers
}

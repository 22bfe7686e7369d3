//! What a setting did: the throughput of cases that differ in it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::Serialize;

use super::named;
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::CaseSummary;
use crate::report::chart::csv::{self, Csv};
use crate::report::chart::lines::{Dot, Line, LineChart};
use crate::report::chart::{Chart, Drawing};
use crate::report::context::Context;
use crate::report::format::Scale;
use crate::trace::layout::slug;

/// What is compared: the first that at least two cases of a line have. Of all but the last, more is better.
const METRICS: [Metric; 4] = [Metric::Throughput, Metric::ShownThroughput, Metric::ShownStepRate, Metric::Duration];
/// More lines than this could not be told apart.
const MOST_LINES: usize = 5;
/// What makes other work of it, or has a chart of its own.
const NOT_SWEPT: [&str; 2] = ["device", "quick"];

/// Variables of the phrases of these charts.
#[derive(Serialize)]
struct Words {
    workload: String,
    setting: String,
    value: String,
    line: String,
    best: String,
    shown: usize,
    all: usize,
}

type Settings = BTreeMap<String, String>;
/// Cases that are alike but for one setting, with what they have in common.
type Group<'g, 'a> = (&'g Settings, &'g Vec<&'a CaseSummary>);

/// A chart for each setting of a workload in which cases that are otherwise alike differ, and for each device: the
/// speed of one would flatten the lines of another.
///
/// # Errors
/// A phrase is missing, or the drawing fails.
pub(in crate::report::view) fn sweeps(context: &Context<'_>) -> Result<Vec<Chart>> {
    let finished = || context.summary.cases.iter().filter(|case| case.finished() > 0);
    let mut works: BTreeMap<(&str, Option<&String>), Vec<&CaseSummary>> = BTreeMap::new();
    for case in finished() {
        works.entry((&case.workload, case.settings.get("device"))).or_default().push(case);
    }
    let mut charts = Vec::new();
    for cases in works.values() {
        let settings: BTreeSet<&String> = cases.iter().flat_map(|case| case.settings.keys()).collect();
        for setting in settings.into_iter().filter(|setting| !NOT_SWEPT.contains(&setting.as_str())) {
            charts.extend(sweep(context, cases, setting)?);
        }
    }
    Ok(charts)
}

/// The chart of one sweep; none where no two cases differ in nothing but the setting.
fn sweep(context: &Context<'_>, cases: &[&CaseSummary], setting: &str) -> Result<Option<Chart>> {
    let Some((metric, groups)) = chosen(cases, setting) else { return Ok(None) };
    let Some(first) = cases.first() else { return Ok(None) };
    let device = first.settings.iter().filter(|(key, _)| *key == "device");
    let work = context.title_of(&first.workload, device)?;
    let places = places(groups.values().flatten(), setting);
    let mut shown: Vec<Group<'_, '_>> = groups.iter().collect();
    shown.sort_by(|(a, _), (b, _)| in_order(a, b));
    shown.truncate(MOST_LINES);
    let dots = || shown.iter().flat_map(|(_, cases)| cases.iter());
    let means = || dots().filter_map(|case| case.metric(metric)).map(|figure| figure.mean);
    let less_is_better = metric == Metric::Duration;
    let best = if less_is_better { means().reduce(f64::min) } else { means().reduce(f64::max) };
    let scale = Scale::of(metric.unit(), means().fold(0.0, f64::max));
    let mut words = Words {
        workload: work.clone(),
        setting: setting.to_owned(),
        value: String::new(),
        line: String::new(),
        best: best.map(|best| scale.text(best)).unwrap_or_default(),
        shown: shown.len(),
        all: groups.len(),
    };
    let mut items = Vec::new();
    let mut lines = Vec::new();
    for (others, cases) in &shown {
        let label = line_name(context, others, &shown)?;
        for case in *cases {
            let Some(figure) = case.metric(metric) else { continue };
            let own = format!("{setting}={}", case.settings.get(setting).map_or("", String::as_str));
            words.line = if label.is_empty() { own } else { format!("{label}{}{own}", context.words.get("comma")?) };
            words.value = scale.text(figure.mean);
            items.push(context.words.fill("chart.sweep.item", &words)?);
        }
        lines.push(Line { dots: line_dots(cases, metric, &places, setting), label });
    }
    let key = metric.key();
    let subtitle = if shown.len() < groups.len() { "cut" } else { "subtitle" };
    let chart = LineChart {
        title: context.words.fill(&format!("chart.sweep.{key}.title"), &words)?,
        subtitle: context.words.fill(&format!("chart.sweep.{subtitle}"), &words)?,
        x: context.words.fill("chart.sweep.x", &words)?,
        places,
        lines,
        scale,
        less_is_better,
        best: context.words.fill("chart.sweep.best", &words)?,
    };
    let device = first.settings.get("device").map_or("", String::as_str);
    let id = slug(&format!("sweep {} {device} {setting}", first.workload));
    let named = named(context, id, &chart.title, items.join(context.words.get("semicolon")?))?;
    Chart::draw(named, numbers(&groups, metric, setting), &Drawing::Lines(chart)).map(Some)
}

/// The cases that have a metric, by all their settings but one; only where that one differs.
fn chosen<'a>(cases: &[&'a CaseSummary], setting: &str) -> Option<(Metric, BTreeMap<Settings, Vec<&'a CaseSummary>>)> {
    let of = |metric: Metric| {
        let mut groups: BTreeMap<Settings, Vec<&CaseSummary>> = BTreeMap::new();
        let measured = |case: &&&CaseSummary| case.metric(metric).is_some_and(|figure| figure.mean.is_finite());
        for case in cases.iter().filter(measured) {
            let mut others = case.settings.clone();
            if others.remove(setting).is_some() {
                groups.entry(others).or_default().push(case);
            }
        }
        groups.retain(|_, cases| cases.len() > 1);
        (!groups.is_empty()).then_some((metric, groups))
    };
    METRICS.into_iter().find_map(of)
}

/// The values of a setting: as numbers where all are numbers.
fn places<'a>(cases: impl Iterator<Item = &'a &'a CaseSummary>, setting: &str) -> Vec<String> {
    let values: BTreeSet<&String> = cases.filter_map(|case| case.settings.get(setting)).collect();
    let mut values: Vec<&String> = values.into_iter().collect();
    let number = |value: &String| value.parse::<f64>().ok().filter(|number| number.is_finite());
    if values.iter().all(|value| number(value).is_some()) {
        values.sort_by(|a, b| number(a).unwrap_or_default().total_cmp(&number(b).unwrap_or_default()));
    }
    values.into_iter().cloned().collect()
}

/// The settings in which a line differs from the others.
fn line_name(context: &Context<'_>, own: &Settings, lines: &[Group<'_, '_>]) -> Result<String> {
    let common = |key: &String, value: &String| lines.iter().all(|(others, _)| others.get(key) == Some(value));
    context.settings(own.iter().filter(|(key, value)| !common(key, value)))
}

/// Numbers by their size, before and among text.
fn in_order(a: &Settings, b: &Settings) -> Ordering {
    let number = |value: &String| value.parse::<f64>().ok().filter(|number| number.is_finite());
    let by_value = |(a, b): (&String, &String)| match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.cmp(b),
    };
    a.values().zip(b.values()).map(by_value).find(|order| order.is_ne()).unwrap_or_else(|| a.cmp(b))
}

fn line_dots(cases: &[&CaseSummary], metric: Metric, places: &[String], setting: &str) -> Vec<Dot> {
    let dot = |case: &&CaseSummary| {
        let value = case.settings.get(setting)?;
        let place = places.iter().position(|place| place == value)?;
        let figure = case.metric(metric)?;
        Some(Dot { place, mean: figure.mean, min: figure.min, max: figure.max })
    };
    let mut dots: Vec<Dot> = cases.iter().filter_map(dot).collect();
    dots.sort_by_key(|dot| dot.place);
    dots
}

fn numbers(groups: &BTreeMap<Settings, Vec<&CaseSummary>>, metric: Metric, setting: &str) -> Csv {
    let of = ["mean", "min", "max"].map(|of| format!("{}_{of}{}", metric.key(), csv::unit(metric.unit())));
    let columns = ["case", "setting", "value", "finished_runs"].map(str::to_owned);
    let mut numbers = Csv::new(columns.into_iter().chain(of));
    for case in groups.values().flatten() {
        let Some(figure) = case.metric(metric) else { continue };
        let value = case.settings.get(setting).map_or("", String::as_str);
        let texts = [csv::text(&case.name), csv::text(setting), csv::text(value), figure.n.to_string()];
        numbers.row(texts.into_iter().chain([figure.mean, figure.min, figure.max].map(csv::number)));
    }
    numbers
}

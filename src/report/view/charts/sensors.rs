//! Power, temperature and clocks of GPUs over time, and when clocks were held down.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::Serialize;

use super::{SENSORS, named, time};
use crate::aggregate::metric::Unit;
use crate::aggregate::summary::{CaseSummary, Course, Point, Quantity};
use crate::report::chart::course::{self, Series};
use crate::report::chart::csv::{self, Csv};
use crate::report::chart::sensors::{SensorChart, SensorPanel};
use crate::report::chart::{Chart, Drawing};
use crate::report::context::Context;
use crate::report::format::Scale;

/// Lines that can be told apart on a low panel.
const MOST_GPUS: usize = 4;
/// Clocks count as held down where they were for at least this share of a window.
const HELD_DOWN: f64 = 0.5;

/// A sensor: its panel, and its name in tables of numbers.
struct Sensor {
    name: &'static str,
    column: &'static str,
    of: fn(u32) -> Quantity,
    scale: fn(f64) -> Scale,
}

const PANELS: [Sensor; 4] = [
    Sensor {
        name: "power",
        column: "power_watts",
        of: Quantity::GpuPower,
        scale: |highest| Scale::of(Unit::Watt, highest),
    },
    Sensor {
        name: "temperature",
        column: "temperature_celsius",
        of: Quantity::GpuTemperature,
        scale: |highest| Scale::of(Unit::Celsius, highest),
    },
    Sensor { name: "sm_clock", column: "sm_clock_mhz", of: Quantity::GpuSmClock, scale: |_| GIGAHERTZ },
    Sensor { name: "memory_clock", column: "memory_clock_mhz", of: Quantity::GpuMemoryClock, scale: |_| GIGAHERTZ },
];

/// Of megahertz.
const GIGAHERTZ: Scale = Scale { factor: 1e-3, decimals: 2, suffix: " GHz" };

/// Variables of the phrases of this chart.
#[derive(Serialize)]
struct Words {
    case: String,
    n: usize,
    unfinished: bool,
    /// Whether clocks were held down in any window.
    held: bool,
    /// GPUs that are drawn, and that there are.
    shown: usize,
    all: usize,
    gpu: u32,
    unused: bool,
    sensor: String,
    peak: String,
    span: String,
}

/// Whether there is anything to draw.
pub(super) fn is_drawn(case: &CaseSummary) -> bool {
    !gpus(case).is_empty()
}

/// Draws the chart.
pub(super) fn draw(context: &Context<'_>, case: &CaseSummary) -> Result<Chart> {
    let all = gpus(case);
    let gpus: Vec<u32> = all.iter().copied().take(MOST_GPUS).collect();
    let shaded = shaded(case, &gpus);
    let sensors: Vec<&Sensor> =
        PANELS.iter().filter(|sensor| gpus.iter().any(|gpu| of(case, sensor, *gpu).is_some())).collect();
    let runs = sensors.iter().flat_map(|sensor| gpus.iter().filter_map(|gpu| Some(of(case, sensor, *gpu)?.runs)));
    let mut words = Words {
        case: context.case_title(case)?,
        n: runs.max().unwrap_or_default(),
        unfinished: case.finished() == 0,
        held: !shaded.is_empty(),
        shown: gpus.len(),
        all: all.len(),
        gpu: 0,
        unused: false,
        sensor: String::new(),
        peak: String::new(),
        span: String::new(),
    };
    let mut items = Vec::new();
    let mut panels = Vec::new();
    for sensor in &sensors {
        panels.push(panel(context, case, sensor, &gpus, &mut words, &mut items)?);
    }
    for (from, to) in &shaded {
        words.span = format!("{from}–{to} s");
        items.push(context.words.fill("chart.sensors.held", &words)?);
    }
    let mut legend = Vec::new();
    for gpu in gpus.iter().filter(|_| gpus.len() > 1) {
        (words.gpu, words.unused) = (*gpu, is_unused(case, *gpu));
        legend.push(context.words.fill("quantity.gpu_utilisation", &words)?);
    }
    let drawn = panels.iter().flat_map(|panel| panel.series.iter());
    let chart = SensorChart {
        title: context.words.fill("chart.sensors.title", &words)?,
        subtitle: context.words.fill("chart.sensors.subtitle", &words)?,
        x: time(context, course::end_s(drawn.filter_map(|series| series.as_ref()).map(|series| series.course)))?,
        legend,
        panels,
        shaded,
    };
    let items = items.join(context.words.get("semicolon")?);
    let named = named(context, format!("{}-{SENSORS}", case.slug), &chart.title, items)?;
    Chart::draw(named, numbers(case, &all), &Drawing::Sensors(chart))
}

/// GPUs that the run used and that have a sensor; of all where nobody tells which, or where it used none.
fn gpus(case: &CaseSummary) -> Vec<u32> {
    let measured: BTreeSet<u32> = case
        .courses
        .iter()
        .filter(|course| course::is_drawable(course))
        .filter_map(|course| match course.quantity {
            Quantity::GpuPower(gpu)
            | Quantity::GpuTemperature(gpu)
            | Quantity::GpuSmClock(gpu)
            | Quantity::GpuMemoryClock(gpu) => Some(gpu),
            _ => None,
        })
        .collect();
    let used: Vec<u32> = measured.iter().copied().filter(|gpu| !is_unused(case, *gpu)).collect();
    if used.is_empty() { measured.into_iter().collect() } else { used }
}

fn is_unused(case: &CaseSummary, gpu: u32) -> bool {
    case.gpus_used.as_ref().is_some_and(|used| !used.contains(&gpu))
}

fn of<'a>(case: &'a CaseSummary, sensor: &Sensor, gpu: u32) -> Option<&'a Course> {
    case.course((sensor.of)(gpu)).filter(|course| course::is_drawable(course))
}

fn panel<'a>(
    context: &Context<'_>,
    case: &'a CaseSummary,
    sensor: &Sensor,
    gpus: &[u32],
    words: &mut Words,
    items: &mut Vec<String>,
) -> Result<SensorPanel<'a>> {
    let courses: Vec<Option<&Course>> = gpus.iter().map(|gpu| of(case, sensor, *gpu)).collect();
    let peaks = courses.iter().map(|course| course.and_then(course::peak));
    let highest = peaks.clone().flatten().map(|(_, height)| height).fold(0.0, f64::max);
    let scale = (sensor.scale)(highest);
    let title = context.words.get(&format!("chart.sensors.{}", sensor.name))?.to_owned();
    words.sensor.clone_from(&title);
    for (gpu, peak) in gpus.iter().zip(peaks.clone()) {
        let Some((_, peak)) = peak else { continue };
        (words.gpu, words.peak) = (*gpu, scale.text(peak));
        items.push(context.words.fill("chart.sensors.item", words)?);
    }
    let series = courses.iter().map(|course| course.map(|course| Series { label: String::new(), course })).collect();
    let first = peaks.flatten().next();
    Ok(SensorPanel { title, scale, series, peak: first.map(|(_, peak)| scale.text(peak)).unwrap_or_default() })
}

/// Spans in which the clocks of one of the GPUs were held down.
fn shaded(case: &CaseSummary, gpus: &[u32]) -> Vec<(f64, f64)> {
    let mut spans: Vec<(f64, f64)> = Vec::new();
    for course in gpus.iter().filter_map(|gpu| case.course(Quantity::GpuHeldDown(*gpu))) {
        let half = course.point_s as f64 / 2.0;
        let held = course.points.iter().filter(|point| point.t_s.is_finite() && point.mean >= HELD_DOWN);
        spans.extend(held.map(|point| (point.t_s - half, point.t_s + half)));
    }
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    spans.into_iter().fold(Vec::new(), |mut joined: Vec<(f64, f64)>, span| {
        match joined.last_mut() {
            Some(last) if span.0 <= last.1 => last.1 = last.1.max(span.1),
            _ => joined.push(span),
        }
        joined
    })
}

/// All sensors of all GPUs, a row a window.
fn numbers(case: &CaseSummary, gpus: &[u32]) -> Csv {
    let names = PANELS.iter().map(|sensor| sensor.column).chain(["held_down_ratio"]);
    let columns = names.flat_map(|column| ["mean", "min", "max"].map(|of| format!("{of}_{column}")));
    let mut numbers = Csv::new(["gpu", "t_s"].map(str::to_owned).into_iter().chain(columns));
    for gpu in gpus {
        // Times are not negative, so that their bits are in their order.
        let mut rows: BTreeMap<u64, Vec<Option<Point>>> = BTreeMap::new();
        let sensors = PANELS.iter().map(|sensor| (sensor.of)(*gpu)).chain([Quantity::GpuHeldDown(*gpu)]);
        for (place, sensor) in sensors.enumerate() {
            for point in case.course(sensor).iter().flat_map(|course| &course.points) {
                rows.entry(point.t_s.to_bits()).or_insert_with(|| vec![None; PANELS.len() + 1])[place] = Some(*point);
            }
        }
        for (t_s, points) in rows {
            let values = points.into_iter().flat_map(|point| match point {
                Some(point) => [point.mean, point.min, point.max],
                None => [f64::NAN; 3],
            });
            numbers.row([f64::from(*gpu), f64::from_bits(t_s)].into_iter().chain(values).map(csv::number));
        }
    }
    numbers
}

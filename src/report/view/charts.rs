//! Which charts a report has, and their words.

use anyhow::Result;
use serde::Serialize;

use crate::aggregate::metric::Unit;
use crate::aggregate::summary::{BUSY_CORE, CaseSummary, Course, Quantity};
use crate::report::chart::cores::CoreChart;
use crate::report::chart::course::{self, CourseChart, Series};
use crate::report::chart::csv::{self, Csv};
use crate::report::chart::{Chart, Drawing, Named, TimeUnit};
use crate::report::context::{Context, Wholes};
use crate::report::escape;
use crate::report::format::Scale;

mod compared;
mod heat;
mod sensors;
mod steps;
mod sweep;

pub(super) use compared::{gpu_against_cpu, levels};
pub(super) use sweep::sweeps;

/// A chart in a template.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ChartView {
    path: String,
    /// Path of its numbers.
    data: String,
    description: String,
}

/// The view of a chart that was drawn.
pub(super) fn view(chart: &Chart) -> ChartView {
    ChartView { path: chart.path.clone(), data: chart.csv_path(), description: escape::text(&chart.description) }
}

/// A chart of courses: its name in files and phrases, its unit, and what it shows.
struct Kind {
    name: &'static str,
    unit: Unit,
    /// The axis of values reaches at least this.
    least_top: f64,
    shows: fn(Quantity) -> bool,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "gpu",
        unit: Unit::Ratio,
        least_top: 1.0,
        shows: |quantity| matches!(quantity, Quantity::GpuUtilisation(_)),
    },
    Kind {
        name: "gpu-memory",
        unit: Unit::Bytes,
        least_top: 0.0,
        shows: |quantity| {
            matches!(quantity, Quantity::GpuMemory(_) | Quantity::GpuMemoryOwn(_) | Quantity::GpuInstanceMemory(..))
        },
    },
    Kind {
        name: "cpu",
        unit: Unit::Ratio,
        least_top: 1.0,
        shows: |quantity| matches!(quantity, Quantity::RunCpu | Quantity::HostCpu),
    },
    Kind {
        name: "memory",
        unit: Unit::Bytes,
        least_top: 0.0,
        shows: |quantity| matches!(quantity, Quantity::MemoryRss | Quantity::MemoryPss),
    },
];

const CORES: &str = "cores";
const HEAT: &str = "heat-map";
const SENSORS: &str = "sensors";
const STEPS: &str = "steps";
const STEP_DISTRIBUTION: &str = "step-distribution";
/// So many GPUs may have a line for the run's own memory beside that for all of it.
const MOST_OWN_LINES: usize = 2;

/// Variables of the phrases of charts.
#[derive(Serialize)]
struct Words {
    case: String,
    n: usize,
    limit: String,
    online: String,
    /// Number of the GPU, and of the MIG instance on it.
    gpu: u32,
    instance: u32,
    /// Whether the GPU is one that the runs did not use.
    unused: bool,
    /// Windows of a point.
    point_s: i64,
    label: String,
    mean: String,
    peak: String,
    at: String,
    threshold: String,
    /// So many windows share two points; 0 where each has its own.
    thinning: usize,
}

/// Whether a case has the data for a chart.
pub(super) fn is_drawn(case: &CaseSummary, name: &str) -> bool {
    match KINDS.iter().find(|kind| kind.name == name) {
        Some(kind) => !courses(case, kind).is_empty(),
        None => match name {
            CORES => !case.cores.is_empty(),
            HEAT => case.core_heat.is_some(),
            SENSORS => sensors::is_drawn(case),
            STEPS => case.step_times.is_some(),
            STEP_DISTRIBUTION => case.step_times.as_ref().is_some_and(|times| times.steps() > 0),
            _ => false,
        },
    }
}

/// Path of a chart's PNG, relative to the report.
pub(super) fn path(context: &Context<'_>, case: &CaseSummary, name: &str) -> String {
    picture(context, &format!("{}-{name}", case.slug))
}

fn picture(context: &Context<'_>, id: &str) -> String {
    format!("charts/{id}.{}.png", context.words.language().key())
}

/// Name of an axis of time that ends there.
fn time(context: &Context<'_>, end_s: f64) -> Result<String> {
    #[derive(Serialize)]
    struct Time {
        unit: &'static str,
    }
    context.words.fill("chart.time", &Time { unit: TimeUnit::of(end_s).symbol() })
}

/// What a chart is called, its description made of the title and of what it shows.
fn named(context: &Context<'_>, id: String, title: &str, items: String) -> Result<Named> {
    let description = context.words.fill("chart.description", &Description { title: title.to_owned(), items })?;
    Ok(Named { path: picture(context, &id), id, description })
}

/// Draws all charts of a case.
///
/// # Errors
/// A phrase is missing, or the drawing fails.
pub(super) fn draw(context: &Context<'_>, case: &CaseSummary) -> Result<Vec<Chart>> {
    let mut charts = Vec::new();
    for kind in KINDS.iter().filter(|kind| is_drawn(case, kind.name)) {
        charts.push(draw_courses(context, case, kind)?);
    }
    if sensors::is_drawn(case) {
        charts.push(sensors::draw(context, case)?);
    }
    if let Some(heat) = &case.core_heat {
        charts.push(heat::draw(context, case, heat)?);
    }
    if is_drawn(case, CORES) {
        charts.push(draw_cores(context, case)?);
    }
    if let Some(times) = &case.step_times {
        charts.extend(steps::draw(context, case, times)?);
    }
    Ok(charts)
}

fn courses<'a>(case: &'a CaseSummary, kind: &Kind) -> Vec<&'a Course> {
    let mut courses: Vec<&Course> =
        case.courses.iter().filter(|course| (kind.shows)(course.quantity) && course::is_drawable(course)).collect();
    let is_own = |course: &Course| matches!(course.quantity, Quantity::GpuMemoryOwn(_));
    // Two lines for each of many GPUs could not be told apart.
    if courses.iter().filter(|course| is_own(course)).count() > MOST_OWN_LINES {
        courses.retain(|course| !is_own(course));
    }
    // What belongs to one GPU stands together.
    courses.sort_by_key(|course| gpu(course.quantity).0);
    courses
}

fn draw_courses(context: &Context<'_>, case: &CaseSummary, kind: &Kind) -> Result<Chart> {
    let courses = courses(case, kind);
    let highest =
        courses.iter().filter_map(|course| course::peak(course)).map(|(_, height)| height).fold(0.0, f64::max);
    let scale = Scale::of(kind.unit, highest);
    let mut words = words(context, case)?;
    words.n = courses.iter().map(|course| course.runs).max().unwrap_or_default();
    words.thinning = courses.iter().filter_map(|course| course::thinning(course)).max().unwrap_or_default();
    let mut series = Vec::new();
    let mut items = Vec::new();
    for course in courses {
        (words.gpu, words.instance) = gpu(course.quantity);
        words.unused = case.gpus_used.as_ref().is_some_and(|used| !used.contains(&words.gpu));
        words.label = context.words.fill(&format!("quantity.{}", quantity(course.quantity)), &words)?;
        words.point_s = course.point_s;
        if let Some((peak, height)) = course::peak(course) {
            let from = peak.t_s - course.point_s as f64 / 2.0;
            (words.peak, words.at) = (scale.text(height), format!("{from}–{} s", from + course.point_s as f64));
        }
        items.push(context.words.fill("chart.item", &words)?);
        series.push(Series { label: words.label.clone(), course });
    }
    if let Some((first, (_, height))) = series.first().and_then(|series| Some((series, course::peak(series.course)?))) {
        (words.peak, words.point_s) = (scale.text(height), first.course.point_s);
    }
    let items = items.join(context.words.get("semicolon")?);
    let numbers = course_numbers(kind, &series);
    let chart = CourseChart {
        title: context.words.fill(&format!("chart.{}.title", kind.name), &words)?,
        subtitle: context.words.fill(subtitle(case, words.n), &words)?,
        x: time(context, course::end_s(series.iter().map(|series| series.course)))?,
        series,
        scale,
        least_top: kind.least_top,
        peak: context.words.fill("chart.peak", &words)?,
    };
    let named = named(context, format!("{}-{}", case.slug, kind.name), &chart.title, items)?;
    Chart::draw(named, numbers, &Drawing::Course(chart))
}

/// All points of all courses, whatever the drawing leaves out.
fn course_numbers(kind: &Kind, series: &[Series<'_>]) -> Csv {
    let unit = csv::unit(kind.unit);
    let mut numbers = Csv::new(
        ["series", "t_s"].map(str::to_owned).into_iter().chain(["mean", "min", "max"].map(|of| format!("{of}{unit}"))),
    );
    for Series { course, .. } in series {
        for point in &course.points {
            let values = [point.t_s, point.mean, point.min, point.max].map(csv::number);
            numbers.row(std::iter::once(series_name(course.quantity)).chain(values));
        }
    }
    numbers
}

/// Name of a quantity in tables of numbers.
fn series_name(of: Quantity) -> String {
    let name = quantity(of);
    match (of, gpu(of)) {
        (Quantity::GpuInstanceMemory(..), (gpu, instance)) => format!("{name}_{gpu}_{instance}"),
        (Quantity::RunCpu | Quantity::HostCpu | Quantity::MemoryRss | Quantity::MemoryPss, _) => name.to_owned(),
        (_, (gpu, _)) => format!("{name}_{gpu}"),
    }
}

fn draw_cores(context: &Context<'_>, case: &CaseSummary) -> Result<Chart> {
    let scale = Scale::of(Unit::Ratio, 1.0);
    let mut words = words(context, case)?;
    words.n = if case.finished() > 0 { case.finished() } else { case.runs.len() };
    words.threshold = Scale { decimals: 0, ..scale }.text(BUSY_CORE);
    let mut shares = Vec::new();
    for core in &case.cores {
        (words.label, words.mean) = (core.core.to_string(), scale.text(core.mean));
        shares.push(context.words.fill("chart.core.item", &words)?);
    }
    let items = context.words.list(&shares)?;
    let mut numbers = Csv::new(["core", "mean_ratio", "min_ratio", "max_ratio"]);
    for core in &case.cores {
        numbers.row([f64::from(core.core), core.mean, core.min, core.max].map(csv::number));
    }
    let chart = CoreChart {
        title: context.words.fill("chart.cores.title", &words)?,
        subtitle: context.words.fill(cores_subtitle(case, words.n), &words)?,
        x: context.words.get("chart.core")?.to_owned(),
        cores: &case.cores,
        threshold: BUSY_CORE,
        threshold_label: words.threshold.clone(),
        spread: words.n > 1,
    };
    let named = named(context, format!("{}-{CORES}", case.slug), &chart.title, items)?;
    Chart::draw(named, numbers, &Drawing::Cores(chart))
}

#[derive(Serialize)]
struct Description {
    title: String,
    items: String,
}

fn words(context: &Context<'_>, case: &CaseSummary) -> Result<Words> {
    let wholes = Wholes::of(&case.limits);
    let empty = String::new;
    Ok(Words {
        case: context.case_title(case)?,
        n: 0,
        limit: wholes.limit,
        online: wholes.online,
        gpu: 0,
        instance: 0,
        unused: false,
        point_s: 1,
        label: empty(),
        mean: empty(),
        peak: empty(),
        at: empty(),
        threshold: empty(),
        thinning: 0,
    })
}

/// Where no run finished, courses show what was kept of the others; that has to be said.
fn subtitle(case: &CaseSummary, n: usize) -> &'static str {
    match (case.finished(), n) {
        (0, _) => "chart.subtitle.unfinished",
        (_, 1) => "chart.subtitle.one",
        _ => "chart.subtitle.many",
    }
}

fn cores_subtitle(case: &CaseSummary, n: usize) -> &'static str {
    match (case.finished(), n) {
        (0, _) => "chart.cores.subtitle.unfinished",
        (_, 1) => "chart.cores.subtitle.one",
        _ => "chart.cores.subtitle.many",
    }
}

fn quantity(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::RunCpu => "run_cpu",
        Quantity::HostCpu => "host_cpu",
        Quantity::MemoryRss => "memory_rss",
        Quantity::MemoryPss => "memory_pss",
        Quantity::GpuUtilisation(_) => "gpu_utilisation",
        Quantity::GpuMemory(_) => "gpu_memory",
        Quantity::GpuMemoryOwn(_) => "gpu_memory_own",
        Quantity::GpuInstanceMemory(..) => "gpu_instance_memory",
        Quantity::GpuPower(_) => "gpu_power",
        Quantity::GpuTemperature(_) => "gpu_temperature",
        Quantity::GpuSmClock(_) => "gpu_sm_clock",
        Quantity::GpuMemoryClock(_) => "gpu_memory_clock",
        Quantity::GpuHeldDown(_) => "gpu_held_down",
    }
}

fn gpu(quantity: Quantity) -> (u32, u32) {
    match quantity {
        Quantity::GpuUtilisation(gpu) | Quantity::GpuMemory(gpu) | Quantity::GpuMemoryOwn(gpu) => (gpu, 0),
        Quantity::GpuInstanceMemory(gpu, instance) => (gpu, instance),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests;

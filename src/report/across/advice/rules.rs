//! The rules of advice.

use super::super::Standing;
use super::super::devices::Pair;
use super::super::sweeps::{Kind, Sweep, is_out_of_memory};
use super::Scenario::{Laptop, Large, SingleGpu};
use super::{Cite, Ground, Line, Rule, Scenario, Value, code};
use crate::aggregate::compare::Ratio;
use crate::aggregate::metric::{Metric, Unit};
use crate::aggregate::summary::CaseSummary;

/// The catalogue.
pub(super) const RULES: &[Rule] = &[
    Rule { scenarios: &[Laptop], earned: slower_than_gpu },
    Rule { scenarios: &[SingleGpu], earned: faster_than_cpu },
    Rule { scenarios: &[Laptop], earned: quick_run },
    Rule { scenarios: &[Large], earned: does_not_fit },
    Rule { scenarios: &[Large], earned: host_memory_of_7b },
    Rule { scenarios: &[Laptop, SingleGpu, Large], earned: swept },
    Rule { scenarios: &[Laptop, SingleGpu, Large], earned: saves_memory },
    Rule { scenarios: &[Laptop, SingleGpu, Large], earned: fits },
    Rule { scenarios: &[Laptop], earned: leaves_nothing },
    Rule { scenarios: &[Laptop, SingleGpu], earned: workers },
    Rule { scenarios: &[SingleGpu], earned: too_little_work },
    Rule { scenarios: &[SingleGpu], earned: gpu_memory },
    Rule { scenarios: &[Laptop], earned: memory },
    Rule { scenarios: &[Large], earned: only_a_small_form },
    Rule { scenarios: &[Laptop, SingleGpu], earned: only_quick },
];

/// From here on the GPU is worth having: the same result in half of the time.
const MUCH_FASTER: f64 = 2.0;

/// Below this share of a GPU's memory a larger batch may fit; from the other on it hardly will.
const GPU_MEMORY_AMPLE: f64 = 0.50;
const GPU_MEMORY_TIGHT: f64 = 0.90;

/// Memory that differs by less between values of a setting is not what one would choose it for.
const MEMORY_MATTERS: f64 = 1.10;

/// Llama-2 7B, as the workload works it out: weights in float32 and both moments in main memory.
const HOST_BYTES_OF_7B: f64 = 6_738_415_616.0 * 12.0;

/// The greatest of a figure among cases.
pub(in crate::report::across) fn greatest<'a>(
    cases: impl Iterator<Item = &'a CaseSummary>,
    metric: Metric,
) -> Option<(&'a CaseSummary, f64)> {
    let known = cases.filter_map(|case| Some((case, case.metric(metric)?.mean)));
    known.reduce(|most, other| if other.1 > most.1 { other } else { most })
}

fn time(case: &CaseSummary) -> f64 {
    case.metric(Metric::Duration).map_or(0.0, |figure| figure.mean)
}

fn slower_than_gpu<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    against_gpu(ground, "laptop.slower", scenario, |pair| pair.cpu)
}

fn faster_than_cpu<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    against_gpu(ground, "single_gpu.faster", scenario, |pair| pair.gpu)
}

/// Of the workload that takes longest, how many times as long the CPU takes.
fn against_gpu<'a>(
    ground: &Ground<'a>,
    name: &'static str,
    scenario: Scenario,
    side: fn(&Pair<'a>) -> &'a CaseSummary,
) -> Vec<Line<'a>> {
    let is_much = |whole: &Ratio| Standing::of(whole) == Standing::Faster && whole.ratio >= MUCH_FASTER;
    let clear =
        ground.pairs.iter().filter(|pair| Scenario::of(side(pair)) == scenario && pair.whole().is_some_and(is_much));
    let longest = clear.reduce(|most, other| if time(other.cpu) > time(most.cpu) { other } else { most });
    let line = |pair: &Pair<'a>| {
        let case = side(pair);
        Some(Line::new(
            name,
            Cite::Case(case),
            vec![("ratio", Value::Times(*pair.whole()?)), ("case", Value::Case(case))],
        ))
    };
    longest.and_then(line).into_iter().collect()
}

/// How soon one knows that the code runs.
fn quick_run<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    let quick = ground.cases(scenario).filter(|case| case.is_quick());
    let line = |(case, seconds)| {
        let values = vec![("case", Value::Case(case)), ("time", Value::Of(Unit::Second, seconds))];
        Line::new("laptop.quick_run", Cite::Case(case), values)
    };
    greatest(quick, Metric::Duration).map(line).into_iter().collect()
}

/// What ran out of memory without another value of a setting that would have fitted.
fn does_not_fit<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    let is_swept = |case: &&CaseSummary| {
        ground.sweeps.iter().any(|sweep| sweep.links.iter().any(|link| link.case.slug == case.slug))
    };
    let broken = ground.cases(scenario).filter(|case| is_out_of_memory(case) && !is_swept(case));
    let line = |case: &'a CaseSummary| {
        let lack = case.runs.iter().find_map(|run| run.lack.as_ref());
        let values = vec![("case", Value::Case(case)), ("place", Value::Lack(lack))];
        Line::new("large.does_not_fit", Cite::Case(case), values)
    };
    broken.map(line).collect()
}

/// Whether the host could hold the optimizer of Llama-2 7B; where it ran, its own figures say more.
fn host_memory_of_7b<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    let is_7b = |case: &CaseSummary| case.effective.get("model").is_some_and(|model| model == "7b");
    let cases: Vec<&'a CaseSummary> = ground.cases(scenario).collect();
    let Some(case) = cases.first().filter(|_| !cases.iter().any(|case| is_7b(case))) else { return Vec::new() };
    let Some(limit) = case.limits.memory_bytes.map(|bytes| bytes as f64) else { return Vec::new() };
    let name = if limit < HOST_BYTES_OF_7B { "large.host_short" } else { "large.host_enough" };
    let values = vec![("need", Value::Of(Unit::Bytes, HOST_BYTES_OF_7B)), ("limit", Value::Of(Unit::Bytes, limit))];
    vec![Line::new(name, Cite::Case(case), values)]
}

/// The value that a sweep favours.
fn swept<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    ground.sweeps(scenario).filter_map(|(index, sweep)| swept_line(index, sweep)).collect()
}

fn swept_line<'a>(index: usize, sweep: &'a Sweep<'a>) -> Option<Line<'a>> {
    let verdict = sweep.verdict.as_ref()?;
    let chosen = sweep.favoured().unwrap_or(verdict.best);
    let name = match verdict.kind {
        Kind::Few => "swept.few",
        Kind::Noise => "swept.noise",
        Kind::Clear | Kind::Close if chosen.value == verdict.best.value => "swept.fastest",
        Kind::Clear | Kind::Close => "swept.enough",
    };
    let values = vec![
        ("code", Value::Code(code(sweep.key, chosen.value, sweep.is_on_gpu()))),
        ("key", Value::Code(sweep.key.to_owned())),
        ("best", Value::Code(verdict.best.value.to_owned())),
        ("worst", Value::Code(verdict.worst.value.to_owned())),
        ("ratio", Value::Times(verdict.over_worst)),
    ];
    Some(Line::new(name, Cite::Sweep(index), values))
}

/// What a setting does to memory: of the GPU, where it has one.
fn saves_memory<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    let line = |(index, sweep): (usize, &'a Sweep<'a>)| {
        let metric = if sweep.is_on_gpu() { Metric::GpuMemoryPeak } else { Metric::MemorySumOfPeaks };
        let name = if sweep.is_on_gpu() { "swept.gpu_memory" } else { "swept.memory" };
        let known = || sweep.links.iter().filter_map(|link| Some((link.value, link.case.metric(metric)?.mean)));
        let least = known().reduce(|a, b| if b.1 < a.1 { b } else { a })?;
        let most = known().reduce(|a, b| if b.1 > a.1 { b } else { a })?;
        let values = vec![
            ("key", Value::Code(sweep.key.to_owned())),
            ("least", Value::Code(least.0.to_owned())),
            ("least_bytes", Value::Of(Unit::Bytes, least.1)),
            ("most", Value::Code(most.0.to_owned())),
            ("most_bytes", Value::Of(Unit::Bytes, most.1)),
        ];
        (most.1 >= MEMORY_MATTERS * least.1).then(|| Line::new(name, Cite::Sweep(index), values))
    };
    ground.sweeps(scenario).filter_map(line).collect()
}

/// Up to which value memory sufficed.
fn fits<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    let line = |(index, sweep): (usize, &'a Sweep<'a>)| {
        let (fits, breaks) = sweep.limit()?;
        let values = vec![
            ("code", Value::Code(code(sweep.key, fits.value, sweep.is_on_gpu()))),
            ("breaks", Value::Code(breaks.value.to_owned())),
        ];
        Some(Line::new("swept.limit", Cite::Sweep(index), values))
    };
    ground.sweeps(scenario).filter_map(line).collect()
}

/// A training that takes all cores, where nobody measured what fewer threads cost.
fn leaves_nothing<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    if ground.has_swept(scenario, "threads") {
        return Vec::new();
    }
    let saturated = ground.cases(scenario).filter(|case| ground.found(case, "cpu_saturated").is_some());
    let line = |(case, usage): (&'a CaseSummary, f64)| {
        let cores = case.limits.cpu_cores.filter(|cores| *cores >= 2.0)?;
        let fewer = format!("{}", cores.floor() - 1.0);
        let values = vec![
            ("case", Value::Case(case)),
            ("usage", Value::Of(Unit::Ratio, usage)),
            ("cores", Value::Of(Unit::Count, cores)),
            ("code", Value::Code(code("threads", &fewer, false))),
        ];
        Some(Line::new("laptop.busy", Cite::Case(case), values))
    };
    greatest(saturated, Metric::CpuUsage).and_then(line).into_iter().collect()
}

/// Whether more workers would help: of the case that waits most for its data, where no workers were tried.
fn workers<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    if ground.has_swept(scenario, "workers") {
        return Vec::new();
    }
    let told = ground.cases(scenario).filter(|case| case.effective.contains_key("workers"));
    let line = |(case, wait): (&'a CaseSummary, f64)| {
        let workers = case.effective.get("workers")?;
        let name = match () {
            () if ground.found(case, "data_wait_high").is_some() => "workers.more",
            () if ground.found(case, "data_wait_low").is_none() => return None,
            () if workers == "0" => "workers.none",
            () => "workers.enough",
        };
        let values = vec![
            ("case", Value::Case(case)),
            ("wait", Value::Of(Unit::Ratio, wait)),
            ("code", Value::Code(code("workers", workers, false))),
        ];
        Some(Line::new(name, Cite::Case(case), values))
    };
    // With and without workers are two things.
    let (without, with): (Vec<_>, Vec<_>) =
        told.partition(|case| case.effective.get("workers").is_some_and(|workers| workers == "0"));
    [without, with].into_iter().filter_map(|cases| line(greatest(cases.into_iter(), Metric::DataWait)?)).collect()
}

/// The GPU waits, but not for data: what it is given at once is too little.
fn too_little_work<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    if ground.has_swept(scenario, "batch-size") {
        return Vec::new();
    }
    let line = |case: &'a CaseSummary| {
        let usage = ground.found(case, "gpu_low")?;
        let wait = ground.found(case, "data_wait_low")?;
        let values = vec![
            ("case", Value::Case(case)),
            ("usage", Value::Of(usage.unit, usage.value)),
            ("wait", Value::Of(wait.unit, wait.value)),
        ];
        Some(Line::new("single_gpu.little_work", Cite::Case(case), values))
    };
    ground.cases(scenario).filter_map(line).collect()
}

/// How much of the GPU's memory is left.
fn gpu_memory<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    let Some(capacity) = capacity(ground) else { return Vec::new() };
    let line = |(case, bytes): (&'a CaseSummary, f64)| {
        let share = bytes / capacity;
        let name = match share {
            _ if share >= GPU_MEMORY_TIGHT => "single_gpu.memory_tight",
            _ if share < GPU_MEMORY_AMPLE && !ground.has_swept(scenario, "batch-size") => "single_gpu.memory_ample",
            _ => return None,
        };
        let values = vec![
            ("case", Value::Case(case)),
            ("peak", Value::Of(Unit::Bytes, bytes)),
            ("capacity", Value::Of(Unit::Bytes, capacity)),
            ("share", Value::Of(Unit::Ratio, share)),
        ];
        Some(Line::new(name, Cite::Case(case), values))
    };
    greatest(ground.cases(scenario), Metric::GpuMemoryPeak).and_then(line).into_iter().collect()
}

/// Memory of the smallest GPU.
fn capacity(ground: &Ground<'_>) -> Option<f64> {
    let gpus = ground.summary.fingerprint.get("gpus")?.as_array()?;
    gpus.iter().filter_map(|gpu| gpu.get("memory_total_bytes")?.as_f64()).reduce(f64::min)
}

/// How much memory a machine needs at least.
fn memory<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    let line = |(case, bytes): (&'a CaseSummary, f64)| {
        let values = vec![("case", Value::Case(case)), ("peak", Value::Of(Unit::Bytes, bytes))];
        Line::new("laptop.memory", Cite::Case(case), values)
    };
    greatest(ground.cases(scenario), Metric::MemorySumOfPeaks).map(line).into_iter().collect()
}

/// Nothing larger than the smallest form of the model ran.
fn only_a_small_form<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    let is_tiny = |case: &CaseSummary| case.effective.get("model").is_some_and(|model| model == "tiny");
    let cases: Vec<&'a CaseSummary> = ground.cases(scenario).collect();
    let Some(case) = cases.first().filter(|_| cases.iter().all(|case| is_tiny(case))) else { return Vec::new() };
    vec![Line::new("large.tiny_only", Cite::Case(case), vec![("model", Value::Code("tiny".to_owned()))])]
}

/// All that was measured is the short form.
fn only_quick<'a>(ground: &Ground<'a>, scenario: Scenario) -> Vec<Line<'a>> {
    let cases: Vec<&'a CaseSummary> = ground.cases(scenario).collect();
    let Some(case) = cases.first().filter(|_| cases.iter().all(|case| case.is_quick())) else { return Vec::new() };
    vec![Line::new("quick_only", Cite::Case(case), Vec::new())]
}

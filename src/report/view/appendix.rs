//! Everything for the reader who checks: each run, the coverage ledger, the cost of recording, the commands.

use anyhow::Result;
use serde::Serialize;

use super::foreign;
use super::levels::Table;
use super::reproduce::{self, Reproduce};
use crate::aggregate::metric::{Metric, Unit};
use crate::aggregate::summary::{CaseSummary, LeftOut, RunSummary};
use crate::report::context::Context;
use crate::report::escape;
use crate::report::findings::recorder_cores;
use crate::report::format::{self, ABSENT, Scale};
use crate::trace::run::{Coverage, CoverageState, Outcome, RecorderCost};

const RUN_COLUMNS: [Metric; 9] = [
    Metric::Duration,
    Metric::CpuTime,
    Metric::CpuUsage,
    Metric::MemorySumOfPeaks,
    Metric::Throughput,
    Metric::ShownThroughput,
    Metric::ShownStepRate,
    Metric::GpuUtilisation,
    Metric::GpuMemoryPeak,
];

#[derive(Clone, Debug, Serialize)]
pub(super) struct Appendix {
    cases: Vec<CaseRuns>,
    left_out: Vec<LeftOutRow>,
    coverage: Vec<CoverageRow>,
    costs: Vec<Cost>,
    reproduce: Reproduce,
}

#[derive(Clone, Debug, Serialize)]
struct CaseRuns {
    name: String,
    table: Table,
    /// CPU time of each run by each way that it was measured; absent where no run has two of them.
    cpu: Option<Table>,
    notes: Vec<Note>,
    /// A fenced block with the command that repeats the case.
    reproduce: String,
    /// A fenced block with the command that was run.
    command: String,
}

/// What a run has to say besides its figures.
#[derive(Clone, Debug, Serialize)]
struct Note {
    run: u32,
    survivors: Option<String>,
    /// They were left running.
    left: bool,
    /// What else ran, where it was much.
    foreign: Option<String>,
    /// Tables that its record tells and its folder lacks.
    missing: Option<String>,
    events: Vec<String>,
    /// A fenced block.
    output: Option<String>,
}

/// A run that could not be read.
#[derive(Clone, Debug, Serialize)]
struct LeftOutRow {
    run: String,
    reason: String,
}

#[derive(Clone, Debug, Serialize)]
struct CoverageRow {
    metric: String,
    state: String,
    source: String,
    reason: String,
}

#[derive(Clone, Debug, Serialize)]
struct Cost {
    case: String,
    cpu: String,
    /// Of one core.
    share: String,
    memory: String,
    ticks: String,
    missed: String,
    late: String,
    journal: String,
    tables: String,
}

pub(super) fn build(context: &Context<'_>) -> Result<Appendix> {
    let summary = context.summary;
    Ok(Appendix {
        cases: summary.cases.iter().map(|case| case_runs(context, case)).collect::<Result<_>>()?,
        left_out: summary.left_out.iter().map(left_out).collect(),
        coverage: summary.coverage.iter().map(|entry| coverage(context, entry)).collect::<Result<_>>()?,
        costs: summary.cases.iter().map(|case| cost(context, case)).collect::<Result<_>>()?,
        reproduce: reproduce::build(context)?,
    })
}

fn case_runs(context: &Context<'_>, case: &CaseSummary) -> Result<CaseRuns> {
    Ok(CaseRuns {
        name: escape::text(&context.case_title(case)?),
        table: run_table(context, case)?,
        cpu: cpu_table(context, case)?,
        notes: case
            .runs
            .iter()
            .map(|run| note(context, case, run))
            .filter_map(Result::transpose)
            .collect::<Result<_>>()?,
        reproduce: escape::block(&reproduce::line(&context.summary.name, case), "sh"),
        command: escape::block(&reproduce::command(case), "sh"),
    })
}

fn run_table(context: &Context<'_>, case: &CaseSummary) -> Result<Table> {
    let header = ["run", "outcome.title", "started"].iter().map(|key| context.words.get(key).map(str::to_owned));
    let mut table = Table { header: header.collect::<Result<_>>()?, rows: Vec::new() };
    for run in &case.runs {
        table.rows.push(vec![run.run.to_string(), outcome(context, run.outcome)?, format::utc(run.started_unix_ns)]);
    }
    for metric in RUN_COLUMNS {
        let values: Vec<Option<f64>> = case.runs.iter().map(|run| run.values.get(&metric).copied()).collect();
        let Some(greatest) = values.iter().flatten().copied().reduce(f64::max) else { continue };
        let scale = Scale::of(metric.unit(), greatest);
        table.header.push(context.label(metric)?);
        for (row, value) in table.rows.iter_mut().zip(values) {
            row.push(value.map_or_else(|| ABSENT.to_owned(), |value| scale.text(value)));
        }
    }
    Ok(table)
}

/// The ways to a run's CPU time side by side, and how far apart they are.
fn cpu_table(context: &Context<'_>, case: &CaseSummary) -> Result<Option<Table>> {
    const KEYS: [&str; 5] = ["run", "cpu.clocks", "cpu.rusage", "cpu.group", "cpu.difference"];
    let header = KEYS.iter().map(|key| context.words.get(key).map(str::to_owned)).collect::<Result<_>>()?;
    let mut rows = Vec::new();
    let mut comparable = false;
    for run in &case.runs {
        let ways = [run.cpu.clocks_ns, run.cpu.rusage_ns(), run.cpu.cgroup_ns];
        let known: Vec<i64> = ways.into_iter().flatten().collect();
        let difference = known.iter().max().zip(known.iter().min()).filter(|_| known.len() > 1);
        comparable |= difference.is_some();
        let cells = ways.into_iter().chain([difference.map(|(greatest, least)| greatest.saturating_sub(*least))]);
        let cells = cells.map(|ns| ns.map_or_else(|| ABSENT.to_owned(), format::nanos));
        rows.push([run.run.to_string()].into_iter().chain(cells).collect());
    }
    Ok(comparable.then_some(Table { header, rows }))
}

/// How a run ended; anything but well stands out.
pub(super) fn outcome(context: &Context<'_>, outcome: Outcome) -> Result<String> {
    #[derive(Serialize)]
    struct Code {
        code: Option<i32>,
    }
    let key = match outcome {
        Outcome::OutOfMemory { exit_code: Some(_), .. } => "outcome.out_of_memory_told".to_owned(),
        other => format!("outcome.{}", other.word()),
    };
    let text = context.words.fill(&key, &Code { code: outcome.signal().or(outcome.exit_code()) })?;
    Ok(if outcome.is_finished() { text } else { format!("**{text}**") })
}

fn note(context: &Context<'_>, case: &CaseSummary, run: &RunSummary) -> Result<Option<Note>> {
    let foreign = foreign::of_run(context, case, run)?;
    let missing: Vec<String> = run.missing_tables.iter().map(|table| escape::code_cell(table)).collect();
    let is_silent = run.survivors.is_empty() && run.events.is_empty() && run.output_tail.is_empty();
    if foreign.is_none() && missing.is_empty() && is_silent {
        return Ok(None);
    }
    let survivors: Vec<String> = run.survivors.iter().map(|name| escape::code_cell(name)).collect();
    Ok(Some(Note {
        run: run.run,
        survivors: if survivors.is_empty() { None } else { Some(context.words.list(&survivors)?) },
        left: run.left_children,
        missing: if missing.is_empty() { None } else { Some(context.words.list(&missing)?) },
        foreign,
        events: run.events.iter().map(|event| escape::text(event)).collect(),
        output: (!run.output_tail.is_empty()).then(|| escape::block(&run.output_tail.join("\n"), "text")),
    }))
}

fn left_out(run: &LeftOut) -> LeftOutRow {
    LeftOutRow { run: escape::code_cell(&run.run), reason: escape::text(&run.reason) }
}

fn coverage(context: &Context<'_>, entry: &Coverage) -> Result<CoverageRow> {
    let state = match entry.state {
        CoverageState::Measured => "coverage.measured",
        CoverageState::Unsupported => "coverage.unsupported",
        CoverageState::Denied => "coverage.denied",
        CoverageState::Lost => "coverage.lost",
        CoverageState::Imported => "coverage.imported",
    };
    Ok(CoverageRow {
        metric: escape::code_cell(&entry.metric),
        state: context.words.get(state)?.to_owned(),
        source: escape::code_cell(&entry.source),
        reason: if entry.reason.is_empty() { ABSENT.to_owned() } else { escape::text(&entry.reason) },
    })
}

/// Sums and greatest values over the runs of a case.
fn cost(context: &Context<'_>, case: &CaseSummary) -> Result<Cost> {
    let each = || case.runs.iter().map(|run| run.recorder);
    let absent = || ABSENT.to_owned();
    let bytes = |bytes: u64| format::bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
    // A sum is one only where every run has its part.
    let total = |value: fn(RecorderCost) -> Option<u64>| each().map(value).sum::<Option<u64>>();
    let cpu: Option<Vec<i64>> = each().map(|cost| cost.cpu_ns).collect();
    Ok(Cost {
        case: escape::text(&context.case_title(case)?),
        cpu: cpu.map_or_else(absent, |spans| format::nanos(spans.into_iter().sum())),
        share: recorder_cores(case).map_or_else(absent, |cores| format::value(Unit::Ratio, cores)),
        memory: each().filter_map(|cost| cost.memory_peak_bytes).max().map_or_else(absent, format::bytes),
        ticks: total(|cost| cost.ticks).map_or_else(absent, format::count),
        missed: total(|cost| cost.missed_ticks).map_or_else(absent, format::count),
        late: each().filter_map(|cost| cost.late_max_ns).max().map_or_else(absent, format::nanos),
        journal: total(|cost| cost.journal_bytes).map_or_else(absent, bytes),
        tables: case.runs.iter().map(|run| run.tables_bytes).sum::<Option<u64>>().map_or_else(absent, bytes),
    })
}

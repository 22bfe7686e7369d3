//! What else ran: programs that are neither of the run nor the recorder.

use anyhow::Result;
use serde::Serialize;

use super::levels::Table;
use crate::aggregate::metric::{Metric, Unit};
use crate::aggregate::summary::{CaseSummary, ForeignProgram, RunSummary};
use crate::report::context::{Context, Wholes};
use crate::report::escape;
use crate::report::findings::FOREIGN_LOAD;
use crate::report::format::{self, ABSENT};

/// The workload that only waits: what runs beside it runs always.
const IDLE: &str = "idle";
/// Programs that a sentence names; each must have used a hundredth of a core.
const NAMED: usize = 3;
const NAMED_CORES: f64 = 0.01;

/// What runs when the machine idles.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Surplus {
    case: String,
    processes: String,
    table: Option<Table>,
}

/// Of every idle case whose runs looked at others.
pub(super) fn surplus(context: &Context<'_>) -> Result<Vec<Surplus>> {
    let idle = context.summary.cases.iter().filter(|case| case.workload == IDLE);
    idle.filter_map(|case| Some((case, case.metric(Metric::ForeignProcesses)?)))
        .map(|(case, processes)| {
            Ok(Surplus {
                case: escape::text(&context.case_title(case)?),
                processes: context.mean_and_range(processes)?,
                table: table(context, case)?,
            })
        })
        .collect()
}

fn table(context: &Context<'_>, case: &CaseSummary) -> Result<Option<Table>> {
    if case.foreign.is_empty() {
        return Ok(None);
    }
    let header = ["foreign.program", "foreign.cores", "foreign.memory"];
    let header = header.iter().map(|key| context.words.get(key).map(str::to_owned)).collect::<Result<_>>()?;
    let rows = case.foreign.iter().map(|program| {
        let memory = if program.memory_bytes > 0.0 {
            format::value(Unit::Bytes, program.memory_bytes)
        } else {
            ABSENT.to_owned()
        };
        vec![escape::code_cell(&program.name), format!("{:.3}", program.cores), memory]
    });
    Ok(Some(Table { header, rows: rows.collect() }))
}

/// The busiest programs with their cores' worth of CPU time, for a sentence; empty where there is none.
pub(super) fn in_words(context: &Context<'_>, programs: &[ForeignProgram]) -> Result<String> {
    #[derive(Serialize)]
    struct Program {
        name: String,
        cores: String,
    }
    let busy = programs.iter().filter(|program| program.cores >= NAMED_CORES).take(NAMED);
    let parts = busy.map(|program| {
        let program = Program { name: escape::code_cell(&program.name), cores: format!("{:.2}", program.cores) };
        context.words.fill("foreign.item", &program)
    });
    context.words.list(&parts.collect::<Result<Vec<_>>>()?)
}

/// What a run has to say of others, where they used so much that its time may be longer for it.
pub(super) fn of_run(context: &Context<'_>, case: &CaseSummary, run: &RunSummary) -> Result<Option<String>> {
    #[derive(Serialize)]
    struct Line {
        value: String,
        from: String,
        online: String,
        programs: String,
    }
    let Some(share) = run.values.get(&Metric::ForeignCpu).filter(|share| **share >= FOREIGN_LOAD) else {
        return Ok(None);
    };
    let line = Line {
        value: format::value(Unit::Ratio, *share),
        from: format::Scale { decimals: 0, ..format::Scale::of(Unit::Ratio, FOREIGN_LOAD) }.text(FOREIGN_LOAD),
        online: Wholes::of(&case.limits).online,
        programs: in_words(context, &run.foreign)?,
    };
    context.words.fill("foreign.run", &line).map(Some)
}

//! Runs that did not finish, as results of their own: how they ended and, where memory ran out, where.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::appendix;
use crate::aggregate::summary::{CaseSummary, Lack, RunSummary};
use crate::report::context::Context;
use crate::report::escape;
use crate::report::format;

/// One sentence for all runs that ended alike.
pub(super) fn of_case(context: &Context<'_>, case: &CaseSummary) -> Result<Vec<String>> {
    #[derive(Serialize)]
    struct Words {
        n: usize,
        runs: String,
        outcome: String,
        place: String,
    }
    let all = alike(case);
    let sentences = all.values().map(|runs| {
        let Some(first) = runs.first() else { return Ok(String::new()) };
        let numbers: Vec<String> = runs.iter().map(|run| run.run.to_string()).collect();
        let ending = Words {
            n: runs.len(),
            runs: context.words.list(&numbers)?,
            outcome: appendix::outcome(context, first.outcome)?,
            place: first.lack.as_ref().map(|lack| place(context, lack)).transpose()?.unwrap_or_default(),
        };
        context.words.fill("ending", &ending)
    });
    sentences.collect()
}

/// How a run ended: the word for it, exit code or signal, and where memory ran out.
type Ending<'a> = (&'static str, Option<i32>, Option<&'a Lack>);

/// Unfinished runs by how they ended, in the order of their words.
fn alike(case: &CaseSummary) -> BTreeMap<Ending<'_>, Vec<&RunSummary>> {
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for run in case.runs.iter().filter(|run| !run.outcome.is_finished()) {
        let code = run.outcome.exit_code().or(run.outcome.signal());
        all.entry((run.outcome.word(), code, run.lack.as_ref())).or_default().push(run);
    }
    all
}

/// Phase, step and bytes, as far as they are known.
pub(super) fn place(context: &Context<'_>, lack: &Lack) -> Result<String> {
    #[derive(Serialize)]
    struct Place {
        phase: String,
        step: String,
        bytes: String,
    }
    let place = Place {
        phase: escape::code_cell(&lack.phase),
        step: lack.step.map(format::count).unwrap_or_default(),
        bytes: lack.bytes.map(format::bytes).unwrap_or_default(),
    };
    context.words.fill("ending.place", &place)
}

//! Problems that were found here with what to do about them, and practices that the measurements speak for.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::advice;
use super::endings;
use super::finding::{self, FindingView};
use super::levels::Table;
use super::places::Places;
use crate::aggregate::summary::CaseSummary;
use crate::report::across::advice::Line;
use crate::report::checks;
use crate::report::context::Context;
use crate::report::escape;
use crate::report::findings;
use crate::trace::check::CheckState;
use crate::trace::run::Outcome;

/// Findings on runs that did not finish: how they ended says more.
const SAID_BY_ENDINGS: [&str; 3] = ["failed_runs", "cut_runs", "no_finished_run"];

#[derive(Clone, Debug, Serialize)]
pub(super) struct Problems {
    items: Vec<Problem>,
    /// Number of the part with the commands that mend what a check found.
    commands: String,
    /// Whether an item is of a check with commands.
    has_commands: bool,
    /// Runs of all cases, and checks, for where nothing was found.
    runs: usize,
    checks: usize,
    /// What | why | how.
    practices: Option<Table>,
}

#[derive(Clone, Debug, Serialize)]
struct Problem {
    sign: &'static str,
    title: String,
    text: String,
    /// What to do; empty where nobody knows.
    fix: String,
}

pub(super) fn build(
    context: &Context<'_>,
    practices: &[Line<'_>],
    places: &Places,
    commands: String,
) -> Result<Problems> {
    let summary = context.summary;
    let of_checks = of_checks(context)?;
    let has_commands = !of_checks.is_empty();
    let items = [of_checks, of_environment(context)?, of_runs(context, places)?, cautions(context, places)?].concat();
    Ok(Problems {
        items,
        commands,
        has_commands,
        runs: summary.cases.iter().map(|case| case.runs.len()).sum(),
        checks: summary.checks.iter().filter(|summary| summary.check.state == CheckState::Ok).count(),
        practices: table(context, practices, places)?,
    })
}

fn of_checks(context: &Context<'_>) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for summary in &context.summary.checks {
        let told = checks::tell(&context.words, &summary.check)?;
        if matches!(told.state, CheckState::Warning | CheckState::Failed) {
            problems.push(Problem {
                sign: checks::sign(told.state),
                title: escape::text(&told.title),
                text: escape::text(&told.text),
                fix: told.fix.unwrap_or_default(),
            });
        }
    }
    Ok(problems)
}

/// What concerns all cases.
fn of_environment(context: &Context<'_>) -> Result<Vec<Problem>> {
    let views = finding::of_environment(context)?;
    let found = findings::of_environment(context.summary).into_iter().zip(views);
    let problem = |(finding, view): (findings::Finding, FindingView)| Problem {
        sign: checks::sign(CheckState::Warning),
        title: capital(&view.short),
        text: view.text,
        fix: remedy_of(context, finding.rule.name),
    };
    Ok(found.filter(|(finding, _)| finding.rule.caution).map(problem).collect())
}

/// What to do about a finding; empty where nobody knows.
fn remedy_of(context: &Context<'_>, finding: &str) -> String {
    context.words.find(&format!("problem.{finding}.fix")).unwrap_or_default().to_owned()
}

/// Cases with runs that did not finish.
fn of_runs(context: &Context<'_>, places: &Places) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for case in &context.summary.cases {
        let endings = endings::of_case(context, case)?;
        if endings.is_empty() {
            continue;
        }
        problems.push(Problem {
            sign: if case.finished() > 0 {
                checks::sign(CheckState::Warning)
            } else {
                checks::sign(CheckState::Failed)
            },
            title: named(context, case, places)?,
            text: endings.join(context.words.get("sentences")?),
            fix: context.words.get(remedy(case))?.to_owned(),
        });
    }
    Ok(problems)
}

fn named(context: &Context<'_>, case: &CaseSummary, places: &Places) -> Result<String> {
    Ok(format!("{} {}", places.case(case), escape::text(&context.case_title(case)?)))
}

/// What to do about the worst way in which runs of a case ended.
fn remedy(case: &CaseSummary) -> &'static str {
    let any = |wanted: fn(Outcome) -> bool| case.runs.iter().any(|run| wanted(run.outcome));
    match () {
        () if any(|outcome| matches!(outcome, Outcome::OutOfMemory { .. })) => "problem.out_of_memory.fix",
        () if any(|outcome| matches!(outcome, Outcome::Failed { .. } | Outcome::Killed { .. })) => "problem.failed.fix",
        () => "problem.cut.fix",
    }
}

/// Findings that limit what figures may be used for, each with the cases that earned it.
fn cautions(context: &Context<'_>, places: &Places) -> Result<Vec<Problem>> {
    // In the order of the catalogue, which is that of each case's findings.
    let mut order = Vec::new();
    let mut found: BTreeMap<&str, (String, Vec<String>)> = BTreeMap::new();
    for case in &context.summary.cases {
        let views = finding::build(context, case)?;
        for (finding, view) in findings::of_case(context.summary, case).iter().zip(views) {
            let name = finding.rule.name;
            if !finding.rule.caution || SAID_BY_ENDINGS.contains(&name) {
                continue;
            }
            if !order.contains(&name) {
                order.push(name);
            }
            let title = if view.short.is_empty() { view.text } else { view.short };
            found.entry(name).or_insert((title, Vec::new())).1.push(places.case(case));
        }
    }
    let mut problems = Vec::new();
    for name in order {
        let Some((short, cases)) = found.remove(name) else { continue };
        problems.push(Problem {
            sign: checks::sign(CheckState::Warning),
            title: capital(&short),
            text: context.words.fill("problem.cases", &Cases { cases: context.words.list(&cases)? })?,
            fix: remedy_of(context, name),
        });
    }
    Ok(problems)
}

#[derive(Serialize)]
struct Cases {
    cases: String,
}

/// Begins a sentence.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn table(context: &Context<'_>, practices: &[Line<'_>], places: &Places) -> Result<Option<Table>> {
    const COLUMNS: [&str; 3] = ["what", "why", "how"];
    if practices.is_empty() {
        return Ok(None);
    }
    let header = COLUMNS.iter().map(|column| context.words.get(&format!("practice.{column}")).map(str::to_owned));
    let mut rows = Vec::new();
    for line in practices {
        let key = |column: &str| format!("practice.{}.{column}", line.name);
        rows.push(vec![
            advice::text(context, &key("what"), line)?,
            advice::cited(context, &key("why"), line, places)?,
            advice::text(context, &key("how"), line)?,
        ]);
    }
    Ok(Some(Table { header: header.collect::<Result<_>>()?, rows }))
}

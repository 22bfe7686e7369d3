//! `shice render`: traces -> summaries -> reports -> site.

use std::path::Path;

use anyhow::{Result, bail};

use crate::aggregate;
use crate::aggregate::summary::EnvironmentSummary;
use crate::console;
use crate::report::language::Language;
use crate::report::{self, Report};
use crate::site;
use crate::trace::open::and_others;
use crate::trace::{Environment, Trace};

/// Writes the site of all environments in a folder of traces. What cannot be read is left out with a line on standard
/// error, and takes nothing else with it; whoever wants to be stopped by it runs `shice verify`.
///
/// # Errors
/// The folder holds no run that can be read, or the site cannot be written; what and where is named. Nothing is written
/// then.
pub fn run(traces: &Path, out: &Path) -> Result<u8> {
    let trace = Trace::open(traces)?;
    let (mut summaries, mut lines) = (Vec::new(), Vec::new());
    lines.extend(trace.damaged.iter().map(|damaged| damaged.reason.clone()));
    for environment in &trace.environments {
        match summarise(environment, &mut lines) {
            Ok(summary) => summaries.push(summary),
            Err(error) => lines.push(format!("{error:#}")),
        }
    }
    if let ([], [first, others @ ..]) = (summaries.as_slice(), lines.as_slice()) {
        bail!("{first}{}", and_others(others.len()));
    }
    for run in &trace.recording {
        console::say(&format!("left out, because it is being recorded: {}", run.display()));
    }
    for line in lines {
        console::say(&format!("left out: {line}"));
    }
    let reports = summaries.iter().map(write_reports).collect::<Result<Vec<_>>>()?.concat();
    site::write(out, &reports)?;
    let index = out.join("index.html");
    console::say(&format!("{} environment(s) rendered; open {}", summaries.len(), index.display()));
    Ok(0)
}

/// Sums up an environment; each of its runs that is left out becomes a line.
fn summarise(environment: &Environment, lines: &mut Vec<String>) -> Result<EnvironmentSummary> {
    let summary = aggregate::summarise(environment)?;
    // With the place where it lies here, which the summary does not have.
    let (anywhere, here) = (format!("environment={}", environment.slug), environment.dir.display().to_string());
    lines.extend(summary.left_out.iter().map(|run| run.reason.replace(&anywhere, &here)));
    for run in &environment.runs {
        let missing =
            |table: &String| format!("the table {table} of the run in {}, which is missing", run.dir.display());
        lines.extend(run.missing_tables().iter().map(missing));
    }
    Ok(summary)
}

fn write_reports(summary: &EnvironmentSummary) -> Result<Vec<Report>> {
    Language::ALL.iter().map(|language| report::write_environment(summary, *language)).collect()
}

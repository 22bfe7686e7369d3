//! `shice render`: traces -> summaries -> reports -> site.

use std::path::Path;

use anyhow::Result;

use crate::aggregate;
use crate::console;
use crate::report::language::Language;
use crate::report::{self, Report};
use crate::site;
use crate::trace::{Environment, Trace};

/// Writes the site of all environments in a folder of traces; nothing is written unless all of them can be read.
///
/// # Errors
/// The folder holds no trace, a trace is damaged, or the site cannot be written; what and where is named.
pub fn run(traces: &Path, out: &Path) -> Result<u8> {
    let trace = Trace::open(traces)?;
    for run in &trace.recording {
        console::say(&format!("left out, because it is being recorded: {}", run.display()));
    }
    let mut reports = Vec::new();
    for environment in &trace.environments {
        reports.extend(write_reports(environment)?);
    }
    site::write(out, &reports)?;
    let index = out.join("index.html");
    console::say(&format!("{} environment(s) rendered; open {}", trace.environments.len(), index.display()));
    Ok(0)
}

fn write_reports(environment: &Environment) -> Result<Vec<Report>> {
    let summary = aggregate::summarise(environment)?;
    Language::ALL.iter().map(|language| report::write_environment(&summary, *language)).collect()
}

//! `shice render`: traces -> summaries -> reports -> site.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{browser, check};
use crate::aggregate;
use crate::aggregate::summary::EnvironmentSummary;
use crate::console;
use crate::files;
use crate::report::chart::boxed;
use crate::report::escape::MISSING;
use crate::report::language::Language;
use crate::report::{self, Beside, data};
use crate::site::{self, Raw};
use crate::trace::open::and_others;
use crate::trace::{Environment, Trace};

/// Standard output, where a folder would stand.
const STANDARD_OUTPUT: &str = "-";

/// What to render, and into what.
#[derive(Clone, Debug)]
pub struct Request {
    pub traces: PathBuf,
    pub out: PathBuf,
    pub form: Form,
    /// Show it in the browser.
    pub open: bool,
}

/// What is written.
#[derive(Clone, Debug)]
pub enum Form {
    Site {
        /// With a copy of the raw traces.
        with_traces: bool,
        /// Its address in the web, with a slash at its end.
        address: Option<String>,
    },
    /// Pages that stand alone.
    SingleFile,
    /// Data for other programs.
    Json,
}

/// Renders all environments in a folder of traces. What cannot be read is left out with a line on standard error, and takes
/// nothing else with it; whoever wants to be stopped by it runs `shice verify`.
///
/// # Errors
/// The folder holds no run that can be read, or what is rendered cannot be written or shown; what and where is named. Nothing
/// is written where nothing can be read.
pub fn run(request: &Request) -> Result<u8> {
    if request.out == Path::new(STANDARD_OUTPUT) && !matches!(request.form, Form::Json) {
        bail!("pages go into a folder; only --format json can be written to standard output (--out -)");
    }
    let trace = Trace::open(&request.traces)?;
    let summaries = summarise_all(&trace)?;
    if !matches!(request.form, Form::Json) {
        summaries.iter().flat_map(|(_, summary)| &summary.cases).for_each(|case| warn_of_boxes(&case.name));
    }
    let shown = match &request.form {
        Form::Json => return write_json(&request.out, &summaries),
        Form::SingleFile => write_alone(&request.out, &summaries)?,
        Form::Site { with_traces, address } => {
            let environments = summaries.iter().map(|(environment, summary)| {
                let files = environment.files();
                let raw = if *with_traces {
                    Some(Raw::copied(&environment.slug, &environment.dir, &files))
                } else {
                    Raw::beside(&request.out, &environment.dir, &files)
                };
                of_environment(summary, raw)
            });
            site::write(&request.out, &environments.collect::<Result<Vec<_>>>()?, address.as_deref())?;
            request.out.join(site::INDEX)
        }
    };
    console::say(&format!("{} environment(s) rendered; open {}", summaries.len(), shown.display()));
    if request.open {
        browser::open(&shown)?;
    }
    Ok(0)
}

/// Sums up what can be read, and says what cannot.
fn summarise_all(trace: &Trace) -> Result<Vec<(&Environment, EnvironmentSummary)>> {
    let (mut summaries, mut lines) = (Vec::new(), Vec::new());
    lines.extend(trace.damaged.iter().map(|damaged| damaged.reason.clone()));
    for environment in &trace.environments {
        match summarise(environment, &mut lines) {
            Ok(summary) => summaries.push((environment, summary)),
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
    Ok(summaries)
}

/// Pages show every character that the reader's fonts have; charts, of those of users, only what the bundled font has.
fn warn_of_boxes(case: &str) {
    let missing = boxed(case).into_iter().map(|c| format!("{c} (U+{:04X})", u32::from(c))).collect::<Vec<_>>();
    if !missing.is_empty() {
        console::say(&format!(
            "charts of the case {case:?} show {MISSING} in place of {}, which their font lacks; name it otherwise to have \
             it in them",
            missing.join(", ")
        ));
    }
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

/// A report in each language with links to what lies beside it, and the data.
fn of_environment(summary: &EnvironmentSummary, raw: Option<Raw>) -> Result<site::Environment> {
    let raw_address = raw.as_ref().map(|raw| raw.address().to_owned());
    let beside = Beside { runs: site::RUNS, document: site::DOCUMENT, raw: raw_address };
    let reports = Language::ALL.iter().map(|language| report::write_with_links(summary, *language, &beside));
    Ok(site::Environment { reports: reports.collect::<Result<_>>()?, data: data::of_environment(summary)?, raw })
}

/// Pages that stand alone; returns the one to show.
fn write_alone(out: &Path, summaries: &[(&Environment, EnvironmentSummary)]) -> Result<PathBuf> {
    let alone = |summary: &EnvironmentSummary| -> Result<site::Environment> {
        let reports = Language::ALL.iter().map(|language| report::write_environment(summary, *language));
        Ok(site::Environment {
            reports: reports.collect::<Result<_>>()?,
            data: data::of_environment(summary)?,
            raw: None,
        })
    };
    let environments = summaries.iter().map(|(_, summary)| alone(summary)).collect::<Result<Vec<_>>>()?;
    let pages = site::write_alone(out, &environments)?;
    let own = Language::ALL.iter().position(|language| *language == check::language_of_locale());
    own.and_then(|at| pages.get(at)).cloned().context("there is nothing to show")
}

/// One document on standard output, or one a folder.
fn write_json(out: &Path, summaries: &[(&Environment, EnvironmentSummary)]) -> Result<u8> {
    if out == Path::new(STANDARD_OUTPUT) {
        let text = data::document(summaries.iter().map(|(_, summary)| summary))?;
        std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?;
        return Ok(0);
    }
    for (environment, summary) in summaries {
        let folder = out.join(&environment.slug);
        files::create_dir(&folder)?;
        files::write(&folder.join(site::DOCUMENT), data::document([summary])?.as_bytes())?;
    }
    console::say(&format!("{} environment(s) written as {} below {}", summaries.len(), site::DOCUMENT, out.display()));
    Ok(0)
}

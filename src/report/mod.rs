//! Summaries -> findings, views, charts and Markdown, in both languages from the same values.
//!
//! ```text
//! EnvironmentSummary -> findings (rules over values)  -> view (ready strings) -> template -> Markdown
//!                    -> chart (SVG, PNG) ------------------^      words (catalogue of a language) ^
//! ```
//!
//! [`write_environment`] is the way in. Nothing here reads a trace, a clock or a file: the same summary gives the same
//! report, byte for byte. All prose stands in `templates/zh` and `templates/en`, in pairs.

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::aggregate::summary::{CaseSummary, EnvironmentSummary};

mod across;
pub mod chart;
pub mod checks;
mod context;
pub mod data;
pub(crate) mod escape;
mod findings;
mod format;
pub mod language;
pub(crate) mod template;
mod view;
pub mod words;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

use chart::Chart;
use context::Context;
use language::Language;
use words::Words;

/// What lies beside a report in its site.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// Name of the table of runs.
    pub runs: &'static str,
    /// Name of the report for programs.
    pub document: &'static str,
    /// Address of the environment's folder of raw traces; none where nothing leads there.
    pub raw: Option<String>,
}

/// A report of one environment in one language.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of the environment; names the folder of the report.
    pub slug: String,
    pub language: Language,
    /// As Markdown.
    pub title: String,
    /// The sentence on top, as Markdown; absent where no run finished.
    pub headline: Option<String>,
    pub markdown: String,
    /// Slugs and names of its cases, as plain text.
    pub cases: Vec<(String, String)>,
    /// In the order in which they appear.
    pub charts: Vec<Chart>,
    /// Labels and values for an index of environments, as plain text.
    pub key_figures: Vec<(String, String)>,
}

/// Writes the report of an environment that stands alone: it leads to no file but its charts.
///
/// # Errors
/// A template or catalogue is faulty, or a chart cannot be drawn; what and where is named.
pub fn write_environment(summary: &EnvironmentSummary, language: Language) -> Result<Report> {
    write(summary, language, None)
}

/// Writes the report of an environment with links to what lies beside it in a site.
///
/// # Errors
/// As [`write_environment`].
pub fn write_with_links(summary: &EnvironmentSummary, language: Language, beside: &Beside) -> Result<Report> {
    write(summary, language, Some(beside))
}

fn write(summary: &EnvironmentSummary, language: Language, beside: Option<&Beside>) -> Result<Report> {
    let context = Context { summary, words: Words::of(language)?, beside };
    let report = || -> Result<Report> {
        let (view, charts) = view::build(&context)?;
        Ok(Report {
            slug: summary.slug.clone(),
            language,
            markdown: template::render(&format!("{}/report.md", language.key()), &view)?,
            title: view.title,
            headline: view.headline,
            cases: summary.cases.iter().map(|case| name(&context, case)).collect::<Result<_>>()?,
            charts,
            key_figures: view::key_figures(&context)?,
        })
    };
    report().with_context(|| format!("cannot write the report of the environment {:?}", summary.name))
}

fn name(context: &Context<'_>, case: &CaseSummary) -> Result<(String, String)> {
    Ok((case.slug.clone(), escape::line(&context.case_title(case)?)))
}

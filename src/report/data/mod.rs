//! What programs read of an environment: one document of JSON and a table of its runs. The same in every language, with
//! numbers as they were computed, never rounded.

use anyhow::Result;

use super::escape;
use crate::aggregate::summary::EnvironmentSummary;

pub(crate) mod csv;
mod json;
mod moment;
mod runs;

pub use json::document;
pub(crate) use moment::rfc3339;

/// An environment for programs.
#[derive(Clone, Debug)]
pub struct Data {
    pub slug: String,
    /// Its name, for pages.
    pub name: String,
    /// When the newest run began; RFC 3339.
    pub updated: String,
    /// A row a run, as CSV.
    pub runs: String,
    /// The whole, as JSON.
    pub document: String,
}

/// Writes down an environment for programs.
///
/// # Errors
/// It cannot be put into JSON.
pub fn of_environment(summary: &EnvironmentSummary) -> Result<Data> {
    let started = summary.cases.iter().flat_map(|case| &case.runs).map(|run| run.started_unix_ns);
    Ok(Data {
        slug: summary.slug.clone(),
        name: escape::line(&summary.name),
        updated: rfc3339(started.max().unwrap_or_default()),
        runs: runs::table(summary),
        document: document([summary])?,
    })
}

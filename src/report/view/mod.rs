//! What templates are filled with: strings that are ready to print, escaped for Markdown. Templates do no arithmetic.

use anyhow::Result;
use serde::Serialize;

use super::chart::Chart;
use super::context::Context;
use super::{escape, format};
use crate::aggregate::summary::EnvironmentSummary;

mod appendix;
mod case;
mod charts;
mod finding;
mod foreign;
mod headline;
mod levels;
mod method;

use appendix::Appendix;
use case::CaseView;
use foreign::Surplus;
pub(crate) use headline::key_figures;
use levels::Table;
use method::Method;

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReportView {
    pub(crate) title: String,
    /// The sentence on top; absent where no run finished.
    headline: Option<String>,
    section: Sections,
    name: String,
    components: Vec<Row>,
    limits: Limits,
    method: Method,
    gpu: Vec<CaseView>,
    /// Why there is no GPU section, as the ledger has it.
    no_gpu: Vec<String>,
    cpu: Vec<CaseView>,
    levels: Option<Table>,
    /// What else runs when the machine idles.
    surplus: Vec<Surplus>,
    summaries: Vec<CaseSentence>,
    appendix: Appendix,
}

/// Numbers of the sections: consecutive, whatever is left out.
#[derive(Clone, Debug, Serialize)]
struct Sections {
    environment: usize,
    method: usize,
    gpu: usize,
    cpu: usize,
    levels: usize,
    summary: usize,
    appendix: usize,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    label: String,
    value: String,
}

#[derive(Clone, Debug, Serialize)]
struct Limits {
    cores: String,
    cores_online: String,
    memory: String,
    memory_total: String,
    /// Number of different machines or software states; absent where all runs had one.
    fingerprints: Option<String>,
}

/// A case in one sentence, and what has to be known before it is used.
#[derive(Clone, Debug, Serialize)]
struct CaseSentence {
    sentence: String,
    cautions: Vec<String>,
}

/// Builds the view of a report and draws its charts.
///
/// # Errors
/// A phrase is missing, or a chart cannot be drawn.
pub(crate) fn build(context: &Context<'_>) -> Result<(ReportView, Vec<Chart>)> {
    let summary = context.summary;
    let mut charts = Vec::new();
    let (on_gpu, on_cpu): (Vec<_>, Vec<_>) = summary.cases.iter().partition(|case| case.uses_gpu());
    let levels = levels::build(context)?;
    let section = sections(levels.is_some());
    let view = ReportView {
        title: context.words.fill("title", &Row { label: String::new(), value: escape::text(&summary.name) })?,
        headline: headline::of_environment(context)?,
        name: escape::text(&summary.name),
        components: components(context)?,
        limits: limits(summary),
        method: method::build(context)?,
        no_gpu: case::no_gpu_reasons(context),
        gpu: case::build_all(context, &on_gpu, section.gpu, &mut charts)?,
        cpu: case::build_all(context, &on_cpu, section.cpu, &mut charts)?,
        levels,
        surplus: foreign::surplus(context)?,
        summaries: summary.cases.iter().map(|case| headline::of_case(context, case)).collect::<Result<_>>()?,
        appendix: appendix::build(context)?,
        section,
    };
    Ok((view, charts))
}

fn sections(levels: bool) -> Sections {
    let summary = if levels { 6 } else { 5 };
    Sections { environment: 1, method: 2, gpu: 3, cpu: 4, levels: 5, summary, appendix: summary + 1 }
}

/// The component table: the fingerprint, without the limits, which have a sentence of their own.
fn components(context: &Context<'_>) -> Result<Vec<Row>> {
    const LIMITS: [&str; 4] = ["cores_online", "cpu_limit_cores", "memory_limit_bytes", "memory_total_bytes"];
    let mut rows = Vec::new();
    for (key, value) in &context.summary.fingerprint {
        if !LIMITS.contains(&key.as_str()) {
            let label = context.words.find(&format!("component.{key}"));
            rows.push(Row {
                label: label.map_or_else(|| escape::code_cell(key), str::to_owned),
                value: context.component(key, value)?,
            });
        }
    }
    // In the order of the catalogue's keys a page would begin with the architecture; readers look for the system first.
    const FIRST: [&str; 4] = ["os", "kernel", "architecture", "cpu_model"];
    let place = |row: &Row| {
        FIRST
            .iter()
            .position(|key| context.words.find(&format!("component.{key}")) == Some(row.label.as_str()))
            .unwrap_or(FIRST.len())
    };
    rows.sort_by_key(place);
    if !context.summary.libraries.is_empty() {
        let libraries: Vec<String> =
            context.summary.libraries.iter().map(|library| escape::code_cell(library)).collect();
        rows.push(Row {
            label: context.words.get("component.libraries")?.to_owned(),
            value: context.words.list(&libraries)?,
        });
    }
    Ok(rows)
}

fn limits(summary: &EnvironmentSummary) -> Limits {
    let limits = summary.limits;
    Limits {
        cores: format::plain(limits.cpu_cores),
        cores_online: limits.cores_online.to_string(),
        memory: format::bytes(limits.memory_bytes),
        memory_total: format::bytes(limits.memory_total_bytes),
        fingerprints: (summary.fingerprints > 1).then(|| summary.fingerprints.to_string()),
    }
}

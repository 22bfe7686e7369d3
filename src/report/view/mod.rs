//! What templates are filled with: strings that are ready to print, escaped for Markdown. Templates do no arithmetic.

use anyhow::Result;
use serde::Serialize;

use super::across::advice::{Ground, advice as advise};
use super::across::devices::pairs as devices_of;
use super::across::practices::practices;
use super::across::{strengths, sweeps};
use super::chart::Chart;
use super::context::Context;
use super::{checks, escape};
use crate::trace::check::CheckState;

mod advice;
mod appendix;
mod case;
mod chain;
mod charts;
mod devices;
mod endings;
mod environment;
mod finding;
mod foreign;
mod groups;
mod headline;
mod levels;
mod method;
mod places;
mod problems;
mod ratio;
mod reproduce;
mod summary;
mod sweep;

use advice::AdviceView;
use appendix::Appendix;
use case::CaseView;
use chain::Launch;
use charts::ChartView;
use environment::{Limits, Readiness};
use finding::FindingView;
use foreign::Surplus;
pub(crate) use headline::key_figures;
use levels::Table;
use method::Method;
use places::Places;
use problems::Problems;
use summary::Summary;
use sweep::SweepView;

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReportView {
    pub(crate) title: String,
    /// The sentence on top; absent where no run finished.
    pub(crate) headline: Option<String>,
    /// What has to be known of all runs before any figure is used.
    cautions: Vec<FindingView>,
    section: Sections,
    name: String,
    components: Vec<Row>,
    limits: Limits,
    /// From the command down to the chip, as a fenced block; absent where it was not seen.
    chain: Option<String>,
    /// Whether a link of it was checked and found in order.
    chain_checked: bool,
    /// How containers were launched.
    launches: Vec<Launch>,
    /// Numbers of the environment's parts.
    sub: Parts,
    /// Whether the environment was ready; absent where no run tells.
    readiness: Option<Readiness>,
    method: Method,
    gpu: Vec<CaseView>,
    /// Why there is no GPU section, as the ledger has it.
    no_gpu: Vec<String>,
    cpu: Vec<CaseView>,
    levels: Option<Table>,
    levels_chart: Option<ChartView>,
    /// The same work on both devices.
    devices_chart: Option<ChartView>,
    /// What settings did.
    sweep_charts: Vec<ChartView>,
    /// Whether the table of levels has columns above an idle case.
    baseline: bool,
    /// Settings that were tried.
    sweeps: Vec<SweepView>,
    /// What else runs when the machine idles.
    surplus: Vec<Surplus>,
    /// By scenario.
    advice: Vec<AdviceView>,
    problems: Problems,
    summary: Summary,
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
    /// Of the part on settings that were tried.
    settings: String,
    advice: usize,
    problems: usize,
    summary: usize,
    appendix: usize,
}

/// Numbers of the parts of the first section after its component table: consecutive, whatever is left out.
#[derive(Clone, Debug, Serialize)]
struct Parts {
    chain: usize,
    launch: usize,
    readiness: usize,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    label: String,
    value: String,
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
    let levels_drawn = charts::levels(context)?;
    let devices_drawn = charts::gpu_against_cpu(context)?;
    let sweeps_drawn = charts::sweeps(context)?;
    let sweeps = sweeps::sweeps(summary);
    let pairs = devices_of(summary);
    let ground = Ground { summary, sweeps: &sweeps, pairs: &pairs };
    let given = advise(&ground);
    let section = sections(levels.is_some(), !sweeps.is_empty());
    let of_sweeps = sweep::places(context, &sweeps, &section.settings)?;
    let places = Places::of(context, section.gpu, section.cpu, of_sweeps)?;
    let (chain, launches) = (chain::chain(context)?, chain::launches(context)?);
    let sub = parts(chain.is_some(), !launches.is_empty());
    let commands = format!("{}.{}", section.environment, sub.readiness);
    let view = ReportView {
        title: context.words.fill("title", &Row { label: String::new(), value: escape::text(&summary.name) })?,
        headline: headline::of_environment(context)?,
        cautions: finding::of_environment(context)?,
        name: escape::text(&summary.name),
        components: environment::components(context)?,
        limits: environment::limits(summary),
        readiness: environment::readiness(context)?,
        chain_checked: chain.as_ref().is_some_and(|chain| chain.contains(checks::sign(CheckState::Ok))),
        sub,
        chain,
        launches,
        method: method::build(context)?,
        no_gpu: case::no_gpu_reasons(context),
        gpu: case::build_all(context, &on_gpu, section.gpu, &mut charts)?,
        cpu: case::build_all(context, &on_cpu, section.cpu, &mut charts)?,
        baseline: levels::has_baseline(context),
        sweeps: sweep::build(context, &sweeps, &places.sweeps)?,
        levels,
        levels_chart: levels_drawn.as_ref().map(charts::view),
        devices_chart: devices_drawn.as_ref().map(charts::view),
        sweep_charts: sweeps_drawn.iter().map(charts::view).collect(),
        surplus: foreign::surplus(context)?,
        advice: advice::build(context, &given, &places)?,
        problems: problems::build(context, &practices(&ground), &places, commands)?,
        summary: summary::build(
            context,
            &strengths::fits(&ground),
            &strengths::strengths(&ground),
            &given,
            section.advice,
            &places,
        )?,
        appendix: appendix::build(context)?,
        section,
    };
    charts.extend(devices_drawn.into_iter().chain(levels_drawn).chain(sweeps_drawn));
    Ok((view, charts))
}

fn parts(chain: bool, launch: bool) -> Parts {
    let after = |part: usize, there: bool| part + usize::from(there);
    let (chain_at, launch_at) = (2, after(2, chain));
    Parts { chain: chain_at, launch: launch_at, readiness: after(launch_at, launch) }
}

fn sections(levels: bool, sweeps: bool) -> Sections {
    let advice = if levels || sweeps { 6 } else { 5 };
    let settings = format!("5.{}", if levels { 2 } else { 1 });
    let (problems, summary, appendix) = (advice + 1, advice + 2, advice + 3);
    Sections { environment: 1, method: 2, gpu: 3, cpu: 4, levels: 5, settings, advice, problems, summary, appendix }
}

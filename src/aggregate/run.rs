//! Sums up one run.

use anyhow::{Context, Result, bail};

use super::figures::Figures;
use super::metric::Metric;
use super::statistics::quantile;
use super::steps::StepClock;
use super::summary::Quantity;
use super::windows::WINDOW_NS;
use super::{cgroup, foreign, gpu, host, memory, processes, steps};
use crate::trace::plausible::contradictions;
use crate::trace::tables::{Cgroup, Core, Foreign, Gpu, Host, Memory, Process, ProcessSample, Step};
use crate::trace::unharmed::unharmed;
use crate::trace::{Run, RunRecord};

/// Works out all figures of a run. What it has no table or no values for stays absent.
///
/// # Errors
/// A table cannot be read, or what the record tells contradicts itself; the run's folder is named.
pub(super) fn figures(run: &Run) -> Result<Figures> {
    unharmed(|| measure(run)).with_context(|| {
        format!("cannot sum up the run in {} (`shice verify` names all that is wrong)", run.dir.display())
    })
}

fn measure(run: &Run) -> Result<Figures> {
    let record = &run.record;
    let contradictions = contradictions(record);
    if !contradictions.is_empty() {
        bail!("run.json tells what cannot be: {}", contradictions.join(", "));
    }
    let mut figures = Figures::default();
    if let Some(table) = run.scan::<Host>()? {
        host::host(table, record, &mut figures)?;
    }
    if let Some(table) = run.scan::<Core>()? {
        host::cores(table, record, &mut figures)?;
    }
    if let Some(samples) = run.scan::<ProcessSample>()? {
        let known = run.scan::<Process>()?.map(processes::known).transpose()?.unwrap_or_default();
        processes::tree(samples, &known, record, &mut figures)?;
    }
    if let Some(table) = run.scan::<Cgroup>()? {
        cgroup::group(table, record, &mut figures)?;
    }
    if let Some(table) = run.scan::<Memory>()? {
        memory::pss(table, record, &mut figures)?;
    }
    if let Some(table) = run.scan::<Foreign>()? {
        foreign::programs(table, record, &mut figures)?;
    }
    if let Some(table) = run.scan::<Gpu>()? {
        gpu::gpus(table, record, &mut figures)?;
    }
    if let Some(table) = run.scan::<Step>()? {
        steps::steps(table, StepClock::told(&record.effective), &mut figures)?;
    }
    cut(record, &mut figures);
    totals(record, &mut figures);
    Ok(figures)
}

/// Leaves out windows that reach beyond the run: processes that outlived the root are still read while they are ended.
fn cut(record: &RunRecord, figures: &mut Figures) {
    let Some(duration_ns) = record.duration_ns else { return };
    for windows in figures.windows.values_mut() {
        windows.retain(|k, _| (k + 1).saturating_mul(WINDOW_NS) <= duration_ns);
    }
    figures.windows.retain(|_, windows| !windows.is_empty());
}

/// Figures of the run record, and those that rest on windows. A run that was cut has no duration, and so no share of
/// it either.
fn totals(record: &RunRecord, figures: &mut Figures) {
    let seconds = |ns: i64| ns as f64 / 1e9;
    let duration = record.duration_ns.map(seconds);
    let cpu = record.cpu.best_ns().map(seconds);
    let allowed = duration.zip(record.limits.cpu_cores).map(|(duration, cores)| duration * cores);
    let usage = cpu.zip(allowed).map(|(cpu, allowed)| cpu / allowed);
    figures.set(Metric::Duration, duration);
    figures.set(Metric::CpuTime, cpu);
    figures.set(Metric::CpuUsage, usage);
    if let Some(windows) = figures.windows.get(&Quantity::RunCpu) {
        let mut shares: Vec<f64> = windows.values().copied().collect();
        figures.set(Metric::CpuUsageMax, quantile(&mut shares, 1.0));
        // Of fewer windows the percentile would be the maximum by another name.
        if shares.len() >= 20 {
            figures.set(Metric::CpuUsageP95, quantile(&mut shares, 0.95));
        }
    }
}

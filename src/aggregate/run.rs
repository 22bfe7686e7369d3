//! Sums up one run.

use anyhow::{Context, Result, bail};

use super::figures::Figures;
use super::metric::Metric;
use super::steps::StepClock;
use super::summary::Quantity;
use super::{cgroup, foreign, gpu, host, memory, pressure, processes, steps, trend};
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
    if let Some(table) = run.groups::<Host>()? {
        host::host(table, record, &mut figures)?;
    }
    if let Some(table) = run.groups::<Host>()? {
        pressure::host(table, &mut figures)?;
    }
    if let Some(table) = run.groups::<Core>()? {
        host::cores(table, record, &mut figures)?;
    }
    if let Some(samples) = run.groups::<ProcessSample>()? {
        let known = run.scan::<Process>()?.map(processes::known).transpose()?.unwrap_or_default();
        processes::tree(samples, &known, record, &mut figures)?;
    }
    if let Some(table) = run.groups::<Cgroup>()? {
        cgroup::group(table, record, &mut figures)?;
    }
    if let Some(table) = run.groups::<Cgroup>()? {
        pressure::quota(table, &mut figures)?;
    }
    if let Some(table) = run.groups::<Memory>()? {
        memory::pss(table, record, &mut figures)?;
    }
    if let Some(table) = run.scan::<Foreign>()? {
        foreign::programs(table, record, &mut figures)?;
    }
    if let Some(table) = run.groups::<Gpu>()? {
        gpu::gpus(table, record, &mut figures)?;
    }
    if let Some(table) = run.groups::<Step>()? {
        steps::steps(table, StepClock::told(&record.effective), &mut figures)?;
    }
    trend::trends(record, &mut figures);
    totals(record, &mut figures);
    Ok(figures)
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
    for (energy, of_sample) in
        [(Metric::CpuEnergy, Metric::CpuEnergyPerSample), (Metric::GpuEnergy, Metric::GpuEnergyPerSample)]
    {
        let joules = figures.values.get(&energy).copied();
        figures.set(of_sample, joules.zip(figures.samples).map(|(joules, samples)| joules / samples));
    }
    if let Some(windows) = figures.windows.get(&Quantity::RunCpu) {
        // Of fewer windows the percentile would be the maximum by another name.
        let p95 = windows.quantile(0.95).filter(|_| windows.len() >= 20);
        let max = windows.max();
        figures.set(Metric::CpuUsageMax, max);
        figures.set(Metric::CpuUsageP95, p95);
    }
}

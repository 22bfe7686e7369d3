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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::testing::{Recorded, SECOND, record, store, ticks};

    const MIB: i64 = 1024 * 1024;

    /// 40 s of which 36 are steps of 1 s with 8 samples each, of a process that takes 1 MiB more each second. The CPU takes
    /// 2 W, a quarter of the time some task waits for it, and the quota cuts three of ten periods short.
    fn store_training(run: &Run) {
        let second = |t: i64| t * SECOND;
        let sample = |t_ns: i64| ProcessSample {
            t_ns,
            rss_bytes: Some(1000 * MIB + t_ns / SECOND * MIB),
            ..ProcessSample::default()
        };
        let host = |t: i64| Host {
            t_ns: second(t),
            cpu_energy_mj: Some(5000 + 2000 * t),
            pressure_cpu_ns: Some(second(t) / 4),
            ..Host::default()
        };
        let group = |t: i64| Cgroup {
            t_ns: second(t),
            periods: Some(10 * t),
            throttled_periods: Some(3 * t),
            ..Cgroup::default()
        };
        let phase = |t: i64, name: &str| Step {
            t_ns: second(t),
            kind: "phase".into(),
            phase: Some(name.into()),
            ..Step::default()
        };
        let step = |t: i64| Step {
            t_ns: second(t),
            kind: "step".into(),
            phase: Some("train".into()),
            samples: Some(8),
            ..Step::default()
        };
        store(run, ticks(SECOND / 10, second(40)).map(sample));
        store(run, (0..=40).map(host));
        store(run, (0..=40).map(group));
        store(run, [phase(2, "train")].into_iter().chain((3..=38).map(step)).chain([phase(39, "end")]));
    }

    #[test]
    fn figures_that_rest_on_several_tables_come_from_a_recorded_run() {
        let mut recorded = Recorded::new();
        let run = recorded.run("a", RunRecord { duration_ns: Some(40 * SECOND), ..record() });
        store_training(run);
        let values = figures(run).unwrap().values;
        // By hand: windows 5 to 37 lie between the third step's end and the last one's, 32 s apart; 80 J over 288 samples.
        for (metric, right) in [
            (Metric::MemoryTrend, MIB as f64),
            (Metric::MemoryTrendLate, MIB as f64),
            (Metric::MemoryGrowth, 32.0 * MIB as f64),
            (Metric::CpuEnergyPerSample, 80.0 / 288.0),
            (Metric::CpuPressure, 0.25),
            (Metric::CpuThrottled, 0.3),
            (Metric::StepVariation, 0.0),
            (Metric::WarmUpSteps, 0.0),
        ] {
            let value = values[&metric];
            assert!((value - right).abs() <= 1e-6 * right.max(1.0), "{metric:?}: {value} {right}");
        }
        assert!(!values.contains_key(&Metric::GpuEnergyPerSample), "no GPU was measured");
    }
}

//! Figures of the whole machine: CPU, memory, swap, and each core.

use std::collections::BTreeMap;

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::readings::Counter;
use super::rows::each_row;
use super::summary::{Metric, Quantity};
use super::windows::{longest_step_ns, ratio};
use crate::trace::RunRecord;

/// A core counts as busy above this share of a window.
const BUSY_CORE: f64 = 0.85;

/// Busy time and all accounted time, of the host or of one core.
struct Cpu {
    busy: Counter,
    all: Counter,
}

impl Cpu {
    fn new(longest_step_ns: i64) -> Self {
        Self { busy: Counter::new(longest_step_ns), all: Counter::new(longest_step_ns) }
    }

    fn push(&mut self, t_ns: i64, busy: Option<f64>, all: Option<f64>) {
        self.busy.push(t_ns, busy);
        self.all.push(t_ns, all);
    }

    /// What is a share of the CPU time that the kernel accounted for in the same span, 0 to 1.
    fn share_of(&self, part: &Counter) -> Option<f64> {
        let all = self.all.amount().filter(|all| *all > 0.0)?;
        Some(part.amount()? / all)
    }

    fn windows(&self) -> BTreeMap<i64, f64> {
        ratio(&self.busy.windows.full(), &self.all.windows.full())
    }
}

/// Sums up the `host` table.
///
/// Shares are of the CPU time that the kernel accounted for: busy, idle, I/O wait and steal together. That is
/// cores × time, but stays at most 1 where the kernel's ticks come a little early or late. I/O wait and steal count as
/// not busy, and as none where the kernel does not tell them.
///
/// # Errors
/// The table cannot be read.
pub(super) fn host(table: LazyFrame, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    let step = longest_step_ns(record.interval_ns);
    let mut cpu = Cpu::new(step);
    let [mut iowait, mut steal, mut swap_in, mut swap_out] = std::array::from_fn(|_| Counter::new(step));
    let busy = col("cpu_user_ns") + col("cpu_system_ns");
    let columns = [
        busy.clone(),
        all_time(busy, col("cpu_idle_ns"), col("cpu_iowait_ns"), col("cpu_steal_ns")),
        col("cpu_iowait_ns"),
        col("cpu_steal_ns"),
        col("swap_in_bytes"),
        col("swap_out_bytes"),
    ];
    each_row(
        table.clone(),
        ["t_ns"],
        columns,
        |[t], [busy, all, iowait_ns, steal_ns, swap_in_bytes, swap_out_bytes]| {
            cpu.push(t, busy, all);
            iowait.push(t, iowait_ns);
            steal.push(t, steal_ns);
            swap_in.push(t, swap_in_bytes);
            swap_out.push(t, swap_out_bytes);
        },
    )?;
    figures.set(Metric::HostCpu, cpu.share_of(&cpu.busy));
    figures.set(Metric::IoWait, cpu.share_of(&iowait));
    figures.set(Metric::Steal, cpu.share_of(&steal));
    figures.set(Metric::ForeignCpu, foreign(&cpu, record));
    figures.set(Metric::SwapIn, swap_in.amount());
    figures.set(Metric::SwapOut, swap_out.amount());
    figures.set_windows(Quantity::HostCpu, cpu.windows());
    memory(table, record, figures)
}

/// Busy share by neither the run nor the recorder, at least 0. Rates are compared, because the host was watched for a
/// moment less than the run lasted. Absent where the CPU time of either is not known.
fn foreign(cpu: &Cpu, record: &RunRecord) -> Option<f64> {
    let duration_ns = record.duration_ns.filter(|duration| *duration > 0)?;
    let own_ns = record.cpu.best_ns()? + record.recorder.cpu_ns?;
    let own = own_ns as f64 / duration_ns as f64;
    let all = cpu.all.rate().filter(|all| *all > 0.0)?;
    Some(((cpu.busy.rate()? - own) / all).max(0.0))
}

/// Host memory in use is total less available.
fn memory(table: LazyFrame, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    let available = || col("memory_available_bytes").drop_nulls();
    let columns =
        [available().first().alias("first"), available().min().alias("min"), available().last().alias("last")];
    let metrics = [Metric::HostMemoryBefore, Metric::HostMemoryPeak, Metric::HostMemoryAfter];
    let row = table.select(columns).collect()?;
    for (metric, column) in metrics.into_iter().zip(row.columns()) {
        let available = column.i64()?.get(0);
        figures.set(metric, available.map(|available| (record.limits.memory_total_bytes - available) as f64));
    }
    Ok(())
}

/// Sums up the `core` table: the mean busy share of each core, and how many were busy most of the time.
///
/// # Errors
/// The table cannot be read.
pub(super) fn cores(table: LazyFrame, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    let step = longest_step_ns(record.interval_ns);
    let mut cores: BTreeMap<i64, Cpu> = BTreeMap::new();
    let all = all_time(col("busy_ns"), col("idle_ns"), col("iowait_ns"), col("steal_ns"));
    each_row(table, ["t_ns", "core"], [col("busy_ns"), all], |[t, core], [busy, all]| {
        cores.entry(core).or_insert_with(|| Cpu::new(step)).push(t, busy, all);
    })?;
    let shares = cores.iter().filter_map(|(core, cpu)| Some((u32::try_from(*core).ok()?, cpu.share_of(&cpu.busy)?)));
    figures.cores = shares.collect();
    let windows: Vec<_> = cores.values().map(Cpu::windows).filter(|windows| !windows.is_empty()).collect();
    let above = windows.iter().filter(|windows| mostly_busy(windows)).count();
    figures.set(Metric::CoresAbove85, (!windows.is_empty()).then_some(above as f64));
    Ok(())
}

fn mostly_busy(windows: &BTreeMap<i64, f64>) -> bool {
    windows.values().filter(|share| **share > BUSY_CORE).count() * 2 >= windows.len()
}

fn all_time(busy: Expr, idle: Expr, iowait: Expr, steal: Expr) -> Expr {
    busy + idle + iowait.fill_null(lit(0)) + steal.fill_null(lit(0))
}

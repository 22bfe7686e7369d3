//! Figures of the whole machine: CPU, memory, swap, and each core.

use std::collections::BTreeMap;

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::heat::Heat;
use super::metric::Metric;
use super::readings::{Change, Counter};
use super::rows::{Rows, each_row};
use super::series::{Series, Shares};
use super::summary::{BUSY_CORE, Quantity};
use super::windows::{Keep, Span, Windows};
use crate::trace::RunRecord;

/// Busy time and all accounted time, of the host or of one core, and what becomes of their windows.
struct Cpu<K> {
    busy: Counter,
    all: Counter,
    windows: Windows<K, 2>,
}

impl<K: Keep<2>> Cpu<K> {
    fn new(span: Span, kept: K) -> Self {
        Self { busy: Counter::default(), all: Counter::default(), windows: Windows::new(span, kept) }
    }

    /// A row that lacks one of both tells of neither.
    fn push(&mut self, t_ns: i64, busy: Option<f64>, all: Option<f64>) {
        let Some((busy, all)) = busy.zip(all) else { return };
        match (self.busy.push(t_ns, Some(busy)), self.all.push(t_ns, Some(all))) {
            (Change::Grown { from_ns, amount: busy }, Change::Grown { amount: all, .. }) => {
                return self.windows.add_and_reach(from_ns, t_ns, [busy, all]);
            }
            (Change::Back { from_ns }, _) | (_, Change::Back { from_ns }) => self.windows.void(from_ns, t_ns),
            _ => {}
        }
        self.windows.reach(t_ns);
    }

    /// What is a share of the CPU time that the kernel accounted for in the same span, 0 to 1.
    fn share_of(&self, part: &Counter) -> Option<f64> {
        let all = self.all.amount().filter(|all| *all > 0.0)?;
        Some(part.amount()? / all)
    }
}

/// Full windows of a core, those in which it was busy, and how busy it was over time.
struct Busy {
    core: Option<u32>,
    windows: usize,
    busy: usize,
    heat: Heat,
}

impl Busy {
    fn new(core: i64) -> Self {
        Self { core: u32::try_from(core).ok(), windows: 0, busy: 0, heat: Heat::default() }
    }
}

impl Keep<2> for Busy {
    fn keep(&mut self, window: i64, [busy, all]: [f64; 2]) {
        if all > 0.0 {
            self.windows += 1;
            self.busy += usize::from(busy / all > BUSY_CORE);
            self.core.into_iter().for_each(|core| self.heat.push(core, window, busy / all));
        }
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
pub(super) fn host(table: impl Into<Rows>, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    let mut cpu = Cpu::new(Span::of(record), Shares(Series::new()));
    let [mut iowait, mut steal, mut swap_in, mut swap_out, mut energy] = std::array::from_fn(|_| Counter::default());
    let busy = col("cpu_user_ns") + col("cpu_system_ns");
    let columns = [
        busy.clone(),
        all_time(busy, col("cpu_idle_ns"), col("cpu_iowait_ns"), col("cpu_steal_ns")),
        col("cpu_iowait_ns"),
        col("cpu_steal_ns"),
        col("swap_in_bytes"),
        col("swap_out_bytes"),
        col("cpu_energy_mj"),
        col("memory_available_bytes"),
    ];
    let mut available = Available::default();
    each_row(
        table,
        ["t_ns"],
        columns,
        |[t], [busy, all, iowait_ns, steal_ns, swap_in_bytes, swap_out_bytes, energy_mj, available_bytes]| {
            cpu.push(t, busy, all);
            iowait.push(t, iowait_ns);
            steal.push(t, steal_ns);
            swap_in.push(t, swap_in_bytes);
            swap_out.push(t, swap_out_bytes);
            energy.push(t, energy_mj);
            available.push(available_bytes);
        },
    )?;
    figures.set(Metric::HostCpu, cpu.share_of(&cpu.busy));
    figures.set(Metric::IoWait, cpu.share_of(&iowait));
    figures.set(Metric::Steal, cpu.share_of(&steal));
    figures.set(Metric::ForeignCpu, foreign(&cpu, record));
    figures.set(Metric::SwapIn, swap_in.amount());
    figures.set(Metric::SwapOut, swap_out.amount());
    figures.set(Metric::CpuEnergy, energy.amount().map(|mj| mj / 1e3));
    figures.set_windows(Quantity::HostCpu, cpu.windows.finish().0);
    available.report(record, figures);
    Ok(())
}

/// Busy share by neither the run nor the recorder, at least 0. Rates are compared, because the host was watched for a
/// moment less than the run lasted. Absent where the CPU time of either is not known.
fn foreign<K: Keep<2>>(cpu: &Cpu<K>, record: &RunRecord) -> Option<f64> {
    let duration_ns = record.duration_ns.filter(|duration| *duration > 0)?;
    let own_ns = record.cpu.best_ns()?.saturating_add(record.recorder.cpu_ns?);
    let own = own_ns as f64 / duration_ns as f64;
    let all = cpu.all.rate().filter(|all| *all > 0.0)?;
    Some(((cpu.busy.rate()? - own) / all).max(0.0))
}

/// Host memory that can be had, as read first, at its least, and as read last.
#[derive(Default)]
struct Available {
    first: Option<f64>,
    least: Option<f64>,
    last: Option<f64>,
}

impl Available {
    fn push(&mut self, bytes: Option<f64>) {
        let Some(bytes) = bytes else { return };
        self.first = self.first.or(Some(bytes));
        self.least = Some(self.least.map_or(bytes, |least| least.min(bytes)));
        self.last = Some(bytes);
    }

    /// Host memory in use is total less available.
    fn report(&self, record: &RunRecord, figures: &mut Figures) {
        let in_use = |available: f64| record.limits.memory_total_bytes as f64 - available;
        figures.set(Metric::HostMemoryBefore, self.first.map(in_use));
        figures.set(Metric::HostMemoryPeak, self.least.map(in_use));
        figures.set(Metric::HostMemoryAfter, self.last.map(in_use));
    }
}

/// Sums up the `core` table: the mean busy share of each core, and how many were busy most of the time.
///
/// # Errors
/// The table cannot be read.
pub(super) fn cores(table: impl Into<Rows>, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    let span = Span::of(record);
    let mut cores: BTreeMap<i64, Cpu<Busy>> = BTreeMap::new();
    let all = all_time(col("busy_ns"), col("idle_ns"), col("iowait_ns"), col("steal_ns"));
    each_row(table, ["t_ns", "core"], [col("busy_ns"), all], |[t, core], [busy, all]| {
        cores.entry(core).or_insert_with(|| Cpu::new(span, Busy::new(core))).push(t, busy, all);
    })?;
    let shares = cores.iter().filter_map(|(core, cpu)| Some((u32::try_from(*core).ok()?, cpu.share_of(&cpu.busy)?)));
    figures.cores = shares.collect();
    let mut watched = Vec::new();
    for cpu in cores.into_values() {
        let Busy { windows, busy, heat, .. } = cpu.windows.finish();
        figures.core_heat.join(heat);
        watched.extend((windows > 0).then_some(busy * 2 >= windows));
    }
    let above = watched.iter().filter(|is_above| **is_above).count();
    figures.set(Metric::CoresAbove85, (!watched.is_empty()).then_some(above as f64));
    Ok(())
}

fn all_time(busy: Expr, idle: Expr, iowait: Expr, steal: Expr) -> Expr {
    busy + idle + iowait.fill_null(lit(0)) + steal.fill_null(lit(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::testing::{SECOND, frame, record, ticks};
    use crate::trace::tables::{Core, Host};

    fn measured(rows: Vec<Host>, record: &RunRecord) -> Figures {
        let mut figures = Figures::default();
        host(frame(rows), record, &mut figures).unwrap();
        figures
    }

    /// Two cores: 1.2 busy (a quarter of it in the kernel), 0.5 idle, 0.2 in I/O wait, 0.1 stolen.
    fn steady(interval_ns: i64) -> Vec<Host> {
        let row = |t_ns: i64| Host {
            t_ns,
            cpu_user_ns: Some(t_ns * 9 / 10),
            cpu_system_ns: Some(t_ns * 3 / 10),
            cpu_idle_ns: Some(t_ns / 2),
            cpu_iowait_ns: Some(t_ns / 5),
            cpu_steal_ns: Some(t_ns / 10),
            memory_available_bytes: Some(if t_ns == 3 * SECOND { 300 } else { 800 - t_ns / SECOND }),
            swap_in_bytes: Some(7 + t_ns / SECOND),
            // Each second, 2 W.
            cpu_energy_mj: (t_ns % SECOND == 0).then_some(5000 + 2000 * (t_ns / SECOND)),
            ..Host::default()
        };
        ticks(interval_ns, 10 * SECOND).map(row).collect()
    }

    #[test]
    fn shares_are_of_all_cpu_time_and_the_same_at_any_interval() {
        for interval_ns in [SECOND / 10, SECOND / 4, SECOND] {
            let figures = measured(steady(interval_ns), &record());
            for (metric, right) in [(Metric::HostCpu, 0.6), (Metric::IoWait, 0.1), (Metric::Steal, 0.05)] {
                assert!((figures.values[&metric] - right).abs() < 1e-9, "{metric:?} {:?}", figures.values);
            }
            assert_eq!(figures.values[&Metric::CpuEnergy], 20.0);
            let windows = figures.windows[&Quantity::HostCpu].windows();
            assert_eq!(windows.len(), 10);
            assert!(windows.values().all(|share| (share - 0.6).abs() < 1e-9), "{windows:?}");
        }
    }

    #[test]
    fn memory_in_use_is_total_less_available() {
        let values = measured(steady(SECOND), &record()).values;
        let memory = [Metric::HostMemoryBefore, Metric::HostMemoryPeak, Metric::HostMemoryAfter];
        assert_eq!(memory.map(|metric| values[&metric]), [200.0, 700.0, 210.0]);
        assert_eq!((values[&Metric::SwapIn], values.get(&Metric::SwapOut)), (10.0, None));
    }

    #[test]
    fn foreign_load_is_what_neither_run_nor_recorder_used() {
        let mut record = record();
        record.cpu.clocks_ns = Some(7 * SECOND);
        assert_eq!(measured(steady(SECOND), &record).values.get(&Metric::ForeignCpu), None, "the recorder is unknown");
        record.recorder.cpu_ns = Some(SECOND);
        // By hand: (12 s busy − 7 s − 1 s) / (2 cores × 10 s).
        let foreign = measured(steady(SECOND), &record).values[&Metric::ForeignCpu];
        assert!((foreign - 0.2).abs() < 1e-9, "{foreign}");
        record.cpu.clocks_ns = Some(13 * SECOND);
        assert_eq!(measured(steady(SECOND), &record).values[&Metric::ForeignCpu], 0.0);
    }

    #[test]
    fn columns_without_values_and_tables_without_rows_give_nothing() {
        let blank = ticks(SECOND, 5 * SECOND).map(|t_ns| Host { t_ns, ..Host::default() }).collect();
        for rows in [blank, Vec::new()] {
            let figures = measured(rows, &record());
            assert!(figures.values.is_empty() && figures.windows.is_empty(), "{figures:?}");
        }
    }

    #[test]
    fn a_core_counts_as_busy_when_half_of_its_windows_are_above_85_percent() {
        // Core 0: 0.9 for 5 of 10 windows, else idle. Core 1: for 4 of 10. Core 2 always at 0.85, which is not above.
        let busy = |core: i64, t: i64| match core {
            0 => t.min(5) * 90,
            1 => t.min(4) * 90,
            _ => t * 85,
        };
        let row = |t: i64, core: i64| Core {
            t_ns: t * SECOND,
            core,
            busy_ns: Some(busy(core, t) * SECOND / 100),
            idle_ns: Some((t * 100 - busy(core, t)) * SECOND / 100),
            ..Core::default()
        };
        let rows = (0..=10).flat_map(|t| (0..3).map(move |core| row(t, core)));
        let mut figures = Figures::default();
        cores(frame(rows), &record(), &mut figures).unwrap();
        assert_eq!(figures.values[&Metric::CoresAbove85], 1.0);
        let shares: Vec<f64> = figures.cores.into_values().collect();
        assert!(shares.iter().zip([0.45, 0.36, 0.85]).all(|(share, right)| (share - right).abs() < 1e-9), "{shares:?}");
    }

    #[test]
    fn no_core_table_is_not_zero_busy_cores() {
        let mut figures = Figures::default();
        cores(frame(Vec::<Core>::new()), &record(), &mut figures).unwrap();
        assert!(figures.values.is_empty() && figures.cores.is_empty());
    }
}

//! Figures of the GPUs.

use std::collections::BTreeMap;

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::readings::{Counter, Gauge, Trapezoid, greatest, mean, sum};
use super::rows::each_row;
use super::summary::{Metric, Quantity};
use super::windows::longest_step_ns;
use crate::trace::RunRecord;

struct Gpu {
    utilisation: Gauge,
    memory: Gauge,
    memory_peak: Option<f64>,
    own_peak: Option<f64>,
    temperature_max: Option<f64>,
    energy_mj: Counter,
    /// In milliwatt seconds, which are millijoules.
    power: Trapezoid,
}

/// Sums up the `gpu` table.
///
/// Utilisation is the mean over the GPUs on which the run's own processes held memory. Where no GPU shows any (inside
/// a container the driver may not tell whose memory is whose), it is the mean over all GPUs. Each GPU's energy is the
/// difference of its counter, else the trapezoid rule over its power.
///
/// # Errors
/// The table cannot be read.
pub(super) fn gpus(table: LazyFrame, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    let step = longest_step_ns(record.interval_ns);
    let mut gpus: BTreeMap<i64, Gpu> = BTreeMap::new();
    let columns =
        ["utilisation_ratio", "memory_used_bytes", "memory_own_bytes", "temperature_celsius", "energy_mj", "power_mw"];
    each_row(table, ["t_ns", "gpu"], columns.map(col), |[t, gpu], values| {
        gpus.entry(gpu).or_insert_with(|| Gpu::new(step)).push(t, values);
    })?;
    figures.set(Metric::GpuUtilisation, utilisation(&gpus));
    figures.set(Metric::GpuMemoryPeak, greatest(gpus.values().map(|gpu| gpu.memory_peak)));
    figures.set(Metric::GpuMemoryOwnPeak, greatest(gpus.values().map(|gpu| gpu.own_peak)));
    figures.set(Metric::GpuTemperatureMax, greatest(gpus.values().map(|gpu| gpu.temperature_max)));
    figures.set(Metric::GpuEnergy, sum(gpus.values().map(Gpu::energy_mj)).map(|mj| mj / 1e3));
    for (index, gpu) in &gpus {
        let Ok(index) = u32::try_from(*index) else { continue };
        figures.set_windows(Quantity::GpuUtilisation(index), gpu.utilisation.windows.full());
        figures.set_windows(Quantity::GpuMemory(index), gpu.memory.windows.full());
    }
    Ok(())
}

impl Gpu {
    fn new(longest_step_ns: i64) -> Self {
        Self {
            utilisation: Gauge::new(longest_step_ns),
            memory: Gauge::new(longest_step_ns),
            memory_peak: None,
            own_peak: None,
            temperature_max: None,
            energy_mj: Counter::new(longest_step_ns),
            power: Trapezoid::new(longest_step_ns),
        }
    }

    fn push(&mut self, t_ns: i64, values: [Option<f64>; 6]) {
        let [utilisation, used, own, temperature, energy_mj, power_mw] = values;
        self.utilisation.push(t_ns, utilisation);
        self.memory.push(t_ns, used);
        self.memory_peak = greatest([self.memory_peak, used].into_iter());
        self.own_peak = greatest([self.own_peak, own].into_iter());
        self.temperature_max = greatest([self.temperature_max, temperature].into_iter());
        self.energy_mj.push(t_ns, energy_mj);
        self.power.push(t_ns, power_mw);
    }

    fn energy_mj(&self) -> Option<f64> {
        self.energy_mj.amount().or(self.power.area())
    }
}

fn utilisation(gpus: &BTreeMap<i64, Gpu>) -> Option<f64> {
    let used = |gpu: &&Gpu| gpu.own_peak.is_some_and(|bytes| bytes > 0.0);
    let any_used = gpus.values().any(|gpu| used(&gpu));
    mean(gpus.values().filter(|gpu| !any_used || used(gpu)).map(|gpu| gpu.utilisation.mean()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::testing::{SECOND, frame, record, ticks};
    use crate::trace::tables;

    fn measured(rows: impl IntoIterator<Item = tables::Gpu>) -> Figures {
        let mut figures = Figures::default();
        gpus(frame(rows), &record(), &mut figures).unwrap();
        figures
    }

    /// GPU 0 idles at 100 W and has no energy counter; GPU 1 works for four of ten seconds and counts its energy.
    fn two() -> Vec<tables::Gpu> {
        let row = |t_ns: i64, gpu: i64| {
            let works = gpu == 1 && t_ns < 4 * SECOND;
            tables::Gpu {
                t_ns,
                gpu,
                utilisation_ratio: Some(if works { 0.9 } else { 0.0 }),
                memory_used_bytes: Some(if works { 800 } else { 100 + gpu }),
                memory_own_bytes: Some(if works { 700 } else { 0 }),
                power_mw: Some(100_000),
                energy_mj: (gpu == 1).then_some(500 + t_ns * 200_000 / SECOND),
                temperature_celsius: Some(40 + gpu),
                ..tables::Gpu::default()
            }
        };
        ticks(SECOND / 2, 10 * SECOND).flat_map(|t| [row(t, 0), row(t, 1)]).collect()
    }

    #[test]
    fn utilisation_is_that_of_the_gpus_that_the_run_used() {
        let figures = measured(two());
        // By hand: 0.9 for 4 s of 10 s.
        assert!((figures.values[&Metric::GpuUtilisation] - 0.36).abs() < 1e-9);
        let course = &figures.windows[&Quantity::GpuUtilisation(1)];
        assert!((course[&3] - 0.9).abs() < 1e-9 && course[&4] == 0.0 && course.len() == 10, "{course:?}");
        assert!(figures.windows[&Quantity::GpuUtilisation(0)].values().all(|share| *share == 0.0));
    }

    #[test]
    fn utilisation_is_that_of_all_gpus_where_the_driver_cannot_tell_whose_memory_is_whose() {
        let rows = two().into_iter().map(|row| tables::Gpu { memory_own_bytes: None, ..row });
        let figures = measured(rows);
        assert!((figures.values[&Metric::GpuUtilisation] - 0.18).abs() < 1e-9);
        assert_eq!(figures.values.get(&Metric::GpuMemoryOwnPeak), None);
    }

    #[test]
    fn energy_is_by_counter_else_by_power() {
        // By hand: 200 W by the counter and 100 W by the trapezoid rule, over 10 s.
        assert_eq!(measured(two()).values[&Metric::GpuEnergy], 3000.0);
    }

    #[test]
    fn peaks_are_of_any_one_gpu() {
        let values = measured(two()).values;
        let peaks = [Metric::GpuMemoryPeak, Metric::GpuMemoryOwnPeak, Metric::GpuTemperatureMax];
        assert_eq!(peaks.map(|metric| values[&metric]), [800.0, 700.0, 41.0]);
    }

    #[test]
    fn a_reading_that_is_no_number_is_as_good_as_none() {
        let mut rows = two();
        rows[7].utilisation_ratio = Some(f64::NAN);
        assert!((measured(rows).values[&Metric::GpuUtilisation] - 0.36).abs() < 1e-9);
    }

    #[test]
    fn a_gpu_that_tells_nothing_has_no_figures() {
        let figures = measured(ticks(SECOND, 5 * SECOND).map(|t_ns| tables::Gpu { t_ns, ..tables::Gpu::default() }));
        assert!(figures.values.is_empty() && figures.windows.is_empty(), "{figures:?}");
    }
}

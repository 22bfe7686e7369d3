//! Figures of the GPUs.

use std::collections::BTreeMap;

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::metric::Metric;
use super::readings::{Counter, Gauge, GaugeWindows, Trapezoid, greatest, mean, raise, sum};
use super::rows::{Rows, each_row};
use super::summary::Quantity;
use super::windows::Span;
use crate::trace::RunRecord;

/// NVML's bits for why clocks are held down (`nvmlClocksEventReason…`), in groups of one meaning each.
const HELD_DOWN: [(Metric, i64); 4] = [
    // Software power cap.
    (Metric::GpuPowerCapped, 0x4),
    // Software and hardware thermal slowdown.
    (Metric::GpuHeatCapped, 0x20 | 0x40),
    // Hardware slowdown of any cause, power brake.
    (Metric::GpuHardwareSlowdown, 0x8 | 0x80),
    // Application clocks, sync boost, display clocks.
    (Metric::GpuClocksSet, 0x2 | 0x10 | 0x100),
];

const COLUMNS: [&str; 14] = [
    "mig_instance",
    "utilisation_ratio",
    "memory_used_bytes",
    "memory_own_bytes",
    "memory_others_bytes",
    "power_mw",
    "power_instant_mw",
    "energy_mj",
    "throttle_reasons",
    "temperature_celsius",
    "ecc_corrected_errors",
    "ecc_uncorrected_errors",
    "sm_clock_mhz",
    "memory_clock_mhz",
];

/// The bits of power limit, heat and hardware: a load meets them, while the other clocks are somebody's setting.
const HELD_BY_LOAD: i64 = HELD_DOWN[0].1 | HELD_DOWN[1].1 | HELD_DOWN[2].1;

/// Sums up the `gpu` table.
///
/// # Errors
/// The table cannot be read.
pub(super) fn gpus(table: impl Into<Rows>, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    let span = Span::of(record);
    let mut gpus: BTreeMap<i64, Gpu> = BTreeMap::new();
    let mut instances: BTreeMap<(i64, i64), Gpu> = BTreeMap::new();
    each_row(table, ["t_ns", "gpu"], COLUMNS.map(col), |[t, gpu], values| {
        let device = match values[0] {
            Some(instance) => instances.entry((gpu, instance as i64)).or_insert_with(|| Gpu::new(span)),
            None => gpus.entry(gpu).or_insert_with(|| Gpu::new(span)),
        };
        device.push(t, values);
    })?;
    let (used, unused) = by_use(&gpus, record);
    let own_peaks = gpus.values().chain(instances.values()).map(|gpu| gpu.own_peak);
    figures.set(Metric::GpuMemoryOwnPeak, greatest(own_peaks));
    figures.set(Metric::GpuUtilisation, mean(used.iter().map(|gpu| gpu.utilisation.mean())));
    figures.set(Metric::GpuUtilisationUnused, mean(unused.iter().map(|gpu| gpu.utilisation.mean())));
    of_devices(&used, figures);
    for (index, gpu) in gpus {
        let Ok(index) = u32::try_from(index) else { continue };
        figures.set_windows(Quantity::GpuUtilisation(index), gpu.utilisation.finish());
        figures.set_windows(Quantity::GpuMemory(index), gpu.memory.finish());
        gpu.sensors.report(index, figures);
        if gpu.own_peak.is_some_and(|bytes| bytes > 0.0) {
            figures.set_windows(Quantity::GpuMemoryOwn(index), gpu.own.finish());
        }
    }
    for ((gpu, instance), device) in instances {
        let (Ok(gpu), Ok(instance)) = (u32::try_from(gpu), u32::try_from(instance)) else { continue };
        figures.set_windows(Quantity::GpuInstanceMemory(gpu, instance), device.memory.finish());
    }
    Ok(())
}

/// The GPUs that the run used, by its record or, where that does not tell, by the memory that it held there; and the
/// others. All count as used where none shows itself.
fn by_use<'a>(gpus: &'a BTreeMap<i64, Gpu>, record: &RunRecord) -> (Vec<&'a Gpu>, Vec<&'a Gpu>) {
    let is_told = |index: i64| {
        let told = record.gpus_used.as_ref();
        told.is_some_and(|used| used.iter().any(|gpu| i64::from(*gpu) == index))
    };
    let is_used = |index: i64, gpu: &Gpu| is_told(index) || gpu.own_peak.is_some_and(|bytes| bytes > 0.0);
    let (used, unused): (Vec<_>, Vec<_>) = gpus.iter().partition(|(index, gpu)| is_used(**index, gpu));
    let devices = |list: Vec<(&i64, &'a Gpu)>| list.into_iter().map(|(_, gpu)| gpu).collect::<Vec<_>>();
    if used.is_empty() { (devices(unused), Vec::new()) } else { (devices(used), devices(unused)) }
}

/// What is summed up over the GPUs that count.
fn of_devices(gpus: &[&Gpu], figures: &mut Figures) {
    let each = |value: fn(&Gpu) -> Option<f64>| gpus.iter().map(move |gpu| value(gpu));
    figures.set(Metric::GpuMemoryBefore, greatest(each(|gpu| gpu.memory_before)));
    figures.set(Metric::GpuMemoryPeak, greatest(each(|gpu| gpu.memory_peak)));
    figures.set(Metric::GpuMemoryRise, greatest(each(|gpu| Some(gpu.memory_peak? - gpu.memory_before?))));
    figures.set(Metric::GpuMemoryOthersPeak, greatest(each(|gpu| gpu.others_peak)));
    figures.set(Metric::GpuMemoryUnattributed, greatest(each(|gpu| gpu.unattributed)));
    figures.set(Metric::GpuPower, sum(each(|gpu| gpu.power.mean())).map(|mw| mw / 1e3));
    figures.set(Metric::GpuPowerInstantMax, greatest(each(|gpu| gpu.instant_max)).map(|mw| mw / 1e3));
    figures.set(Metric::GpuEnergy, sum(each(Gpu::energy_mj)).map(|mj| mj / 1e3));
    for (at, (metric, _)) in HELD_DOWN.into_iter().enumerate() {
        figures.set(metric, mean(gpus.iter().map(|gpu| gpu.held_down.share(at))));
    }
    figures.set(Metric::GpuTemperatureMax, greatest(each(|gpu| gpu.temperature_max)));
    figures.set(Metric::GpuEccCorrected, sum(each(|gpu| gpu.ecc_corrected.amount())));
    figures.set(Metric::GpuEccUncorrected, sum(each(|gpu| gpu.ecc_uncorrected.amount())));
}

/// One GPU, or one MIG instance.
struct Gpu {
    utilisation: GaugeWindows,
    memory: GaugeWindows,
    own: GaugeWindows,
    memory_before: Option<f64>,
    memory_peak: Option<f64>,
    own_peak: Option<f64>,
    others_peak: Option<f64>,
    unattributed: Option<f64>,
    temperature_max: Option<f64>,
    energy_mj: Counter,
    power: Gauge,
    /// In milliwatt seconds, which are millijoules.
    power_area: Trapezoid,
    instant_max: Option<f64>,
    held_down: HeldDown,
    sensors: Sensors,
    ecc_corrected: Counter,
    ecc_uncorrected: Counter,
}

impl Gpu {
    fn new(span: Span) -> Self {
        Self {
            utilisation: GaugeWindows::new(span),
            memory: GaugeWindows::new(span),
            own: GaugeWindows::new(span),
            memory_before: None,
            memory_peak: None,
            own_peak: None,
            others_peak: None,
            unattributed: None,
            temperature_max: None,
            energy_mj: Counter::default(),
            power: Gauge::new(span),
            power_area: Trapezoid::new(span),
            instant_max: None,
            held_down: HeldDown::new(span),
            sensors: Sensors::new(span),
            ecc_corrected: Counter::default(),
            ecc_uncorrected: Counter::default(),
        }
    }

    fn push(&mut self, t_ns: i64, values: [Option<f64>; COLUMNS.len()]) {
        let [_, utilisation, used, own, others, power, instant, energy, reasons, ..] = values;
        let [.., temperature, corrected, uncorrected, sm_clock, memory_clock] = values;
        self.utilisation.push(t_ns, utilisation);
        self.memory.push(t_ns, used);
        self.own.push(t_ns, own);
        if t_ns == 0 {
            // The reading from before the command ran.
            self.memory_before = self.memory_before.or(used);
        }
        raise(&mut self.memory_peak, used);
        raise(&mut self.own_peak, own);
        raise(&mut self.others_peak, others);
        raise(&mut self.unattributed, unattributed(used, own, others));
        raise(&mut self.temperature_max, temperature);
        raise(&mut self.instant_max, instant);
        self.energy_mj.push(t_ns, energy);
        self.power.push(t_ns, power);
        self.power_area.push(t_ns, power);
        self.held_down.push(t_ns, reasons);
        self.sensors.push(t_ns, [power, temperature, sm_clock, memory_clock, reasons]);
        self.ecc_corrected.push(t_ns, corrected);
        self.ecc_uncorrected.push(t_ns, uncorrected);
    }

    fn energy_mj(&self) -> Option<f64> {
        self.energy_mj.amount().or(self.power_area.area())
    }
}

/// What is shown over time, besides utilisation and memory.
struct Sensors {
    watts: GaugeWindows,
    celsius: GaugeWindows,
    sm_mhz: GaugeWindows,
    memory_mhz: GaugeWindows,
    held_by_load: GaugeWindows,
}

impl Sensors {
    fn new(span: Span) -> Self {
        let gauge = || GaugeWindows::new(span);
        Self { watts: gauge(), celsius: gauge(), sm_mhz: gauge(), memory_mhz: gauge(), held_by_load: gauge() }
    }

    fn push(&mut self, t_ns: i64, [power_mw, celsius, sm_mhz, memory_mhz, reasons]: [Option<f64>; 5]) {
        self.watts.push(t_ns, power_mw.map(|mw| mw / 1e3));
        self.celsius.push(t_ns, celsius);
        self.sm_mhz.push(t_ns, sm_mhz);
        self.memory_mhz.push(t_ns, memory_mhz);
        self.held_by_load.push(t_ns, reasons.map(|bits| f64::from(u8::from(bits as i64 & HELD_BY_LOAD != 0))));
    }

    fn report(self, gpu: u32, figures: &mut Figures) {
        figures.set_windows(Quantity::GpuPower(gpu), self.watts.finish());
        figures.set_windows(Quantity::GpuTemperature(gpu), self.celsius.finish());
        figures.set_windows(Quantity::GpuSmClock(gpu), self.sm_mhz.finish());
        figures.set_windows(Quantity::GpuMemoryClock(gpu), self.memory_mhz.finish());
        figures.set_windows(Quantity::GpuHeldDown(gpu), self.held_by_load.finish());
    }
}

/// For how long clocks were held down, by each group of reasons, in the order of [`HELD_DOWN`]. A reading holds until
/// the next one, as that of a [`Gauge`].
struct HeldDown {
    readings: Gauge,
    held_ns: [i64; HELD_DOWN.len()],
}

impl HeldDown {
    fn new(span: Span) -> Self {
        Self { readings: Gauge::new(span), held_ns: [0; HELD_DOWN.len()] }
    }

    fn push(&mut self, t_ns: i64, reasons: Option<f64>) {
        let before_ns = self.readings.span_ns();
        let Some((_, held)) = self.readings.push(t_ns, reasons) else { return };
        let held = held as i64;
        if held != 0 {
            for (held_ns, (_, bits)) in self.held_ns.iter_mut().zip(HELD_DOWN) {
                *held_ns += if held & bits == 0 { 0 } else { self.readings.span_ns() - before_ns };
            }
        }
    }

    fn share(&self, at: usize) -> Option<f64> {
        let span_ns = self.readings.span_ns();
        (span_ns > 0).then(|| self.held_ns[at] as f64 / span_ns as f64)
    }
}

/// What no process accounts for: contexts, and managed memory, which drivers list under no process. Both readings are
/// close in time but not the same one.
fn unattributed(used: Option<f64>, own: Option<f64>, others: Option<f64>) -> Option<f64> {
    Some((used? - own? - others?).max(0.0))
}

#[cfg(test)]
mod tests;

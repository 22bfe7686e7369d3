//! One reading of a GPU's sensors: each figure may fail for itself, and takes none of its neighbours with it.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::{Bits, NvmlError};
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::NVML_FI_DEV_POWER_INSTANT;

use super::driver::reason;
use super::ledger::{Failure, Outcomes};
use super::memory;
use super::own::Listed;
use super::processes;
use super::samples::{self, Now, SampleBuffer};
use super::sensors::Reader;
use crate::record::clock::monotonic_ns;
use crate::trace::run::{CoverageState, GpuRef};
use crate::trace::tables::Gpu;

/// Beyond these no device is; drivers put all ones where they have no value.
const MOST_MILLIWATTS: u64 = 100_000_000;
const MOST_CELSIUS: u64 = 200;
const MOST_MEGAHERTZ: u64 = 100_000;
const MOST_LANES: u64 = 64;
/// The newest that is specified is 7.
const MOST_PCIE_GENERATIONS: u64 = 15;
const MOST_PERCENT: u64 = 100;
const MOST_COUNTED: u64 = i64::MAX as u64;

/// What one GPU said at one time.
#[derive(Debug)]
pub(super) struct Reading {
    /// CLOCK_MONOTONIC.
    pub(super) at_ns: i64,
    pub(super) gpu: GpuRef,
    /// Without time and shares of memory; counters as the device counts them.
    pub(super) row: Gpu,
    /// Rows of the driver's own samples; their times are CLOCK_MONOTONIC.
    pub(super) samples: Vec<Gpu>,
    /// Processes with a context; `None` where the driver did not tell.
    pub(super) processes: Option<Vec<Listed>>,
    pub(super) outcomes: Outcomes,
    /// Why the device could not be reached at all.
    pub(super) gone: Option<String>,
}

/// One call into the driver, or a few that belong together.
pub(super) type Step = fn(&mut Reader, &mut Reading, &Device<'_>);

/// What is read of a whole GPU.
pub(super) const STEPS: &[Step] = &[
    |reader, reading, device| reading.utilisation(reader, device),
    |reader, reading, device| reading.memory(reader, device),
    |reader, reading, device| reading.processes(reader, device),
    |_, reading, device| {
        reading.row.power_mw = reading.gauge("power_mw", device.power_usage(), MOST_MILLIWATTS);
    },
    |_, reading, device| {
        reading.row.power_instant_mw = reading.gauge("power_instant_mw", instant_power(device), MOST_MILLIWATTS);
    },
    |_, reading, device| {
        reading.row.power_limit_mw = reading.gauge("power_limit_mw", device.enforced_power_limit(), MOST_MILLIWATTS);
    },
    |_, reading, device| {
        reading.row.energy_mj = reading.gauge("energy_mj", device.total_energy_consumption(), MOST_COUNTED);
    },
    |_, reading, device| {
        let celsius = device.temperature(TemperatureSensor::Gpu);
        reading.row.temperature_celsius = reading.gauge("temperature_celsius", celsius, MOST_CELSIUS);
    },
    |_, reading, device| {
        reading.row.sm_clock_mhz = reading.gauge("sm_clock_mhz", device.clock_info(Clock::SM), MOST_MEGAHERTZ);
    },
    |_, reading, device| {
        let clock = device.clock_info(Clock::Memory);
        reading.row.memory_clock_mhz = reading.gauge("memory_clock_mhz", clock, MOST_MEGAHERTZ);
    },
    |_, reading, device| {
        reading.row.throttle_reasons = reading.gauge("throttle_reasons", throttle_bits(device), MOST_COUNTED);
    },
    |_, reading, device| {
        let generation = device.current_pcie_link_gen();
        reading.row.pcie_generation = reading.gauge("pcie_generation", generation, MOST_PCIE_GENERATIONS);
        reading.row.pcie_width = reading.gauge("pcie_width", device.current_pcie_link_width(), MOST_LANES);
    },
    |_, reading, device| {
        let errors = |kind| device.total_ecc_errors(kind, EccCounter::Volatile);
        reading.row.ecc_corrected_errors =
            reading.gauge("ecc_corrected_errors", errors(MemoryError::Corrected), MOST_COUNTED);
        reading.row.ecc_uncorrected_errors =
            reading.gauge("ecc_uncorrected_errors", errors(MemoryError::Uncorrected), MOST_COUNTED);
    },
    |reader, reading, device| {
        let percent = device.encoder_utilization().map(|encoder| encoder.utilization);
        reading.row.encoder_ratio = reading.share("encoder_ratio", percent, reader.is_divided);
        let percent = device.decoder_utilization().map(|decoder| decoder.utilization);
        reading.row.decoder_ratio = reading.share("decoder_ratio", percent, reader.is_divided);
    },
];

/// What is read of a MIG instance.
pub(super) const STEPS_OF_INSTANCE: &[Step] = &[
    |reader, reading, device| reading.memory(reader, device),
    |reader, reading, device| reading.processes(reader, device),
];

impl Reading {
    pub(super) fn begin(gpu: GpuRef) -> Self {
        let row = Gpu { gpu: i64::from(gpu.gpu), mig_instance: gpu.mig_instance.map(i64::from), ..Gpu::default() };
        Self {
            at_ns: monotonic_ns(),
            gpu,
            row,
            samples: Vec::new(),
            processes: None,
            outcomes: Outcomes::default(),
            gone: None,
        }
    }

    /// By the driver's own samples, and by its latest figure where it does not give any.
    fn utilisation(&mut self, reader: &mut Reader, device: &Device<'_>) {
        let now = Now::read();
        let set: fn(&mut Gpu, f64) = |row, ratio| row.utilisation_ratio = Some(ratio);
        let gpu_is_stale = self.sampled("utilisation_ratio", &mut reader.utilisation, device, now, set);
        let set: fn(&mut Gpu, f64) = |row, ratio| row.memory_utilisation_ratio = Some(ratio);
        let memory_is_stale =
            self.sampled("memory_utilisation_ratio", &mut reader.memory_utilisation, device, now, set);
        if !gpu_is_stale && !memory_is_stale {
            return;
        }
        let (gpu, memory) = match device.utilization_rates() {
            Ok(rates) => (Ok(rates.gpu), Ok(rates.memory)),
            Err(error) => (Err(same(&error)), Err(error)),
        };
        if gpu_is_stale {
            self.row.utilisation_ratio = self.share("utilisation_ratio", gpu, reader.is_divided);
        }
        if memory_is_stale {
            self.row.memory_utilisation_ratio = self.share("memory_utilisation_ratio", memory, reader.is_divided);
        }
    }

    /// Takes new samples of one kind; tells whether the driver gives none.
    fn sampled(
        &mut self,
        column: &'static str,
        buffer: &mut SampleBuffer,
        device: &Device<'_>,
        now: Now,
        set: fn(&mut Gpu, f64),
    ) -> bool {
        // Where this fails the driver is asked in another way, and that answer goes into the ledger.
        let Ok(samples) = buffer.take(device, now) else { return true };
        for sample in samples {
            let at = self.samples.iter().position(|row| row.t_ns == sample.at_ns).unwrap_or(self.samples.len());
            if at == self.samples.len() {
                self.samples.push(Gpu { t_ns: sample.at_ns, gpu: self.row.gpu, ..Gpu::default() });
            }
            set(&mut self.samples[at], sample.ratio);
            self.outcomes.succeeded(column);
            self.outcomes.note(column, samples::NOTE);
        }
        buffer.is_stale(now)
    }

    fn memory(&mut self, reader: &Reader, device: &Device<'_>) {
        if reader.has_unified_memory {
            return;
        }
        let memory = memory::read(device);
        if memory.as_ref().is_ok_and(|memory| memory.reserved.is_none()) {
            self.outcomes.note("memory_used_bytes", memory::NOTE_OF_OLD);
        }
        let (used, reserved) = match memory {
            Ok(memory) => (Ok(memory.used), memory.reserved.ok_or(NvmlError::FailedToLoadSymbol(String::new()))),
            Err(error) => (Err(same(&error)), Err(error)),
        };
        self.row.memory_used_bytes = self.gauge("memory_used_bytes", used, MOST_COUNTED);
        self.row.memory_reserved_bytes = self.gauge("memory_reserved_bytes", reserved, MOST_COUNTED);
    }

    fn processes(&mut self, reader: &Reader, device: &Device<'_>) {
        let listed = match processes::list(device) {
            Ok(listed) => listed,
            Err(error) => {
                self.note_if_gone(&error);
                for column in ["memory_own_bytes", "memory_others_bytes", "processes_others"] {
                    self.outcomes.failed(column, failure(&error));
                }
                if reader.has_unified_memory {
                    self.outcomes.failed("memory_used_bytes", failure(&error));
                }
                return;
            }
        };
        if reader.has_unified_memory {
            let sum = listed.iter().map(|process| process.bytes).sum::<Option<i64>>();
            let told = sum.ok_or_else(|| failure(&NvmlError::NotSupported));
            self.row.memory_used_bytes = self.outcomes.take("memory_used_bytes", told);
            self.outcomes.note("memory_used_bytes", processes::NOTE_OF_UNIFIED);
            self.outcomes.failed("memory_reserved_bytes", failure(&NvmlError::NotSupported));
        }
        // Whose memory it is, is known only to who knows the run's processes.
        self.processes = Some(listed);
    }

    /// Keeps what became of a call for the column that it fills; more than `most` is no value.
    fn gauge(&mut self, column: &'static str, told: Result<impl Into<u64>, NvmlError>, most: u64) -> Option<i64> {
        let told =
            told.map(Into::into).and_then(|value| if value <= most { Ok(value) } else { Err(NvmlError::NoData) });
        match told {
            Ok(value) => {
                self.outcomes.succeeded(column);
                i64::try_from(value).ok()
            }
            Err(error) => {
                self.note_if_gone(&error);
                self.outcomes.failed(column, failure(&error));
                None
            }
        }
    }

    /// Percent as a share.
    fn share(&mut self, column: &'static str, told: Result<u32, NvmlError>, is_divided: bool) -> Option<f64> {
        if is_divided && matches!(told, Err(NvmlError::NotSupported)) {
            let reason = "not available under MIG".to_owned();
            self.outcomes.failed(column, Failure { state: CoverageState::Unsupported, reason });
            return None;
        }
        self.gauge(column, told, MOST_PERCENT).map(|percent| percent as f64 / 100.0)
    }

    pub(super) fn note_if_gone(&mut self, error: &NvmlError) {
        if is_gone(error) {
            self.gone = Some(reason(error));
        }
    }
}

/// Power at this moment, by a field that drivers have since 530.
fn instant_power(device: &Device<'_>) -> Result<u64, NvmlError> {
    let mut fields = device.field_values_for(&[FieldId(NVML_FI_DEV_POWER_INSTANT)])?;
    match fields.pop().ok_or(NvmlError::NoData)??.value? {
        SampleValue::U32(mw) => Ok(u64::from(mw)),
        SampleValue::U64(mw) => Ok(mw),
        SampleValue::I64(mw) => u64::try_from(mw).map_err(|_| NvmlError::NoData),
        SampleValue::F64(_) => Err(NvmlError::NoData),
    }
}

/// All bits, also those that the bindings have no name for yet.
pub(super) fn throttle_bits(device: &Device<'_>) -> Result<u64, NvmlError> {
    match device.current_throttle_reasons_strict() {
        Ok(reasons) => Ok(reasons.bits()),
        Err(NvmlError::IncorrectBits(Bits::U64(bits))) => Ok(bits),
        Err(error) => Err(error),
    }
}

fn is_gone(error: &NvmlError) -> bool {
    matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired)
}

/// The same error once more; those of the driver are numbers.
fn same(error: &NvmlError) -> NvmlError {
    match error {
        NvmlError::FailedToLoadSymbol(symbol) => NvmlError::FailedToLoadSymbol(symbol.clone()),
        NvmlError::NotSupported => NvmlError::NotSupported,
        NvmlError::NoPermission => NvmlError::NoPermission,
        NvmlError::GpuLost => NvmlError::GpuLost,
        NvmlError::ResetRequired => NvmlError::ResetRequired,
        NvmlError::NoData => NvmlError::NoData,
        _ => NvmlError::Unknown,
    }
}

/// What an error means for the ledger.
pub(super) fn failure(error: &NvmlError) -> Failure {
    let state = match error {
        NvmlError::NoPermission | NvmlError::OperatingSystem => CoverageState::Denied,
        error if is_gone(error) => CoverageState::Lost,
        _ => CoverageState::Unsupported,
    };
    Failure { state, reason: reason(error) }
}

//! The thread of one GPU: it calls the driver, hands each reading over, and shares nothing else.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use nvml_wrapper::enum_wrappers::device::Sampling;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::asleep;
use super::inventory::Inventory;
use super::ledger::{Failure, OF_INSTANCES, sensors};
use super::reading::{self, Reading};
use super::samples::SampleBuffer;
use super::{Message, driver};
use crate::record::stop::Stop;
use crate::trace::run::{CoverageState, GpuRef};

/// A reading that has taken this long is handed over as far as it has come, and the next one goes on from there: a
/// driver that takes seconds a call still gives every figure its turn.
const LONGEST_READING: Duration = Duration::from_secs(1);

/// What reads one GPU, or one MIG instance.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) nvml: &'static Nvml,
    pub(super) gpu: GpuRef,
    /// PCI address of a GPU that is to be left asleep where the kernel has switched it off.
    pub(super) left_asleep: Option<String>,
    pub(super) is_divided: bool,
    pub(super) has_unified_memory: bool,
    pub(super) utilisation: SampleBuffer,
    pub(super) memory_utilisation: SampleBuffer,
    /// The step that the next reading begins with.
    next: usize,
}

/// Reads a GPU at once, then each `period`, and a last time when asked to stop.
///
/// # Errors
/// The system has no thread left.
pub(super) fn spawn(
    mut reader: Reader,
    period: Duration,
    stop: Arc<Stop>,
    messages: Sender<Message>,
) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(format!("gpu-{}", reader.gpu.gpu)).spawn(move || {
        let mut stopping = false;
        loop {
            let begun = Instant::now();
            // Nobody listens any more once the run has ended without waiting for a slow driver.
            if messages.send(Message::Reading(Box::new(reader.read()))).is_err() || stopping {
                return;
            }
            // From start to start, and never closer: the driver's own samples are no fresher.
            stopping = stop.wait(period.saturating_sub(begun.elapsed()));
        }
    })
}

impl Reader {
    /// A GPU that sleeps is woken only where the user has named it.
    pub(super) fn new(nvml: &'static Nvml, gpu: GpuRef, inventory: &Inventory, wakes: bool) -> Self {
        Self {
            nvml,
            gpu,
            left_asleep: inventory.pci.clone().filter(|_| !wakes),
            is_divided: inventory.is_divided,
            has_unified_memory: inventory.has_unified_memory(),
            utilisation: SampleBuffer::new(Sampling::GpuUtilization),
            memory_utilisation: SampleBuffer::new(Sampling::MemoryUtilization),
            next: 0,
        }
    }

    fn read(&mut self) -> Reading {
        let mut reading = Reading::begin(self.gpu);
        if self.left_asleep.as_ref().is_some_and(|pci| asleep::is_asleep(Path::new(asleep::DEVICES), pci)) {
            let asleep = Failure { state: CoverageState::Unsupported, reason: asleep::REASON.to_owned() };
            self.fail_all(&mut reading, &asleep);
            return reading;
        }
        // The handle is asked for anew, so that a device that comes back is found.
        match self.device() {
            Ok(device) => self.read_device(&mut reading, &device),
            Err(error) => {
                reading.note_if_gone(&error);
                self.fail_all(&mut reading, &reading::failure(&error));
            }
        }
        reading
    }

    fn device(&self) -> Result<Device<'static>, NvmlError> {
        let device = self.nvml.device_by_index(self.gpu.gpu)?;
        match self.gpu.mig_instance {
            Some(instance) => device.mig_device_by_index(instance),
            None => Ok(device),
        }
    }

    fn read_device(&mut self, reading: &mut Reading, device: &Device<'_>) {
        let steps = if self.gpu.mig_instance.is_some() { reading::STEPS_OF_INSTANCE } else { reading::STEPS };
        let begun = Instant::now();
        for _ in 0..steps.len() {
            let step = steps[self.next % steps.len()];
            self.next = (self.next + 1) % steps.len();
            step(self, reading, device);
            if begun.elapsed() >= LONGEST_READING {
                return;
            }
        }
    }

    fn fail_all(&self, reading: &mut Reading, failure: &Failure) {
        let is_asked = |column: &&str| self.gpu.mig_instance.is_none() || OF_INSTANCES.contains(column);
        sensors().filter(is_asked).for_each(|column| reading.outcomes.failed(column, failure.clone()));
    }
}

/// Waits until the kernel has woken a GPU of its list for somebody else, then opens the driver.
///
/// # Errors
/// The system has no thread left.
pub(super) fn spawn_watch(
    devices: &Path,
    period: Duration,
    stop: Arc<Stop>,
    messages: Sender<Message>,
) -> io::Result<()> {
    let devices = devices.to_owned();
    let watch = move || {
        while asleep::all_asleep(&devices) {
            if stop.wait(period) {
                return;
            }
        }
        drop(messages.send(Message::Awake(driver::Driver::open_now())));
    };
    thread::Builder::new().name("gpu-asleep".to_owned()).spawn(watch).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_driver_is_opened_when_somebody_else_has_woken_the_gpu_and_not_before() {
        let laptop = asleep::tests::devices(&[("0000:01:00.0", "0x10de", "0x030000", Some("suspended"))]);
        let (sender, messages) = mpsc::channel();
        spawn_watch(laptop.path(), Duration::from_millis(1), Arc::default(), sender).unwrap();
        assert!(messages.recv_timeout(Duration::from_millis(50)).is_err());
        std::fs::write(laptop.path().join("0000:01:00.0/power/runtime_status"), "active\n").unwrap();
        assert!(matches!(messages.recv_timeout(Duration::from_secs(60)), Ok(Message::Awake(_))));
    }

    #[test]
    fn a_run_that_ends_before_the_gpu_wakes_ends_the_watch() {
        let laptop = asleep::tests::devices(&[("0000:01:00.0", "0x10de", "0x030000", Some("suspended"))]);
        let (sender, messages) = mpsc::channel();
        let stop = Arc::<Stop>::default();
        spawn_watch(laptop.path(), Duration::from_secs(60), Arc::clone(&stop), sender).unwrap();
        stop.ask();
        assert_eq!(messages.recv_timeout(Duration::from_secs(60)).err(), Some(mpsc::RecvTimeoutError::Disconnected));
    }
}

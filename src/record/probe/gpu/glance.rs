//! The state of each GPU at one moment, for the checks before a run.

use std::path::Path;

use super::asleep;
use super::driver::Driver;
use super::memory;
use super::reading::throttle_bits;

/// What a GPU says of itself; each figure can be missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Glance {
    /// In NVML's order.
    pub index: u32,
    pub compute_capability: Option<String>,
    pub memory_total_bytes: Option<i64>,
    /// By anybody, without what the driver keeps for itself.
    pub memory_used_bytes: Option<i64>,
    /// NVML's bits of what holds the clocks down right now.
    pub throttle_reasons: Option<u64>,
}

/// Asks the driver for each GPU.
pub fn glance(driver: &Driver) -> Vec<Glance> {
    driver
        .gpus
        .iter()
        .zip(0..)
        .map(|(inventory, index)| {
            let compute_capability = inventory.compute_capability.clone();
            // A look is no reason to wake a GPU.
            let sleeps = inventory.pci.as_ref().is_some_and(|pci| asleep::is_asleep(Path::new(asleep::DEVICES), pci));
            let device = (!sleeps).then(|| driver.nvml.device_by_index(index).ok()).flatten();
            let Some(device) = device else {
                return Glance { index, compute_capability, ..Glance::default() };
            };
            let memory = memory::read(&device).ok();
            let bytes = |bytes: u64| i64::try_from(bytes).ok();
            Glance {
                index,
                compute_capability,
                memory_total_bytes: memory.as_ref().and_then(|memory| bytes(memory.total)),
                memory_used_bytes: memory.as_ref().and_then(|memory| bytes(memory.used)),
                throttle_reasons: throttle_bits(&device).ok(),
            }
        })
        .collect()
}

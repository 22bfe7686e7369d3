//! A device's memory, by the call that its driver has.

use std::mem::MaybeUninit;

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};

/// What an old driver's figure for memory in use means.
pub(super) const NOTE_OF_OLD: &str = "an older driver: what it keeps for itself counts as in use";

/// A device's memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Memory {
    pub(super) total: u64,
    pub(super) used: u64,
    /// What the driver keeps for itself; `None` where that is part of `used`.
    pub(super) reserved: Option<u64>,
}

/// Reads it.
///
/// # Errors
/// The driver's; [`NvmlError::NoData`] where it gave marks for "not available" instead of sizes.
pub(super) fn read(device: &Device<'_>) -> Result<Memory, NvmlError> {
    let memory = match device.memory_info() {
        Ok(memory) => Memory { total: memory.total, used: memory.used, reserved: Some(memory.reserved) },
        // Drivers before 510.
        Err(NvmlError::FailedToLoadSymbol(_)) => read_old(device)?,
        Err(error) => return Err(error),
    };
    let fits = |bytes: u64| bytes <= memory.total;
    let is_told = memory.total > 0 && i64::try_from(memory.total).is_ok();
    if is_told && fits(memory.used) && memory.reserved.is_none_or(fits) { Ok(memory) } else { Err(NvmlError::NoData) }
}

/// The first version of the call, which the bindings load but do not offer.
#[allow(unsafe_code, reason = "the bindings offer the second version only")]
fn read_old(device: &Device<'_>) -> Result<Memory, NvmlError> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref())?;
    let mut memory = MaybeUninit::zeroed();
    // SAFETY: the handle is the device's, which borrows the loaded library; the structure is of the call's own type.
    nvml_try(unsafe { call(device.handle(), memory.as_mut_ptr()) })?;
    // SAFETY: it is made of integers, for which all zeroes are a value.
    let memory = unsafe { memory.assume_init() };
    Ok(Memory { total: memory.total, used: memory.used, reserved: None })
}

//! The processes that a driver lists on a device.

use nvml_wrapper::Device;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;

use super::own::Listed;

/// How memory in use is known where GPU and CPU share it.
pub(super) const NOTE_OF_UNIFIED: &str =
    "unified memory, shared with the host: the sum of what processes hold for the GPU, not the host's memory in use";
/// More is no memory of a process; drivers put a mark there where they cannot tell.
const MOST_BYTES: i64 = 1 << 50;

/// Processes with a context for computing or drawing, each once.
///
/// # Errors
/// The driver's, where it cannot tell those that compute; that it cannot tell those that draw is let pass.
pub(super) fn list(device: &Device<'_>) -> Result<Vec<Listed>, NvmlError> {
    let compute = match device.running_compute_processes() {
        // Drivers before 510.
        Err(NvmlError::FailedToLoadSymbol(_)) => device.running_compute_processes_v2(),
        other => other,
    };
    let graphics = match device.running_graphics_processes() {
        Err(NvmlError::FailedToLoadSymbol(_)) => device.running_graphics_processes_v2(),
        other => other,
    };
    let mut listed: Vec<Listed> = compute?.iter().filter_map(process).collect();
    for drawing in graphics.unwrap_or_default().iter().filter_map(process) {
        // One that does both is in both lists, with all of its memory.
        if !listed.iter().any(|other| other.pid == drawing.pid) {
            listed.push(drawing);
        }
    }
    Ok(listed)
}

/// Some drivers list processes that are none: with pid 0, or with one that no system gives.
fn process(told: &ProcessInfo) -> Option<Listed> {
    let pid = i32::try_from(told.pid).ok().filter(|pid| *pid > 0)?;
    let bytes = match told.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => i64::try_from(bytes).ok().filter(|bytes| *bytes <= MOST_BYTES),
        UsedGpuMemory::Unavailable => None,
    };
    Some(Listed { pid, bytes })
}

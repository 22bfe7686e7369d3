//! What does not change about a GPU.

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;
use serde::Serialize;

use super::memory;

/// Serialised for the fingerprint, so without what tells one device from all others.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Inventory {
    #[serde(skip)]
    pub uuid: Option<String>,
    /// PCI address in NVML's form: `00000000:65:00.0`.
    #[serde(skip)]
    pub pci: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `unified` where GPU and CPU use the same memory; then the total is the machine's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_total_bytes: Option<u64>,
    /// CUDA's compute capability: `9.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_mw: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_default_mw: Option<u32>,
    /// The most that both the GPU and its slot can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_generation_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_width_max: Option<u32>,
    /// Parts that the GPU is divided into (MIG); empty where it is not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mig: Vec<Instance>,
    /// Whether MIG is on, with or without instances.
    #[serde(skip)]
    pub is_divided: bool,
}

/// One MIG instance of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Instance {
    /// NVML's number of the instance on its GPU; numbers may be missing between.
    #[serde(skip)]
    pub index: u32,
    #[serde(skip)]
    pub uuid: Option<String>,
    /// What the instance has of the GPU: `1g.10gb`.
    #[serde(rename = "name", skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_total_bytes: Option<u64>,
}

impl Inventory {
    /// Asks a device. `machine_memory_bytes` is the machine's memory, which a GPU with unified memory shares.
    pub(super) fn of(device: &Device<'_>, machine_memory_bytes: Option<u64>) -> Self {
        let is_divided = device.mig_mode().is_ok_and(|mode| mode.current == 1);
        let mut inventory = Self {
            uuid: device.uuid().ok(),
            pci: device.pci_info().ok().map(|pci| pci.bus_id),
            name: device.name().ok(),
            compute_capability: device
                .cuda_compute_capability()
                .ok()
                .map(|cuda| format!("{}.{}", cuda.major, cuda.minor)),
            power_limit_mw: told(device.power_management_limit()),
            power_limit_default_mw: told(device.power_management_limit_default()),
            pcie_generation_max: told(device.max_pcie_link_gen()),
            pcie_width_max: told(device.max_pcie_link_width()),
            mig: if is_divided { instances(device) } else { Vec::new() },
            is_divided,
            ..Self::default()
        };
        match memory::read(device) {
            Ok(memory) => inventory.memory_total_bytes = Some(memory.total),
            Err(NvmlError::NotSupported) if inventory.name.as_deref().is_some_and(shares_memory) => {
                inventory.memory = Some("unified");
                inventory.memory_total_bytes = machine_memory_bytes;
            }
            Err(_) => {}
        }
        inventory
    }

    pub(super) fn has_unified_memory(&self) -> bool {
        self.memory.is_some()
    }
}

/// Drivers may put all ones where they have no value.
fn told(value: Result<u32, NvmlError>) -> Option<u32> {
    value.ok().filter(|value| *value != u32::MAX)
}

/// Whether a GPU of this name has no memory of its own. There are other reasons for not telling the memory (virtual
/// GPUs, old drivers), so only those that are known are named: GB10 (DGX Spark) and the Jetson family.
fn shares_memory(name: &str) -> bool {
    ["GB10", "Jetson", "Orin", "Xavier", "Thor", "Tegra", "nvgpu"].iter().any(|known| name.contains(known))
}

fn instances(device: &Device<'_>) -> Vec<Instance> {
    let count = device.mig_device_count().unwrap_or(0);
    (0..count).filter_map(|index| Some(instance(index, &device.mig_device_by_index(index).ok()?))).collect()
}

fn instance(index: u32, device: &Device<'_>) -> Instance {
    // `NVIDIA A100-SXM4-40GB MIG 1g.5gb`
    let profile = device.name().ok().and_then(|name| name.split_once(" MIG ").map(|(_, profile)| profile.to_owned()));
    let memory = memory::read(device).ok();
    Instance { index, uuid: device.uuid().ok(), profile, memory_total_bytes: memory.map(|memory| memory.total) }
}

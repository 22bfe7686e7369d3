//! GPUs that the kernel has put to sleep: a laptop's second GPU is switched off while nobody uses it, and a call into
//! NVIDIA's library would wake it. The kernel's list of PCI devices tells without a call.

use std::fs;
use std::path::Path;

/// Where the kernel lists the devices of the PCI bus.
pub(super) const DEVICES: &str = "/sys/bus/pci/devices";
const NVIDIA: &str = "0x10de";
/// PCI's class of display controllers: graphics cards, and those without outputs.
const DISPLAY: &str = "0x03";
/// What is said of a GPU that is left alone.
pub(super) const REASON: &str = "GPU asleep; not woken (--gpu wakes it)";

/// A GPU of NVIDIA's by the kernel's list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listed {
    /// `0000:65:00.0`.
    pub(super) address: String,
    pub(super) asleep: bool,
}

/// NVIDIA's GPUs in the order of their PCI addresses, which is NVML's; none where the list cannot be read.
pub(super) fn gpus(devices: &Path) -> Vec<Listed> {
    let entries = fs::read_dir(devices).into_iter().flatten().flatten();
    let addresses = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_gpu = |address: &String| {
        let text = |name: &str| fs::read_to_string(devices.join(address).join(name)).unwrap_or_default();
        text("vendor").trim() == NVIDIA && text("class").starts_with(DISPLAY)
    };
    let mut found: Vec<Listed> =
        addresses.filter(is_gpu).map(|address| Listed { asleep: is_asleep(devices, &address), address }).collect();
    found.sort_by(|a, b| a.address.cmp(&b.address));
    found
}

/// Whether there are GPUs and all of them sleep.
pub(super) fn all_asleep(devices: &Path) -> bool {
    let gpus = gpus(devices);
    !gpus.is_empty() && gpus.iter().all(|gpu| gpu.asleep)
}

/// Whether the device at an address, in the kernel's form or in NVML's with its longer domain, is switched off now.
pub(super) fn is_asleep(devices: &Path, address: &str) -> bool {
    let known = address.get(address.len().saturating_sub("0000:65:00.0".len())..).unwrap_or(address);
    let status = devices.join(known.to_ascii_lowercase()).join("power/runtime_status");
    fs::read_to_string(status).is_ok_and(|status| matches!(status.trim(), "suspended" | "suspending"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A list of devices: address, vendor, class, and power status where the kernel manages it.
    pub(in super::super) fn devices(list: &[(&str, &str, &str, Option<&str>)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (address, vendor, class, status) in list {
            let device = folder.path().join(address);
            fs::create_dir_all(device.join("power")).unwrap();
            fs::write(device.join("vendor"), format!("{vendor}\n")).unwrap();
            fs::write(device.join("class"), format!("{class}\n")).unwrap();
            if let Some(status) = status {
                fs::write(device.join("power/runtime_status"), format!("{status}\n")).unwrap();
            }
        }
        folder
    }

    #[test]
    fn a_sleeping_gpu_is_found_without_a_call_into_the_driver() {
        let laptop = devices(&[
            ("0000:00:02.0", "0x8086", "0x030000", Some("active")),
            ("0000:01:00.1", "0x10de", "0x040300", Some("active")),
            ("0000:01:00.0", "0x10de", "0x030000", Some("suspended")),
        ]);
        let expected = Listed { address: "0000:01:00.0".into(), asleep: true };
        assert_eq!(gpus(laptop.path()), [expected]);
        assert!(all_asleep(laptop.path()));
        assert!(is_asleep(laptop.path(), "00000000:01:00.0"));
        fs::write(laptop.path().join("0000:01:00.0/power/runtime_status"), "active\n").unwrap();
        assert!(!all_asleep(laptop.path()));
    }

    #[test]
    fn gpus_that_the_kernel_does_not_manage_are_awake_and_no_gpu_is_no_sleep() {
        let server =
            devices(&[("0000:b1:00.0", "0x10de", "0x030200", None), ("0000:17:00.0", "0x10de", "0x030200", None)]);
        let addresses: Vec<String> = gpus(server.path()).into_iter().map(|gpu| gpu.address).collect();
        assert_eq!(addresses, ["0000:17:00.0", "0000:b1:00.0"]);
        assert!(!all_asleep(server.path()));
        assert!(!all_asleep(devices(&[]).path()) && !all_asleep(Path::new("/no/such/folder")));
    }
}

//! What can be seen of NVIDIA's hardware, kernel module and device nodes without asking the driver.

use std::fs;
use std::path::Path;

use nix::unistd::{AccessFlags, access};

/// NVIDIA's number on the PCI bus.
const VENDOR: &str = "0x10de";
/// Display controllers: VGA 0x0300, 3D 0x0302. NVIDIA's sound and USB functions are of other classes.
const DISPLAY: &str = "0x03";

/// Traces of NVIDIA's GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nvidia {
    /// GPUs on the PCI bus; 0 also where the bus is hidden.
    pub hardware: usize,
    /// Version of the loaded kernel module. A container sees the host's.
    pub module: Option<String>,
    pub nodes: Nodes,
}

/// Files below /dev through which CUDA reaches the GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Nodes {
    /// `/dev/nvidia0`, `/dev/nvidia1`, …
    pub gpus: usize,
    /// Of these and of `nvidiactl`, those that this user may not open.
    pub refused: usize,
    /// `/dev/nvidia-uvm`, without which CUDA does not start.
    pub uvm: bool,
    /// `/dev/dxg`, which stands for all of them under WSL.
    pub wsl: bool,
}

impl Nvidia {
    /// Looks below a root folder: `/`, or that of a fixture.
    pub fn look(root: &Path) -> Self {
        let module = fs::read_to_string(root.join("proc/driver/nvidia/version")).ok();
        Self {
            hardware: hardware(&root.join("sys/bus/pci/devices")),
            module: module.as_deref().and_then(module_version),
            nodes: Nodes::look(&root.join("dev")),
        }
    }

    /// Whether anything speaks of a GPU here.
    pub fn is_there(&self) -> bool {
        self.hardware > 0 || self.module.is_some() || self.nodes.gpus > 0 || self.nodes.wsl
    }
}

impl Nodes {
    fn look(dev: &Path) -> Self {
        let names = |entry: fs::DirEntry| entry.file_name().into_string().ok();
        let found: Vec<String> =
            fs::read_dir(dev).into_iter().flatten().flatten().filter_map(names).filter(|name| is_gpu(name)).collect();
        // Only asked, never opened: opening a sleeping laptop's GPU wakes it.
        let refused = |name: &&str| {
            let path = dev.join(name);
            path.exists() && access(&path, AccessFlags::R_OK | AccessFlags::W_OK).is_err()
        };
        Self {
            gpus: found.len(),
            refused: found.iter().map(String::as_str).chain(["nvidiactl"]).filter(refused).count(),
            uvm: dev.join("nvidia-uvm").exists(),
            wsl: dev.join("dxg").exists(),
        }
    }
}

fn is_gpu(name: &str) -> bool {
    name.strip_prefix("nvidia")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn hardware(devices: &Path) -> usize {
    let is_nvidia = |device: &fs::DirEntry| {
        let starts = |file: &str, with: &str| {
            fs::read_to_string(device.path().join(file)).is_ok_and(|text| text.trim().starts_with(with))
        };
        starts("vendor", VENDOR) && starts("class", DISPLAY)
    };
    fs::read_dir(devices).into_iter().flatten().flatten().filter(is_nvidia).count()
}

/// `580.82.07` of `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Wed Aug …`.
fn module_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    let is_version = |word: &&str| {
        word.contains('.') && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    line.split_ascii_whitespace().find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_gpu_is_told_from_its_sound_card_and_from_other_vendors() {
        let root = tempfile::tempdir().unwrap();
        for (device, vendor, class) in [
            ("0000:01:00.0", "0x10de\n", "0x030200\n"),
            ("0000:01:00.1", "0x10de\n", "0x040300\n"),
            ("0000:00:02.0", "0x8086\n", "0x030000\n"),
        ] {
            write(root.path(), &format!("sys/bus/pci/devices/{device}/vendor"), vendor);
            write(root.path(), &format!("sys/bus/pci/devices/{device}/class"), class);
        }
        let seen = Nvidia::look(root.path());
        assert_eq!(seen, Nvidia { hardware: 1, ..Nvidia::default() });
        assert!(seen.is_there() && !Nvidia::default().is_there());
    }

    #[test]
    fn nodes_of_gpus_are_counted_and_others_are_not() {
        let root = tempfile::tempdir().unwrap();
        for name in ["nvidia0", "nvidia11", "nvidiactl", "nvidia-uvm", "nvidia-modeset", "null"] {
            write(root.path(), &format!("dev/{name}"), "");
        }
        assert_eq!(Nvidia::look(root.path()).nodes, Nodes { gpus: 2, refused: 0, uvm: true, wsl: false });
    }

    #[test]
    fn the_version_of_the_kernel_module_is_read_in_both_of_its_spellings() {
        for text in [
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Wed Aug 27 18:00:00 UTC 2025\nGCC version: gcc 12.2.0\n",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (u@h)  Wed Aug 27\n",
        ] {
            assert_eq!(module_version(text).as_deref(), Some("580.82.07"));
        }
        assert_eq!(module_version("GCC version: 12.2.0\n"), None);
    }
}

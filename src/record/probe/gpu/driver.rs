//! NVIDIA's driver library (NVML): finding it, and what it tells once. Everything else goes through a [`Driver`].

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Nvml, cuda_driver_version_major, cuda_driver_version_minor};

use super::asleep;
use super::inventory::Inventory;
use crate::record::probe::kernel;
use crate::record::run::PROC;

/// Environment variable that names the NVML library to load instead of the system's: for tests, and for drivers that
/// lie in unusual places.
pub const LIBRARY_VARIABLE: &str = "SHICE_NVML_LIBRARY";
/// The name without a number comes with development packages only, and under WSL another of that name can be a stub.
const LIBRARIES: [&str; 3] = ["libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1", "libnvidia-ml.so"];
/// Waking several GPUs takes a driver seconds; one that hangs must not keep the recorder.
const PATIENCE: Duration = Duration::from_secs(30);

/// The loaded library.
///
/// It stays loaded until this process ends: a driver that hangs would hang in shutting down, too.
#[derive(Clone, Debug)]
pub struct Driver {
    pub nvml: &'static Nvml,
    /// As in `nvidia-smi`: `580.82.07`.
    pub version: Option<String>,
    /// The newest CUDA that the driver can serve: `13.0`.
    pub cuda_version: Option<String>,
    /// In NVML's order, which is PCI order.
    pub gpus: Vec<Inventory>,
}

impl Driver {
    /// Loads the library and takes the inventory.
    ///
    /// # Errors
    /// One sentence on why no GPU can be measured here: no library, no device, or a driver that refuses or hangs.
    pub fn open() -> Result<Self, String> {
        let (sender, opened) = mpsc::channel();
        thread::Builder::new()
            .name("gpu-driver".to_owned())
            // Nobody listens any more where the driver took too long.
            .spawn(move || drop(sender.send(Self::open_now())))
            .map_err(|error| format!("no thread could be started for the NVIDIA driver: {error}"))?;
        opened
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| Err(format!("the NVIDIA driver did not answer within {PATIENCE:?}")))
    }

    /// Like [`Driver::open`], however long it takes.
    pub(super) fn open_now() -> Result<Self, String> {
        let nvml: &'static Nvml = Box::leak(Box::new(load().map_err(|error| reason(&error))?));
        let count = nvml.device_count().map_err(|error| reason(&error))?;
        if count == 0 {
            return Err("the NVIDIA driver finds no GPU".to_owned());
        }
        let cuda = nvml.sys_cuda_driver_version().ok();
        Ok(Self {
            nvml,
            version: nvml.sys_driver_version().ok(),
            cuda_version: cuda.map(|version| {
                format!("{}.{}", cuda_driver_version_major(version), cuda_driver_version_minor(version))
            }),
            gpus: inventory(nvml, count),
        })
    }
}

/// What the GPUs are. A handle would wake a GPU that sleeps; of such a one only the address is known.
fn inventory(nvml: &Nvml, count: u32) -> Vec<Inventory> {
    let known = asleep::gpus(Path::new(asleep::DEVICES));
    let in_same_order = known.len() == count as usize;
    let memory_bytes = machine_memory_bytes();
    let of = |index: u32| {
        let listed = known.get(index as usize).filter(|listed| in_same_order && listed.asleep);
        match listed {
            Some(listed) => Inventory { pci: Some(listed.address.clone()), ..Inventory::default() },
            None => nvml.device_by_index(index).map(|device| Inventory::of(&device, memory_bytes)).unwrap_or_default(),
        }
    };
    (0..count).map(of).collect()
}

fn machine_memory_bytes() -> Option<u64> {
    let meminfo = std::fs::read_to_string(Path::new(PROC).join("meminfo")).ok()?;
    u64::try_from(kernel::keyed_value(&meminfo, "MemTotal")?).ok()
}

fn load() -> Result<Nvml, NvmlError> {
    let paths = match std::env::var_os(LIBRARY_VARIABLE) {
        Some(path) => vec![path],
        None => LIBRARIES.map(OsString::from).into(),
    };
    let mut refused = NvmlError::LibraryNotFound;
    for path in &paths {
        match Nvml::builder().lib_path(OsStr::new(path)).init() {
            Ok(nvml) => return Ok(nvml),
            // That there is none elsewhere tells less than what a library said.
            Err(NvmlError::LibloadingError(_)) => {}
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// An error in words that help, and without paths.
pub fn reason(error: &NvmlError) -> String {
    match error {
        NvmlError::LibraryNotFound => "no NVIDIA driver library (libnvidia-ml.so.1) can be loaded".to_owned(),
        NvmlError::LibRmVersionMismatch => {
            "the NVIDIA kernel module and library are of different versions: reboot, or reload the module".to_owned()
        }
        NvmlError::FailedToLoadSymbol(_) => "the NVIDIA driver is too old for this figure".to_owned(),
        NvmlError::NoData => "the driver gave a mark for \"not available\" instead of a value".to_owned(),
        NvmlError::UnexpectedVariant(value) => format!("the driver gave an answer that is not known here ({value})"),
        other => other.to_string(),
    }
}

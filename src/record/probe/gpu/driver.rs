//! NVIDIA's driver library (NVML): finding it, and what it tells once. Everything else goes through a [`Driver`].

use std::ffi::{OsStr, OsString};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml, cuda_driver_version_major, cuda_driver_version_minor};
use serde::Serialize;

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

/// What does not change about a GPU; serialised for the fingerprint, so without what tells one device from all others.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Inventory {
    #[serde(skip)]
    pub uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_total_bytes: Option<u64>,
    /// CUDA's compute capability: `9.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_mw: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_default_mw: Option<u32>,
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

    fn open_now() -> Result<Self, String> {
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
            gpus: (0..count).map(|index| nvml.device_by_index(index).map(inventory).unwrap_or_default()).collect(),
        })
    }
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

fn inventory(device: Device<'_>) -> Inventory {
    Inventory {
        uuid: device.uuid().ok(),
        name: device.name().ok(),
        memory_total_bytes: device.memory_info().ok().map(|memory| memory.total),
        compute_capability: device.cuda_compute_capability().ok().map(|cuda| format!("{}.{}", cuda.major, cuda.minor)),
        power_limit_mw: device.power_management_limit().ok(),
        power_limit_default_mw: device.power_management_limit_default().ok(),
    }
}

/// An error in words that help, and without paths.
pub fn reason(error: &NvmlError) -> String {
    match error {
        NvmlError::LibraryNotFound => "no NVIDIA driver library (libnvidia-ml.so.1) can be loaded".to_owned(),
        NvmlError::LibRmVersionMismatch => {
            "the NVIDIA kernel module and library are of different versions: reboot, or reload the module".to_owned()
        }
        NvmlError::FailedToLoadSymbol(_) => "the NVIDIA driver is too old for this figure".to_owned(),
        other => other.to_string(),
    }
}

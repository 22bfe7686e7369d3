//! Which device a workload runs on. A device counts as usable when a kernel has run on it.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use serde::Serialize;
use tch::{Cuda, Device, Kind, Tensor};

use crate::cuda;

/// A device as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Auto,
    Cpu,
    Cuda(usize),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let index = |text: &str| text.parse().map(Choice::Cuda);
        match word {
            "auto" => Ok(Choice::Auto),
            "cpu" => Ok(Choice::Cpu),
            "cuda" => Ok(Choice::Cuda(0)),
            _ => word.strip_prefix("cuda:").map(index).and_then(Result::ok).ok_or_else(|| {
                "no such device; give auto, cpu or cuda:N (`shice-workloads devices` lists those of this machine)"
                    .to_owned()
            }),
        }
    }
}

impl Choice {
    /// The device to use.
    ///
    /// # Errors
    /// A GPU was asked for by its number and cannot be used; the message says why.
    pub(crate) fn resolve(self) -> Result<Device> {
        match self {
            Choice::Cpu => Ok(Device::Cpu),
            Choice::Auto => Ok(gpus().find(|gpu| try_out(*gpu).is_ok()).unwrap_or(Device::Cpu)),
            Choice::Cuda(index) => gpu(index),
        }
    }
}

/// A device's name, as PyTorch writes it.
pub(crate) struct Name(pub(crate) Device);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Device::Cuda(index) => write!(f, "cuda:{index}"),
            _ => write!(f, "cpu"),
        }
    }
}

/// Names of all devices on which a kernel ran.
pub(crate) fn usable() -> Vec<String> {
    let working = gpus().filter(|gpu| try_out(*gpu).is_ok());
    std::iter::once(Device::Cpu).chain(working).map(|device| Name(device).to_string()).collect()
}

/// What became of a kernel on each GPU.
#[derive(Debug, Serialize)]
pub(crate) struct Tried {
    libtorch: &'static str,
    /// Why libtorch's CUDA half is not there; absent where it is.
    missing: Option<&'static str>,
    /// Of the CUDA runtime: `13.0`.
    cuda_runtime: Option<String>,
    devices: Vec<TriedDevice>,
}

#[derive(Debug, Serialize)]
struct TriedDevice {
    device: String,
    error: Option<String>,
}

/// Runs a kernel on each GPU.
pub(crate) fn tried() -> Tried {
    let missing = cuda::missing();
    let tried = |gpu: Device| TriedDevice {
        device: Name(gpu).to_string(),
        error: try_out(gpu).err().map(|error| crate::one_line(&error)),
    };
    Tried {
        libtorch: env!("LIBTORCH_VERSION"),
        missing,
        cuda_runtime: missing.is_none().then(|| cuda_version(tch::utils::version_cudart())).flatten(),
        devices: gpus().map(tried).collect(),
    }
}

/// `13.0` of 13000.
fn cuda_version(number: i64) -> Option<String> {
    (number > 0).then(|| format!("{}.{}", number / 1000, number % 1000 / 10))
}

fn gpus() -> impl Iterator<Item = Device> {
    (0..count()).map(Device::Cuda)
}

/// Number of GPUs that the CUDA runtime shows. It is not asked without the CUDA half, which would be an error.
fn count() -> usize {
    if cuda::missing().is_none() && Cuda::is_available() {
        usize::try_from(Cuda::device_count()).unwrap_or(0)
    } else {
        0
    }
}

fn gpu(index: usize) -> Result<Device> {
    if let Some(reason) = cuda::missing() {
        bail!(
            "cuda:{index} cannot be used, libtorch's CUDA half is not there ({reason}); where there is a GPU, `make report` fetches it"
        );
    }
    let device = Device::Cuda(index);
    match count() {
        0 => bail!(
            "cuda:{index} cannot be used, the CUDA runtime finds no GPU; see that `nvidia-smi` lists one, or use --device cpu"
        ),
        count if index >= count => bail!("there is no cuda:{index}; this machine has cuda:0 to cuda:{}", count - 1),
        _ => try_out(device).map(|()| device),
    }
}

fn try_out(device: Device) -> Result<()> {
    let sum = Tensor::f_ones([2], (Kind::Float, device))?.f_sum(Kind::Float)?;
    let sum = sum.f_double_value(&[])?;
    if sum != 2.0 {
        bail!("{} computes wrongly: 1 + 1 was {sum}; look at the card, or use another --device", Name(device));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_written_as_in_pytorch() {
        for (word, choice) in
            [("auto", Choice::Auto), ("cpu", Choice::Cpu), ("cuda", Choice::Cuda(0)), ("cuda:12", Choice::Cuda(12))]
        {
            assert_eq!(word.parse(), Ok(choice));
        }
        for word in ["", "gpu", "CPU", "cuda:", "cuda:-1", "cuda:x", "cuda:99999999999999999999"] {
            assert!(word.parse::<Choice>().is_err(), "{word}");
        }
    }

    #[test]
    fn a_trial_without_gpu_says_so_in_json() {
        cuda::load();
        let told = serde_json::to_value(tried()).unwrap();
        assert_eq!(told["libtorch"], env!("LIBTORCH_VERSION"));
        assert!(told["devices"].is_array());
        assert_eq!(cuda_version(12080).as_deref(), Some("12.8"));
        assert_eq!(cuda_version(-1), None);
    }

    #[test]
    fn the_cpu_can_always_be_used_and_comes_first() {
        cuda::load();
        assert_eq!(usable().first().map(String::as_str), Some("cpu"));
    }

    #[test]
    fn a_gpu_that_is_not_there_is_refused_with_a_way_out() {
        cuda::load();
        let message = Choice::Cuda(999).resolve().unwrap_err().to_string();
        assert!(message.contains("cuda:999"), "{message}");
    }
}

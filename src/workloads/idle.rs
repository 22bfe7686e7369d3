//! The workload that does nothing: what libtorch and a GPU context hold by being there.

use std::time::Duration;

use anyhow::{Context, Result};
use tch::{Device, Kind, Tensor};

use crate::cli::IdleOptions;
use crate::device::Name;
use crate::steps::Steps;

const SECONDS: u32 = 10;
const QUICK_SECONDS: u32 = 5;

/// Loads what a training would, then waits.
///
/// # Errors
/// The device cannot be used, or `SHICE_STEPS` cannot be written.
pub(crate) fn run(options: &IdleOptions, steps: &Steps) -> Result<()> {
    let seconds = options.seconds.unwrap_or(if options.quick { QUICK_SECONDS } else { SECONDS });
    steps.phase("setup")?;
    let device = options.device.resolve()?;
    steps.setting("device", Name(device))?;
    steps.setting("threads", tch::get_num_threads())?;
    steps.setting("libtorch", env!("LIBTORCH_VERSION"))?;
    steps.setting("seconds", seconds)?;
    wake(device).with_context(|| format!("cannot compute on {}", Name(device)))?;

    steps.phase("idle")?;
    std::thread::sleep(Duration::from_secs(seconds.into()));
    steps.phase("end")
}

/// One tiny convolution: on a GPU it creates the context and cuDNN's handle, on the CPU the pool of threads.
fn wake(device: Device) -> Result<()> {
    let image = Tensor::f_ones([1, 1, 8, 8], (Kind::Float, device))?;
    let kernel = Tensor::f_ones([1, 1, 3, 3], (Kind::Float, device))?;
    // Reading a value waits until a GPU is done.
    image.f_conv2d(&kernel, None::<Tensor>, 1, 1, 1, 1)?.f_sum(Kind::Float)?.f_double_value(&[])?;
    Ok(())
}

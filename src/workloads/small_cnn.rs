//! The workload `small-cnn`: a plain training loop, as tutorials write it.
//!
//! Images stay in one tensor, batches are gathered by the training thread itself, Adam learns at 0.001, and no loss is
//! read inside an epoch, which would make a GPU wait for the CPU at each step.

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tch::{COptimizer, Device, Reduction, Tensor};

use crate::batches::{Batch, Images};
use crate::cli::SmallCnnOptions;
use crate::device::Name;
use crate::network::Network;
use crate::steps::{Step, Steps};

const FULL: Size = Size { name: "full", images: 10_000, epochs: 5 };
/// Eight whole batches at the default batch size: about 12 s on two cores.
const QUICK: Size = Size { name: "quick", images: 512, epochs: 1 };

const TRAIN: &str = "train";

struct Size {
    name: &'static str,
    images: u32,
    epochs: u32,
}

/// Trains as asked.
///
/// # Errors
/// The device cannot be used, a batch would be larger than the data, `SHICE_STEPS` cannot be written, or libtorch
/// failed (most likely for lack of memory).
pub(crate) fn run(options: &SmallCnnOptions) -> Result<()> {
    let size = if options.quick { QUICK } else { FULL };
    if options.batch_size > size.images {
        bail!(
            "a batch of {} is more than the {} images that there are; give --batch-size {1} at most",
            options.batch_size,
            size.images
        );
    }
    let epochs = options.epochs.unwrap_or(size.epochs);
    let steps = Steps::from_environment()?;

    steps.phase("setup")?;
    let device = options.device.resolve()?;
    if let Some(threads) = options.threads {
        tch::set_num_threads(i32::from(threads));
    }
    tch::manual_seed(i64::from(options.seed));
    let mut training = Training::new(device).context("cannot set up the network")?;
    tell_settings(&steps, options, &size, epochs, &training)?;

    steps.phase("data")?;
    let images = Images::random(size.images).with_context(|| format!("cannot make {} images", size.images))?;

    steps.phase(TRAIN)?;
    let begin = Instant::now();
    let loss = train(&mut training, &images, epochs, options.batch_size, &steps).context("training failed")?;
    let seconds = begin.elapsed().as_secs_f64();
    steps.phase("end")?;
    let device = Name(device);
    writeln!(std::io::stdout(), "Device: {device}, Total Training Time: {seconds:.2}s, last loss: {loss:.3}")
        .context("cannot write the result")
}

fn tell_settings(
    steps: &Steps,
    options: &SmallCnnOptions,
    size: &Size,
    epochs: u32,
    training: &Training,
) -> Result<()> {
    let on_gpu = training.device.is_cuda();
    steps.setting("device", Name(training.device))?;
    steps.setting("threads", tch::get_num_threads())?;
    steps.setting("data", size.name)?;
    steps.setting("images", size.images)?;
    steps.setting("epochs", epochs)?;
    steps.setting("batch_size", options.batch_size)?;
    steps.setting("seed", options.seed)?;
    // libtorch's defaults: whole float32, but cuDNN may compute convolutions in TF32.
    steps.setting("precision", if on_gpu { "float32 (convolutions may use TF32)" } else { "float32" })?;
    steps.setting("parameters", training.network.parameters().map(Tensor::numel).sum::<usize>())?;
    steps.setting("libtorch", env!("LIBTORCH_VERSION"))?;
    // A GPU takes a step's work while the CPU goes on: the step's end is when it was enqueued, not when it was done.
    steps.setting("step_clock", if on_gpu { "enqueue" } else { "complete" })
}

/// Trains for `epochs` and gives the last step's loss.
fn train(training: &mut Training, images: &Images, epochs: u32, batch_size: u32, steps: &Steps) -> Result<f64> {
    let mut step = 0;
    let mut last_loss = None;
    for epoch in 0..epochs {
        let mut batches = images.shuffled(batch_size)?;
        loop {
            let asked = Instant::now();
            let Some(batch) = batches.next().transpose()? else { break };
            let data_wait_ns = u64::try_from(asked.elapsed().as_nanos())?;
            last_loss = Some(training.step(&batch.to_device(training.device)?)?);
            steps.step(TRAIN, Step { epoch, step, samples: batch.samples, data_wait_ns })?;
            step += 1;
        }
    }
    // Reading a value waits for a GPU that is still at work on steps that were only enqueued, and tells their errors.
    Ok(last_loss.context("there was no step")?.f_double_value(&[])?)
}

/// A network and what trains it.
struct Training {
    device: Device,
    network: Network,
    optimiser: COptimizer,
}

impl Training {
    fn new(device: Device) -> Result<Self> {
        let network = Network::new(device)?;
        // PyTorch's defaults: learning rate, β₁, β₂, weight decay, ε, AMSGrad.
        let mut optimiser = COptimizer::adam(1e-3, 0.9, 0.999, 0.0, 1e-8, false)?;
        for parameter in network.parameters() {
            optimiser.add_parameters(parameter, 0)?;
        }
        Ok(Self { device, network, optimiser })
    }

    /// One optimiser step; gives the loss before it, unread.
    fn step(&mut self, batch: &Batch) -> Result<Tensor> {
        self.optimiser.zero_grad()?;
        let scores = self.network.forward(&batch.pixels)?;
        let loss = scores.f_cross_entropy_loss(&batch.labels, None::<Tensor>, Reduction::Mean, -100, 0.0)?;
        loss.f_backward()?;
        self.optimiser.step()?;
        // Without the graph that leads to it.
        Ok(loss.f_detach()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_starts_at_a_guess_among_ten_classes_and_learns() {
        tch::manual_seed(0);
        let mut training = Training::new(Device::Cpu).unwrap();
        let images = Images::random(8).unwrap();
        let losses: Vec<f64> = (0..12)
            .map(|_| {
                let batch = images.shuffled(8).unwrap().next().unwrap().unwrap();
                training.step(&batch).unwrap().double_value(&[])
            })
            .collect();
        // ln 10 is the loss of even odds; PyTorch's own layers start within 0.05 of it (2.307 over a batch of 64).
        assert!((losses[0] - 10.0_f64.ln()).abs() < 0.15, "{losses:?}");
        let best = losses.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(best < 1.0, "eight images can be learnt by heart: {losses:?}");
    }

    #[test]
    fn a_batch_larger_than_the_data_is_refused() {
        let options = SmallCnnOptions {
            device: crate::device::Choice::Cpu,
            epochs: None,
            batch_size: 513,
            threads: None,
            seed: 0,
            quick: true,
        };
        let message = run(&options).unwrap_err().to_string();
        assert!(message.contains("513") && message.contains("512"), "{message}");
    }
}

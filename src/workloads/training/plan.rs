//! What a training loop is going to do: its options, checked, with the workload's own figures where none was given.

use anyhow::{Context, Result, bail};
use tch::Device;

use super::precision::Precision;
use crate::cli::TrainingOptions;
use crate::data::loader::Shape;
use crate::device::Name;
use crate::steps::Steps;

/// A workload's own figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) batch_size: u32,
    pub(crate) epochs: u32,
    pub(crate) workers: u16,
    pub(crate) accumulate: u32,
}

/// How to train.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) batch_size: u32,
    /// None where only the number of steps ends it.
    pub(crate) epochs: Option<u32>,
    pub(crate) steps: Option<u64>,
    pub(crate) workers: u16,
    /// Batches that make one step.
    pub(crate) accumulate: u32,
    pub(crate) seed: u32,
    pub(crate) precision: Precision,
}

/// How a workload goes about a precision and a step, where they differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner<'a> {
    /// What the precision became, in words.
    pub(crate) precision: &'a str,
    /// Whether a step ends when a GPU is done with it.
    pub(crate) waits: bool,
}

impl Plan {
    /// # Errors
    /// A step would need more than the `samples` that there are.
    pub(crate) fn new(options: &TrainingOptions, defaults: Defaults, samples: u32) -> Result<Self> {
        let plan = Self {
            batch_size: options.batch_size.unwrap_or(defaults.batch_size),
            // A number of steps alone goes over the data as often as it takes.
            epochs: options.epochs.or(if options.steps.is_some() { None } else { Some(defaults.epochs) }),
            steps: options.steps,
            workers: options.workers.unwrap_or(defaults.workers),
            accumulate: options.accumulate.unwrap_or(defaults.accumulate),
            seed: options.seed,
            precision: options.precision,
        };
        plan.refuse_too_large(samples)?;
        Ok(plan)
    }

    /// # Errors
    /// A step would need more than the `samples` that there are.
    pub(crate) fn refuse_too_large(&self, samples: u32) -> Result<()> {
        let Self { batch_size, accumulate, .. } = *self;
        if batch_size > samples {
            bail!(
                "a batch of {batch_size} is more than the {samples} samples that there are; give --batch-size {samples} at most"
            );
        }
        if u64::from(batch_size) * u64::from(accumulate) > samples.into() {
            let most = samples / batch_size;
            bail!(
                "a step of {accumulate} batches of {batch_size} is more than the {samples} samples that there are; give --accumulate {most} at most"
            );
        }
        Ok(())
    }

    /// The device, with the number of threads and the seed set.
    ///
    /// # Errors
    /// The device cannot be used, or not with this precision.
    pub(crate) fn start(&self, options: &TrainingOptions) -> Result<Device> {
        let device = options.device.resolve()?;
        if let Some(threads) = options.threads {
            tch::set_num_threads(i32::from(threads));
        }
        self.precision.check(device).with_context(|| format!("--precision cannot be had on {}", Name(device)))?;
        tch::manual_seed(i64::from(self.seed));
        Ok(device)
    }

    /// How samples become batches.
    pub(crate) fn shape(&self, device: Device) -> Shape {
        Shape { batch_size: self.batch_size, workers: self.workers, seed: self.seed, device }
    }

    /// Tells what the options became.
    ///
    /// # Errors
    /// `SHICE_STEPS` cannot be written.
    pub(crate) fn tell(&self, steps: &Steps, device: Device, manner: Manner<'_>) -> Result<()> {
        steps.setting("device", Name(device))?;
        steps.setting("threads", tch::get_num_threads())?;
        steps.setting("batch_size", self.batch_size)?;
        steps.setting("accumulate", self.accumulate)?;
        if let Some(epochs) = self.epochs {
            steps.setting("epochs", epochs)?;
        }
        if let Some(number) = self.steps {
            steps.setting("steps", number)?;
        }
        steps.setting("workers", self.workers)?;
        steps.setting("pin_memory", device.is_cuda())?;
        steps.setting("seed", self.seed)?;
        steps.setting("precision", manner.precision)?;
        steps.setting("libtorch", env!("LIBTORCH_VERSION"))?;
        // A GPU takes a step's work while the CPU goes on: the step's end is when it was enqueued, not when it was done.
        steps.setting("step_clock", if device.is_cuda() && !manner.waits { "enqueue" } else { "complete" })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::device::Choice;

    const DEFAULTS: Defaults = Defaults { batch_size: 64, epochs: 5, workers: 0, accumulate: 1 };

    /// Options of which none was given but the device.
    pub(crate) fn options() -> TrainingOptions {
        TrainingOptions {
            device: Choice::Cpu,
            batch_size: None,
            epochs: None,
            steps: None,
            workers: None,
            threads: None,
            precision: Precision::Default,
            accumulate: None,
            seed: 0,
            quick: true,
        }
    }

    #[test]
    fn a_workload_has_figures_of_its_own_and_steps_alone_end_no_epoch() {
        let plan = Plan::new(&options(), DEFAULTS, 512).unwrap();
        assert_eq!((plan.batch_size, plan.epochs, plan.steps, plan.accumulate), (64, Some(5), None, 1));
        let steps = TrainingOptions { steps: Some(20), ..options() };
        assert_eq!(Plan::new(&steps, DEFAULTS, 512).unwrap().epochs, None);
        let both = TrainingOptions { steps: Some(20), epochs: Some(1), ..options() };
        assert_eq!(Plan::new(&both, DEFAULTS, 512).unwrap().epochs, Some(1));
    }

    #[test]
    fn a_batch_or_step_larger_than_the_data_is_refused_with_what_would_fit() {
        let batch = TrainingOptions { batch_size: Some(513), ..options() };
        let message = Plan::new(&batch, DEFAULTS, 512).unwrap_err().to_string();
        assert!(message.contains("513") && message.contains("--batch-size 512"), "{message}");
        let step = TrainingOptions { accumulate: Some(9), ..options() };
        let message = Plan::new(&step, DEFAULTS, 512).unwrap_err().to_string();
        assert!(message.contains("9 batches of 64") && message.contains("--accumulate 8"), "{message}");
    }
}

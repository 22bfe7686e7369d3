//! The loop that all trainings share.

pub(crate) mod loss_scale;
pub(crate) mod plan;
pub(crate) mod precision;

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result};
use tch::{Device, Tensor};

use crate::data::loader::{Epoch, Loader};
use crate::data::{Batch, Source};
use crate::device::Name;
use crate::steps::{Step, Steps, TRAIN};
use loss_scale::LossScale;
use plan::Plan;

/// Steps that readers of the trace leave out of rates.
const WARM_UP_STEPS: u64 = 2;

/// A model and what trains it.
pub(crate) trait Learner {
    /// Adds the gradients of one batch, whose mean loss counts `weight` in its step; gives the loss so weighted, unread.
    fn add(&mut self, batch: &Batch, weight: f64) -> Result<Tensor>;

    /// Ends a step: changes the weights by the gradients that were added, and forgets these.
    fn update(&mut self) -> Result<()>;

    /// The loss scale, where there is one.
    fn scale(&self) -> Option<&LossScale> {
        None
    }
}

/// Trains as planned, and says how long it took; the whole of a workload's training phase.
///
/// # Errors
/// As [`train`], or standard output cannot be written.
pub(crate) fn run(
    mut learner: impl Learner,
    loader: &Loader<impl Source>,
    plan: &Plan,
    device: Device,
    steps: &Steps,
) -> Result<()> {
    steps.phase(TRAIN)?;
    let begin = Instant::now();
    let loss = train(&mut learner, loader, plan, device, steps).context("training failed")?;
    let seconds = begin.elapsed().as_secs_f64();
    steps.phase("end")?;
    if let Some(scale) = learner.scale() {
        steps.setting("skipped_steps", scale.skipped())?;
    }
    writeln!(std::io::stdout(), "Device: {}, Total Training Time: {seconds:.2}s, last loss: {loss:.3}", Name(device))
        .context("cannot write the result")
}

/// Trains as planned, tells each step, and gives the last one's loss.
///
/// No loss is read but where warm-up is over and at the end: it would make a GPU wait for the CPU at each step. From the one
/// to the other is the time that a GPU took for the steps between, whenever they were enqueued.
///
/// # Errors
/// libtorch failed (most likely for lack of memory), a sample cannot be had, or `SHICE_STEPS` cannot be written.
fn train(
    learner: &mut impl Learner,
    loader: &Loader<impl Source>,
    plan: &Plan,
    device: Device,
    steps: &Steps,
) -> Result<f64> {
    let mut step = 0;
    let mut last_loss = None;
    for epoch in 0..plan.epochs.unwrap_or(u32::MAX) {
        let mut batches = Groups::new(loader, plan, epoch)?;
        while plan.steps.is_none_or(|most| step < most) {
            let Some((loss, told)) = batches.step(learner, device)? else { break };
            if step + 1 == WARM_UP_STEPS && device.is_cuda() {
                loss.f_double_value(&[])?;
            }
            last_loss = Some(loss);
            steps.step(TRAIN, Step { epoch, step, ..told })?;
            step += 1;
        }
        if plan.steps.is_some_and(|most| step >= most) {
            break;
        }
    }
    // Reading a value waits for a GPU that is still at work on steps that were only enqueued, and tells their errors.
    Ok(last_loss.context("there was no step")?.f_double_value(&[])?)
}

/// The batches of an epoch, taken in groups that make a step.
struct Groups<S> {
    batches: Epoch<S>,
    /// Samples that were not taken yet.
    left: u32,
    /// Samples of a whole step.
    whole: u32,
}

impl<S: Source> Groups<S> {
    fn new(loader: &Loader<S>, plan: &Plan, epoch: u32) -> Result<Self> {
        let whole = plan.batch_size.saturating_mul(plan.accumulate);
        Ok(Self { batches: loader.epoch(epoch)?, left: loader.samples(), whole })
    }

    /// One step; the last one of an epoch may have fewer samples. None when the epoch is over.
    fn step(&mut self, learner: &mut impl Learner, device: Device) -> Result<Option<(Tensor, Step)>> {
        let samples = self.whole.min(self.left);
        let mut told = Step { epoch: 0, step: 0, samples: 0, data_wait_ns: 0 };
        let mut sum: Option<Tensor> = None;
        while told.samples < samples {
            let asked = Instant::now();
            let Some(batch) = self.batches.next().transpose()? else { break };
            told.data_wait_ns += u64::try_from(asked.elapsed().as_nanos())?;
            told.samples += batch.samples;
            // Each sample counts the same, also in a last batch that is smaller.
            let weight = f64::from(batch.samples) / f64::from(samples);
            let loss = learner.add(&batch.to_device(device)?, weight)?;
            sum = Some(match sum {
                Some(sum) => sum.f_add(&loss)?,
                None => loss,
            });
        }
        self.left -= told.samples.min(self.left);
        let Some(sum) = sum else { return Ok(None) };
        learner.update()?;
        Ok(Some((sum, told)))
    }
}

#[cfg(test)]
mod tests;

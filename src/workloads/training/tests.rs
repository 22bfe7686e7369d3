use tch::Kind;

use super::plan::Defaults;
use super::*;
use crate::cli::TrainingOptions;
use crate::data::random::Random;

/// `count` samples whose value is their number.
struct Numbers(u32);

impl Source for Numbers {
    fn count(&self) -> u32 {
        self.0
    }

    fn share(&self) -> Self {
        Self(self.0)
    }

    fn batch(&self, chosen: &[u32], _: &mut Random) -> Result<Batch> {
        let values: Vec<f64> = chosen.iter().copied().map(f64::from).collect();
        let inputs = Tensor::from_slice(&values);
        Ok(Batch { targets: inputs.shallow_clone(), inputs, samples: u32::try_from(chosen.len())? })
    }
}

/// Keeps what it is given; its loss is the mean of a batch.
#[derive(Default)]
struct Pupil {
    weights: Vec<f64>,
    /// Batches of each step.
    steps: Vec<usize>,
}

impl Learner for Pupil {
    fn add(&mut self, batch: &Batch, weight: f64) -> Result<Tensor> {
        self.weights.push(weight);
        Ok(batch.inputs.mean(Kind::Double) * weight)
    }

    fn update(&mut self) -> Result<()> {
        let before: usize = self.steps.iter().sum();
        self.steps.push(self.weights.len() - before);
        Ok(())
    }
}

fn trained(samples: u32, change: impl FnOnce(&mut TrainingOptions)) -> (Pupil, f64) {
    let mut options = plan::tests::options();
    options.batch_size = Some(4);
    change(&mut options);
    let defaults = Defaults { batch_size: 1, epochs: 1, workers: 0, accumulate: 1 };
    let plan = Plan::new(&options, defaults, samples).unwrap();
    let loader = Loader::new(Numbers(samples), plan.shape(Device::Cpu));
    let mut pupil = Pupil::default();
    let loss = train(&mut pupil, &loader, &plan, Device::Cpu, &Steps::silent()).unwrap();
    (pupil, loss)
}

#[test]
fn each_sample_of_a_step_counts_the_same_and_an_epoch_ends_with_what_is_left() {
    let (pupil, _) = trained(22, |options| options.accumulate = Some(4));
    assert_eq!(pupil.steps, [4, 2]);
    assert_eq!(pupil.weights, [0.25, 0.25, 0.25, 0.25, 4.0 / 6.0, 2.0 / 6.0]);
}

#[test]
fn accumulated_batches_have_the_loss_of_one_large_batch() {
    // The mean of 0 to 15, whatever the order.
    for (batch_size, accumulate) in [(16, 1), (4, 4), (5, 3)] {
        let (pupil, loss) = trained(if batch_size == 5 { 15 } else { 16 }, |options| {
            options.batch_size = Some(batch_size);
            options.accumulate = Some(accumulate);
        });
        assert_eq!(pupil.steps, [accumulate as usize]);
        assert!((loss - if batch_size == 5 { 7.0 } else { 7.5 }).abs() < 1e-12, "{loss}");
    }
}

#[test]
fn a_number_of_steps_ends_the_training_within_an_epoch_or_after_several() {
    for (number, steps) in [(2, 2), (7, 7)] {
        let (pupil, _) = trained(12, |options| options.steps = Some(number));
        assert_eq!(pupil.steps.len(), steps);
    }
    let (pupil, _) = trained(12, |options| (options.steps, options.epochs) = (Some(7), Some(2)));
    assert_eq!(pupil.steps.len(), 6);
}

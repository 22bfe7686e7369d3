//! The workload `small-cnn`: a plain training loop, as tutorials write it. Images stay in one tensor.

use anyhow::{Context, Result};
use tch::Tensor;

use super::Network;
use super::network::SmallCnn;
use crate::cli::SmallCnnOptions;
use crate::data::images::Images;
use crate::data::loader::Loader;
use crate::steps::Steps;
use crate::training::plan::{Defaults, Manner, Plan};

const DEFAULTS: Defaults = Defaults { batch_size: 64, epochs: 5, workers: 0, accumulate: 1 };
const IMAGES: u32 = 10_000;
/// Eight whole batches at the default batch size: about 12 s on two cores.
const QUICK_IMAGES: u32 = 512;
const QUICK: Defaults = Defaults { epochs: 1, ..DEFAULTS };

/// Trains as asked.
///
/// # Errors
/// The device cannot be used, a batch would be larger than the data, `SHICE_STEPS` cannot be written, or libtorch
/// failed (most likely for lack of memory).
pub(crate) fn run(options: &SmallCnnOptions, steps: &Steps) -> Result<()> {
    let training = &options.training;
    let (images, defaults) = if training.quick { (QUICK_IMAGES, QUICK) } else { (IMAGES, DEFAULTS) };
    let plan = Plan::new(training, defaults, images)?;

    steps.phase("setup")?;
    let device = plan.start(training)?;
    let network = SmallCnn::new(device).context("cannot set up the network")?;
    plan.tell(steps, device, Manner { precision: plan.precision.effective(device), waits: false })?;
    steps.setting("data", "synthetic")?;
    steps.setting("images", images)?;
    steps.setting("parameters", network.parameters().into_iter().map(Tensor::numel).sum::<usize>())?;

    steps.phase("data")?;
    let images = Images::random(images).with_context(|| format!("cannot make {images} images"))?;
    super::run(network, &Loader::new(images, plan.shape(device)), &plan, device, steps)
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::data::random::Random;
    use crate::data::{Batch, Source};
    use crate::training::Learner;
    use crate::training::precision::Precision;
    use crate::vision::Classifier;

    fn classifier() -> Classifier<SmallCnn> {
        tch::manual_seed(0);
        Classifier::new(SmallCnn::new(Device::Cpu).unwrap(), Precision::Default).unwrap()
    }

    fn batch(images: u32) -> Batch {
        let all: Vec<u32> = (0..images).collect();
        Images::random(images).unwrap().batch(&all, &mut Random::new(&[])).unwrap()
    }

    fn losses(classifier: &mut Classifier<SmallCnn>, batch: &Batch, steps: u32) -> Vec<f64> {
        let mut step = || {
            let loss = classifier.add(batch, 1.0).unwrap().double_value(&[]);
            classifier.update().unwrap();
            loss
        };
        (0..steps).map(|_| step()).collect()
    }

    fn least(losses: &[f64]) -> f64 {
        losses.iter().copied().fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn training_starts_at_a_guess_among_ten_classes_and_learns() {
        let losses = losses(&mut classifier(), &batch(8), 12);
        // ln 10 is the loss of even odds; PyTorch's own layers start within 0.05 of it (2.307 over a batch of 64).
        assert!((losses[0] - 10.0_f64.ln()).abs() < 0.15, "{losses:?}");
        assert!(least(&losses) < 1.0, "eight images can be learnt by heart: {losses:?}");
    }

    #[test]
    fn layers_in_bfloat16_have_nearly_the_loss_and_gradients_of_float32_which_the_weights_stay_in() {
        let (mut classifier, batch) = (classifier(), batch(8));
        let mut computed = |precision: Precision| {
            classifier.precision = precision;
            classifier.optimiser.zero_grad().unwrap();
            let loss = classifier.add(&batch, 1.0).unwrap().double_value(&[]);
            let gradients: Vec<Tensor> = classifier.network.parameters().iter().map(|weight| weight.grad()).collect();
            assert!(gradients.iter().all(|gradient| gradient.kind() == Kind::Float));
            (loss, Tensor::cat(&gradients.iter().map(|gradient| gradient.flatten(0, -1)).collect::<Vec<_>>(), 0))
        };
        let ((whole_loss, whole), (half_loss, half)) = (computed(Precision::Fp32), computed(Precision::Bf16));
        // bfloat16 keeps 8 binary digits.
        assert!((half_loss - whole_loss).abs() < 0.02 && half_loss != whole_loss, "{half_loss}, {whole_loss}");
        // ReLU and pooling choose otherwise here and there.
        let off = ((&half - &whole).norm() / whole.norm()).double_value(&[]);
        assert!(off > 0.0 && off < 0.15, "{off}");
    }

    #[test]
    fn four_batches_of_four_have_the_gradients_of_one_of_sixteen() {
        let (mut classifier, images) = (classifier(), Images::random(16).unwrap());
        let mut gradients = |size: usize| {
            classifier.optimiser.zero_grad().unwrap();
            let all: Vec<u32> = (0..16).collect();
            for chosen in all.chunks(size) {
                let batch = images.batch(chosen, &mut Random::new(&[])).unwrap();
                let _loss = classifier.add(&batch, size as f64 / 16.0).unwrap();
            }
            let weights = classifier.network.parameters();
            weights.iter().map(|weight| weight.grad().copy()).collect::<Vec<_>>()
        };
        for (four, one) in gradients(4).iter().zip(gradients(16)) {
            let (difference, largest) =
                ((four - &one).abs().max().double_value(&[]), one.abs().max().double_value(&[]));
            // Sums of up to 16 384 terms in float32, in another order.
            assert!(difference < 1e-4 * largest, "{difference} of {largest}");
        }
    }
}

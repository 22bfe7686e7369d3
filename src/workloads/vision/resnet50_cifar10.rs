//! The workload `resnet50-cifar10`: torchvision's ResNet-50 as it is, on images of 32×32.

use anyhow::{Context, Result, bail};
use tch::Tensor;

use super::Network;
use super::resnet::Resnet50;
use crate::cli::Resnet50Cifar10Options;
use crate::data::cifar::{self, Cifar};
use crate::data::loader::Loader;
use crate::steps::Steps;
use crate::training::plan::{Defaults, Manner, Plan};

const DEFAULTS: Defaults = Defaults { batch_size: 32, epochs: 5, workers: 4, accumulate: 1 };
/// Sixteen whole batches at the default batch size: 7 to 15 s on two cores.
const QUICK_IMAGES: u32 = 512;
const QUICK: Defaults = Defaults { epochs: 1, ..DEFAULTS };

/// Trains as asked.
///
/// # Errors
/// The data or the device cannot be used, a batch would be larger than the data or have a single image, `SHICE_STEPS`
/// cannot be written, or libtorch failed (most likely for lack of memory).
pub(crate) fn run(options: &Resnet50Cifar10Options, steps: &Steps) -> Result<()> {
    let training = &options.training;
    let (count, defaults) = if training.quick { (QUICK_IMAGES, QUICK) } else { (cifar::IMAGES, DEFAULTS) };
    let plan = Plan::new(training, defaults, count)?;
    refuse_single_images(plan.batch_size, count)?;

    steps.phase("data")?;
    let images = match &options.data {
        Some(folder) => Cifar::read(folder, count)?,
        None => Cifar::synthetic(count, plan.seed),
    };
    steps.setting("data", if options.data.is_some() { "cifar10" } else { "synthetic" })?;
    if options.data.is_some() {
        // No checksums of the single files were ever published.
        steps.setting("data_verified", "sizes, classes, images of each class, mean of each colour")?;
    }
    steps.setting("images", count)?;

    steps.phase("setup")?;
    let device = plan.start(training)?;
    let network = Resnet50::new(device).context("cannot set up the network")?;
    plan.tell(steps, device, Manner { precision: plan.precision.effective(device), waits: false })?;
    steps.setting("parameters", network.parameters().into_iter().map(Tensor::numel).sum::<usize>())?;
    super::run(network, &Loader::new(images, plan.shape(device)), &plan, device, steps)
}

/// BatchNorm has nothing to normalise in a single image that has shrunk to one pixel; PyTorch refuses it too.
fn refuse_single_images(batch_size: u32, images: u32) -> Result<()> {
    if batch_size == 1 {
        bail!("BatchNorm needs two images in a batch at least; give --batch-size 2 or more");
    }
    if images % batch_size == 1 {
        bail!(
            "of {images} images in batches of {batch_size} the last holds one, and BatchNorm needs two at least; give another --batch-size"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::plan::tests::options;

    #[test]
    fn batches_of_a_single_image_are_refused_before_training() {
        for (batch_size, word) in [(1, "--batch-size 2"), (73, "the last holds one")] {
            let mut training = options();
            training.batch_size = Some(batch_size);
            let message =
                run(&Resnet50Cifar10Options { training, data: None }, &Steps::silent()).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn a_folder_without_the_data_is_refused_by_the_name_of_a_file() {
        let data = Some(std::path::PathBuf::from("/nowhere"));
        let message =
            format!("{:#}", run(&Resnet50Cifar10Options { training: options(), data }, &Steps::silent()).unwrap_err());
        assert!(message.contains("/nowhere/data_batch_1.bin") && message.contains("--data"), "{message}");
    }
}

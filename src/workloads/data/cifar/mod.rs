//! Small images in colour: CIFAR-10, or random ones of the same shape.

mod augment;
mod files;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use tch::Tensor;

use super::random::Random;
use super::{Batch, Source};
use augment::{Change, VALUES};

/// Images to learn from.
pub(crate) const IMAGES: u32 = files::FILES.len() as u32 * files::IMAGES;
/// Kinds of image.
const CLASSES: u32 = 10;
/// Height and width.
const SIDE: usize = 32;
/// Bytes of an image: all reds row by row, all greens, all blues.
const PIXELS: usize = 3 * SIDE * SIDE;

/// Images and their labels, a byte for each colour of a pixel.
pub(crate) struct Cifar {
    pixels: Arc<Vec<u8>>,
    labels: Arc<Vec<u8>>,
    count: u32,
}

impl Cifar {
    /// The first `count` images of the binary version in `folder`, all of which is looked at.
    ///
    /// # Errors
    /// A file is missing, or is not what it should be.
    pub(crate) fn read(folder: &Path, count: u32) -> Result<Self> {
        let (pixels, labels) = files::read(folder)?;
        Ok(Self { pixels: Arc::new(pixels), labels: Arc::new(labels), count: count.min(IMAGES) })
    }

    /// `count` random images with labels drawn evenly.
    pub(crate) fn synthetic(count: u32, seed: u32) -> Self {
        let mut random = Random::new(&[seed.into()]);
        let words = (0..count as usize * PIXELS / size_of::<u64>()).map(|_| random.draw());
        let pixels = words.flat_map(u64::to_le_bytes).collect();
        let labels = (0..count).map(|_| random.below(CLASSES) as u8).collect();
        Self { pixels: Arc::new(pixels), labels: Arc::new(labels), count }
    }
}

impl Source for Cifar {
    fn count(&self) -> u32 {
        self.count
    }

    fn share(&self) -> Self {
        Self { pixels: Arc::clone(&self.pixels), labels: Arc::clone(&self.labels), count: self.count }
    }

    fn batch(&self, chosen: &[u32], random: &mut Random) -> Result<Batch> {
        let mut inputs = vec![0.0; chosen.len() * PIXELS];
        let mut targets = Vec::with_capacity(chosen.len());
        for (&image, values) in chosen.iter().zip(inputs.chunks_exact_mut(PIXELS)) {
            let pixels = self.pixels.chunks_exact(PIXELS).nth(image as usize);
            Change::drawn(random).apply(pixels.with_context(|| format!("there is no image {image}"))?, &VALUES, values);
            targets.push(i64::from(self.labels[image as usize]));
        }
        let side = SIDE as i64;
        Ok(Batch {
            inputs: Tensor::f_from_slice(&inputs)?.f_view([-1, 3, side, side])?,
            targets: Tensor::f_from_slice(&targets)?,
            samples: u32::try_from(chosen.len())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_images_have_the_shape_of_cifar_and_follow_from_the_seed() {
        let images = Cifar::synthetic(40, 3);
        assert_eq!((images.pixels.len(), images.labels.len(), images.count()), (40 * 3072, 40, 40));
        assert!(images.labels.iter().all(|label| *label < 10));
        assert_eq!(images.pixels, Cifar::synthetic(40, 3).pixels);
        assert_ne!(images.pixels, Cifar::synthetic(40, 4).pixels);
        // Even bytes: 127.5 on average, with a standard error of 73.9 / √122 880.
        let mean = images.pixels.iter().map(|byte| f64::from(*byte)).sum::<f64>() / images.pixels.len() as f64;
        assert!((mean - 127.5).abs() < 1.1, "{mean}");
    }

    #[test]
    fn a_batch_has_the_labels_of_its_images_and_another_crop_of_each() {
        let images = Cifar::synthetic(40, 3);
        let batch = images.batch(&[7, 39, 7, 7, 7], &mut Random::new(&[5])).unwrap();
        assert_eq!(batch.inputs.size(), [5, 3, 32, 32]);
        let labels = [7, 39, 7, 7, 7].map(|image: usize| i64::from(images.labels[image]));
        assert_eq!(Vec::<i64>::try_from(&batch.targets).unwrap(), labels);
        let crops = [0, 2, 3, 4].map(|place| batch.inputs.select(0, place));
        assert!(crops[1..].iter().any(|crop| *crop != crops[0]));
    }
}

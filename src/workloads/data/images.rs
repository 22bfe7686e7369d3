//! Random images that stay in memory.

use anyhow::Result;
use tch::{Device, Kind, Tensor};

use super::random::Random;
use super::{Batch, Source};

/// Colours, height and width of an image.
pub(crate) const IMAGE: [i64; 3] = [3, 128, 128];
/// Kinds of image.
pub(crate) const CLASSES: i64 = 10;

/// All images and their labels.
pub(crate) struct Images {
    pixels: Tensor,
    labels: Tensor,
    count: u32,
}

impl Images {
    /// `count` images of normal noise with labels drawn evenly.
    pub(crate) fn random(count: u32) -> Result<Self> {
        let [colours, height, width] = IMAGE;
        Ok(Self {
            pixels: Tensor::f_randn([i64::from(count), colours, height, width], (Kind::Float, Device::Cpu))?,
            labels: Tensor::f_randint(CLASSES, [i64::from(count)], (Kind::Int64, Device::Cpu))?,
            count,
        })
    }
}

impl Source for Images {
    fn count(&self) -> u32 {
        self.count
    }

    fn share(&self) -> Self {
        Self { pixels: self.pixels.shallow_clone(), labels: self.labels.shallow_clone(), count: self.count }
    }

    fn batch(&self, chosen: &[u32], _: &mut Random) -> Result<Batch> {
        let indices: Vec<i64> = chosen.iter().copied().map(i64::from).collect();
        let indices = Tensor::f_from_slice(&indices)?;
        Ok(Batch {
            inputs: self.pixels.f_index_select(0, &indices)?,
            targets: self.labels.f_index_select(0, &indices)?,
            samples: u32::try_from(chosen.len())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_follow_their_images() {
        let images = Images::random(32).unwrap();
        let chosen = [3, 31, 0, 17, 3];
        let batch = images.batch(&chosen, &mut Random::new(&[])).unwrap();
        assert_eq!(batch.samples, 5);
        for (place, image) in (0..).zip(chosen) {
            let image = i64::from(image);
            assert_eq!(batch.inputs.select(0, place), images.pixels.select(0, image));
            assert_eq!(batch.targets.int64_value(&[place]), images.labels.int64_value(&[image]));
        }
    }
}

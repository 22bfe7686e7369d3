//! Random images that stay in memory, and batches gathered from them in a new order each epoch.

use anyhow::Result;
use tch::{Device, Kind, Tensor};

/// Colours, height and width of an image.
pub(crate) const IMAGE: [i64; 3] = [3, 128, 128];
/// Kinds of image.
pub(crate) const CLASSES: i64 = 10;

/// All images and their labels, in main memory.
pub(crate) struct Images {
    pixels: Tensor,
    labels: Tensor,
    count: u32,
}

/// One batch, on the device that trains.
pub(crate) struct Batch {
    pub(crate) pixels: Tensor,
    pub(crate) labels: Tensor,
    pub(crate) samples: u32,
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

    /// One epoch: each image once, shuffled, in batches of `size`; the last batch holds what is left.
    pub(crate) fn shuffled(&self, size: u32) -> Result<impl Iterator<Item = Result<Batch>>> {
        let order = Tensor::f_randperm(i64::from(self.count), (Kind::Int64, Device::Cpu))?;
        let size = size.max(1);
        Ok((0..self.count.div_ceil(size)).map(move |batch| {
            let start = batch * size;
            let samples = size.min(self.count - start);
            let chosen = order.f_narrow(0, i64::from(start), i64::from(samples))?;
            Ok(Batch {
                pixels: self.pixels.f_index_select(0, &chosen)?,
                labels: self.labels.f_index_select(0, &chosen)?,
                samples,
            })
        }))
    }
}

impl Batch {
    /// The batch on a device. On a GPU the copy waits for the work before it, so this is no time spent on data.
    pub(crate) fn to_device(&self, device: Device) -> Result<Self> {
        Ok(Self {
            pixels: self.pixels.f_to_device(device)?,
            labels: self.labels.f_to_device(device)?,
            samples: self.samples,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_holds_each_image_once_and_the_rest_in_a_smaller_batch() {
        let images = Images::random(10).unwrap();
        let batches: Vec<Batch> = images.shuffled(4).unwrap().map(Result::unwrap).collect();
        assert_eq!(batches.iter().map(|batch| batch.samples).collect::<Vec<_>>(), [4, 4, 2]);

        // Noise never repeats, so the sorted first pixels tell which images were there.
        let first = |pixels: &Tensor| pixels.select(1, 0).select(1, 0).select(1, 0);
        let seen = Tensor::cat(&batches.iter().map(|batch| first(&batch.pixels)).collect::<Vec<_>>(), 0);
        assert_eq!(seen.sort(0, false).0, first(&images.pixels).sort(0, false).0);
    }

    #[test]
    fn each_epoch_has_an_order_of_its_own() {
        let images = Images::random(64).unwrap();
        let epoch = || images.shuffled(64).unwrap().next().unwrap().unwrap().pixels;
        assert_ne!(epoch(), epoch());
    }

    #[test]
    fn labels_follow_their_images() {
        let images = Images::random(32).unwrap();
        for batch in images.shuffled(5).unwrap().map(Result::unwrap) {
            for sample in 0..i64::from(batch.samples) {
                let same = images.pixels.eq_tensor(&batch.pixels.select(0, sample)).flatten(1, -1).all_dim(1, false);
                let image = same.to_kind(Kind::Int).argmax(0, false).int64_value(&[]);
                assert_eq!(images.labels.int64_value(&[image]), batch.labels.int64_value(&[sample]));
            }
        }
    }
}

//! torchvision's ResNet-50 (version 1.5: the stride lies in the bottleneck's middle), made of libtorch's operations.

mod block;

use anyhow::Result;
use tch::{Device, Kind, Tensor};

use super::Network;
use super::layers::Layer;
use block::{Bottleneck, EXPANSION, Unit};

/// Classes of ImageNet, for which torchvision lays out the last layer; CIFAR-10 uses the first ten.
const CLASSES: i64 = 1000;
const STEM: i64 = 64;
/// Blocks, width of their middle, and stride of the first of each stage.
const STAGES: [(usize, i64, i64); 4] = [(3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)];

pub(super) struct Resnet50 {
    stem: Unit,
    blocks: Vec<Bottleneck>,
    output: Layer,
}

impl Resnet50 {
    pub(super) fn new(device: Device) -> Result<Self> {
        let stem = Unit::new([3, STEM], 7, 2, device)?;
        let mut blocks = Vec::new();
        let mut channels = STEM;
        for (count, middle, first_stride) in STAGES {
            for block in 0..count {
                let stride = if block == 0 { first_stride } else { 1 };
                blocks.push(Bottleneck::new(channels, middle, stride, device)?);
                channels = middle * EXPANSION;
            }
        }
        Ok(Self { stem, blocks, output: Layer::new(&[CLASSES, channels], device)? })
    }

    /// Scores of all classes; while training the batch itself is what normalises.
    fn scores(&self, images: &Tensor, kind: Kind, training: bool) -> Result<Tensor> {
        let mut features = self.stem.forward(&images.f_to_kind(kind)?, kind, training)?.f_relu_()?;
        features = features.f_max_pool2d(3, 2, 1, 1, false)?;
        for block in &self.blocks {
            features = block.forward(&features, kind, training)?;
        }
        let [weight, bias] = self.output.cast(kind)?;
        Ok(features.f_adaptive_avg_pool2d([1, 1])?.f_flatten(1, -1)?.f_linear(&weight, Some(&bias))?)
    }

    fn units(&self) -> impl Iterator<Item = &Unit> {
        std::iter::once(&self.stem).chain(self.blocks.iter().flat_map(Bottleneck::units))
    }
}

impl Network for Resnet50 {
    fn forward(&self, images: &Tensor, kind: Kind) -> Result<Tensor> {
        self.scores(images, kind, true)
    }

    /// In the order of torchvision's `parameters()`.
    fn parameters(&self) -> Vec<&Tensor> {
        self.units().flat_map(Unit::parameters).chain([&self.output.weight, &self.output.bias]).collect()
    }
}

#[cfg(test)]
mod tests;

//! The bottleneck: a narrow convolution between two that change the number of channels, added to what went in.

use anyhow::Result;
use tch::{Device, Kind, Tensor};

use crate::vision::layers::{BatchNorm, Convolution};

/// How much wider a block's output is than its middle.
pub(super) const EXPANSION: i64 = 4;

/// A convolution and what normalises its output.
pub(super) struct Unit {
    pub(super) convolution: Convolution,
    pub(super) norm: BatchNorm,
}

impl Unit {
    pub(super) fn new(channels: [i64; 2], kernel: i64, stride: i64, device: Device) -> Result<Self> {
        let convolution = Convolution::new(channels, kernel, stride, device)?;
        Ok(Self { convolution, norm: BatchNorm::new(channels[1], device)? })
    }

    pub(super) fn forward(&self, features: &Tensor, kind: Kind, training: bool) -> Result<Tensor> {
        self.norm.forward(&self.convolution.forward(features, kind)?, training)
    }

    pub(super) fn parameters(&self) -> [&Tensor; 3] {
        [&self.convolution.weight, &self.norm.weight, &self.norm.bias]
    }
}

pub(super) struct Bottleneck {
    units: [Unit; 3],
    /// Brings what went in to the shape of what comes out, where they differ.
    shortcut: Option<Unit>,
}

impl Bottleneck {
    /// The stride is that of the middle convolution, as in torchvision.
    pub(super) fn new(inputs: i64, middle: i64, stride: i64, device: Device) -> Result<Self> {
        let outputs = middle * EXPANSION;
        let units = [
            Unit::new([inputs, middle], 1, 1, device)?,
            Unit::new([middle, middle], 3, stride, device)?,
            Unit::new([middle, outputs], 1, 1, device)?,
        ];
        let differs = stride != 1 || inputs != outputs;
        let shortcut = differs.then(|| Unit::new([inputs, outputs], 1, stride, device)).transpose()?;
        Ok(Self { units, shortcut })
    }

    pub(super) fn forward(&self, features: &Tensor, kind: Kind, training: bool) -> Result<Tensor> {
        let [first, second, third] = &self.units;
        // In place, as torchvision does it: half the memory.
        let inner = first.forward(features, kind, training)?.f_relu_()?;
        let inner = second.forward(&inner, kind, training)?.f_relu_()?;
        let mut sum = third.forward(&inner, kind, training)?;
        let identity = match &self.shortcut {
            Some(unit) => unit.forward(features, kind, training)?,
            None => features.shallow_clone(),
        };
        Ok(sum.f_add_(&identity)?.f_relu_()?)
    }

    pub(super) fn units(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter().chain(&self.shortcut)
    }
}

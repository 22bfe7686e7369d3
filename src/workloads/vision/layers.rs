//! Layers with their weights drawn as PyTorch and torchvision draw them.

use anyhow::Result;
use tch::{Device, Kind, Tensor};

/// Weight and bias of a convolution or of a linear layer.
pub(super) struct Layer {
    pub(super) weight: Tensor,
    pub(super) bias: Tensor,
}

impl Layer {
    /// Draws both evenly between ±1/√fan_in. PyTorch says it as a Kaiming bound with a = √5, which is the same:
    /// √(2 / (1 + a²)) · √(3 / fan_in). tch's own layers draw wider, and a first loss of 7 instead of 2.3 follows.
    pub(super) fn new(shape: &[i64], device: Device) -> Result<Self> {
        let fan_in: i64 = shape.iter().skip(1).product();
        let bound = 1.0 / (fan_in as f64).sqrt();
        let draw = |shape: &[i64]| trained(Tensor::f_empty(shape, CPU)?.f_uniform_(-bound, bound)?, device);
        Ok(Self { weight: draw(shape)?, bias: draw(&shape[..1])? })
    }

    /// Weight and bias to compute with; themselves where they are of that kind.
    pub(super) fn cast(&self, kind: Kind) -> Result<[Tensor; 2]> {
        Ok([self.weight.f_to_kind(kind)?, self.bias.f_to_kind(kind)?])
    }
}

/// A convolution without bias, padded so that a stride of 1 keeps height and width.
pub(super) struct Convolution {
    pub(super) weight: Tensor,
    kernel: i64,
    stride: i64,
}

impl Convolution {
    /// Draws normally with a variance of 2 / fan_out: torchvision's Kaiming for ReLU.
    pub(super) fn new([inputs, outputs]: [i64; 2], kernel: i64, stride: i64, device: Device) -> Result<Self> {
        let deviation = (2.0 / (outputs * kernel * kernel) as f64).sqrt();
        let weight = Tensor::f_empty([outputs, inputs, kernel, kernel], CPU)?.f_normal_(0.0, deviation)?;
        Ok(Self { weight: trained(weight, device)?, kernel, stride })
    }

    pub(super) fn forward(&self, features: &Tensor, kind: Kind) -> Result<Tensor> {
        let weight = self.weight.f_to_kind(kind)?;
        Ok(features.f_conv2d(&weight, None::<Tensor>, self.stride, self.kernel / 2, 1, 1)?)
    }
}

/// Batch normalisation with PyTorch's figures. Its weights stay in float32 whatever the features are.
pub(super) struct BatchNorm {
    pub(super) weight: Tensor,
    pub(super) bias: Tensor,
    pub(super) running_mean: Tensor,
    pub(super) running_variance: Tensor,
}

impl BatchNorm {
    const MOMENTUM: f64 = 0.1;
    const EPSILON: f64 = 1e-5;

    pub(super) fn new(channels: i64, device: Device) -> Result<Self> {
        let options = (Kind::Float, device);
        Ok(Self {
            weight: Tensor::f_ones([channels], options)?.f_set_requires_grad(true)?,
            bias: Tensor::f_zeros([channels], options)?.f_set_requires_grad(true)?,
            running_mean: Tensor::f_zeros([channels], options)?,
            running_variance: Tensor::f_ones([channels], options)?,
        })
    }

    /// By the batch's own mean and variance while training, which the running ones then follow; else by these.
    pub(super) fn forward(&self, features: &Tensor, training: bool) -> Result<Tensor> {
        Ok(features.f_batch_norm(
            Some(&self.weight),
            Some(&self.bias),
            Some(&self.running_mean),
            Some(&self.running_variance),
            training,
            Self::MOMENTUM,
            Self::EPSILON,
            true,
        )?)
    }
}

/// Weights are drawn on the CPU, so that a seed gives the same on all devices.
const CPU: (Kind, Device) = (Kind::Float, Device::Cpu);

fn trained(values: Tensor, device: Device) -> Result<Tensor> {
    Ok(values.f_to_device(device)?.f_set_requires_grad(true)?)
}

//! The small convolutional network, with its weights drawn as PyTorch draws them.

use anyhow::Result;
use tch::{Device, Kind, Tensor};

use super::Network;
use super::layers::Layer;
use crate::data::images::{CLASSES, IMAGE};

const CHANNELS: [i64; 2] = [32, 64];
const HIDDEN: i64 = 512;
const KERNEL: i64 = 3;
/// Each pooling halves height and width.
const POOL: i64 = 2;

/// Two convolutions, each with ReLU and pooling, then two linear layers.
pub(crate) struct SmallCnn {
    convolutions: [Layer; 2],
    hidden: Layer,
    output: Layer,
}

impl SmallCnn {
    pub(crate) fn new(device: Device) -> Result<Self> {
        let [colours, height, width] = IMAGE;
        let [first, second] = CHANNELS;
        let pixels = (height / POOL / POOL) * (width / POOL / POOL);
        Ok(Self {
            convolutions: [
                Layer::new(&[first, colours, KERNEL, KERNEL], device)?,
                Layer::new(&[second, first, KERNEL, KERNEL], device)?,
            ],
            hidden: Layer::new(&[HIDDEN, second * pixels], device)?,
            output: Layer::new(&[CLASSES, HIDDEN], device)?,
        })
    }

    fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.convolutions.iter().chain([&self.hidden, &self.output])
    }
}

impl Network for SmallCnn {
    fn forward(&self, images: &Tensor, kind: Kind) -> Result<Tensor> {
        let mut features = images.f_to_kind(kind)?;
        for layer in &self.convolutions {
            let [weight, bias] = layer.cast(kind)?;
            let padding = KERNEL / 2;
            // In place: the next step would otherwise take 200 MB more anew, and page faults are most of what it waits for.
            features = features.f_conv2d(&weight, Some(&bias), 1, padding, 1, 1)?.f_relu_()?;
            features = features.f_max_pool2d(POOL, POOL, 0, 1, false)?;
        }
        let [weight, bias] = self.hidden.cast(kind)?;
        let hidden = features.f_flatten(1, -1)?.f_linear(&weight, Some(&bias))?.f_relu_()?;
        let [weight, bias] = self.output.cast(kind)?;
        Ok(hidden.f_linear(&weight, Some(&bias))?)
    }

    fn parameters(&self) -> Vec<&Tensor> {
        self.layers().flat_map(|layer| [&layer.weight, &layer.bias]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_as_many_parameters_as_in_pytorch() {
        tch::manual_seed(0);
        let network = SmallCnn::new(Device::Cpu).unwrap();
        // (3·9+1)·32 + (32·9+1)·64 + (65536+1)·512 + (512+1)·10, also what
        // sum(p.numel() for p in model.parameters()) says in PyTorch 2.11.
        assert_eq!(network.parameters().iter().map(|parameter| parameter.numel()).sum::<usize>(), 33_579_466);
    }

    #[test]
    fn each_layer_is_drawn_as_pytorch_draws_it() {
        tch::manual_seed(0);
        let network = SmallCnn::new(Device::Cpu).unwrap();
        // The uniform distribution on ±b has mean 0 and standard deviation b/√3; b = 1/√fan_in by torch.nn.init.
        for (layer, fan_in) in network.layers().zip([27.0_f64, 288.0, 65_536.0, 512.0]) {
            let bound = fan_in.powf(-0.5);
            let deviation = bound / 3.0_f64.sqrt();
            let count = layer.weight.numel() as f64;
            let mean = layer.weight.mean(Kind::Double).double_value(&[]);
            let spread = layer.weight.to_kind(Kind::Double).std(true).double_value(&[]);
            // Five standard errors; a uniform sample's standard deviation varies by √(0.2/n) of itself.
            assert!(mean.abs() < 5.0 * deviation / count.sqrt(), "fan-in {fan_in}: mean {mean}");
            assert!(
                (spread / deviation - 1.0).abs() < 5.0 * (0.2 / count).sqrt(),
                "fan-in {fan_in}: deviation {spread}"
            );
            for tensor in [&layer.weight, &layer.bias] {
                // The largest of n even draws stays below x of the bound with probability xⁿ; here one in a million.
                let unlikely = 1e-6_f64.powf(1.0 / tensor.numel() as f64);
                let widest = tensor.abs().max().double_value(&[]) / bound;
                assert!((unlikely..1.000_001).contains(&widest), "fan-in {fan_in}: {widest} of the bound");
            }
        }
    }
}

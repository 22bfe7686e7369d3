//! Training loops that tell images apart.

mod layers;
mod network;
mod resnet;
pub(crate) mod resnet50_cifar10;
pub(crate) mod small_cnn;

use anyhow::{Context, Result};
use tch::{COptimizer, Device, Kind, Reduction, Tensor};

use crate::data::loader::Loader;
use crate::data::{Batch, Source};
use crate::steps::Steps;
use crate::training::loss_scale::LossScale;
use crate::training::plan::Plan;
use crate::training::precision::Precision;
use crate::training::{self, Learner};

/// A network that scores images.
pub(crate) trait Network {
    /// Scores of all classes for each image of a batch, computed in `kind`.
    fn forward(&self, images: &Tensor, kind: Kind) -> Result<Tensor>;

    /// All that is trained.
    fn parameters(&self) -> Vec<&Tensor>;
}

/// A network and Adam, with PyTorch's figures: learning rate, β₁, β₂, weight decay, ε, AMSGrad.
struct Classifier<N> {
    network: N,
    optimiser: COptimizer,
    precision: Precision,
    /// With float16 only.
    scale: Option<LossScale>,
}

impl<N: Network> Classifier<N> {
    fn new(network: N, precision: Precision) -> Result<Self> {
        let mut optimiser = COptimizer::adam(1e-3, 0.9, 0.999, 0.0, 1e-8, false)?;
        for parameter in network.parameters() {
            optimiser.add_parameters(parameter, 0)?;
        }
        let scale = (precision == Precision::Fp16).then(LossScale::new);
        Ok(Self { network, optimiser, precision, scale })
    }

    fn loss(&self, batch: &Batch) -> Result<Tensor> {
        let scores = self.network.forward(&batch.inputs, self.precision.kind())?.f_to_kind(Kind::Float)?;
        Ok(scores.f_cross_entropy_loss(&batch.targets, None::<Tensor>, Reduction::Mean, -100, 0.0)?)
    }
}

impl<N: Network> Learner for Classifier<N> {
    fn add(&mut self, batch: &Batch, weight: f64) -> Result<Tensor> {
        let loss = if self.scale.is_some() { tch::autocast(true, || self.loss(batch))? } else { self.loss(batch)? };
        let loss = if weight == 1.0 { loss } else { loss.f_mul_scalar(weight)? };
        match &self.scale {
            Some(scale) => scale.scaled(&loss)?.f_backward()?,
            None => loss.f_backward()?,
        }
        // Without the graph that leads to it.
        Ok(loss.f_detach()?)
    }

    fn update(&mut self) -> Result<()> {
        let finite = match &mut self.scale {
            Some(scale) => scale.unscale(self.network.parameters().into_iter())?,
            None => true,
        };
        if finite {
            self.optimiser.step()?;
        }
        Ok(self.optimiser.zero_grad()?)
    }

    fn scale(&self) -> Option<&LossScale> {
        self.scale.as_ref()
    }
}

/// Trains `network`, and says how long it took.
fn run(network: impl Network, loader: &Loader<impl Source>, plan: &Plan, device: Device, steps: &Steps) -> Result<()> {
    let classifier = Classifier::new(network, plan.precision).context("cannot set up the optimiser")?;
    training::run(classifier, loader, plan, device, steps)
}

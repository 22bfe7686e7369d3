//! A model and its optimizer, and what a step is to them.

use anyhow::{Result, ensure};
use tch::Tensor;

use crate::data::Batch;
use crate::llama::model::Model;
use crate::optimizer::{Optimizer, forget_gradients, gradient_norm};
use crate::training::Learner;
use crate::training::loss_scale::LossScale;

/// The largest norm of all gradients together that a step is taken by; beyond it they are scaled down.
pub(crate) const LARGEST_NORM: f64 = 1.0;

/// A model in training.
pub(crate) struct FineTuning {
    pub(crate) model: Model,
    pub(crate) optimizer: Optimizer,
    /// With float16 only.
    pub(crate) scale: Option<LossScale>,
}

impl FineTuning {
    fn factor(&self) -> f64 {
        self.scale.as_ref().map_or(1.0, LossScale::factor)
    }
}

impl Learner for FineTuning {
    fn add(&mut self, batch: &Batch, weight: f64) -> Result<Tensor> {
        let loss = self.model.backward(&batch.inputs, &batch.targets, weight * self.factor())?;
        Ok(loss.f_div_scalar(self.factor())?)
    }

    /// Clips, and steps where all gradients are finite. Reading their norm waits for a GPU.
    fn update(&mut self) -> Result<()> {
        let parameters = self.model.parameters();
        let unscale = 1.0 / self.factor();
        let norm = gradient_norm(&parameters)? * unscale;
        match &mut self.scale {
            Some(scale) => scale.update(norm.is_finite()),
            None => ensure!(
                norm.is_finite(),
                "the gradients are no longer finite (their norm is {norm}); train with another --precision, --seed or --weights"
            ),
        }
        if norm.is_finite() {
            // As PyTorch's `clip_grad_norm_`.
            let clip = (LARGEST_NORM / (norm + 1e-6)).min(1.0);
            self.optimizer.step(&parameters, unscale * clip)?;
        }
        forget_gradients(&parameters)
    }

    fn scale(&self) -> Option<&LossScale> {
        self.scale.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use tch::Kind;

    use super::*;
    use crate::llama::model::tests::{SMALL, small, tokens};
    use crate::llama::reference::Reference;
    use crate::optimizer::adamw::AdamW;
    use crate::optimizer::partition::Rank;

    /// Wide enough an epsilon that the sign of a gradient near zero does not decide.
    const ADAMW: AdamW = AdamW { learning_rate: 0.01, betas: [0.9, 0.999], epsilon: 1e-3, weight_decay: 0.1 };

    fn learner(kind: Kind, offload: bool) -> FineTuning {
        let model = small(SMALL, kind);
        let optimizer = if offload {
            Optimizer::offloaded(ADAMW, &model.parameters(), Rank::ALONE)
        } else {
            Optimizer::resident(ADAMW, &model.parameters())
        };
        FineTuning { optimizer: optimizer.unwrap(), model, scale: None }
    }

    fn batch(tokens: &Tensor) -> Batch {
        let (samples, length) = tokens.size2().unwrap();
        let part = |from| tokens.narrow(1, from, length - 1);
        Batch { inputs: part(0), targets: part(1), samples: samples as u32 }
    }

    fn weights(learner: &FineTuning) -> Vec<Vec<f64>> {
        let values = |weight: &Tensor| Vec::try_from(weight.detach().to_kind(Kind::Double).flatten(0, -1)).unwrap();
        learner.model.parameters().into_iter().map(values).collect()
    }

    fn farthest(one: &FineTuning, other: &FineTuning) -> f64 {
        let pairs = weights(one).concat().into_iter().zip(weights(other).concat());
        pairs.map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn a_step_agrees_with_the_reference_clipped_and_decayed_by_hand() {
        for offload in [false, true] {
            let mut learner = learner(Kind::Float, offload);
            let tokens = tokens(2, 4);
            let before = weights(&learner);
            let mut reference = Reference::of(SMALL, &learner.model.parameters());
            let slopes: Vec<Vec<f64>> = (0..before.len()).map(|index| reference.gradient(index, &tokens)).collect();
            let norm = slopes.concat().iter().map(|slope| slope * slope).sum::<f64>().sqrt();
            assert!(norm > LARGEST_NORM, "nothing is clipped at {norm}");

            let _ = learner.add(&batch(&tokens), 1.0).unwrap();
            learner.update().unwrap();
            for ((after, before), slope) in weights(&learner).concat().iter().zip(before.concat()).zip(slopes.concat())
            {
                // The first step: both moments over their biases are the gradient and its square.
                let slope = slope / norm;
                let expected = before * (1.0 - 0.01 * 0.1) - 0.01 * slope / (slope.abs() + 1e-3);
                assert!((after - expected).abs() < 2e-5, "{after} is not {expected}");
            }
        }
    }

    #[test]
    fn four_batches_of_four_make_the_step_of_one_of_sixteen() {
        let tokens = tokens(16, 7);
        let (mut apart, mut together) = (learner(Kind::Float, false), learner(Kind::Float, true));
        let mut sum = 0.0;
        for start in [0, 4, 8, 12] {
            sum += apart.add(&batch(&tokens.narrow(0, start, 4)), 0.25).unwrap().double_value(&[]);
        }
        let whole = together.add(&batch(&tokens), 1.0).unwrap().double_value(&[]);
        assert!((sum - whole).abs() < 1e-5, "{sum} is not {whole}");
        apart.update().unwrap();
        together.update().unwrap();
        assert!(farthest(&apart, &together) < 1e-5);
        assert!(farthest(&apart, &learner(Kind::Float, false)) > 1e-3);
    }

    #[test]
    fn the_loss_of_a_batch_that_comes_again_falls_in_each_precision() {
        let batch = batch(&tokens(2, 7));
        for (kind, offload) in [(Kind::Float, false), (Kind::BFloat16, false), (Kind::BFloat16, true)] {
            let mut learner = learner(kind, offload);
            let mut step = || {
                let loss = learner.add(&batch, 1.0).unwrap().double_value(&[]);
                learner.update().unwrap();
                loss
            };
            let losses: Vec<f64> = (0..60).map(|_| step()).collect();
            assert!(losses[59] < losses[0] / 2.0, "{kind:?}: {losses:?}");
        }
    }

    #[test]
    fn a_scaled_loss_takes_the_same_step_and_an_overflow_takes_none() {
        let tokens = tokens(2, 7);
        let (mut scaled, mut plain) = (learner(Kind::Float, false), learner(Kind::Float, false));
        scaled.scale = Some(LossScale::new());
        let losses = [&mut scaled, &mut plain].map(|learner| {
            let loss = learner.add(&batch(&tokens), 1.0).unwrap().double_value(&[]);
            learner.update().unwrap();
            loss
        });
        assert!((losses[0] - losses[1]).abs() < 1e-5, "{losses:?}");
        assert!(farthest(&scaled, &plain) < 1e-5);

        let before = weights(&scaled);
        let _ = scaled.add(&batch(&tokens), f64::INFINITY).unwrap();
        scaled.update().unwrap();
        assert_eq!((weights(&scaled), scaled.scale.unwrap().skipped()), (before, 1));

        let _ = plain.add(&batch(&tokens), f64::INFINITY).unwrap();
        assert!(plain.update().unwrap_err().to_string().contains("no longer finite"));
    }
}

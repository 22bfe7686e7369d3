//! Dynamic loss scaling: gradients in float16 would vanish below 6·10⁻⁸, so the loss is scaled up before them.

use anyhow::Result;
use tch::{Kind, Tensor};

/// The figures of PyTorch's `GradScaler`.
const FIRST: f64 = 65_536.0;
const GROWTH: f64 = 2.0;
const BACKOFF: f64 = 0.5;
/// Steps without an infinity after which the scale grows.
const PATIENCE: u32 = 2_000;

/// The factor, and what it has seen.
#[derive(Debug)]
pub(crate) struct LossScale {
    scale: f64,
    finite_steps: u32,
    skipped: u64,
}

impl LossScale {
    pub(crate) fn new() -> Self {
        Self { scale: FIRST, finite_steps: 0, skipped: 0 }
    }

    /// Steps that were left out since a gradient was infinite or no number.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// What losses are multiplied with.
    pub(crate) fn factor(&self) -> f64 {
        self.scale
    }

    /// The loss to go backward from.
    pub(crate) fn scaled(&self, loss: &Tensor) -> Result<Tensor> {
        Ok(loss.f_mul_scalar(self.scale)?)
    }

    /// Scales the gradients back, and says whether the step may be taken: all of them are finite. It waits for the GPU,
    /// as PyTorch does.
    pub(crate) fn unscale<'a>(&mut self, parameters: impl Iterator<Item = &'a Tensor>) -> Result<bool> {
        let mut found: Option<(Tensor, Tensor)> = None;
        for parameter in parameters {
            let mut gradient = parameter.f_grad()?;
            if !gradient.defined() {
                continue;
            }
            let (infinite, inverse) = match &mut found {
                Some(pair) => pair,
                None => {
                    let options = (Kind::Float, gradient.device());
                    let inverse = Tensor::f_full([1], 1.0 / self.scale, options)?;
                    found.insert((Tensor::f_zeros([1], options)?, inverse))
                }
            };
            gradient.f_internal_amp_non_finite_check_and_unscale(infinite, inverse)?;
        }
        let finite = found.map_or(Ok(0.0), |(infinite, _)| infinite.f_double_value(&[0]))? == 0.0;
        self.update(finite);
        Ok(finite)
    }

    /// Takes note of whether a step's gradients were finite.
    pub(crate) fn update(&mut self, finite: bool) {
        if !finite {
            self.skipped += 1;
            self.finite_steps = 0;
            self.scale *= BACKOFF;
            return;
        }
        self.finite_steps += 1;
        if self.finite_steps == PATIENCE {
            self.finite_steps = 0;
            self.scale *= GROWTH;
        }
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    /// A weight whose gradient is `factor` times the scale.
    fn gradient_of(scale: &LossScale, factor: f64) -> Tensor {
        let weight = Tensor::ones([2], (Kind::Float, Device::Cpu)).set_requires_grad(true);
        scale.scaled(&(&weight * factor).sum(Kind::Float)).unwrap().backward();
        weight
    }

    #[test]
    fn gradients_come_back_as_they_would_be_without_scaling() {
        let mut scale = LossScale::new();
        let weight = gradient_of(&scale, 3.0);
        assert_eq!(weight.grad().double_value(&[0]), 3.0 * FIRST);
        assert!(scale.unscale(std::iter::once(&weight)).unwrap());
        assert_eq!(weight.grad().double_value(&[0]), 3.0);
    }

    #[test]
    fn an_infinite_gradient_skips_the_step_and_halves_the_scale() {
        let mut scale = LossScale::new();
        let weights = [gradient_of(&scale, 1.0), gradient_of(&scale, f64::INFINITY)];
        assert!(!scale.unscale(weights.iter()).unwrap());
        assert_eq!((scale.scale, scale.skipped()), (FIRST / 2.0, 1));
    }

    #[test]
    fn the_scale_doubles_after_two_thousand_finite_steps_in_a_row() {
        let mut scale = LossScale::new();
        (0..PATIENCE - 1).for_each(|_| scale.update(true));
        scale.update(false);
        (0..PATIENCE - 1).for_each(|_| scale.update(true));
        assert_eq!(scale.scale, FIRST / 2.0);
        scale.update(true);
        assert_eq!(scale.scale, FIRST);
    }
}

//! The optimizer's states beside the weights, on the device that trains.

use anyhow::{Result, bail};
use half::bf16;
use rayon::ThreadPool;
use tch::{Kind, Tensor};

use crate::optimizer::adamw::{self, State, Step};
use crate::optimizer::values;

/// The states of each parameter.
pub(crate) struct Resident {
    pool: ThreadPool,
    states: Vec<States>,
}

struct States {
    /// The weights in float32, where the model has them in another kind.
    weights: Option<Tensor>,
    means: Tensor,
    squares: Tensor,
}

impl Resident {
    /// Copies the weights where they are not of float32; moments begin at zero.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn new(parameters: &[&Tensor]) -> Result<Self> {
        let states = |parameter: &&Tensor| -> Result<States> {
            let kind = parameter.f_kind()?;
            let zeros = || Tensor::f_zeros(parameter.size(), (Kind::Float, parameter.device()));
            let weights = (kind != Kind::Float).then(|| parameter.f_detach()?.f_to_kind(Kind::Float)).transpose()?;
            Ok(States { weights, means: zeros()?, squares: zeros()? })
        };
        Ok(Self { pool: super::pool()?, states: parameters.iter().map(states).collect::<Result<_>>()? })
    }

    /// One step.
    ///
    /// # Errors
    /// libtorch failed.
    pub(crate) fn step(&mut self, step: Step, parameters: &[&Tensor]) -> Result<()> {
        for (states, parameter) in self.states.iter_mut().zip(parameters) {
            let gradient = parameter.f_grad()?;
            let mut parameter = parameter.f_detach()?;
            if parameter.device().is_cuda() {
                states.step_by_libtorch(step, &mut parameter, &gradient)?;
            } else {
                let gradient = gradient.f_contiguous()?;
                states.step_by_slices(&self.pool, step, &mut parameter, &gradient)?;
            }
        }
        Ok(())
    }
}

impl States {
    fn step_by_slices(
        &mut self,
        pool: &ThreadPool,
        step: Step,
        parameter: &mut Tensor,
        gradient: &Tensor,
    ) -> Result<()> {
        let means = values::of_mut::<f32>(&mut self.means)?;
        let squares = values::of_mut::<f32>(&mut self.squares)?;
        match (parameter.f_kind()?, &mut self.weights) {
            (Kind::Float, None) => {
                let state = State { weights: values::of_mut(parameter)?, means, squares };
                adamw::update_in_place(pool, step, state, values::of::<f32>(gradient)?);
            }
            (Kind::BFloat16, Some(weights)) => {
                let state = State { weights: values::of_mut(weights)?, means, squares };
                adamw::update(pool, step, state, values::of::<bf16>(gradient)?, values::of_mut::<bf16>(parameter)?);
            }
            (kind, _) => bail!("weights of {kind:?} cannot be trained on a CPU"),
        }
        Ok(())
    }

    /// The same, operation by operation: libtorch's fused one is not bound.
    fn step_by_libtorch(&mut self, step: Step, parameter: &mut Tensor, gradient: &Tensor) -> Result<()> {
        let gradient = gradient.f_to_kind(Kind::Float)?.f_mul_scalar(step.gradient_factor)?;
        let _ = self.means.f_lerp_(&gradient, step.mean_share)?;
        let _ = self.squares.f_lerp_(&gradient.f_square()?, step.square_share)?;
        drop(gradient);
        let root = self.squares.f_sqrt()?.f_mul_scalar_(step.root_factor)?.f_add_scalar_(step.epsilon)?;
        let move_by = self.means.f_div(&root)?.f_mul_scalar_(step.rate)?;
        drop(root);
        match &mut self.weights {
            Some(weights) => {
                let _ = weights.f_mul_scalar_(step.keep)?.f_sub_(&move_by)?;
                parameter.f_copy_(weights)?;
            }
            None => {
                let _ = parameter.f_mul_scalar_(step.keep)?.f_sub_(&move_by)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::adamw::AdamW;

    #[test]
    fn operations_of_libtorch_do_what_the_loop_over_slices_does() {
        let count = 5000;
        let wave = |speed: f64| (Tensor::arange(count, (Kind::Float, tch::Device::Cpu)) * speed).sin();
        let (mut one, mut other) = (wave(0.37), wave(0.37));
        let (mut first, mut second) = (Resident::new(&[&one]).unwrap(), Resident::new(&[&other]).unwrap());
        let adamw = AdamW { learning_rate: 0.01, ..AdamW::default() };
        for count in 1..=5 {
            let step = adamw.step(count, 0.125);
            let gradient = wave(0.11 * f64::from(count));
            first.states[0].step_by_slices(&first.pool, step, &mut one, &gradient).unwrap();
            second.states[0].step_by_libtorch(step, &mut other, &gradient).unwrap();
        }
        let distance = (one - other).abs().max().double_value(&[]);
        assert!(distance < 1e-6, "{distance}");
    }
}

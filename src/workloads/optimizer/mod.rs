//! AdamW in mixed precision, with its states on the device that trains or offloaded to main memory.
//!
//! ```text
//! offloaded (ZeRO stage 1) ─┬─ adamw (slices, all threads) ── values (tensors as slices)
//! resident ── on a CPU ─────┘
//!          └─ on a GPU: libtorch's own operations
//! ```

pub(crate) mod adamw;
pub(crate) mod offloaded;
pub(crate) mod partition;
pub(crate) mod resident;
mod values;

use anyhow::{Context, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tch::{Kind, Tensor};

use crate::optimizer::adamw::AdamW;
use crate::optimizer::offloaded::Offloaded;
use crate::optimizer::partition::Rank;
use crate::optimizer::resident::Resident;

/// AdamW with its states.
pub(crate) struct Optimizer {
    adamw: AdamW,
    /// Steps taken.
    count: u32,
    states: States,
}

enum States {
    Offloaded(Offloaded),
    Resident(Resident),
}

impl Optimizer {
    /// States in main memory, those of one rank.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn offloaded(adamw: AdamW, parameters: &[&Tensor], rank: Rank) -> Result<Self> {
        let states = Offloaded::new(parameters, rank).context("cannot hold the optimizer's states in main memory")?;
        Ok(Self { adamw, count: 0, states: States::Offloaded(states) })
    }

    /// States beside the weights.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn resident(adamw: AdamW, parameters: &[&Tensor]) -> Result<Self> {
        let states = Resident::new(parameters).context("cannot hold the optimizer's states on the device")?;
        Ok(Self { adamw, count: 0, states: States::Resident(states) })
    }

    /// Moves the weights by their gradients, which are multiplied with `gradient_factor` first.
    ///
    /// # Errors
    /// libtorch failed.
    pub(crate) fn step(&mut self, parameters: &[&Tensor], gradient_factor: f64) -> Result<()> {
        self.count += 1;
        let step = self.adamw.step(self.count, gradient_factor);
        tch::no_grad(|| match &mut self.states {
            States::Offloaded(states) => states.step(step, parameters),
            States::Resident(states) => states.step(step, parameters),
        })
    }
}

/// As many threads as libtorch computes with.
fn pool() -> Result<ThreadPool> {
    let threads = usize::try_from(tch::get_num_threads()).unwrap_or(1);
    ThreadPoolBuilder::new().num_threads(threads).build().context("cannot start the optimizer's threads")
}

/// The root of the sum of all gradients' squares, in float32 whatever kind they are of.
///
/// # Errors
/// A parameter has no gradient.
pub(crate) fn gradient_norm(parameters: &[&Tensor]) -> Result<f64> {
    let norm =
        |parameter: &&Tensor| -> Result<Tensor> { Ok(parameter.f_grad()?.f_norm_scalaropt_dtype(2, Kind::Float)?) };
    let norms = parameters.iter().map(norm).collect::<Result<Vec<_>>>()?;
    Ok(Tensor::f_stack(&norms, 0)?.f_norm()?.f_double_value(&[])?)
}

/// Sets all gradients to zero, where there are any.
///
/// # Errors
/// libtorch failed.
pub(crate) fn forget_gradients(parameters: &[&Tensor]) -> Result<()> {
    for parameter in parameters {
        let mut gradient = parameter.f_grad()?;
        if gradient.defined() {
            let _ = gradient.f_zero_()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tch::{Device, Reduction};

    use super::*;

    /// Parameters of several shapes, the same each time, with gradients that depend on them.
    pub(crate) fn parameters(kind: Kind) -> Vec<Tensor> {
        let shapes: [&[i64]; 5] = [&[7, 11], &[13], &[1, 1], &[40, 5], &[3]];
        let parameters: Vec<Tensor> = shapes
            .into_iter()
            .enumerate()
            .map(|(index, shape)| {
                let count: i64 = shape.iter().product();
                let phases = Tensor::arange(count, (Kind::Float, Device::Cpu)) * 0.7 + index as f64;
                phases.sin().view(shape).to_kind(kind).set_requires_grad(true)
            })
            .collect();
        learn(&parameters);
        parameters
    }

    fn learn(parameters: &[Tensor]) {
        for parameter in parameters {
            parameter.mse_loss(&parameter.ones_like().detach(), Reduction::Sum).backward();
        }
    }

    fn borrowed(parameters: &[Tensor]) -> Vec<&Tensor> {
        parameters.iter().collect()
    }

    /// The weights after three steps by these optimizers, one after the other as several ranks would.
    fn trained(kind: Kind, make: impl Fn(&[&Tensor]) -> Vec<Optimizer>) -> Vec<Tensor> {
        let parameters = parameters(kind);
        let mut optimizers = make(&borrowed(&parameters));
        for _ in 0..3 {
            for optimizer in &mut optimizers {
                optimizer.step(&borrowed(&parameters), 0.25).unwrap();
            }
            forget_gradients(&borrowed(&parameters)).unwrap();
            learn(&parameters);
        }
        parameters.iter().map(Tensor::detach).collect()
    }

    const ADAMW: AdamW = AdamW { learning_rate: 0.05, betas: [0.9, 0.99], epsilon: 1e-8, weight_decay: 0.1 };

    fn ranks(world: usize) -> impl Fn(&[&Tensor]) -> Vec<Optimizer> {
        move |parameters| {
            let rank = |rank| Optimizer::offloaded(ADAMW, parameters, Rank { rank, world }).unwrap();
            (0..world).map(rank).collect()
        }
    }

    #[test]
    fn one_two_and_four_ranks_give_the_same_weights() {
        for kind in [Kind::Float, Kind::BFloat16, Kind::Half] {
            let alone = trained(kind, ranks(1));
            for world in [2, 4] {
                assert_eq!(trained(kind, ranks(world)), alone, "{kind:?}, {world} ranks");
            }
        }
    }

    #[test]
    fn offloaded_or_beside_the_weights_it_is_the_same_training() {
        for kind in [Kind::Float, Kind::BFloat16] {
            let resident = trained(kind, |parameters| vec![Optimizer::resident(ADAMW, parameters).unwrap()]);
            assert_eq!(trained(kind, ranks(1)), resident, "{kind:?}");
            assert_ne!(parameters(kind)[0], resident[0]);
        }
    }

    #[test]
    fn the_norm_is_that_of_all_gradients_and_overflow_is_seen() {
        let parameters = parameters(Kind::Float);
        let mut squares = 0.0;
        for parameter in &parameters {
            squares += parameter.grad().to_kind(Kind::Double).square().sum(Kind::Double).double_value(&[]);
        }
        assert!((gradient_norm(&borrowed(&parameters)).unwrap() / squares.sqrt() - 1.0).abs() < 1e-6);
        let _ = parameters[3].grad().get(0).fill_(f64::INFINITY);
        assert!(!gradient_norm(&borrowed(&parameters)).unwrap().is_finite());
        forget_gradients(&borrowed(&parameters)).unwrap();
        assert_eq!(gradient_norm(&borrowed(&parameters)).unwrap(), 0.0);
    }
}

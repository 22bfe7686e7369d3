//! ZeRO stage 1 with the optimizer offloaded: float32 weights and moments in main memory, updated by the CPU.
//!
//! Gradients come and weights go piece by piece through staging memory, which is pinned where the model is on a GPU.
//! What is large is not pinned: libtorch would round each pinned block up to a power of two.

use anyhow::{Result, bail};
use half::{bf16, f16};
use rayon::ThreadPool;
use tch::{Device, Kind, Tensor};

use crate::optimizer::adamw::{self, State, Step};
use crate::optimizer::partition::{Piece, Rank, pieces};
use crate::optimizer::values::{self, Value};

/// Values that are staged at a time: 32 MiB of float16.
pub(crate) const STAGED: usize = 1 << 24;

/// The states of one rank's part.
pub(crate) struct Offloaded {
    pool: ThreadPool,
    pieces: Vec<Piece>,
    weights: Tensor,
    means: Tensor,
    squares: Tensor,
    staged_gradients: Tensor,
    staged_weights: Tensor,
}

impl Offloaded {
    /// Copies the weights; moments begin at zero.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn new(parameters: &[&Tensor], rank: Rank) -> Result<Self> {
        let sizes: Vec<usize> = parameters.iter().map(|parameter| parameter.numel()).collect();
        let part = rank.part(sizes.iter().sum());
        let pieces = pieces(&sizes, &part, STAGED);
        let zeros = || Tensor::f_zeros([part.len() as i64], (Kind::Float, Device::Cpu));
        let longest = pieces.iter().map(|piece| piece.length).max().unwrap_or(0);
        let (kind, device) =
            parameters.first().map_or((Kind::Float, Device::Cpu), |first| (first.kind(), first.device()));
        let staging = || -> Result<Tensor> {
            let memory = Tensor::f_empty([longest as i64], (kind, Device::Cpu))?;
            Ok(if device.is_cuda() { memory.f_pin_memory(device)? } else { memory })
        };
        let weights = zeros()?;
        let staged_weights = staging()?;
        for piece in &pieces {
            let mut staged = staged_weights.f_narrow(0, 0, piece.length as i64)?;
            staged.f_copy_(&stretch(&parameters[piece.parameter].f_detach()?, piece)?)?;
            weights.f_narrow(0, piece.at as i64, piece.length as i64)?.f_copy_(&staged)?;
        }
        Ok(Self {
            pool: super::pool()?,
            pieces,
            weights,
            means: zeros()?,
            squares: zeros()?,
            staged_gradients: staging()?,
            staged_weights,
        })
    }

    /// One step of this rank's part.
    ///
    /// # Errors
    /// libtorch failed, or parameters are of a kind that cannot be trained.
    pub(crate) fn step(&mut self, step: Step, parameters: &[&Tensor]) -> Result<()> {
        match self.staged_weights.f_kind()? {
            Kind::Float => self.step_in::<f32>(step, parameters),
            Kind::Half => self.step_in::<f16>(step, parameters),
            Kind::BFloat16 => self.step_in::<bf16>(step, parameters),
            kind => bail!("weights of {kind:?} cannot be trained with the optimizer offloaded"),
        }
    }

    fn step_in<T: Value>(&mut self, step: Step, parameters: &[&Tensor]) -> Result<()> {
        let weights = values::of_mut::<f32>(&mut self.weights)?;
        let means = values::of_mut::<f32>(&mut self.means)?;
        let squares = values::of_mut::<f32>(&mut self.squares)?;
        for piece in &self.pieces {
            let parameter = parameters[piece.parameter];
            let mut gradients = self.staged_gradients.f_narrow(0, 0, piece.length as i64)?;
            gradients.f_copy_(&stretch(&parameter.f_grad()?, piece)?)?;
            let mut copies = self.staged_weights.f_narrow(0, 0, piece.length as i64)?;
            {
                let gradients = values::of::<T>(&gradients)?;
                let copies = values::of_mut::<T>(&mut copies)?;
                let range = piece.at..piece.at + piece.length;
                let state = State {
                    weights: &mut weights[range.clone()],
                    means: &mut means[range.clone()],
                    squares: &mut squares[range],
                };
                adamw::update(&self.pool, step, state, gradients, copies);
            }
            stretch(&parameter.f_detach()?, piece)?.f_copy_(&copies)?;
        }
        Ok(())
    }
}

/// A piece's values, one after the other.
fn stretch(tensor: &Tensor, piece: &Piece) -> Result<Tensor> {
    Ok(tensor.f_view([-1])?.f_narrow(0, piece.start as i64, piece.length as i64)?)
}

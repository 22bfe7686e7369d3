//! Causal attention with rotary embeddings.

use anyhow::Result;
use tch::{Device, Kind, Tensor};

use crate::llama::config::{Config, ROTARY_BASE};

/// Cosines and sines that turn queries and keys by their place in the sequence.
///
/// Value i of a head turns together with value i + half a head, as Hugging Face stores the weights; Meta's own files
/// pair neighbours instead.
pub(crate) struct Rotary {
    /// Place × 1 × half a head; the middle is for the heads.
    cosines: Tensor,
    sines: Tensor,
}

impl Rotary {
    pub(crate) fn new(config: &Config, sequence: i64, kind: Kind, device: Device) -> Result<Self> {
        let head = config.head();
        // In float64 and on the CPU: rounding would turn later places of a long sequence too far.
        let double = (Kind::Double, Device::Cpu);
        let exponents = Tensor::f_arange_start_step(0, head, 2, double)?.f_mul_scalar(-1.0 / head as f64)?;
        let frequencies = exponents.f_mul_scalar(ROTARY_BASE.ln())?.f_exp()?;
        let angles = Tensor::f_arange(sequence, double)?.f_outer(&frequencies)?.f_unsqueeze(1)?;
        let table = |values: Tensor| -> Result<Tensor> { Ok(values.f_to_kind(kind)?.f_to_device(device)?) };
        Ok(Self { cosines: table(angles.f_cos()?)?, sines: table(angles.f_sin()?)? })
    }

    /// Turns queries or keys: batch × place × head × width.
    fn turn(&self, vectors: &Tensor) -> Result<Tensor> {
        let size = vectors.size();
        let (places, half) = (size[1], size[3] / 2);
        let cosines = self.cosines.f_narrow(0, 0, places)?;
        let sines = self.sines.f_narrow(0, 0, places)?;
        let first = vectors.f_narrow(3, 0, half)?;
        let second = vectors.f_narrow(3, half, half)?;
        let turned_first = first.f_mul(&cosines)?.f_sub(&second.f_mul(&sines)?)?;
        let turned_second = second.f_mul(&cosines)?.f_add(&first.f_mul(&sines)?)?;
        Ok(Tensor::f_cat(&[turned_first, turned_second], 3)?)
    }
}

/// The four projections of a layer's attention.
pub(crate) struct Attention {
    pub(crate) query: Tensor,
    pub(crate) key: Tensor,
    pub(crate) value: Tensor,
    pub(crate) output: Tensor,
}

impl Attention {
    /// What each place takes from itself and those before it; batch × place × width, as is `inputs`.
    pub(crate) fn forward(&self, inputs: &Tensor, config: &Config, rotary: &Rotary) -> Result<Tensor> {
        let (batch, places, hidden) = inputs.size3()?;
        let split = |weight: &Tensor, heads: i64| -> Result<Tensor> {
            let vectors = inputs.f_linear(weight, None::<Tensor>)?;
            Ok(vectors.f_view([batch, places, heads, config.head()])?)
        };
        let by_head = |vectors: Tensor| vectors.f_transpose(1, 2);
        let query = by_head(rotary.turn(&split(&self.query, config.heads)?)?)?;
        let key = by_head(rotary.turn(&split(&self.key, config.key_value_heads)?)?)?;
        let value = by_head(split(&self.value, config.key_value_heads)?)?;
        let shared = config.key_value_heads < config.heads;
        let taken = Tensor::f_scaled_dot_product_attention(
            &query,
            &key,
            &value,
            None::<Tensor>,
            0.0, // No dropout.
            true,
            None::<f64>, // One over the root of a head's width.
            shared,
        )?;
        let joined = taken.f_transpose(1, 2)?.f_reshape([batch, places, hidden])?;
        Ok(joined.f_linear(&self.output, None::<Tensor>)?)
    }
}

//! Tensors in main memory as plain slices, and their kinds as float32: the one place that reads libtorch's memory.

use anyhow::{Result, ensure};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use tch::{Device, Kind, Tensor};

/// A kind in which gradients and weights are stored.
pub(crate) trait Value: Copy + Send + Sync {
    const KIND: Kind;

    fn widen(from: &[Self], to: &mut [f32]);

    /// The values in float32: in `room`, of as many, unless they are there already.
    fn widened<'a>(from: &'a [Self], room: &'a mut [f32]) -> &'a [f32] {
        Self::widen(from, room);
        room
    }

    fn narrow(from: &[f32], to: &mut [Self]);
}

impl Value for f32 {
    const KIND: Kind = Kind::Float;

    fn widen(from: &[Self], to: &mut [f32]) {
        to.copy_from_slice(from);
    }

    fn widened<'a>(from: &'a [Self], _: &'a mut [f32]) -> &'a [f32] {
        from
    }

    fn narrow(from: &[f32], to: &mut [Self]) {
        to.copy_from_slice(from);
    }
}

impl Value for f16 {
    const KIND: Kind = Kind::Half;

    fn widen(from: &[Self], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }

    fn narrow(from: &[f32], to: &mut [Self]) {
        to.convert_from_f32_slice(from);
    }
}

impl Value for bf16 {
    const KIND: Kind = Kind::BFloat16;

    fn widen(from: &[Self], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }

    fn narrow(from: &[f32], to: &mut [Self]) {
        to.convert_from_f32_slice(from);
    }
}

/// The values of a tensor.
///
/// # Errors
/// It is not in main memory, of another kind, or not in one piece.
#[allow(unsafe_code)]
pub(crate) fn of<T: Value>(tensor: &Tensor) -> Result<&[T]> {
    let length = length::<T>(tensor)?;
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: `length` has seen that the pointer leads to so many values of this type, in one piece, aligned since
    // libtorch aligns to 64 bytes and a view begins at a whole value. The tensor is borrowed, so that its memory stays.
    // Nobody writes to it meanwhile: libtorch has no work under way on the CPU once a call has returned, and no caller
    // in this folder holds a tensor that shares this memory as a slice to write to.
    Ok(unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast::<T>(), length) })
}

/// The values of a tensor, to write to. The tensor must not share them with one that is read or written meanwhile.
///
/// # Errors
/// As for [`of`].
#[allow(unsafe_code)]
pub(crate) fn of_mut<T: Value>(tensor: &mut Tensor) -> Result<&mut [T]> {
    let length = length::<T>(tensor)?;
    if length == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as in `of`; the mutable borrow and the rule above keep others away.
    Ok(unsafe { std::slice::from_raw_parts_mut(tensor.data_ptr().cast::<T>(), length) })
}

fn length<T: Value>(tensor: &Tensor) -> Result<usize> {
    let kind = tensor.f_kind()?;
    ensure!(tensor.device() == Device::Cpu, "a tensor on {:?} has no values in main memory", tensor.device());
    ensure!(kind == T::KIND, "a tensor holds {kind:?} where {:?} was expected", T::KIND);
    ensure!(tensor.is_contiguous(), "a tensor of the shape {:?} does not lie in one piece", tensor.size());
    Ok(tensor.numel())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_sees_and_changes_the_values_of_its_tensor() {
        let mut tensor = Tensor::from_slice(&[1.0_f32, 2.0, 3.0]);
        of_mut::<f32>(&mut tensor).unwrap()[1] = 5.0;
        assert_eq!(of::<f32>(&tensor.narrow(0, 1, 2)).unwrap(), [5.0, 3.0]);
        assert_eq!(of::<f16>(&tensor.to_kind(Kind::Half)).unwrap()[1].to_f32(), 5.0);
        assert_eq!(of::<bf16>(&tensor.to_kind(Kind::BFloat16)).unwrap()[1].to_f32(), 5.0);
        assert!(of::<f32>(&Tensor::zeros([0], (Kind::Float, Device::Cpu))).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_plain_slice_of_that_kind_is_refused() {
        let mut tensor = Tensor::zeros([2, 3], (Kind::Float, Device::Cpu));
        assert!(of::<f16>(&tensor).is_err());
        assert!(of::<f32>(&tensor.transpose(0, 1)).is_err());
        assert!(of_mut::<bf16>(&mut tensor).is_err());
    }
}

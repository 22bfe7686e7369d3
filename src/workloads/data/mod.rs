//! What the training loops learn from, and how it gets to them in batches.

pub(crate) mod cifar;
pub(crate) mod images;
pub(crate) mod loader;
pub(crate) mod random;

use anyhow::Result;
use tch::{Device, Tensor};

use random::Random;

/// One batch.
pub(crate) struct Batch {
    pub(crate) inputs: Tensor,
    pub(crate) targets: Tensor,
    pub(crate) samples: u32,
}

impl Batch {
    /// The batch in pinned memory, from which a GPU copies by itself.
    pub(crate) fn pinned(&self, device: Device) -> Result<Self> {
        self.each(|tensor| Ok(tensor.f_pin_memory(device)?))
    }

    /// The batch on a device. From pinned memory the copy is only enqueued.
    pub(crate) fn to_device(&self, device: Device) -> Result<Self> {
        self.each(|tensor| Ok(tensor.f_to_device_(device, tensor.f_kind()?, true, false)?))
    }

    fn each(&self, change: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Self> {
        Ok(Self { inputs: change(&self.inputs)?, targets: change(&self.targets)?, samples: self.samples })
    }
}

/// Samples in main memory.
pub(crate) trait Source: Send + Sized + 'static {
    /// Number of samples.
    fn count(&self) -> u32;

    /// The same samples for another thread, not copied.
    fn share(&self) -> Self;

    /// A batch of the `chosen` samples, in their order. What is drawn at random comes from `random` alone, so that it
    /// does not matter which thread makes the batch.
    fn batch(&self, chosen: &[u32], random: &mut Random) -> Result<Batch>;
}

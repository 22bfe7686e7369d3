//! No memory left: an outcome to record, in which phase and step, and how much was asked for.

use std::collections::TryReserveError;
use std::{fmt, io};

use anyhow::Result;

use crate::llama::memory::TooMuch;
use crate::steps::Steps;

/// What libtorch says where the host or a GPU has no more memory, with the words before the size asked for.
const SAYINGS: [(&str, &str); 6] = [
    ("CUDA out of memory", "Tried to allocate "),
    ("can't allocate memory", "you tried to allocate "),
    ("CUDA error: out of memory", ""),
    ("CUDNN_STATUS_ALLOC_FAILED", ""),
    ("CUBLAS_STATUS_ALLOC_FAILED", ""),
    ("std::bad_alloc", ""),
];

/// That memory ran out, and where.
#[derive(Debug)]
pub(crate) struct OutOfMemory {
    phase: String,
    /// The step that was being made.
    step: Option<u64>,
    /// As libtorch says it, in bytes or rounded to hundredths of a larger unit; absent where it does not.
    bytes: Option<u64>,
}

impl OutOfMemory {
    /// What `error` tells of memory that ran out; none where it is about something else.
    pub(crate) fn of(error: &anyhow::Error, steps: &Steps) -> Option<Self> {
        let found = error.chain().find_map(|cause| {
            let asked =
                cause.downcast_ref().is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::OutOfMemory);
            if asked || cause.is::<TryReserveError>() {
                return Some(None);
            }
            if let Some(TooMuch { bytes, .. }) = cause.downcast_ref() {
                return Some(Some(*bytes));
            }
            let text = cause.to_string();
            let (_, before) = SAYINGS.iter().find(|(saying, _)| text.contains(saying))?;
            Some(text.split_once(before).filter(|_| !before.is_empty()).and_then(|(_, size)| bytes(size)))
        })?;
        let (phase, step) = steps.place();
        Some(Self { phase, step, bytes: found })
    }

    /// # Errors
    /// `SHICE_STEPS` cannot be written.
    pub(crate) fn tell(&self, steps: &Steps) -> Result<()> {
        steps.setting("oom_phase", &self.phase)?;
        if let Some(step) = self.step {
            steps.setting("oom_step", step)?;
        }
        if let Some(bytes) = self.bytes {
            steps.setting("oom_bytes", bytes)?;
        }
        Ok(())
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "out of memory in the phase {}", self.phase)?;
        if let Some(step) = self.step {
            write!(f, ", step {step}")?;
        }
        if let Some(bytes) = self.bytes {
            write!(f, ", where {bytes} bytes were asked for")?;
        }
        write!(f, "; free some, or give a smaller --batch-size")
    }
}

/// The size that `text` begins with: `20.00 MiB. GPU 0 …` or `1073741824 bytes. …`.
fn bytes(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    let unit = words.next()?.trim_end_matches(|sign: char| !sign.is_alphabetic());
    let units = [("bytes", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let (_, power) = units.iter().find(|(name, _)| *name == unit)?;
    Some((number * f64::from(1_u32 << power)).round() as u64)
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;
    use crate::steps::Step;

    fn at_step_three() -> Steps {
        let steps = Steps::silent();
        steps.phase("train").unwrap();
        steps.step("train", Step { epoch: 0, step: 2, samples: 1, data_wait_ns: 0 }).unwrap();
        steps
    }

    fn found(message: &str) -> Option<(Option<u64>, String)> {
        let error = Err::<(), _>(anyhow!("Internal torch error: {message}")).context("training failed").unwrap_err();
        OutOfMemory::of(&error, &at_step_three()).map(|found| (found.bytes, found.to_string()))
    }

    #[test]
    fn what_libtorch_says_of_a_full_gpu_becomes_phase_step_and_bytes() {
        let message =
            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.14 GiB of which";
        let (bytes, told) = found(message).unwrap();
        assert_eq!(bytes, Some(2_684_354_560));
        assert!(told.starts_with("out of memory in the phase train, step 3, where 2684354560 bytes"), "{told}");
        assert_eq!(found("CUDA error: out of memory\nCUDA kernel errors might be").unwrap().0, None);
        assert_eq!(found("cuDNN error: CUDNN_STATUS_ALLOC_FAILED").unwrap().0, None);
    }

    #[test]
    fn what_libtorch_says_of_a_full_host_too() {
        let message = "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you \
                       tried to allocate 4294967296 bytes. Error code 12 (Cannot allocate memory)";
        assert_eq!(found(message).unwrap().0, Some(4_294_967_296));
        let error = Vec::<u8>::new().try_reserve_exact(usize::MAX / 4).unwrap_err();
        let error = anyhow::Error::new(error).context("no memory for the images");
        assert!(OutOfMemory::of(&error, &Steps::silent()).is_some());
    }

    #[test]
    fn what_the_kernel_says_of_a_file_that_finds_no_memory_too() {
        let found =
            |error: io::Error| OutOfMemory::of(&anyhow::Error::new(error).context("cannot read x"), &Steps::silent());
        assert!(found(io::ErrorKind::OutOfMemory.into()).is_some());
        assert!(found(io::Error::from_raw_os_error(12)).is_some());
        assert!(found(io::ErrorKind::StorageFull.into()).is_none());
    }

    #[test]
    fn other_failures_are_no_lack_of_memory() {
        assert_eq!(found("CUDA error: an illegal memory access was encountered"), None);
        assert_eq!(found("mat1 and mat2 shapes cannot be multiplied"), None);
    }
}

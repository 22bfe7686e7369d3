//! libtorch's CUDA half: loaded by hand, so that the same program starts where there is none.

use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

const LIBRARY: &str = "libtorch_cuda.so";

/// Why the CUDA half is not in this process; absent where it is.
static MISSING: OnceLock<Option<String>> = OnceLock::new();

/// Loads the CUDA half, where there is one. Has to happen before the first call into libtorch, which looks once for
/// the CUDA half's hooks and remembers what it found.
pub(crate) fn load() {
    MISSING.get_or_init(|| open().err().map(|error| error.to_string()));
}

/// Why this process cannot use CUDA at all, in words for an error message; none if its libraries are loaded.
pub(crate) fn missing() -> Option<&'static str> {
    MISSING.get().and_then(|reason| reason.as_deref())
}

#[allow(unsafe_code)]
fn open() -> Result<(), libloading::Error> {
    // SAFETY: the library's initialisers register its kernels and touch nothing of ours. They rely on the libtorch
    // that this program is linked to, which was made from the same wheel.
    let library = unsafe { Library::open(Some(LIBRARY), RTLD_GLOBAL | RTLD_NOW) }?;
    // Never unloaded: libtorch keeps pointers into it until the process ends.
    std::mem::forget(library);
    Ok(())
}

/// Bytes that are free on a GPU, by the CUDA runtime that libtorch brought along; `None` without it.
#[allow(unsafe_code)]
pub(crate) fn free_memory(index: usize) -> Option<u64> {
    type SetDevice = unsafe extern "C" fn(i32) -> i32;
    type GetInfo = unsafe extern "C" fn(*mut usize, *mut usize) -> i32;
    let index = i32::try_from(index).ok()?;
    let (mut free, mut total) = (0_usize, 0_usize);
    let loaded = Library::this();
    // SAFETY: both are functions of the CUDA runtime's stable C interface with these very types; the second one writes
    // to the two numbers, which outlive the call. Choosing the device is what libtorch does before each of its own
    // calls, so that it relies on no earlier choice.
    unsafe {
        let choose = loaded.get::<SetDevice>(b"cudaSetDevice\0").ok()?;
        let ask = loaded.get::<GetInfo>(b"cudaMemGetInfo\0").ok()?;
        if choose(index) != 0 || ask(&raw mut free, &raw mut total) != 0 {
            return None;
        }
    }
    u64::try_from(free).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_gpu_that_is_not_there_is_unknown() {
        load();
        assert_eq!(free_memory(999), None);
    }
}

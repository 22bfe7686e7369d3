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

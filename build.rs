//! With the feature `torch`: checks that libtorch is there, and tells the workloads' program where to find it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The version that the crate `tch` binds, less its patch level.
const VERSION: &str = "2.11.";
/// Names another one where tools/torch/derive.py has chosen another `tch`.
const VERSION_VARIABLE: &str = "SHICE_TORCH";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_TORCH").is_none() {
        return ExitCode::SUCCESS;
    }
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    println!("cargo::rerun-if-env-changed={VERSION_VARIABLE}");
    let folder = std::env::var_os("LIBTORCH").map(PathBuf::from).unwrap_or_default();
    println!("cargo::rerun-if-changed={}", folder.join("build-version").display());
    match check(&folder) {
        Ok(version) => {
            println!("cargo::rustc-env=LIBTORCH_VERSION={version}");
            link(&folder);
            ExitCode::SUCCESS
        }
        Err(reason) => {
            // Said here, because a compiler or linker that fails later names symbols, not the cause.
            println!("cargo::error={reason}; run `python3 tools/libtorch/fetch.py`, then build again");
            ExitCode::FAILURE
        }
    }
}

/// The version in `folder`, if that is what tools/libtorch/fetch.py makes.
fn check(folder: &Path) -> Result<String, String> {
    let version = std::fs::read_to_string(folder.join("build-version"))
        .map_err(|_| format!("the feature `torch` needs libtorch, which is not in {}", folder.display()))?;
    let wanted = std::env::var(VERSION_VARIABLE).unwrap_or(VERSION.to_owned());
    if !version.starts_with(&wanted) {
        return Err(format!("{} holds libtorch {}, not {wanted}x", folder.display(), version.trim()));
    }
    for part in ["include/torch/csrc/api/include/torch/torch.h", "lib/libtorch_cpu.so", "packages/torch/lib/libc10.so"]
    {
        if !folder.join(part).exists() {
            return Err(format!("{} is not whole: {part} is missing", folder.display()));
        }
    }
    // Linked, the CUDA half would keep the program from starting where there is no GPU; it is loaded by hand instead.
    if folder.join("lib/libtorch_cuda.so").exists() {
        return Err(format!("{} would link libtorch_cuda.so", folder.display()));
    }
    Ok(version.trim().to_owned())
}

/// Lets the program find its libraries wherever it is started from: by its own place, so that the checkout can be
/// moved, and by the place of the build, for target folders elsewhere and for test programs, which lie deeper.
fn link(folder: &Path) {
    let libraries = folder.join("packages/torch/lib");
    for place in ["$ORIGIN/../libtorch/packages/torch/lib", &libraries.to_string_lossy()] {
        println!("cargo::rustc-link-arg-bin=shice-workloads=-Wl,-rpath,{place}");
    }
    // GNU ld would look for the libraries that libtorch_cpu.so needs beside the link in lib/. They lie where the loader
    // looks, beside the file itself, and fetch.py has tried that they load.
    println!("cargo::rustc-link-arg-bin=shice-workloads=-Wl,--allow-shlib-undefined");
}

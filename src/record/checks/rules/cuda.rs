//! CUDA as libtorch sees it: by kernels that ran, or did not.

use serde_json::Value;

use super::{NO_RUNTIME, Verdict, list};
use crate::record::checks::facts::Facts;
use crate::record::checks::trial::{Told, Trial};

/// What the CUDA runtime says where it holds no code for a device (`cudaErrorNoKernelImageForDevice`).
const NO_CODE: &str = "no kernel image";
/// The oldest driver that serves a CUDA major, and what the next minors of that major need no more than: CUDA Toolkit
/// release notes, "minimum required driver version for CUDA minor version compatibility" (Linux).
const OLDEST_DRIVERS: [(u32, &str); 3] = [(13, "580"), (12, "525.60.13"), (11, "450.80.02")];

pub(super) fn kernel(facts: &Facts) -> Verdict {
    if let Err(verdict) = facts.gpus() {
        return verdict;
    }
    let told = match &facts.trial {
        Trial::NotTried => return Verdict::of("not_tried"),
        Trial::NoProgram => return Verdict::of("no_program"),
        Trial::Hung => return Verdict::of("hung"),
        Trial::Broke(words) => return Verdict::of("broke").with("reason", words.as_str()),
        Trial::Told(told) => told,
    };
    if let Some(reason) = &told.missing {
        return Verdict::of("no_cuda_half").with("libtorch", told.libtorch.as_str()).with("reason", reason.as_str());
    }
    if told.devices.is_empty() {
        return Verdict::of(if facts.hidden { "hidden" } else { "no_device" });
    }
    match told.devices.iter().find_map(|tried| Some((&tried.device, tried.error.as_ref()?))) {
        Some((device, error)) => Verdict::of("kernel").with("device", device.as_str()).with("reason", error.as_str()),
        None => Verdict::of("ok").with("libtorch", told.libtorch.as_str()).with("devices", devices(told)),
    }
}

pub(super) fn driver_cuda(facts: &Facts) -> Verdict {
    let said = match facts.gpus() {
        Ok(said) => said,
        Err(verdict) => return verdict,
    };
    let (Some(version), Some(cuda)) = (&said.version, &said.cuda_version) else { return Verdict::of("no_driver") };
    match &facts.trial {
        Trial::Told(Told { cuda_runtime: Some(runtime), .. }) => served(version, cuda, runtime),
        _ => Verdict::of(NO_RUNTIME).with("driver", version.as_str()).with("driver_cuda", cuda.as_str()),
    }
}

/// Whether a driver that can serve CUDA up to `cuda` serves the runtime: one of the same major runs on it also where its
/// minor is newer (CUDA minor version compatibility).
pub fn served(driver: &str, cuda: &str, runtime: &str) -> Verdict {
    let outcome = match (parts(cuda), parts(runtime)) {
        (Some(cuda), Some(runtime)) if cuda >= runtime => "ok",
        (Some((major, _)), Some((wanted, _))) if major == wanted => "same_major",
        (Some(_), Some(_)) => "older",
        _ => NO_RUNTIME,
    };
    let needs = parts(runtime).and_then(|(major, _)| OLDEST_DRIVERS.iter().find(|(served, _)| *served == major));
    Verdict::of(outcome)
        .with("driver", driver)
        .with("driver_cuda", cuda)
        .with("runtime", runtime)
        .with("needs", needs.map_or(Value::Null, |(_, driver)| Value::from(*driver)))
}

/// Major and minor of `13.0` or `13.0.88`.
fn parts(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next().flatten().unwrap_or(0)))
}

pub(super) fn capability(facts: &Facts) -> Verdict {
    let said = match facts.gpus() {
        Ok(said) => said,
        Err(verdict) => return verdict,
    };
    let Trial::Told(told) = &facts.trial else { return Verdict::of("not_tried") };
    let capabilities = list(said.gpus.iter().filter_map(|gpu| gpu.compute_capability.as_deref()));
    let refused = told.devices.iter().find(|tried| tried.error.as_ref().is_some_and(|error| error.contains(NO_CODE)));
    let verdict = match refused {
        Some(tried) => Verdict::of("unsupported").with("device", tried.device.as_str()),
        None if told.devices.is_empty() || told.devices.iter().any(|tried| tried.error.is_some()) => {
            return Verdict::of("not_tried");
        }
        None => Verdict::of("ok"),
    };
    verdict.with("capabilities", capabilities).with("libtorch", told.libtorch.as_str())
}

fn devices(told: &Told) -> Value {
    list(told.devices.iter().map(|tried| tried.device.as_str()))
}

//! Driver, device nodes, and the state of the GPUs as the driver tells it.

use super::{Verdict, list};
use crate::record::checks::facts::{DriverSaid, Expected, Facts};
use crate::record::probe::gpu::glance::Glance;

/// More than a desktop or an idle CUDA context takes; our own.
const TAKEN_BYTES: i64 = 1 << 30;
/// With less left hardly any model fits; our own.
const FULL: f64 = 0.90;

/// What holds the clocks down for heat or lack of power: `nvmlClocksEventReasons` of nvml.h. A cap on power that holds
/// under load is no fault and not among them.
const THROTTLING: [(u64, &str); 4] =
    [(0x08, "HwSlowdown"), (0x20, "SwThermalSlowdown"), (0x40, "HwThermalSlowdown"), (0x80, "HwPowerBrakeSlowdown")];

impl Facts {
    /// What the GPU checks share: the outcome that ends them where there is no GPU to speak of, or no driver.
    pub(super) fn gpus(&self) -> Result<&DriverSaid, Verdict> {
        match &self.driver {
            Ok(said) => Ok(said),
            Err(_) if self.is_without_gpu() => Err(Verdict::of("no_gpu")),
            Err(_) => Err(Verdict::of("no_driver")),
        }
    }

    /// No trace of a GPU, and nobody expects one.
    pub(super) fn is_without_gpu(&self) -> bool {
        !self.nvidia.is_there() && self.expected == Expected::No && self.driver.is_err()
    }
}

pub(super) fn driver(facts: &Facts) -> Verdict {
    let reason = match &facts.driver {
        Ok(said) => {
            return Verdict::of("ok")
                .with("version", said.version.clone())
                .with("cuda", said.cuda_version.clone())
                .with("gpus", said.gpus.len());
        }
        Err(reason) => reason,
    };
    let seen = &facts.nvidia;
    if !seen.is_there() {
        return Verdict::of(match facts.expected {
            Expected::No => "no_gpu",
            Expected::ByImage => "image",
            Expected::ByRequest => "requested",
        });
    }
    if facts.is_left_alone {
        return Verdict::of("left_alone").with("reason", reason.as_str());
    }
    if facts.container.is_some() && seen.nodes.gpus == 0 && !seen.nodes.wsl {
        return Verdict::of("container");
    }
    if seen.module.is_none() && !seen.nodes.wsl {
        return Verdict::of("no_module").with("gpus", seen.hardware);
    }
    Verdict::of("refused").with("reason", reason.as_str())
}

pub(super) fn nodes(facts: &Facts) -> Verdict {
    let nodes = facts.nvidia.nodes;
    let inside = facts.container.is_some();
    if facts.is_without_gpu() {
        return Verdict::of("no_gpu");
    }
    if nodes.wsl {
        return Verdict::of("wsl");
    }
    if nodes.gpus == 0 {
        return match &facts.nvidia {
            seen if inside && (seen.is_there() || facts.driver.is_ok()) => Verdict::of("container"),
            seen if seen.module.is_some() || facts.driver.is_ok() => Verdict::of("missing"),
            _ => Verdict::of("no_driver"),
        };
    }
    if nodes.refused > 0 {
        return Verdict::of("refused").with("nodes", nodes.refused);
    }
    if !nodes.uvm {
        return Verdict::of(if inside { "no_uvm_in_container" } else { "no_uvm" });
    }
    Verdict::of("ok").with("nodes", nodes.gpus)
}

pub(super) fn memory(facts: &Facts) -> Verdict {
    let said = match facts.gpus() {
        Ok(said) => said,
        Err(verdict) => return verdict,
    };
    let share = |used: i64, total: i64| used as f64 / total as f64;
    let told = |gpu: &Glance| {
        let (used, total) = (gpu.memory_used_bytes?, gpu.memory_total_bytes.filter(|total| *total > 0)?);
        Some((gpu.index, used, total))
    };
    let fullest = said.gpus.iter().filter_map(told).max_by(|a, b| share(a.1, a.2).total_cmp(&share(b.1, b.2)));
    let Some((gpu, used, total)) = fullest else { return Verdict::of("not_told") };
    let verdict = Verdict::of(match used {
        _ if share(used, total) >= FULL => "full",
        _ if used >= TAKEN_BYTES => "taken",
        _ => "ok",
    });
    verdict.with("gpu", gpu).with("used_bytes", used).with("total_bytes", total).with("threshold_bytes", TAKEN_BYTES)
}

pub(super) fn throttling(facts: &Facts) -> Verdict {
    let said = match facts.gpus() {
        Ok(said) => said,
        Err(verdict) => return verdict,
    };
    if said.gpus.iter().all(|gpu| gpu.throttle_reasons.is_none()) {
        return Verdict::of("not_told");
    }
    let held_down = |gpu: &&Glance| THROTTLING.iter().any(|(bit, _)| gpu.throttle_reasons.unwrap_or(0) & bit != 0);
    let Some(gpu) = said.gpus.iter().find(held_down) else { return Verdict::of("ok") };
    let reasons = THROTTLING.iter().filter(|(bit, _)| gpu.throttle_reasons.unwrap_or(0) & bit != 0);
    Verdict::of("throttled").with("gpu", gpu.index).with("reasons", list(reasons.map(|(_, name)| *name)))
}

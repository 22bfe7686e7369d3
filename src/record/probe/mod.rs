//! The sources of samples. Each reads the kernel's or a driver's own figures and knows which it could not get.

pub mod cgroup;
pub mod foreign;
pub mod gpu;
pub mod host;
pub mod identity;
pub mod kernel;
pub mod memory;
pub mod process;

/// Share of one core that a probe on a thread of its own may take for its readings: with waking up for them, 0.5 %.
const BUDGET: f64 = 0.0045;

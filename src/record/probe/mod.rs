//! The sources of samples. Each reads the kernel's or a driver's own figures and knows which it could not get.

pub mod cgroup;
pub mod foreign;
pub mod gpu;
pub mod host;
pub mod kernel;
pub mod memory;
pub mod process;

//! What a run runs on: hardware, limits and system software. Keys of the stable part should not change between runs of
//! one environment. What its processes load is [`loaded`] apart, because it is a matter of the run.

use std::fs;
use std::path::Path;

use anyhow::ensure;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

mod container;
mod cpu;
pub mod loaded;
pub mod outside;
pub mod variables;

pub use container::runtime as container;

use self::cpu::Cpu;
use super::cgroup::Cgroups;
use super::mask::Mask;
use super::probe::gpu::driver::Driver;
use super::probe::kernel;
use crate::trace::run::Limits;

pub use crate::trace::fingerprint::Keys;

/// Everything about the machine that is asked once.
#[derive(Clone, Debug)]
pub struct Machine {
    pub limits: Limits,
    pub fingerprint: Keys,
}

impl Machine {
    /// Looks at this machine.
    ///
    /// # Errors
    /// The portable inventory is not available on this system, or lacks the cores or the memory.
    pub fn inspect(proc: &Path, cgroups: &Cgroups, gpus: Option<&Driver>) -> anyhow::Result<Self> {
        let wanted = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing())
            .with_memory(MemoryRefreshKind::nothing().with_ram());
        let system = System::new_with_specifics(wanted)
            .map_err(|error| anyhow::anyhow!("cannot take the machine's inventory: {error}"))?;
        let limits = limits(system.cpus().len(), system.total_memory(), cgroups)?;
        let mut keys = Keys::new();
        let mut put = |key: &str, value: Option<Value>| value.map(|value| keys.insert(key.to_owned(), value));
        put("os", System::long_os_version().ok().map(Value::from));
        put("kernel", System::kernel_version().ok().map(Value::from));
        put("architecture", Some(json!(System::cpu_arch())));
        put(
            "cpu_model",
            system.cpus().first().map(|cpu| cpu.brand().trim()).filter(|brand| !brand.is_empty()).map(Value::from),
        );
        let cpuinfo = fs::read_to_string(proc.join("cpuinfo")).unwrap_or_default();
        let cpu = Cpu::parse(&cpuinfo);
        put("cpu_sockets", cpu.sockets.map(Value::from));
        put("cpu_physical_cores", cpu.cores.map(Value::from));
        put("cpu_threads_per_core", cpu.threads_per_core.map(Value::from));
        put("cpu_instructions", cpu.instructions.map(|names| json!(names)));
        put("cpu_turbo", cpu::turbo(Path::new("/sys/devices/system/cpu")).map(Value::from));
        put("numa_nodes", cpu::numa_nodes(Path::new("/sys/devices/system/node")).map(Value::from));
        let huge_pages = text_of("/sys/kernel/mm/transparent_hugepage/enabled");
        put("transparent_huge_pages", huge_pages.as_deref().and_then(cpu::chosen).map(Value::from));
        put("cores_online", Some(json!(limits.cores_online)));
        put("memory_total_bytes", Some(json!(limits.memory_total_bytes)));
        for (key, value) in limit_keys(&limits) {
            put(&key, Some(value));
        }
        put("swap_total_bytes", meminfo(proc, "SwapTotal").map(Value::from));
        // DataLoader workers hand over their batches through it.
        put("shm_bytes", space(Path::new("/dev/shm")).map(|(size, _)| Value::from(size)));
        put("container", container(proc).map(Value::from));
        if container(proc).is_some() {
            for (key, value) in container::image(&Mask::of_this_user()) {
                put(key, Some(Value::from(value)));
            }
        }
        let virtual_machine = is_virtual_machine(&cpuinfo);
        put("virtual_machine", virtual_machine.map(Value::from));
        let vendor = virtual_machine.filter(|is| *is).and_then(|_| text_of("/sys/class/dmi/id/sys_vendor"));
        put("virtualisation", vendor.map(Value::from));
        put("cpu_governor", text_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").map(Value::from));
        put("gpus", gpus.map(|driver| json!(driver.gpus)));
        put("nvidia_driver", gpus.and_then(|driver| driver.version.clone()).map(Value::from));
        put("cuda_driver", gpus.and_then(|driver| driver.cuda_version.clone()).map(Value::from));
        Ok(Self { limits, fingerprint: keys })
    }
}

/// Every share is told of these: a machine without cores or memory would make all of them wrong.
fn limits(cores: usize, memory_bytes: u64, cgroups: &Cgroups) -> anyhow::Result<Limits> {
    ensure!(cores > 0, "the machine's inventory lists no CPU cores; are /proc/stat and /proc/cpuinfo readable?");
    ensure!(memory_bytes > 0, "the machine's inventory tells no memory; is /proc/meminfo readable?");
    let cores_online = u32::try_from(cores).unwrap_or(u32::MAX);
    let memory_total_bytes = i64::try_from(memory_bytes).unwrap_or(i64::MAX);
    Ok(granted(cores_online, memory_total_bytes, allowed_cores(THIS_PROCESS), cgroups))
}

/// The smallest of what a machine has and what affinity and control groups grant of it.
pub fn granted(cores_online: u32, memory_total_bytes: i64, allowed_cores: Option<usize>, cgroups: &Cgroups) -> Limits {
    let cpu_cores = [Some(f64::from(cores_online)), allowed_cores.map(|cores| cores as f64), cgroups.cpu_cores()];
    Limits {
        cores_online,
        cpu_cores: cpu_cores.into_iter().flatten().reduce(f64::min),
        memory_total_bytes,
        memory_bytes: Some(cgroups.memory_bytes().map_or(memory_total_bytes, |limit| limit.min(memory_total_bytes))),
    }
}

/// What a run may use, as keys of the fingerprint.
pub fn limit_keys(limits: &Limits) -> impl Iterator<Item = (String, Value)> {
    let cores = limits.cpu_cores.map(|cores| ("cpu_limit_cores", json!(cores)));
    let memory = limits.memory_bytes.map(|bytes| ("memory_limit_bytes", json!(bytes)));
    [cores, memory].into_iter().flatten().map(|(key, value)| (key.to_owned(), value))
}

/// The kernel's way of naming the calling process.
pub const THIS_PROCESS: Pid = Pid::from_raw(0);

/// Cores on which a process may run.
pub fn allowed_cores(pid: Pid) -> Option<usize> {
    let set = sched_getaffinity(pid).ok()?;
    Some((0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).count())
}

/// What differs from run to run and may explain a difference: memory and load before the start.
pub fn volatile(proc: &Path) -> Keys {
    let mut keys = Keys::new();
    if let Some(bytes) = meminfo(proc, "MemAvailable") {
        keys.insert("memory_available_bytes".to_owned(), json!(bytes));
    }
    let loadavg = fs::read_to_string(proc.join("loadavg")).unwrap_or_default();
    if let Some(load) = loadavg.split_ascii_whitespace().next().and_then(|load| load.parse::<f64>().ok()) {
        keys.insert("load_average_1min".to_owned(), json!(load));
    }
    keys
}

/// A line of /proc/meminfo, in bytes.
pub fn meminfo(proc: &Path, key: &str) -> Option<i64> {
    kernel::keyed_value(&fs::read_to_string(proc.join("meminfo")).ok()?, key)
}

/// Size of a file system and what of it this user may still fill.
pub fn space(path: &Path) -> Option<(i64, i64)> {
    bytes_of(&nix::sys::statvfs::statvfs(path).ok()?)
}

fn bytes_of(found: &nix::sys::statvfs::Statvfs) -> Option<(i64, i64)> {
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(found.fragment_size())).ok();
    Some((bytes(found.blocks())?, bytes(found.blocks_available())?))
}

/// Whether the CPU says that a hypervisor is beneath it; `None` where it says nothing of its features (not x86).
fn is_virtual_machine(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    Some(flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

fn text_of(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inventory_without_cores_or_memory_is_an_error_and_not_one_core() {
        let cgroups = Cgroups::of_this_process(Path::new("/no/such/proc"));
        let message = |cores, memory| limits(cores, memory, &cgroups).unwrap_err().to_string();
        assert!(message(0, 1 << 30).contains("no CPU cores"));
        assert!(message(4, 0).contains("no memory"));
        assert_eq!(limits(4, 1 << 30, &cgroups).unwrap().cores_online, 4);
    }
}

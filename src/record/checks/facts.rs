//! Everything that the rules look at, gathered once: before a session's first run, or for `shice check`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use super::jupyter::Jupyter;
use super::login::Login;
use super::nvidia::Nvidia;
use super::trial::{self, Trial};
use crate::record::cgroup::Cgroups;
use crate::record::fingerprint::{self, Machine};
use crate::record::plan::shipped;
use crate::record::probe::gpu::driver::Driver;
use crate::record::probe::gpu::glance::{Glance, glance};
use crate::record::run::PROC;
use crate::record::threads;
use crate::trace::run::Limits;

/// How long the driver may take to tell the state of all GPUs.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of an environment before anything runs in it.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The container runtime, where this is a container.
    pub container: Option<String>,
    pub nvidia: Nvidia,
    pub expected: Expected,
    /// The driver's own words, or why it cannot be asked.
    pub driver: Result<DriverSaid, String>,
    /// Nobody has tried to open the driver: the user did not want it, or it would have woken a sleeping GPU.
    pub is_left_alone: bool,
    pub trial: Trial,
    /// Whether `CUDA_VISIBLE_DEVICES` hides every GPU.
    pub hidden: bool,
    /// Size of /dev/shm and what of it is free.
    pub shm_bytes: Option<(i64, i64)>,
    pub limits: Limits,
    /// Cores' worth of CPU time that cgroups grant; `None` without a quota.
    pub quota_cores: Option<f64>,
    /// Cores that the affinity of this process allows, which is what libraries count.
    pub allowed_cores: usize,
    /// `OMP_NUM_THREADS`.
    pub threads: Option<u32>,
    /// Size of the swap space and what of it is in use.
    pub swap_bytes: Option<(i64, i64)>,
    /// Frequency governors of all cores, each once; empty where the machine does not tell.
    pub governors: Vec<String>,
    pub login: Login,
    pub jupyter: Jupyter,
}

/// Whether somebody counts on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    #[default]
    No,
    /// The image is made for CUDA.
    ByImage,
    /// A run on `cuda:N` was asked for.
    ByRequest,
}

/// What the driver tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriverSaid {
    pub version: Option<String>,
    /// The newest CUDA that it can serve.
    pub cuda_version: Option<String>,
    pub gpus: Vec<Glance>,
}

/// What the gathering needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub machine: &'a Machine,
    pub cgroups: &'a Cgroups,
    pub driver: &'a Result<Driver, String>,
    /// Whether nobody has tried to open it.
    pub is_left_alone: bool,
    /// A run on a GPU was asked for.
    pub wants_gpu: bool,
    /// Whether to run a kernel on each GPU.
    pub try_kernel: bool,
    /// Whether the torch of Python may stand in for one with CUDA that is not here.
    pub try_python: bool,
}

impl Facts {
    /// Looks at this machine, and runs a kernel on each GPU where that is asked for and the driver works.
    pub fn gather(request: Request<'_>) -> Self {
        let variable = |name| std::env::var(name).ok();
        let root = Path::new("/");
        let driver = request.driver.clone();
        let trial = if request.try_kernel && driver.is_ok() { tried(request.try_python) } else { Trial::NotTried };
        Self {
            container: fingerprint::container(Path::new(PROC)).map(str::to_owned),
            nvidia: Nvidia::look(root),
            expected: expected(variable("NVIDIA_VISIBLE_DEVICES").as_deref(), request.wants_gpu),
            driver: driver.map(DriverSaid::of),
            is_left_alone: request.is_left_alone,
            trial,
            hidden: hides_all(variable("CUDA_VISIBLE_DEVICES").as_deref()),
            shm_bytes: fingerprint::space(Path::new("/dev/shm")),
            limits: request.machine.limits,
            quota_cores: request.cgroups.cpu_cores(),
            allowed_cores: fingerprint::allowed_cores(fingerprint::THIS_PROCESS)
                .unwrap_or(request.machine.limits.cores_online as usize),
            threads: variable("OMP_NUM_THREADS").and_then(|number| first_number(&number)),
            swap_bytes: swap(Path::new(PROC)),
            governors: governors(Path::new("/sys/devices/system/cpu")),
            login: Login::look(root),
            jupyter: Jupyter::look(Path::new(PROC)),
        }
    }
}

impl DriverSaid {
    fn of(driver: Driver) -> Self {
        let (version, cuda_version) = (driver.version.clone(), driver.cuda_version.clone());
        let (sender, told) = mpsc::channel();
        // A driver that hangs must not keep the recorder: the state of its GPUs stays unknown.
        let _ = threads::start("driver", move || drop(sender.send(glance(&driver))));
        Self { version, cuda_version, gpus: told.recv_timeout(PATIENCE).unwrap_or_default() }
    }
}

fn tried(by_python_too: bool) -> Trial {
    let trial = shipped::program().map_or(Trial::NoProgram, |program| trial::run(&program));
    let has_no_cuda = match &trial {
        Trial::Told(told) => told.missing.is_some(),
        other => *other == Trial::NoProgram,
    };
    if !by_python_too || !has_no_cuda {
        return trial;
    }
    match trial::run_python() {
        Trial::NoProgram => trial,
        tried => tried,
    }
}

/// NVIDIA's images set the variable; `void` and `none` mean that no GPU is wanted.
fn expected(visible: Option<&str>, wants_gpu: bool) -> Expected {
    match visible {
        _ if wants_gpu => Expected::ByRequest,
        None | Some("" | "void" | "none") => Expected::No,
        Some(_) => Expected::ByImage,
    }
}

/// CUDA reads the list up to the first word that names no GPU.
fn hides_all(visible: Option<&str>) -> bool {
    let first = visible.map(|list| list.split(',').next().unwrap_or_default().trim());
    first.is_some_and(|word| {
        !word.starts_with(|c: char| c.is_ascii_digit()) && !word.starts_with("GPU-") && !word.starts_with("MIG-")
    })
}

/// `4` of `4,2`, which is one number for each level of nesting.
fn first_number(text: &str) -> Option<u32> {
    text.split(',').next()?.trim().parse().ok().filter(|number| *number > 0)
}

fn swap(proc: &Path) -> Option<(i64, i64)> {
    let total = fingerprint::meminfo(proc, "SwapTotal")?;
    Some((total, total - fingerprint::meminfo(proc, "SwapFree")?))
}

/// The governor of each core, each once.
pub fn governors(cpu: &Path) -> Vec<String> {
    let entries = fs::read_dir(cpu).into_iter().flatten().flatten();
    let files: Vec<PathBuf> = entries.map(|entry| entry.path().join("cpufreq/scaling_governor")).collect();
    let found = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    let distinct: BTreeSet<String> = found.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    distinct.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_for_cuda_expects_a_gpu_and_void_does_not() {
        assert_eq!(expected(None, false), Expected::No);
        assert_eq!(expected(Some("void"), false), Expected::No);
        assert_eq!(expected(Some("all"), false), Expected::ByImage);
        assert_eq!(expected(None, true), Expected::ByRequest);
    }

    #[test]
    fn gpus_are_hidden_by_a_list_that_begins_with_none() {
        for (list, hidden) in
            [(None, false), (Some(""), true), (Some("-1"), true), (Some("0,1"), false), (Some("GPU-1234"), false)]
        {
            assert_eq!(hides_all(list), hidden, "{list:?}");
        }
    }

    #[test]
    fn governors_are_told_once_each_and_none_where_there_are_none() {
        let cpu = tempfile::tempdir().unwrap();
        for (core, governor) in [("cpu0", "powersave\n"), ("cpu1", "performance\n"), ("cpu2", "powersave\n")] {
            fs::create_dir_all(cpu.path().join(core).join("cpufreq")).unwrap();
            fs::write(cpu.path().join(core).join("cpufreq/scaling_governor"), governor).unwrap();
        }
        assert_eq!(governors(cpu.path()), ["performance", "powersave"]);
        assert!(governors(Path::new("/no/such/folder")).is_empty());
        assert_eq!(first_number("4,2"), Some(4));
    }
}

//! Environments made by hand, so that every outcome of every check is reached once.

use super::facts::{DriverSaid, Expected, Facts};
use super::jupyter::Jupyter;
use super::login::{Login, RootPassword};
use super::nvidia::{Nodes, Nvidia};
use super::trial::{Told, Trial, Tried};
use crate::record::probe::gpu::glance::Glance;
use crate::trace::run::Limits;

const GIB: i64 = 1 << 30;

/// A quiet machine of 8 cores and 32 GiB without GPU.
pub(crate) fn without_gpu() -> Facts {
    Facts {
        container: None,
        nvidia: Nvidia::default(),
        expected: Expected::No,
        driver: Err("no NVIDIA driver library (libnvidia-ml.so.1) can be loaded".to_owned()),
        is_left_alone: false,
        trial: Trial::NotTried,
        hidden: false,
        shm_bytes: Some((16 * GIB, 16 * GIB)),
        limits: Limits {
            cores_online: 8,
            cpu_cores: Some(8.0),
            memory_total_bytes: 32 * GIB,
            memory_bytes: Some(32 * GIB),
        },
        quota_cores: None,
        allowed_cores: 8,
        threads: None,
        swap_bytes: Some((8 * GIB, 0)),
        governors: vec!["performance".to_owned()],
        login: Login { sshd_runs: false, by_password: Some(false), root: RootPassword::Locked },
        jupyter: Jupyter::default(),
    }
}

/// The same machine with a GPU on which a kernel ran.
pub(crate) fn with_gpu() -> Facts {
    let gpu = Glance {
        index: 0,
        compute_capability: Some("8.9".to_owned()),
        memory_total_bytes: Some(24 * GIB),
        memory_used_bytes: Some(400 << 20),
        throttle_reasons: Some(0x1),
    };
    Facts {
        nvidia: Nvidia {
            hardware: 1,
            module: Some("580.82.07".to_owned()),
            nodes: Nodes { gpus: 1, refused: 0, uvm: true, wsl: false },
        },
        driver: Ok(DriverSaid {
            version: Some("580.82.07".to_owned()),
            cuda_version: Some("13.0".to_owned()),
            gpus: vec![gpu],
        }),
        trial: Trial::Told(told(None)),
        ..without_gpu()
    }
}

fn told(error: Option<&str>) -> Told {
    Told {
        libtorch: "2.11.0".to_owned(),
        missing: None,
        cuda_runtime: Some("13.0".to_owned()),
        devices: vec![Tried { device: "cuda:0".to_owned(), error: error.map(str::to_owned) }],
    }
}

/// A change of a machine, the check that it is for, and the outcome that it has.
pub(crate) type Case = (fn() -> Facts, fn(&mut Facts), &'static str, &'static str);

fn docker(facts: &mut Facts) {
    facts.container = Some("docker".to_owned());
}

fn refuses(facts: &mut Facts) {
    facts.driver = Err("the NVIDIA kernel module and library are of different versions".to_owned());
}

/// A container on a host with a GPU, started without access to it.
fn shut_out(facts: &mut Facts) {
    docker(facts);
    refuses(facts);
    facts.nvidia.nodes = Nodes::default();
}

fn gpu(facts: &mut Facts, change: fn(&mut Glance)) {
    if let Ok(said) = &mut facts.driver {
        said.gpus.iter_mut().for_each(change);
    }
}

pub(crate) const CASES: &[Case] = &[
    (with_gpu, |_| {}, "nvidia_driver", "ok"),
    (without_gpu, |_| {}, "nvidia_driver", "no_gpu"),
    (without_gpu, |facts| facts.expected = Expected::ByRequest, "nvidia_driver", "requested"),
    (without_gpu, |facts| facts.expected = Expected::ByImage, "nvidia_driver", "image"),
    (with_gpu, shut_out, "nvidia_driver", "container"),
    (with_gpu, |facts| (refuses(facts), facts.nvidia.module = None).0, "nvidia_driver", "no_module"),
    (with_gpu, refuses, "nvidia_driver", "refused"),
    (with_gpu, |facts| (refuses(facts), facts.is_left_alone = true).0, "nvidia_driver", "left_alone"),
    (with_gpu, |_| {}, "device_nodes", "ok"),
    (with_gpu, |facts| facts.nvidia.nodes = Nodes { wsl: true, ..Nodes::default() }, "device_nodes", "wsl"),
    (without_gpu, |_| {}, "device_nodes", "no_gpu"),
    (without_gpu, |facts| facts.nvidia.hardware = 1, "device_nodes", "no_driver"),
    (with_gpu, shut_out, "device_nodes", "container"),
    (with_gpu, |facts| facts.nvidia.nodes.gpus = 0, "device_nodes", "missing"),
    (with_gpu, |facts| facts.nvidia.nodes.refused = 2, "device_nodes", "refused"),
    (with_gpu, |facts| facts.nvidia.nodes.uvm = false, "device_nodes", "no_uvm"),
    (with_gpu, |facts| (docker(facts), facts.nvidia.nodes.uvm = false).0, "device_nodes", "no_uvm_in_container"),
    (with_gpu, |_| {}, "cuda_kernel", "ok"),
    (without_gpu, |_| {}, "cuda_kernel", "no_gpu"),
    (with_gpu, refuses, "cuda_kernel", "no_driver"),
    (with_gpu, |facts| facts.trial = Trial::NotTried, "cuda_kernel", "not_tried"),
    (with_gpu, |facts| facts.trial = Trial::NoProgram, "cuda_kernel", "no_program"),
    (
        with_gpu,
        |facts| facts.trial = Trial::Told(Told { missing: Some("not there".to_owned()), ..Told::default() }),
        "cuda_kernel",
        "no_cuda_half",
    ),
    (with_gpu, |facts| (facts.hidden = true, facts.trial = Trial::Told(Told::default())).0, "cuda_kernel", "hidden"),
    (with_gpu, |facts| facts.trial = Trial::Told(Told::default()), "cuda_kernel", "no_device"),
    (with_gpu, |facts| facts.trial = Trial::Told(told(Some("CUDA error: out of memory"))), "cuda_kernel", "kernel"),
    (with_gpu, |facts| facts.trial = Trial::Broke("killed".to_owned()), "cuda_kernel", "broke"),
    (with_gpu, |facts| facts.trial = Trial::Hung, "cuda_kernel", "hung"),
    (with_gpu, |_| {}, "driver_cuda", "ok"),
    (without_gpu, |_| {}, "driver_cuda", "no_gpu"),
    (with_gpu, refuses, "driver_cuda", "no_driver"),
    (with_gpu, |facts| facts.trial = Trial::NotTried, "driver_cuda", "no_runtime"),
    (
        with_gpu,
        |facts| facts.trial = Trial::Told(Told { cuda_runtime: Some("13.2".to_owned()), ..told(None) }),
        "driver_cuda",
        "same_major",
    ),
    (
        with_gpu,
        |facts| facts.trial = Trial::Told(Told { cuda_runtime: Some("14.0".to_owned()), ..told(None) }),
        "driver_cuda",
        "older",
    ),
    (with_gpu, |_| {}, "compute_capability", "ok"),
    (without_gpu, |_| {}, "compute_capability", "no_gpu"),
    (with_gpu, refuses, "compute_capability", "no_driver"),
    (with_gpu, |facts| facts.trial = Trial::NotTried, "compute_capability", "not_tried"),
    (
        with_gpu,
        |facts| facts.trial = Trial::Told(told(Some("CUDA error: no kernel image is available for execution"))),
        "compute_capability",
        "unsupported",
    ),
    (with_gpu, |_| {}, "gpu_memory", "ok"),
    (without_gpu, |_| {}, "gpu_memory", "no_gpu"),
    (with_gpu, refuses, "gpu_memory", "no_driver"),
    (with_gpu, |facts| gpu(facts, |gpu| gpu.memory_used_bytes = None), "gpu_memory", "not_told"),
    (with_gpu, |facts| gpu(facts, |gpu| gpu.memory_used_bytes = Some(2 * GIB)), "gpu_memory", "taken"),
    (with_gpu, |facts| gpu(facts, |gpu| gpu.memory_used_bytes = Some(22 * GIB)), "gpu_memory", "full"),
    (with_gpu, |_| {}, "gpu_throttling", "ok"),
    (without_gpu, |_| {}, "gpu_throttling", "no_gpu"),
    (with_gpu, refuses, "gpu_throttling", "no_driver"),
    (with_gpu, |facts| gpu(facts, |gpu| gpu.throttle_reasons = None), "gpu_throttling", "not_told"),
    (with_gpu, |facts| gpu(facts, |gpu| gpu.throttle_reasons = Some(0x44)), "gpu_throttling", "throttled"),
    (without_gpu, |_| {}, "shm", "ok"),
    (without_gpu, |facts| facts.shm_bytes = None, "shm", "missing"),
    (without_gpu, |facts| facts.shm_bytes = Some((64 << 20, 64 << 20)), "shm", "default"),
    (without_gpu, |facts| facts.shm_bytes = Some((512 << 20, 512 << 20)), "shm", "small"),
    (without_gpu, |facts| facts.shm_bytes = Some((8 * GIB, 1 << 20)), "shm", "filled"),
    (without_gpu, |_| {}, "memory_limit", "ok"),
    (without_gpu, |facts| facts.limits.memory_bytes = Some(4 * GIB), "memory_limit", "limited"),
    (without_gpu, |_| {}, "cpu_limit", "ok"),
    (without_gpu, |facts| facts.allowed_cores = 4, "cpu_limit", "pinned"),
    (without_gpu, |facts| (facts.quota_cores = Some(1.5), facts.threads = Some(2)).0, "cpu_limit", "threads_set"),
    (without_gpu, |facts| facts.quota_cores = Some(1.5), "cpu_limit", "limited"),
    (without_gpu, |_| {}, "swap", "ok"),
    (without_gpu, |facts| facts.swap_bytes = Some((0, 0)), "swap", "none"),
    (without_gpu, |facts| facts.swap_bytes = None, "swap", "not_told"),
    (without_gpu, |facts| facts.swap_bytes = Some((8 * GIB, GIB)), "swap", "used"),
    (without_gpu, |_| {}, "cpu_governor", "ok"),
    (without_gpu, |facts| facts.governors.clear(), "cpu_governor", "not_told"),
    (without_gpu, |facts| facts.governors.push("powersave".to_owned()), "cpu_governor", "saving"),
    (without_gpu, |_| {}, "root_login", "no_server"),
    (without_gpu, |facts| facts.login.sshd_runs = true, "root_login", "keys_only"),
    (
        without_gpu,
        |facts| facts.login = Login { sshd_runs: true, by_password: Some(true), ..facts.login },
        "root_login",
        "locked",
    ),
    (
        without_gpu,
        |facts| facts.login = Login { sshd_runs: true, by_password: None, root: RootPassword::Set },
        "root_login",
        "unreadable",
    ),
    (without_gpu, |facts| facts.login.root = RootPassword::Empty, "root_login", "empty"),
    (without_gpu, |facts| facts.login.root = RootPassword::Known, "root_login", "known"),
    (
        without_gpu,
        |facts| facts.login = Login { sshd_runs: true, by_password: Some(true), root: RootPassword::Set },
        "root_login",
        "by_password",
    ),
    (without_gpu, |_| {}, "jupyter", "none"),
    (without_gpu, |facts| facts.jupyter.servers = vec![(8888, true)], "jupyter", "guarded"),
    (without_gpu, |facts| facts.jupyter.unseen = true, "jupyter", "unseen"),
    (without_gpu, |facts| facts.jupyter.servers = vec![(8888, true), (8889, false)], "jupyter", "open"),
];

//! Environments made by hand for the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::PI;

use serde_json::json;

use crate::aggregate::metric::Metric;
use crate::aggregate::summary::{
    CaseSummary, CheckSummary, CommonLimits, CoreCourse, CoreHeat, CoreUsage, Course, EnvironmentSummary,
    ForeignProgram, LeftOut, LoadedSummary, MetricSummary, Point, Quantity, RunSummary, Share, StepBin, StepTimes,
};
use crate::record::checks;
use crate::trace::check::{Check, CheckState};
use crate::trace::layout::slug;
use crate::trace::run::{Coverage, CoverageState, CpuTotals, Outcome, RecorderCost, case_name};

mod across;

pub(crate) use across::both_devices;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// CPU only: `idle`, and `small-cnn` with three finished runs, one failed and one incomplete.
pub(crate) fn cpu_only() -> EnvironmentSummary {
    let outcomes = [
        Outcome::Finished,
        Outcome::Finished,
        Outcome::Failed { exit_code: 137 },
        Outcome::Finished,
        Outcome::Incomplete,
    ];
    let mut cnn = case("small-cnn", &[("device", "cpu"), ("quick", "true")], &outcomes);
    cnn.effective = strings(&[("batch_size", "64"), ("device", "cpu"), ("images", "1280"), ("threads", "4")]);
    cnn.runs[2].output_tail =
        vec!["epoch 1".to_owned(), "RuntimeError: [enforce fail] <out of memory> | `alloc`".to_owned()];
    cnn.runs[2].survivors = vec!["pt_data_worker".to_owned()];
    cnn.runs[3].survivors = vec!["tensorboard".to_owned()];
    cnn.runs[3].left_children = true;
    cnn.runs[4].events = vec!["the recorder was killed; its journal was kept".to_owned()];
    cnn.metrics = vec![
        figure(Metric::Duration, 48.62, 0.4, 3),
        figure(Metric::TrainTime, 46.91, 0.4, 3),
        figure(Metric::Throughput, 136.4, 1.2, 3),
        figure(Metric::StepTime, 0.469, 0.004, 3),
        figure(Metric::StepTimeP95, 0.487, 0.006, 3),
        figure(Metric::StepVariation, 0.021, 0.003, 3),
        figure(Metric::WarmUpSteps, 2.0, 1.0, 3),
        figure(Metric::WarmUpTime, 1.84, 0.12, 3),
        figure(Metric::CpuTime, 181.2, 1.5, 3),
        figure(Metric::CpuUsage, 0.932, 0.008, 3),
        figure(Metric::CpuUsageMax, 0.994, 0.002, 3),
        figure(Metric::HostCpu, 0.471, 0.004, 3),
        figure(Metric::IoWait, 0.0004, 0.0002, 3),
        figure(Metric::ForeignCpu, 0.004, 0.001, 3),
        figure(Metric::CoresAbove85, 4.0, 0.0, 3),
        figure(Metric::MemorySumOfPeaks, 5.31 * GIB, 0.02 * GIB, 3),
        figure(Metric::MemoryPssPeak, 5.24 * GIB, 0.02 * GIB, 3),
        figure(Metric::MemoryTrend, 21_000.0, 60_000.0, 3),
        figure(Metric::MemoryTrendLate, 9_000.0, 50_000.0, 3),
        figure(Metric::MemoryGrowth, 756_000.0, 2_160_000.0, 3),
        figure(Metric::SwapIn, 0.0, 0.0, 3),
        figure(Metric::SwapOut, 0.0, 0.0, 3),
        figure(Metric::Threads, 9.0, 1.0, 3),
    ];
    cnn.courses = vec![
        course(
            Quantity::RunCpu,
            48,
            3,
            |t| if t < 3.0 { 0.25 * t + 0.1 } else { 0.95 + 0.03 * (t / 2.0).sin() },
            0.015,
        ),
        course(Quantity::HostCpu, 48, 3, |t| if t < 3.0 { 0.15 * t } else { 0.48 + 0.02 * (t / 2.0).sin() }, 0.02),
        course(Quantity::MemoryRss, 48, 3, |t| GIB * (5.3 - 4.6 * (-t / 4.0).exp()), 0.08 * GIB),
        course(Quantity::MemoryPss, 48, 3, |t| GIB * (5.2 - 4.6 * (-t / 4.0).exp()), 0.08 * GIB),
    ];
    cnn.core_heat = Some(heat(48, 8, 3));
    cnn.step_times = Some(step_times(240, 3));
    cnn.cores = (0..8).map(|core| core_usage(core, if core % 2 == 0 { 0.93 } else { 0.03 })).collect();
    let mut idle = case("idle", &[("device", "cpu"), ("quick", "true")], &[Outcome::Finished; 3]);
    idle.metrics = vec![
        figure(Metric::Duration, 10.02, 0.003, 3),
        figure(Metric::CpuTime, 0.0421, 0.001, 3),
        figure(Metric::CpuUsage, 0.00105, 0.0001, 3),
        figure(Metric::HostCpu, 0.012, 0.002, 3),
        figure(Metric::ForeignCpu, 0.009, 0.002, 3),
        figure(Metric::MemorySumOfPeaks, 0.21 * GIB, 0.001 * GIB, 3),
    ];
    idle.courses =
        vec![course(Quantity::RunCpu, 10, 3, |_| 0.001, 0.0), course(Quantity::MemoryRss, 10, 3, |_| 0.21 * GIB, 0.0)];
    idle.metrics.push(figure(Metric::ForeignProcesses, 212.0, 1.0, 3));
    idle.foreign = vec![program("kernel", 0.021, 0.0), program("jupyter-lab", 0.002, 0.4 * GIB)];
    idle.cores = (0..8).map(|core| core_usage(core, 0.012)).collect();
    environment("PyTorch-2.11-CPU", vec![idle, cnn])
}

/// One case on a GPU, run once.
pub(crate) fn with_gpu() -> EnvironmentSummary {
    let mut cnn = case("small-cnn", &[("device", "cuda:0")], &[Outcome::Finished]);
    cnn.effective = strings(&[("device", "cuda:0"), ("images", "10000")]);
    cnn.command = [
        "docker",
        "run",
        "--rm",
        "--gpus",
        "all",
        "--shm-size=8g",
        "-v",
        "/data:/data",
        "--odd|option",
        "x",
        "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime",
        "shice-workloads",
        "small-cnn",
    ]
    .map(str::to_owned)
    .to_vec();
    cnn.metrics = vec![
        figure(Metric::Duration, 12.4, 0.0, 1),
        figure(Metric::CpuUsage, 0.142, 0.0, 1),
        figure(Metric::MemorySumOfPeaks, 3.4 * GIB, 0.0, 1),
        figure(Metric::ForeignCpu, 0.12, 0.0, 1),
        figure(Metric::GpuUtilisation, 0.78, 0.0, 1),
        figure(Metric::GpuUtilisationUnused, 0.24, 0.0, 1),
        figure(Metric::GpuMemoryBefore, 0.61 * GIB, 0.0, 1),
        figure(Metric::GpuMemoryPeak, 2.1 * GIB, 0.0, 1),
        figure(Metric::GpuMemoryRise, 1.49 * GIB, 0.0, 1),
        figure(Metric::GpuMemoryOwnPeak, 1.4 * GIB, 0.0, 1),
        figure(Metric::GpuMemoryOthersPeak, 0.6 * GIB, 0.0, 1),
        figure(Metric::GpuMemoryUnattributed, 0.1 * GIB, 0.0, 1),
        figure(Metric::GpuPower, 237.1, 0.0, 1),
        figure(Metric::GpuPowerInstantMax, 402.6, 0.0, 1),
        figure(Metric::GpuEnergy, 2_940.0, 0.0, 1),
        figure(Metric::GpuPowerCapped, 0.31, 0.0, 1),
        figure(Metric::GpuHeatCapped, 0.0, 0.0, 1),
        figure(Metric::GpuHardwareSlowdown, 0.0, 0.0, 1),
        figure(Metric::GpuClocksSet, 0.0, 0.0, 1),
        figure(Metric::GpuTemperatureMax, 61.0, 0.0, 1),
        figure(Metric::GpuEccCorrected, 0.0, 0.0, 1),
        figure(Metric::GpuEccUncorrected, 0.0, 0.0, 1),
    ];
    cnn.courses = vec![
        course(Quantity::RunCpu, 12, 1, |_| 0.14, 0.0),
        course(Quantity::GpuUtilisation(0), 12, 1, |t| 0.75 + 0.1 * (t * PI / 6.0).sin(), 0.0),
        course(Quantity::GpuUtilisation(1), 12, 1, |_| 0.24, 0.0),
        course(Quantity::GpuMemory(0), 12, 1, |t| GIB * (0.6 + 1.5 * (t / 3.0).min(1.0)), 0.0),
        course(Quantity::GpuMemoryOwn(0), 12, 1, |t| GIB * (1.4 * (t / 3.0).min(1.0)), 0.0),
        course(Quantity::GpuMemory(1), 12, 1, |_| 0.4 * GIB, 0.0),
        course(Quantity::GpuPower(0), 12, 1, |t| 90.0 + 330.0 * (t / 3.0).min(1.0), 0.0),
        course(Quantity::GpuTemperature(0), 12, 1, |t| 41.0 + 1.7 * t, 0.0),
        course(Quantity::GpuSmClock(0), 12, 1, |t| if (5.0..9.0).contains(&t) { 1_980.0 } else { 2_520.0 }, 0.0),
        course(Quantity::GpuMemoryClock(0), 12, 1, |_| 10_501.0, 0.0),
        course(Quantity::GpuHeldDown(0), 12, 1, |t| if (5.0..9.0).contains(&t) { 0.9 } else { 0.0 }, 0.0),
        course(Quantity::GpuPower(1), 12, 1, |_| 21.0, 0.0),
    ];
    cnn.foreign = vec![program("cc1plus", 0.71, 0.2 * GIB), program("evil|`name`", 0.1, 0.0)];
    cnn.runs[0].foreign.clone_from(&cnn.foreign);
    cnn.runs[0].values.insert(Metric::ForeignCpu, 0.12);
    cnn.gpus_used = Some([0].into());
    let mut summary = environment("CUDA v2.8 镜像", vec![cnn]);
    summary.loaded = loaded_on_gpu();
    summary.checks = checks_on_gpu();
    let gpu = json!([{"compute_capability": "8.9", "memory_total_bytes": 25_757_220_864_i64, "name": "NVIDIA GeForce RTX 4090", "pcie_generation_max": 4, "pcie_width_max": 16, "power_limit_mw": 450_000}]);
    summary.fingerprint.insert("gpus".to_owned(), gpu);
    summary.coverage = vec![covered("gpu", CoverageState::Measured, "NVML", "")];
    summary.left_out = vec![LeftOut {
        run: "case=small-cnn/run=2/node=0".to_owned(),
        reason: "environment=x/case=small-cnn/run=2/node=0/run.json is damaged or no JSON".to_owned(),
    }];
    summary
}

/// What a Python program on a GPU has loaded.
fn loaded_on_gpu() -> LoadedSummary {
    let map = |pairs: &[(&str, &[&str])]| {
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        pairs.iter().map(|(name, found)| ((*name).to_owned(), values(found))).collect()
    };
    LoadedSummary {
        libraries: map(&[("libcudart.so.12", &["12.8.90"]), ("libtorch_cpu.so", &["2.8.0+cu128"])]),
        software: map(&[
            ("cuda_runtime", &["12.8.90"]),
            ("cudnn", &["9.10.2.21"]),
            ("nccl", &["2.27.3"]),
            ("openblas", &[]),
            ("openmp", &["libgomp"]),
            ("package_index", &["pypi.tuna.tsinghua.edu.cn"]),
            ("python", &["3.12.3"]),
            ("torch", &["2.8.0+cu128"]),
            ("torch_cuda", &["12.8"]),
        ]),
        packages: map(&[("numpy", &["2.4.6"]), ("six", &["1.17.0"]), ("torch", &["2.8.0+cu128", "2.9.0"])]),
        variables: map(&[("OMP_NUM_THREADS", &["8"])]),
    }
}

/// Two of three sessions found that /dev/shm was Docker's default; the newest one did not.
fn checks_on_gpu() -> Vec<CheckSummary> {
    let mut facts = checks::fixture::with_gpu();
    facts.quota_cores = Some(4.0);
    let summary = |check: Check| {
        let others = if check.name == "shm" { BTreeMap::from([(CheckState::Failed, 2)]) } else { BTreeMap::new() };
        CheckSummary { check, runs: 3, others }
    };
    checks::judge(&facts).into_iter().map(summary).collect()
}

/// Names and texts that try to break out of where they stand.
pub(crate) fn hostile() -> EnvironmentSummary {
    let evil = "</title><script>alert(1)</script> | `x` <img src=x onerror=alert(2)>\n# h \u{202E}rtl [a](javascript:alert(3))";
    let mut own = case(evil, &[("note", evil)], &[Outcome::Failed { exit_code: 1 }]);
    own.command = vec!["python".to_owned(), evil.to_owned()];
    own.runs[0].events = vec![evil.to_owned()];
    own.runs[0].output_tail = vec!["```".to_owned(), evil.to_owned()];
    own.courses = vec![course(Quantity::RunCpu, 5, 1, |_| 0.5, 0.0)];
    let mut summary = environment(evil, vec![own]);
    summary.fingerprint.insert(evil.to_owned(), json!(evil));
    let names = BTreeMap::from([(evil.to_owned(), BTreeSet::from([evil.to_owned()]))]);
    summary.loaded =
        LoadedSummary { libraries: names.clone(), software: names.clone(), packages: names.clone(), variables: names };
    let check = Check {
        name: evil.to_owned(),
        state: CheckState::Failed,
        cause: evil.to_owned(),
        values: BTreeMap::from([(evil.to_owned(), json!(evil))]),
    };
    summary.checks = vec![CheckSummary { check, runs: 2, others: BTreeMap::from([(CheckState::Ok, 1)]) }];
    summary.coverage = vec![covered(evil, CoverageState::Denied, evil, evil)];
    summary.left_out = vec![LeftOut { run: evil.to_owned(), reason: evil.to_owned() }];
    summary
}

fn environment(name: &str, cases: Vec<CaseSummary>) -> EnvironmentSummary {
    EnvironmentSummary {
        name: name.to_owned(),
        slug: slug(name),
        fingerprint: BTreeMap::from([
            ("architecture".to_owned(), json!("x86_64")),
            ("container".to_owned(), json!("docker")),
            ("cores_online".to_owned(), json!(8)),
            ("cpu_model".to_owned(), json!("AMD Ryzen 9 7900X")),
            ("kernel".to_owned(), json!("6.1.0-18-amd64")),
            ("os".to_owned(), json!("Debian 12 (bookworm)")),
            ("shm_bytes".to_owned(), json!(67_108_864)),
            ("tuned".to_owned(), json!(true)),
        ]),
        fingerprints: 1,
        limits: LIMITS,
        loaded: LoadedSummary {
            libraries: ["libgomp.so.1", "libtorch_cpu.so"].map(|name| (name.to_owned(), BTreeSet::new())).into(),
            ..LoadedSummary::default()
        },
        checks: Vec::new(),
        coverage: vec![
            covered("gpu", CoverageState::Unsupported, "NVML", "libnvidia-ml.so.1 cannot be loaded"),
            covered("host", CoverageState::Measured, "/proc/stat", ""),
            covered("memory.pss_bytes", CoverageState::Denied, "/proc/<pid>/smaps_rollup", "permission denied"),
        ],
        left_out: Vec::new(),
        cases,
    }
}

const LIMITS: CommonLimits = CommonLimits {
    cores_online: Some(8),
    cpu_cores: Some(4.0),
    memory_total_bytes: Some(32 << 30),
    memory_bytes: Some(16 << 30),
};

fn case(workload: &str, settings: &[(&str, &str)], outcomes: &[Outcome]) -> CaseSummary {
    let settings = strings(settings);
    let name = case_name(workload, &settings);
    CaseSummary {
        slug: slug(&name),
        name,
        workload: workload.to_owned(),
        effective: BTreeMap::new(),
        set_variables: BTreeMap::new(),
        step_reading: None,
        command: ["shice-workloads", workload].map(str::to_owned).to_vec(),
        container: None,
        limits: LIMITS,
        runs: (1..).zip(outcomes).map(|(number, outcome)| run(number, *outcome)).collect(),
        settings,
        metrics: Vec::new(),
        courses: Vec::new(),
        core_heat: None,
        step_times: None,
        cores: Vec::new(),
        foreign: Vec::new(),
        gpus_used: None,
    }
}

pub(crate) fn run(run: u32, outcome: Outcome) -> RunSummary {
    let spent = 48.62 + 0.2 * f64::from(run);
    RunSummary {
        shice_version: "0.1.0".to_owned(),
        run,
        session_unix_ns: 1_764_600_000_000_000_000,
        sequence: run,
        block: run,
        outcome,
        lack: None,
        started_unix_ns: 1_764_600_000_000_000_000 + i64::from(run) * 60_000_000_000,
        interval_ns: 100_000_000,
        survivors: Vec::new(),
        left_children: false,
        tables_bytes: Some(96 << 10),
        missing_tables: BTreeSet::new(),
        events: Vec::new(),
        output_tail: Vec::new(),
        foreign: Vec::new(),
        recorder: RecorderCost {
            cpu_ns: Some(310_000_000),
            memory_peak_bytes: Some(14 << 20),
            ticks: Some(486),
            missed_ticks: Some(0),
            late_max_ns: Some(1_800_000),
            journal_bytes: Some(1 << 20),
            memory_probe_cpu_ns: None,
        },
        cpu: CpuTotals {
            clocks_ns: Some(90_100_000_000),
            rusage_user_ns: Some(80_000_000_000),
            rusage_system_ns: Some(10_000_000_000),
            cgroup_ns: (run == 1).then_some(90_400_000_000),
        },
        values: if outcome.is_finished() {
            BTreeMap::from([(Metric::Duration, spent), (Metric::CpuUsage, 0.93)])
        } else {
            BTreeMap::new()
        },
        step_source: None,
        reported_by: None,
    }
}

fn program(name: &str, cores: f64, memory_bytes: f64) -> ForeignProgram {
    ForeignProgram { name: name.to_owned(), cores, memory_bytes }
}

fn figure(metric: Metric, mean: f64, spread: f64, n: usize) -> MetricSummary {
    MetricSummary {
        metric,
        n,
        mean,
        min: mean - spread,
        max: mean + spread,
        ci95: (n >= 3).then_some((mean - 1.5 * spread, mean + 1.5 * spread)),
    }
}

pub(crate) fn course(quantity: Quantity, seconds: u32, runs: usize, value: impl Fn(f64) -> f64, spread: f64) -> Course {
    let point =
        |t_s: f64| Point { t_s, mean: value(t_s), min: (value(t_s) - spread).max(0.0), max: value(t_s) + spread };
    Course { quantity, runs, point_s: 1, points: (0..seconds).map(|second| point(f64::from(second) + 0.5)).collect() }
}

/// Even cores work after three seconds, odd ones idle; of the last span nothing is known.
fn heat(spans: usize, cores: u32, runs: usize) -> CoreHeat {
    let share = |core: u32, span: usize| match span {
        _ if span + 1 == spans => None,
        0..3 => Some(0.1),
        _ if core.is_multiple_of(2) => Some(0.93 + 0.05 * (span as f64).sin()),
        _ => Some(0.03),
    };
    let course = |core: u32| CoreCourse { core, shares: (0..spans).map(|span| share(core, span)).collect() };
    CoreHeat { bin_s: 1.0, runs, cores: (0..cores).map(course).collect() }
}

/// A long first step, then such of about 0.2 s.
fn step_times(steps: usize, runs: usize) -> StepTimes {
    let bin = |step: usize| {
        let mean_s = if step < 2 { 1.4 } else { 0.2 + 0.01 * (step as f64 / 9.0).sin() };
        StepBin { first: step, last: step, mean_s, min_s: mean_s * 0.97, max_s: mean_s * 1.04 }
    };
    let share = |place: i32| Share {
        from_s: 0.19 * 1.001_f64.powi(place),
        to_s: 0.19 * 1.001_f64.powi(place + 1),
        steps: u64::from((place - 50).unsigned_abs().min(50).abs_diff(51)),
    };
    StepTimes {
        runs,
        warm_up_steps: 2,
        bins: (1..steps).map(bin).collect(),
        distribution: (0..100).map(share).collect(),
    }
}

fn core_usage(core: u32, mean: f64) -> CoreUsage {
    CoreUsage { core, mean, min: mean * 0.9, max: (mean * 1.05).min(1.0) }
}

fn covered(metric: &str, state: CoverageState, source: &str, reason: &str) -> Coverage {
    Coverage { metric: metric.to_owned(), state, source: source.to_owned(), reason: reason.to_owned() }
}

fn strings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// One workload on a GPU and on the CPU, with two batch sizes and three numbers of workers.
pub(crate) fn swept() -> EnvironmentSummary {
    let mut cases = Vec::new();
    for (device, speed) in [("cpu", 60.0), ("cuda:0", 1_640.0)] {
        for (batch_size, gain) in [("64", 1.0), ("256", 1.3)] {
            for (workers, share) in [("0", 0.6), ("2", 0.9), ("10", 1.0)] {
                let settings = [("batch_size", batch_size), ("device", device), ("num_workers", workers)];
                let mut case = case("resnet50-cifar10", &settings, &[Outcome::Finished; 3]);
                case.effective = strings(&[("device", device)]);
                let throughput = speed * gain * share;
                case.metrics = vec![
                    figure(Metric::Duration, 50_000.0 / throughput + 12.0, 1.5, 3),
                    figure(Metric::EpochTime, 50_000.0 / throughput, 1.5, 3),
                    figure(Metric::Throughput, throughput, 0.05 * throughput, 3),
                    figure(Metric::CpuUsage, 0.4 * share, 0.02, 3),
                    figure(Metric::MemorySumOfPeaks, 3.4 * GIB, 0.1 * GIB, 3),
                ];
                if device != "cpu" {
                    case.metrics.push(figure(Metric::GpuUtilisation, 0.9 * share, 0.04, 3));
                    case.metrics.push(figure(Metric::GpuMemoryPeak, 6.1 * gain * GIB, 0.0, 3));
                }
                cases.push(case);
            }
        }
    }
    environment("RTX 4090 与 CPU", cases)
}

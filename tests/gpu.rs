//! Recording GPUs, with a stand-in for the driver's library that plays a scene. Needs a C compiler (`cc`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::compile_library;
use polars::prelude::{DataFrame, DataType};
use shice::aggregate::metric::Metric;
use shice::aggregate::summarise;
use shice::aggregate::summary::EnvironmentSummary;
use shice::trace::run::{Coverage, CoverageState, GpuRef, Outcome};
use shice::trace::tables::{Gpu, Host};
use shice::trace::{Run, Trace};
use tempfile::TempDir;

const GIB: i64 = 1 << 30;

/// What one recorded run left.
struct Recorded {
    run: Run,
    /// Rows of the table `gpu`; empty where it has none.
    rows: DataFrame,
    took: Duration,
    folder: TempDir,
}

/// The stand-in, compiled once each as a driver of today and as an old one.
fn library(old: bool) -> &'static Path {
    static LIBRARIES: OnceLock<(TempDir, [PathBuf; 2])> = OnceLock::new();
    let (_, paths) = LIBRARIES.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let paths = [("libnvidia-ml.so.1", "-DNEW"), ("libnvidia-ml.so.old", "-DOLD")].map(|(name, version)| {
            let path = folder.path().join(name);
            compile_library("nvml/nvml.c", &[version], &path);
            path
        });
        (folder, paths)
    });
    &paths[usize::from(old)]
}

/// What a script does to be listed as a process that uses the GPU.
const USE_GPU: &str = "echo $$ > $SHICE_TEST_NVML_PID";

/// `shice record` of a shell script, once, on the stand-in.
fn command(folder: &Path, scene: &str, script: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shice"));
    command.args(["record", "--env", "x", "--workload", "w", "--repeats", "1", "--out"]).arg(folder.join("out"));
    command.args(more).args(["--", "sh", "-c", script]);
    command.env_remove("CUDA_VISIBLE_DEVICES").env_remove("CUDA_DEVICE_ORDER");
    command.env("SHICE_NVML_LIBRARY", library(false)).env("SHICE_TEST_NVML", scene);
    command.env("SHICE_TEST_NVML_PID", folder.join("pid"));
    command
}

/// Records a command of 1.2 s.
fn record(scene: &str, variables: &[(&str, &str)]) -> Recorded {
    record_for("1.2", scene, variables, &[])
}

fn record_for(seconds: &str, scene: &str, variables: &[(&str, &str)], more: &[&str]) -> Recorded {
    record_script(&format!("{USE_GPU}; sleep {seconds}"), scene, variables, more)
}

fn record_script(script: &str, scene: &str, variables: &[(&str, &str)], more: &[&str]) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path(), scene, script, more);
    command.envs(variables.iter().copied());
    let begun = Instant::now();
    let output = command.output().unwrap();
    let took = begun.elapsed();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut trace = Trace::open(&folder.path().join("out")).unwrap();
    let run = trace.environments.remove(0).runs.remove(0);
    assert_eq!(run.record.outcome, Outcome::Finished);
    let rows = run.scan::<Gpu>().unwrap().map(|rows| rows.collect().unwrap()).unwrap_or_default();
    Recorded { run, rows, took, folder }
}

impl Recorded {
    /// A column of one GPU, or of one of its instances, in the order of time. Readings of sensors and the driver's own
    /// samples have rows of their own: `samples` tells which are wanted.
    fn rows_of(&self, (gpu, instance): (i64, Option<i64>), name: &str, samples: bool) -> Vec<Option<f64>> {
        let numbers = |name| self.rows.column(name).unwrap().i64().unwrap().iter().collect::<Vec<_>>();
        let values = |name| {
            let values = self.rows.column(name).unwrap().cast(&DataType::Float64).unwrap();
            values.f64().unwrap().iter().collect::<Vec<_>>()
        };
        let (gpus, instances, power) = (numbers("gpu"), numbers("mig_instance"), values("power_mw"));
        let sampled = [values("utilisation_ratio"), values("memory_utilisation_ratio")];
        let is_sample = |row: usize| sampled.iter().any(|column| column[row].is_some()) && power[row].is_none();
        let wanted = |row: &usize| gpus[*row] == Some(gpu) && instances[*row] == instance && is_sample(*row) == samples;
        let values = values(name);
        (0..values.len()).filter(wanted).map(|row| values[row]).collect()
    }

    fn column(&self, gpu: i64, name: &str) -> Vec<Option<f64>> {
        self.rows_of((gpu, None), name, false)
    }

    /// The driver's own samples of one GPU, as time and value.
    fn samples(&self, gpu: i64, name: &str) -> Vec<(f64, f64)> {
        let column = |name| self.rows_of((gpu, None), name, true).into_iter();
        column("t_ns").flatten().zip(column(name)).filter_map(|(time, value)| Some((time, value?))).collect()
    }

    fn assert_constant(&self, gpu: i64, name: &str, expected: f64) {
        assert_all(&self.column(gpu, name), name, Some(expected));
    }

    fn assert_null(&self, gpu: i64, name: &str) {
        assert_all(&self.column(gpu, name), name, None);
    }

    fn summary(&self) -> EnvironmentSummary {
        summarise(&Trace::open(&self.folder.path().join("out")).unwrap().environments[0]).unwrap()
    }

    /// The report's Markdown, English and Chinese.
    fn report(&self) -> [String; 2] {
        let site = self.folder.path().join("site");
        let mut command = Command::new(env!("CARGO_BIN_EXE_shice"));
        assert!(
            command
                .arg("render")
                .arg(self.folder.path().join("out"))
                .arg("--out")
                .arg(&site)
                .status()
                .unwrap()
                .success()
        );
        ["en.md", "zh.md"].map(|name| std::fs::read_to_string(site.join("x").join(name)).unwrap())
    }

    fn coverage(&self, metric: &str) -> &Coverage {
        let lines = &self.run.record.coverage;
        lines.iter().find(|line| line.metric == metric).unwrap_or_else(|| panic!("no {metric} in {lines:#?}"))
    }

    /// Lines of the ledger that speak of GPUs.
    fn gpu_lines(&self) -> Vec<&Coverage> {
        self.run.record.coverage.iter().filter(|line| line.metric.starts_with("gpu")).collect()
    }
}

/// All readings, and more than one.
fn assert_all(values: &[Option<f64>], name: &str, expected: Option<f64>) {
    assert!(values.len() > 1 && values.iter().all(|value| *value == expected), "{name}: {values:?}");
}

#[test]
fn a_healthy_gpu_is_measured_whole() {
    let recorded = record("one", &[]);
    for (name, expected) in [
        ("memory_used_bytes", (3 * GIB) as f64),
        ("memory_reserved_bytes", (GIB / 2) as f64),
        // A process that computes and draws counts once.
        ("memory_others_bytes", (GIB + GIB / 4) as f64),
        ("processes_others", 2.0),
        ("power_mw", 50_000.0),
        ("power_limit_mw", 300_000.0),
        ("temperature_celsius", 41.0),
        ("sm_clock_mhz", 1980.0),
        ("memory_clock_mhz", 3201.0),
        ("throttle_reasons", (0x4_i64 | 1 << 40) as f64),
        ("pcie_generation", 4.0),
        ("pcie_width", 8.0),
        ("ecc_uncorrected_errors", 0.0),
        ("encoder_ratio", 0.05),
        ("decoder_ratio", 0.06),
    ] {
        recorded.assert_constant(0, name, expected);
    }
    let instant = recorded.column(0, "power_instant_mw");
    assert!(instant.contains(&Some(40_000.0)) && instant.contains(&Some(60_000.0)), "{instant:?}");
    let own = recorded.column(0, "memory_own_bytes");
    assert!(own.contains(&Some((2 * GIB) as f64)), "{own:?}");
    assert!(own.iter().flatten().all(|bytes| *bytes <= (2 * GIB) as f64), "{own:?}");
    for line in recorded.gpu_lines() {
        assert_eq!((line.state, line.source.as_str()), (CoverageState::Measured, "NVML"));
        assert_eq!(
            line.reason.is_empty(),
            !line.metric.contains(".utilisation") && !line.metric.contains("memory_util")
        );
    }
    assert_eq!(recorded.gpu_lines().len(), 21);
    assert_eq!(recorded.run.record.gpus_used, Some(vec![0]));
}

#[test]
fn each_of_the_drivers_samples_is_stored_once_at_its_own_time() {
    let recorded = record("one", &[]);
    let (samples, memory) = (recorded.samples(0, "utilisation_ratio"), recorded.samples(0, "memory_utilisation_ratio"));
    assert!(memory.len() > 10 && memory.iter().all(|(_, ratio)| *ratio == 0.3), "{memory:?}");
    // The stand-in takes one each 50 ms of wall-clock time, by turns 50 % and 100 %.
    assert!(samples.len() > 10, "{samples:?}");
    for pair in samples.windows(2) {
        let step = (pair[1].0 - pair[0].0) / 50e6;
        assert!((step - 1.0).abs() < 0.4, "missing or twice: {step} between {pair:?}");
        assert_eq!(pair[0].1 + pair[1].1, 1.5, "{pair:?}");
    }
    let seconds = recorded.run.record.duration_ns.unwrap() as f64 / 1e9;
    assert!(samples[0].0 >= 0.0 && samples.len() as f64 / 20.0 < seconds + 1.0, "{} in {seconds} s", samples.len());
}

#[test]
fn the_mean_is_the_same_with_and_without_the_drivers_own_samples() {
    let means = ["one", "no-samples"].map(|scene| {
        let recorded = record_for("2.2", scene, &[], &[]);
        let summary = recorded.summary();
        summary.cases[0].metric(Metric::GpuUtilisation).unwrap().mean
    });
    assert!((means[0] - 0.75).abs() < 0.05 && means[1] == 0.75, "{means:?}");
}

#[test]
fn counters_count_from_the_runs_start_to_its_end() {
    let recorded = record("one", &[]);
    let (times, energy) = (recorded.column(0, "t_ns"), recorded.column(0, "energy_mj"));
    assert_eq!((times[0], energy[0]), (Some(0.0), Some(0.0)));
    let seconds = recorded.run.record.duration_ns.unwrap() as f64 / 1e9;
    let last = times.last().unwrap().unwrap() / 1e9;
    assert!((-0.5..1.0).contains(&(last - seconds)), "{times:?}");
    let watts = energy.last().unwrap().unwrap() / 1000.0 / last;
    // The first reading may be from some time before the start, where the machine is busy.
    assert!((30.0..80.0).contains(&watts), "{watts} W");
    let errors = recorded.column(0, "ecc_corrected_errors");
    assert_eq!((errors[0], errors.last().unwrap()), (Some(0.0), &Some(1.0)));
}

#[test]
fn the_fingerprint_has_the_gpus_and_nothing_that_identifies_one() {
    let recorded = record("one", &[]);
    let fingerprint = &recorded.run.record.fingerprint;
    let expected = r#"[{"compute_capability":"9.0","memory_total_bytes":85899345920,"name":"Stand-in 100","pcie_generation_max":5,"pcie_width_max":16,"power_limit_default_mw":350000,"power_limit_mw":300000}]"#;
    assert_eq!(fingerprint["gpus"], serde_json::from_str::<serde_json::Value>(expected).unwrap());
    assert_eq!(fingerprint["nvidia_driver"], "580.82.07");
    assert_eq!(fingerprint["cuda_driver"], "13.0");
    let text = std::fs::read_to_string(recorded.run.dir.join("run.json")).unwrap();
    assert!(!text.contains("5ec2e7") && !text.contains("65:00"), "UUID or address is in {text}");
    assert!(!text.contains(&recorded.folder.path().display().to_string()), "a path is in {text}");
}

#[test]
fn only_gpus_that_the_command_sees_are_recorded() {
    let recorded = record("two", &[("CUDA_VISIBLE_DEVICES", "1")]);
    assert!(recorded.column(0, "t_ns").is_empty());
    assert!(recorded.samples(1, "utilisation_ratio").iter().all(|(_, ratio)| *ratio == 0.25));
    assert_eq!(recorded.coverage("gpu.gpu").reason, "left out by CUDA_VISIBLE_DEVICES: GPU 0");
    assert_eq!(recorded.run.record.cuda_devices, Some(vec![GpuRef { gpu: 1, mig_instance: None }]));
    let hidden = record("two", &[("CUDA_VISIBLE_DEVICES", "")]);
    assert_eq!(hidden.rows.height(), 0);
    assert!(hidden.coverage("gpu").reason.contains("CUDA_VISIBLE_DEVICES"));
}

#[test]
fn of_two_gpus_the_one_that_the_run_uses_makes_its_figures() {
    let recorded = record_for("2.2", "two", &[("CUDA_VISIBLE_DEVICES", "1,0")], &[]);
    assert_eq!(recorded.run.record.gpus_used, Some(vec![0]));
    let json = std::fs::read_to_string(recorded.run.dir.join("run.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["cuda_devices"], serde_json::json!([{"gpu": 1}, {"gpu": 0}]));
    let summary = recorded.summary();
    let mean = |metric| summary.cases[0].metric(metric).unwrap().mean;
    // GPU 0 works at 75 %, GPU 1 at 25 % for others. Both draw 50 W.
    assert!((mean(Metric::GpuUtilisation) - 0.75).abs() < 0.03);
    assert_eq!(mean(Metric::GpuUtilisationUnused), 0.25);
    let watts = mean(Metric::GpuEnergy) / mean(Metric::Duration);
    assert!((30.0..80.0).contains(&watts), "{watts} W");
}

#[test]
fn a_command_that_chooses_gpus_itself_is_believed() {
    let script = "export CUDA_VISIBLE_DEVICES=1,0; sh -c 'echo $$ > $SHICE_TEST_NVML_PID; sleep 1.2'; true";
    let recorded = record_script(script, "two", &[], &[]);
    let whole = |gpu| GpuRef { gpu, mig_instance: None };
    assert_eq!(recorded.run.record.cuda_devices, Some(vec![whole(1), whole(0)]));
}

#[test]
fn a_gpu_is_chosen_by_its_index_its_uuid_or_its_address() {
    for gpu in ["1", "GPU-5ec2e701", "00000000:66:00.0"] {
        let recorded = record_for("0.4", "two", &[("CUDA_VISIBLE_DEVICES", "0")], &["--gpu", gpu]);
        assert!(recorded.column(0, "t_ns").is_empty() && !recorded.column(1, "t_ns").is_empty(), "{gpu}");
        assert_eq!(recorded.coverage("gpu.gpu").reason, "left out by --gpu: GPU 0");
    }
    let folder = tempfile::tempdir().unwrap();
    for (scene, gpu, expected) in [
        ("two", "0,2", "--gpu 2: there is no such GPU; there are 0 (Stand-in 100, 00000000:65:00.0, GPU-5ec2e700"),
        ("two", "GPU-5ec2e7", "--gpu GPU-5ec2e7 fits more than one GPU"),
        ("init-18", "0", "no GPU can be recorded here: the NVIDIA kernel module and library are of different versions"),
    ] {
        let output = command(folder.path(), scene, "true", &["--gpu", gpu]).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn without_gpus_the_driver_is_not_even_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = folder.path().join("loaded");
    let path = loaded.to_str().unwrap();
    let recorded = record_for("0.2", "one", &[("SHICE_TEST_NVML_LOADED", path)], &["--no-gpu"]);
    assert!(!loaded.exists());
    assert_eq!(recorded.coverage("gpu").reason, "not looked at: --no-gpu");
    assert!(!recorded.run.record.fingerprint.contains_key("gpus"));
    record_for("0.2", "one", &[("SHICE_TEST_NVML_LOADED", path)], &[]);
    assert!(loaded.exists());
}

#[test]
fn instances_of_a_divided_gpu_have_rows_of_their_own() {
    let recorded = record("mig", &[]);
    for (instance, own) in [(0, 0), (2, 2 * GIB)] {
        let column = |name| recorded.rows_of((0, Some(instance)), name, false);
        assert_all(&column("memory_used_bytes"), "used", Some((2 * GIB) as f64));
        assert_all(&column("power_mw"), "power", None);
        assert!(column("memory_own_bytes").contains(&Some(own as f64)), "{instance}");
    }
    assert!(recorded.rows_of((0, Some(1)), "t_ns", false).is_empty());
    recorded.assert_null(0, "utilisation_ratio");
    recorded.assert_constant(0, "power_mw", 50_000.0);
    for column in ["utilisation_ratio", "memory_utilisation_ratio", "encoder_ratio"] {
        let line = recorded.coverage(&format!("gpu.{column}"));
        assert_eq!((line.state, line.reason.as_str()), (CoverageState::Unsupported, "not available under MIG"));
    }
    assert_eq!(recorded.coverage("gpu.power_mw").state, CoverageState::Measured);
    let expected =
        r#"[{"memory_total_bytes":21474836480,"name":"1g.20gb"},{"memory_total_bytes":21474836480,"name":"3g.20gb"}]"#;
    let mig = &recorded.run.record.fingerprint["gpus"][0]["mig"];
    assert_eq!(*mig, serde_json::from_str::<serde_json::Value>(expected).unwrap());
    assert_eq!(recorded.run.record.cuda_devices, None);
}

#[test]
fn a_command_that_sees_one_instance_has_that_one_recorded() {
    let recorded = record("mig", &[("CUDA_VISIBLE_DEVICES", "MIG-5ec2e70c")]);
    assert!(recorded.rows_of((0, Some(0)), "t_ns", false).is_empty());
    assert!(!recorded.rows_of((0, Some(2)), "t_ns", false).is_empty());
    assert_eq!(recorded.run.record.cuda_devices, Some(vec![GpuRef { gpu: 0, mig_instance: Some(2) }]));
    assert!(!std::fs::read_to_string(recorded.run.dir.join("run.json")).unwrap().contains("5ec2e7"));
}

#[test]
fn unified_memory_is_named_and_never_the_hosts_memory_in_use() {
    let recorded = record("unified", &[]);
    let gpu = &recorded.run.record.fingerprint["gpus"][0];
    assert_eq!(gpu["memory"], "unified");
    assert_eq!(gpu["memory_total_bytes"], recorded.run.record.limits.memory_total_bytes);
    // Init's 1 GiB, 0.25 GiB of what draws, and from its start on the 2 GiB of the run.
    let used = recorded.column(0, "memory_used_bytes");
    let known = [Some((GIB + GIB / 4) as f64), Some((3 * GIB + GIB / 4) as f64)];
    assert!(used.contains(&known[1]) && used.iter().all(|bytes| known.contains(bytes)), "{used:?}");
    assert!(recorded.coverage("gpu.memory_used_bytes").reason.starts_with("unified memory"));
    assert_eq!(recorded.coverage("gpu.memory_reserved_bytes").state, CoverageState::Unsupported);
}

#[test]
fn an_old_driver_is_read_by_the_calls_that_it_has() {
    let recorded = record("one", &[("SHICE_NVML_LIBRARY", library(true).to_str().unwrap())]);
    // The first version of the call counts reserved memory as in use.
    recorded.assert_constant(0, "memory_used_bytes", (3 * GIB + GIB / 2) as f64);
    recorded.assert_null(0, "memory_reserved_bytes");
    assert!(recorded.column(0, "memory_own_bytes").contains(&Some((2 * GIB) as f64)));
    assert!(recorded.coverage("gpu.memory_used_bytes").reason.contains("counts as in use"));
    assert!(recorded.coverage("gpu.memory_reserved_bytes").reason.contains("too old"));
}

#[test]
fn a_missing_sensor_takes_nothing_else_down() {
    let recorded = record("no-power denied", &[]);
    recorded.assert_null(0, "power_mw");
    recorded.assert_null(0, "power_instant_mw");
    recorded.assert_null(0, "memory_own_bytes");
    assert!(
        !recorded.samples(0, "utilisation_ratio").is_empty() || !recorded.column(0, "utilisation_ratio").is_empty()
    );
    assert_eq!(recorded.coverage("gpu.power_mw").state, CoverageState::Unsupported);
    assert!(recorded.coverage("gpu.power_mw").reason.contains("not available"));
    assert_eq!(recorded.coverage("gpu.memory_others_bytes").state, CoverageState::Denied);
    assert_eq!(recorded.coverage("gpu.utilisation_ratio").state, CoverageState::Measured);
    assert_eq!(recorded.run.record.gpus_used, None);
}

#[test]
fn errors_that_nobody_expected_are_null_with_a_reason() {
    let recorded = record("unknown", &[]);
    recorded.assert_null(0, "power_mw");
    recorded.assert_null(0, "temperature_celsius");
    recorded.assert_constant(0, "sm_clock_mhz", 1980.0);
    assert!(recorded.coverage("gpu.power_mw").reason.contains("not known here (777)"));
    assert!(recorded.coverage("gpu.temperature_celsius").reason.contains("internal driver error"));
}

#[test]
fn marks_for_not_available_are_no_values() {
    let recorded = record("sentinels", &[]);
    for name in [
        "utilisation_ratio",
        "memory_utilisation_ratio",
        "memory_used_bytes",
        "memory_reserved_bytes",
        "power_mw",
        "power_instant_mw",
        "energy_mj",
        "temperature_celsius",
        "sm_clock_mhz",
        "memory_clock_mhz",
        // One of the others does not tell its memory.
        "memory_others_bytes",
    ] {
        recorded.assert_null(0, name);
        assert_eq!(recorded.coverage(&format!("gpu.{name}")).state, CoverageState::Unsupported, "{name}");
    }
    assert!(recorded.coverage("gpu.power_mw").reason.contains("not available"));
    // Pids that are none are not counted, and the run's own memory is known.
    recorded.assert_constant(0, "processes_others", 1.0);
    assert!(recorded.column(0, "memory_own_bytes").contains(&Some((2 * GIB) as f64)));
    recorded.assert_constant(0, "pcie_width", 8.0);
}

#[test]
fn utilisation_that_stands_at_0_while_memory_is_held_is_remarked_on() {
    let recorded = record("idle-figure", &[]);
    recorded.assert_constant(0, "utilisation_ratio", 0.0);
    let line = recorded.coverage("gpu.utilisation_ratio");
    assert!(line.state == CoverageState::Measured && line.reason.contains("stood at 0 throughout"), "{line:?}");
}

#[test]
fn processes_of_another_pid_namespace_are_nobodys() {
    let recorded = record("strangers", &[]);
    let in_first = std::fs::read_link("/proc/self/ns/pid").unwrap().as_os_str() == "pid:[4026531836]";
    if in_first {
        // Here pids mean what they say.
        recorded.assert_constant(0, "processes_others", 1.0);
        assert_eq!(recorded.run.record.gpus_used, Some(vec![0]));
    } else {
        for name in ["memory_own_bytes", "memory_others_bytes", "processes_others"] {
            recorded.assert_null(0, name);
            assert!(recorded.coverage(&format!("gpu.{name}")).reason.contains("pid namespace"), "{name}");
        }
        assert_eq!(recorded.run.record.gpus_used, None);
    }
    recorded.assert_constant(0, "memory_used_bytes", (3 * GIB) as f64);
}

#[test]
fn a_gpu_that_is_lost_turns_null_while_the_other_goes_on() {
    let recorded = record("two lost", &[]);
    recorded.assert_constant(0, "power_mw", 50_000.0);
    let power = recorded.column(1, "power_mw");
    assert_eq!(power.first(), Some(&Some(50_000.0)));
    assert_eq!(power.last(), Some(&None));
    assert!(!recorded.column(1, "utilisation_ratio").contains(&Some(0.0)));
    let line = recorded.coverage("gpu.power_mw");
    assert_eq!(line.state, CoverageState::Lost);
    assert!(line.reason.starts_with("GPU 1: "), "{line:?}");
    let events = &recorded.run.record.events;
    assert!(events.len() == 1 && events[0].starts_with("GPU 1 was lost "), "{events:?}");
}

#[test]
fn a_gpu_that_comes_back_is_read_on() {
    let recorded = record_for("2.5", "two lost back", &[], &[]);
    let power = recorded.column(1, "power_mw");
    assert!(power.first() == Some(&Some(50_000.0)) && power.contains(&None), "{power:?}");
    assert_eq!(power.last(), Some(&Some(50_000.0)));
    let events = &recorded.run.record.events;
    assert!(events.len() == 2 && events[1].starts_with("GPU 1 answered again "), "{events:?}");
    assert!(recorded.coverage("gpu.power_mw").reason.contains("readings failed"));
}

#[test]
fn an_energy_counter_that_steps_back_is_null_and_said_so() {
    let recorded = record("energy-back", &[]);
    let energy = recorded.column(0, "energy_mj");
    assert_eq!((energy.first(), energy.last()), (Some(&Some(0.0)), Some(&None)));
    let line = recorded.coverage("gpu.energy_mj");
    assert!(line.state == CoverageState::Lost && line.reason.contains("stepped back"), "{line:?}");
    recorded.assert_constant(0, "power_mw", 50_000.0);
}

#[test]
fn a_machine_without_a_gpu_gets_one_line_that_says_why() {
    for (scene, variables, reason) in [
        ("one", [("SHICE_NVML_LIBRARY", "/no/such/library.so")].as_slice(), "no NVIDIA driver library"),
        ("init-18", &[], "different versions"),
        ("silent", &[], "no sensor of any GPU gave a value"),
    ] {
        let recorded = record(scene, variables);
        let lines = recorded.gpu_lines();
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert_eq!((lines[0].metric.as_str(), lines[0].state), ("gpu", CoverageState::Unsupported));
        assert!(lines[0].reason.contains(reason), "{lines:#?}");
        assert!(recorded.run.record.events.is_empty());
    }
}

#[test]
fn a_driver_that_takes_seconds_delays_neither_other_probes_nor_the_end() {
    let recorded = record("slow", &[]);
    assert!(recorded.took < Duration::from_secs(60), "{:?}", recorded.took);
    let host = recorded.run.scan::<Host>().unwrap().unwrap().collect().unwrap();
    assert!(host.height() > 8, "{} rows of the host", host.height());
    assert!(recorded.run.record.events.iter().any(|event| event.contains("did not answer")));
}

#[test]
fn a_driver_that_takes_seconds_still_gives_every_figure_its_turn() {
    let recorded = record_for("12", "slow no-samples", &[], &[]);
    // One call takes 2 s: first the rates, then memory, then processes.
    for name in ["utilisation_ratio", "memory_used_bytes", "processes_others"] {
        assert_eq!(recorded.coverage(&format!("gpu.{name}")).state, CoverageState::Measured, "{name}");
    }
    assert!(recorded.run.record.duration_ns.unwrap() < 60_000_000_000);
}

#[test]
fn the_report_tells_whose_memory_it_was_and_what_held_the_clocks_down() {
    let [english, chinese] = record_for("3.2", "two", &[], &[]).report();
    for expected in [
        "GPU 1 (not used by the run)",
        "| GPU utilisation (GPUs that the run did not use) | 25.0% |",
        "| GPU memory before the run | 3.00 GiB |",
        "| Peak GPU memory (whole device) | 3.00 GiB |",
        "| Peak GPU memory (this run) | 2.00 GiB |",
        "| Peak GPU memory (other processes) | 1.25 GiB |",
        "| GPU power (mean) | 50.00 W |",
        "| GPU power (instantaneous, peak) | 60.00 W |",
        "| Clocks held down by the power limit (of time) | 100.0% |",
        "| Clocks held down by heat (of time) | 0.0% |",
        "**Caution**: Other processes held GPU memory: up to 1.25 GiB",
        "- The power limit held GPU clocks down 100.0% of the time",
        "GPU 0, whole device: highest point of the mean 3.00 GiB",
        "GPU 0, this run: highest point of the mean 2.00 GiB",
    ] {
        assert!(english.contains(expected), "no {expected:?} in {english}");
    }
    for expected in [
        "GPU 1（本次运行未使用）",
        "| GPU 利用率（本次运行未使用的 GPU） | 25.0% |",
        "| 显存：运行前 | 3.00 GiB |",
        "| 显存峰值（本次运行） | 2.00 GiB |",
        "| GPU 功率（平均） | 50.00 W |",
        "| GPU 瞬时功率峰值 | 60.00 W |",
        "**注意**：有其他进程占用显存：在本次运行所用的 GPU 上最多占 1.25 GiB",
        "- GPU 因功耗上限降频的时间占 100.0%",
        "GPU 0 本次运行：均值曲线最高点 2.00 GiB",
    ] {
        assert!(chinese.contains(expected), "no {expected:?} in {chinese}");
    }
}

#[test]
fn the_report_of_a_divided_gpu_shows_its_instances() {
    let [english, chinese] = record_for("3.2", "mig", &[], &[]).report();
    assert!(english.contains("divided by MIG into 1g.20gb, 20.00 GiB, 3g.20gb, 20.00 GiB"), "{english}");
    assert!(english.contains("GPU 0, MIG instance 2: highest point of the mean 2.00 GiB"), "{english}");
    assert!(english.contains("not available under MIG"), "{english}");
    assert!(chinese.contains("已由 MIG 划分为 1g.20gb，20.00 GiB、3g.20gb，20.00 GiB"), "{chinese}");
    assert!(chinese.contains("GPU 0 的 MIG 实例 2"), "{chinese}");
}

#[test]
fn a_driver_that_cannot_be_used_stops_no_run_and_hands_on_its_exit_code() {
    // Uninitialised, invalid, no permission, not loaded, interrupts, insufficient power, reset required, unknown.
    for code in [1, 2, 4, 9, 11, 8, 16, 999] {
        let folder = tempfile::tempdir().unwrap();
        let output = command(folder.path(), &format!("init-{code}"), "exit 3", &[]).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{code}: {}", String::from_utf8_lossy(&output.stderr));
        let trace = Trace::open(&folder.path().join("out")).unwrap();
        let line = trace.environments[0].runs[0].record.coverage.iter().find(|line| line.metric == "gpu").unwrap();
        assert!(line.state == CoverageState::Unsupported && !line.reason.is_empty(), "{line:?}");
    }
}

/// What `shice check` finds, by the names of its checks.
fn checked(scene: &str) -> serde_json::Map<String, serde_json::Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shice"));
    command.args(["check", "--json"]).env("SHICE_NVML_LIBRARY", library(false)).env("SHICE_TEST_NVML", scene);
    let output = command.output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = answer["checks"].as_array().unwrap();
    checks.iter().map(|check| (check["name"].as_str().unwrap().to_owned(), check.clone())).collect()
}

#[test]
fn checks_ask_the_driver_what_it_is_and_who_holds_memory() {
    let found = checked("one");
    let driver = &found["nvidia_driver"];
    assert_eq!((driver["state"].as_str(), driver["values"]["version"].as_str()), (Some("ok"), Some("580.82.07")));
    assert_eq!(driver["values"]["gpus"], 1);
    let memory = &found["gpu_memory"];
    assert_eq!((memory["state"].as_str(), memory["cause"].as_str()), (Some("warning"), Some("taken")));
    assert_eq!(
        (&memory["values"]["used_bytes"], &memory["values"]["total_bytes"]),
        (&(3 * GIB).into(), &(80 * GIB).into())
    );
    // A cap on power that holds is no fault, and neither is a bit that nobody knows.
    assert_eq!(found["gpu_throttling"]["state"], "ok");
    assert_ne!(found["cuda_kernel"]["cause"], "no_gpu");
}

#[test]
fn where_our_own_program_is_not_the_torch_of_python_is_tried() {
    let folder = tempfile::tempdir().unwrap();
    // Written by other programs: a descriptor of this one's, inherited by another test's child, would keep them from
    // being executed.
    let shell = |script: &str| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_shice")]).current_dir(folder.path());
        assert!(shell.status().unwrap().success());
    };
    shell("cp \"$0\" shice");
    let answer = r#"{"libtorch": "2.8.0+cu128", "missing": null, "cuda_runtime": "12.8", "devices": [{"device": "cuda:0", "error": "CUDA error: no kernel image is available"}]}"#;
    let check = |python: &str| {
        shell(&format!("printf '%s\\n' '#!/bin/sh' \"$(cat <<'END'\n{python}\nEND\n)\" > python3; chmod 755 python3"));
        let mut command = Command::new(folder.path().join("shice"));
        command.args(["check", "--json"]).env("PATH", folder.path());
        command.env("SHICE_NVML_LIBRARY", library(false)).env("SHICE_TEST_NVML", "one");
        let output = command.output().unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = answer["checks"].as_array().unwrap().clone();
        move |name: &str| {
            checks.iter().find(|check| check["name"] == name).unwrap()["cause"].as_str().unwrap().to_owned()
        }
    };
    let with_torch = check(&format!("/bin/echo '{answer}'"));
    assert_eq!((with_torch("cuda_kernel"), with_torch("compute_capability")), ("kernel".into(), "unsupported".into()));
    assert_eq!(with_torch("driver_cuda"), "ok");
    let without = check("/bin/echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1");
    assert_eq!((without("cuda_kernel"), without("driver_cuda")), ("no_program".into(), "no_runtime".into()));
}

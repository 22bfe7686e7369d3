//! Recording GPUs, with a stand-in for the driver's library that plays a scene. Needs a C compiler (`cc`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // helpers of tests are tests, too

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use polars::prelude::{DataFrame, DataType};
use shice::trace::run::{Coverage, CoverageState, Outcome};
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

/// The stand-in, compiled once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libnvidia-ml.so.1");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvml/nvml.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-Wall", "-o"]).arg(&path).arg(source);
        assert!(compiler.status().expect("a C compiler (cc) is needed").success());
        (folder, path)
    });
    path
}

/// Records a command of 1.2 s once.
fn record(scene: &str, variables: &[(&str, &str)]) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let mut command = Command::new(env!("CARGO_BIN_EXE_shice"));
    command.args(["record", "--env", "x", "--workload", "w", "--repeats", "1", "--out"]).arg(folder.path().join("out"));
    command.args(["--", "sh", "-c", "echo $$ > $SHICE_TEST_NVML_PID; sleep 1.2"]);
    command.env_remove("CUDA_VISIBLE_DEVICES").env_remove("CUDA_DEVICE_ORDER");
    command.env("SHICE_NVML_LIBRARY", library()).env("SHICE_TEST_NVML", scene).env("SHICE_TEST_NVML_PID", &pid_file);
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
    /// A column of one GPU in the order of time.
    fn column(&self, gpu: i64, name: &str) -> Vec<Option<f64>> {
        let numbers = self.rows.column("gpu").unwrap().i64().unwrap();
        let values = self.rows.column(name).unwrap().cast(&DataType::Float64).unwrap();
        let pairs = numbers.iter().zip(values.f64().unwrap().iter());
        pairs.filter(|(number, _)| *number == Some(gpu)).map(|(_, value)| value).collect()
    }

    fn assert_constant(&self, gpu: i64, name: &str, expected: f64) {
        let values = self.column(gpu, name);
        assert!(values.len() > 5 && values.iter().all(|value| *value == Some(expected)), "{name}: {values:?}");
    }

    fn assert_null(&self, gpu: i64, name: &str) {
        let values = self.column(gpu, name);
        assert!(!values.is_empty() && values.iter().all(Option::is_none), "{name}: {values:?}");
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

#[test]
fn a_healthy_gpu_is_measured_whole() {
    let recorded = record("one", &[]);
    recorded.assert_constant(0, "utilisation_ratio", 0.75);
    recorded.assert_constant(0, "memory_utilisation_ratio", 0.3);
    recorded.assert_constant(0, "memory_used_bytes", (3 * GIB) as f64);
    recorded.assert_constant(0, "power_mw", 50_000.0);
    recorded.assert_constant(0, "temperature_celsius", 41.0);
    recorded.assert_constant(0, "sm_clock_mhz", 1980.0);
    recorded.assert_constant(0, "memory_clock_mhz", 3201.0);
    recorded.assert_constant(0, "throttle_reasons", (0x4_i64 | 1 << 40) as f64);
    let own = recorded.column(0, "memory_own_bytes");
    assert!(own.contains(&Some((2 * GIB) as f64)), "{own:?}");
    assert!(own.iter().flatten().all(|bytes| *bytes <= (2 * GIB) as f64), "{own:?}");
    for line in recorded.gpu_lines() {
        assert_eq!((line.state, line.source.as_str(), line.reason.as_str()), (CoverageState::Measured, "NVML", ""));
    }
    assert_eq!(recorded.gpu_lines().len(), 10);
}

#[test]
fn energy_counts_from_the_runs_start_to_its_end() {
    let recorded = record("one", &[]);
    let (times, energy) = (recorded.column(0, "t_ns"), recorded.column(0, "energy_mj"));
    assert_eq!((times[0], energy[0]), (Some(0.0), Some(0.0)));
    let seconds = recorded.run.record.duration_ns.unwrap() as f64 / 1e9;
    assert!((times.last().unwrap().unwrap() / 1e9 - seconds).abs() < 0.1, "{times:?}");
    let watts = energy.last().unwrap().unwrap() / 1000.0 / seconds;
    assert!((watts - 50.0).abs() < 5.0, "{watts} W");
    let gaps = times.windows(2).map(|pair| pair[1].unwrap() - pair[0].unwrap());
    // The first reading is from before the start, the last one from the end.
    assert!(gaps.skip(1).take(times.len() - 3).all(|gap| gap > 99e6), "{times:?}");
}

#[test]
fn the_fingerprint_has_the_gpus_and_nothing_that_identifies_one() {
    let recorded = record("one", &[]);
    let fingerprint = &recorded.run.record.fingerprint;
    let expected = r#"[{"compute_capability":"9.0","memory_total_bytes":85899345920,"name":"Stand-in 100","power_limit_default_mw":350000,"power_limit_mw":300000}]"#;
    assert_eq!(fingerprint["gpus"], serde_json::from_str::<serde_json::Value>(expected).unwrap());
    assert_eq!(fingerprint["nvidia_driver"], "580.82.07");
    assert_eq!(fingerprint["cuda_driver"], "13.0");
    let text = std::fs::read_to_string(recorded.run.dir.join("run.json")).unwrap();
    assert!(!text.contains("5ec2e7"), "the UUID is in {text}");
    assert!(!text.contains(&recorded.folder.path().display().to_string()), "a path is in {text}");
}

#[test]
fn only_gpus_that_the_command_sees_are_recorded() {
    let recorded = record("two", &[("CUDA_VISIBLE_DEVICES", "1")]);
    assert!(recorded.column(0, "t_ns").is_empty());
    recorded.assert_constant(1, "utilisation_ratio", 0.25);
    let hidden = record("two", &[("CUDA_VISIBLE_DEVICES", "")]);
    assert_eq!(hidden.rows.height(), 0);
    assert!(hidden.coverage("gpu").reason.contains("CUDA_VISIBLE_DEVICES"));
}

#[test]
fn a_missing_power_sensor_takes_nothing_else_down() {
    let recorded = record("no-power", &[]);
    recorded.assert_null(0, "power_mw");
    recorded.assert_constant(0, "utilisation_ratio", 0.75);
    assert_eq!(recorded.coverage("gpu.power_mw").state, CoverageState::Unsupported);
    assert!(recorded.coverage("gpu.power_mw").reason.contains("not available"));
    assert_eq!(recorded.coverage("gpu.utilisation_ratio").state, CoverageState::Measured);
}

#[test]
fn a_gpu_that_is_lost_turns_null_while_the_other_goes_on() {
    let recorded = record("lost", &[]);
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
        ("mismatch", &[], "different versions"),
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
    assert!(recorded.took < Duration::from_secs(4), "{:?}", recorded.took);
    let duration = recorded.run.record.duration_ns.unwrap();
    assert!(duration < 1_600_000_000, "{duration} ns");
    let host = recorded.run.scan::<Host>().unwrap().unwrap().collect().unwrap();
    assert!(host.height() > 8, "{} rows of the host", host.height());
    assert_eq!(recorded.coverage("gpu").state, CoverageState::Lost);
    assert!(recorded.run.record.events.iter().any(|event| event.contains("did not answer")));
}

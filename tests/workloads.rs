//! The shipped workloads' own program, as a recorder starts it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]
#![cfg(feature = "torch")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

/// Runs `shice-workloads` by `shell`, in which `$0` is the program; gives what it told too.
fn workload(shell: &str, arguments: &[&str]) -> (Output, Vec<serde_json::Value>) {
    let steps = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", shell, env!("CARGO_BIN_EXE_shice-workloads")]).args(arguments);
    let output = command.env("SHICE_STEPS", steps.path()).env("OMP_NUM_THREADS", "1").output().unwrap();
    let told = fs::read_to_string(steps.path()).unwrap();
    (output, told.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn setting<'a>(told: &'a [serde_json::Value], name: &str) -> Option<&'a str> {
    told.iter().find(|line| line["kind"] == "setting" && line["name"] == name)?["value"].as_str()
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The address space that libtorch takes by being there, and its CUDA half where it has one.
fn kib_of_idle() -> u64 {
    let mut idle = Command::new(env!("CARGO_BIN_EXE_shice-workloads"))
        .args(["idle", "--device", "cpu", "--seconds", "600"])
        .env("OMP_NUM_THREADS", "1")
        .env("SHICE_STEPS", "/dev/stdout")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(idle.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line.contains("\"phase\":\"idle\"")).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", idle.id())).unwrap();
    idle.kill().unwrap();
    idle.wait().unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn memory_that_runs_out_is_told_with_phase_step_and_bytes() {
    // Of address space. Images and network fit into the rest, the first convolution's 1 GiB of features does not.
    let limit_kib = kib_of_idle() + 900_000;
    let arguments = ["small-cnn", "--quick", "--device", "cpu", "--batch-size", "512"];
    let (output, told) = workload(&format!("ulimit -v {limit_kib}; exec \"$0\" \"$@\""), &arguments);
    let message = message(&output);
    assert_eq!(output.status.code(), Some(12), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(
        message.contains("out of memory in the phase train, step 0") && message.contains("--batch-size"),
        "{message}"
    );
    assert_eq!((setting(&told, "oom_phase"), setting(&told, "oom_step")), (Some("train"), Some("0")));
    // 512 images of 32 channels of 128×128 values of 4 bytes.
    assert_eq!(setting(&told, "oom_bytes"), Some("1073741824"));
}

#[test]
fn a_precision_that_a_device_has_not_is_refused_and_one_that_needs_a_new_start_gets_it() {
    for (device, precision, words) in [
        ("cpu", "tf32", "the CPU has no TF32"),
        ("cpu", "fp16", "the CPU has no float16"),
        // Started anew with NVIDIA's variable, it finds that there is no such GPU.
        ("cuda:999", "fp32", "cuda:999"),
    ] {
        let arguments = ["resnet50-cifar10", "--quick", "--device", device, "--precision", precision];
        let (output, told) = workload("exec \"$0\" \"$@\"", &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(message(&output).contains(words), "{}", message(&output));
        assert!(!told.iter().any(|line| line["phase"] == "train"), "{told:?}");
    }
}

#[test]
fn a_resnet_trains_and_tells_what_its_options_became() {
    let arguments =
        "resnet50-cifar10 --quick --device cpu --batch-size 8 --accumulate 2 --steps 2 --workers 2 --seed 3";
    let (output, told) = workload("exec \"$0\" \"$@\"", &arguments.split(' ').collect::<Vec<_>>());
    assert!(output.status.success(), "{}", message(&output));
    let effective =
        ["data", "images", "parameters", "batch_size", "accumulate", "steps", "workers", "seed", "precision"];
    let effective = effective.map(|name| setting(&told, name).unwrap_or_default());
    assert_eq!(effective, ["synthetic", "512", "25557032", "8", "2", "2", "2", "3", "float32"]);
    let steps: Vec<_> = told.iter().filter(|line| line["kind"] == "step").collect();
    assert!(steps.iter().all(|step| step["samples"] == 16 && step["phase"] == "train"), "{steps:?}");
    assert_eq!(steps.len(), 2);
}

//! What a run's processes have loaded: a Python environment with libraries that only look like PyTorch's. Needs python3
//! and a C compiler (`cc`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Bench, text};
use shice::trace::run::{CoverageState, RunRecord};

/// A word that stands wherever it must not be kept from.
const PLANTED: &str = "planted-name-7";

/// The real interpreter and its version, by its own words.
fn python() -> (PathBuf, String) {
    let script = "import sys, os, platform; print(os.path.realpath(sys.executable)); print(platform.python_version())";
    let output = Command::new("python3").args(["-c", script]).output().expect("python3 is needed");
    let printed = text(&output.stdout);
    let mut lines = printed.lines();
    (lines.next().unwrap().into(), lines.next().unwrap().to_owned())
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn compile(library: &Path) {
    fs::create_dir_all(library.parent().unwrap()).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-x", "c", "/dev/null", "-o"]).arg(library);
    assert!(compiler.status().expect("a C compiler (cc) is needed").success());
}

/// A virtual environment below the home of a user with the planted name; returns its interpreter.
fn environment(home: &Path, python: &Path, version: &str) -> PathBuf {
    let prefix = home.join("env");
    let minor = version.rsplit_once('.').unwrap().0;
    let site = prefix.join(format!("lib/python{minor}/site-packages"));
    write(&prefix.join("pyvenv.cfg"), &format!("home = {}\nversion = {version}\n", python.parent().unwrap().display()));
    write(
        &prefix.join("pip.conf"),
        &format!("[global]\nindex-url = https://me:{PLANTED}@mirror.example.org:8443/{PLANTED}/simple\n"),
    );
    write(&site.join("torch/version.py"), "__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n");
    for package in ["torch-2.11.0+cu130", "nvidia_cudnn_cu13-9.15.1.9", "numpy-2.4.6", "ruamel.yaml-0.18.6"] {
        write(&site.join(format!("{package}.dist-info/METADATA")), "");
    }
    for library in [
        "torch/lib/libtorch_cpu.so",
        "torch/lib/libgomp-947d5fa1.so.1.0.0",
        "nvidia/cudnn/lib/libcudnn.so.9",
        "nvidia/cu13/lib/libcudart.so.13.0.96",
    ] {
        compile(&site.join(library));
    }
    let link = prefix.join("bin/python");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(python, &link).unwrap();
    let load = format!(
        "import ctypes, glob, time\nfor path in glob.glob('{}/**/*.so*', recursive=True): ctypes.CDLL(path)\ntime.sleep(1.2)\n",
        site.display()
    );
    write(&home.join("train.py"), &load);
    link
}

fn recorded(bench: &Bench) -> RunRecord {
    bench.only_run().record
}

#[test]
fn libraries_packages_and_mirror_are_told_as_the_processes_had_them_and_nothing_personal_is() {
    let bench = Bench::new();
    let (python, version) = python();
    let home = bench.path(PLANTED);
    let interpreter = environment(&home, &python, &version);
    let mut command = bench.command(&["record", "--env", "e", "--workload", "w", "--repeats", "1", "--"]);
    command.arg(&interpreter).arg("train.py").current_dir(&home);
    command.env("HOME", &home).env("USER", PLANTED).env("OMP_NUM_THREADS", "3").env("TORCH_HOME", home.join("models"));
    command.env("CUDA_VISIBLE_DEVICES", "GPU-5ec2e700-1111").env_remove("PIP_INDEX_URL").env_remove("UV_INDEX_URL");
    command.env_remove("UV_DEFAULT_INDEX").env("MALLOC_NOTE", PLANTED);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::rename(home.join("traces"), bench.path("traces")).unwrap();
    let record = recorded(&bench);
    let software = |key: &str| record.software.get(key).and_then(Option::as_deref);
    assert_eq!(software("python"), Some(version.as_str()));
    assert_eq!((software("torch"), software("torch_cuda")), (Some("2.11.0+cu130"), Some("13.0")));
    assert_eq!((software("cuda_runtime"), software("cudnn")), (Some("13.0.96"), Some("9.15.1.9")));
    assert_eq!((software("openmp"), software("package_index")), (Some("libgomp"), Some("mirror.example.org")));
    assert_eq!(record.libraries["libcudnn.so.9"].as_deref(), Some("9.15.1.9"));
    assert_eq!(record.packages["numpy"], "2.4.6");
    assert_eq!(record.packages["ruamel-yaml"], "0.18.6");
    assert_eq!(record.variables["OMP_NUM_THREADS"], "3");
    assert_eq!(record.variables["CUDA_VISIBLE_DEVICES"], "GPU-***");
    assert_eq!(record.variables["TORCH_HOME"], "…/models");
    let line = record.coverage.iter().find(|line| line.metric == "run.software").unwrap();
    assert_eq!((line.state, line.reason.as_str()), (CoverageState::Measured, ""));
    let stored = fs::read_to_string(bench.only_run().dir.join("run.json")).unwrap();
    // The user's name is masked by the recorder, which knows its user; what else is planted never enters.
    for secret in [PLANTED, "5ec2e700", "8443", "site-packages"] {
        assert!(!stored.contains(secret), "{secret} is in {stored}");
    }
}

#[test]
fn a_run_that_ends_before_the_first_look_says_so() {
    let bench = Bench::new();
    bench.record("true");
    let record = recorded(&bench);
    let line = record.coverage.iter().find(|line| line.metric == "run.software").unwrap();
    assert!(line.state == CoverageState::Lost && line.reason.contains("ended before"), "{line:?}");
    assert!(record.software.is_empty() && record.libraries.is_empty());
}

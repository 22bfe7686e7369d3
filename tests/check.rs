//! `shice check`: what it finds here, in words and as JSON, and that a run keeps it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use common::{Bench, text};
use serde_json::Value;

/// A machine whose driver library is not there, whatever the machine of the test has.
fn check(arguments: &[&str]) -> std::process::Output {
    let mut command = Bench::new().command(&[&["check"], arguments].concat());
    command.env("SHICE_NVML_LIBRARY", "/no/such/library.so").env("LC_ALL", "C").output().unwrap()
}

#[test]
fn the_exit_code_says_whether_something_is_not_ready() {
    let output = check(&["--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = answer["checks"].as_array().unwrap();
    let failed = checks.iter().any(|check| check["state"] == "failed");
    assert_eq!(answer["ready"], !failed);
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{}", text(&output.stderr));
    // Size of the file system by another reader of it.
    let df = std::process::Command::new("df").args(["-B1", "--output=size", "/dev/shm"]).output().unwrap();
    if let Some(size) = text(&df.stdout).lines().nth(1) {
        let shm = checks.iter().find(|check| check["name"] == "shm").unwrap();
        assert_eq!(shm["values"]["size_bytes"].to_string(), size.trim());
    }
}

#[test]
fn words_come_in_the_language_of_the_locale_or_the_one_asked_for() {
    let english = text(&check(&[]).stdout);
    assert!(english.contains("Is this environment ready?") && !english.contains('\u{1b}'), "{english}");
    let chinese = text(&check(&["--lang", "zh"]).stdout);
    assert!(chinese.contains("当前环境是否就绪？"), "{chinese}");
    let both = text(&check(&["--lang", "both"]).stdout);
    assert!(both.contains(english.trim()) && both.contains(chinese.trim()), "{both}");
    assert_eq!(check(&["--lang", "de"]).status.code(), Some(2));
}

#[test]
fn a_run_keeps_what_was_found_before_it() {
    let bench = Bench::new();
    bench.record("true");
    let run = bench.only_run();
    let names: Vec<&str> = run.record.checks.iter().map(|check| check.name.as_str()).collect();
    for name in ["nvidia_driver", "shm", "cpu_limit", "root_login", "jupyter"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
}

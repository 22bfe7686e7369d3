//! `shice check`: what it finds here, in words and as JSON, and that a run keeps it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::fs;
use std::process::Command;

use common::{Bench, text, wait_until};
use serde_json::Value;

/// A machine whose driver library is not there, whatever the machine of the test has.
fn check(arguments: &[&str]) -> std::process::Output {
    let bench = Bench::new();
    let mut command = bench.command(&[&["check"], arguments].concat());
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
    let df = Command::new("df").args(["-B1", "--output=size", "/dev/shm"]).output().unwrap();
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
    assert!(both.contains("Is this environment ready?") && both.contains("当前环境是否就绪？"), "{both}");
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

/// A server by Jupyter's name that tells its port and listens to everybody.
const SERVER: &str = "import socket, time\ns = socket.socket()\ns.bind(('0.0.0.0', 0))\ns.listen()\n\
                      open('port', 'w').write(str(s.getsockname()[1]) + '\\n')\ntime.sleep(60)\n";

#[test]
fn an_open_jupyter_port_is_found_and_its_command_line_is_kept_nowhere() {
    let bench = Bench::new();
    fs::write(bench.path("jupyter-lab"), SERVER).unwrap();
    let mut server = Command::new("python3");
    server.args(["jupyter-lab", "--ServerApp.token=", "--note=planted-word-7"]).current_dir(bench.path(""));
    let mut server = server.spawn().unwrap();
    let port = || fs::read_to_string(bench.path("port")).ok().filter(|port| port.ends_with('\n'));
    wait_until("the server listens", || port().is_some());
    let json = text(&bench.shice(&["check", "--json"]).stdout);
    bench.record("true");
    server.kill().unwrap();
    server.wait().unwrap();
    let answer: Value = serde_json::from_str(&json).unwrap();
    let found = answer["checks"].as_array().unwrap().iter().find(|check| check["name"] == "jupyter").unwrap();
    assert_eq!((&found["state"], &found["cause"]), (&Value::from("failed"), &Value::from("open")));
    let port: u16 = port().unwrap().trim().parse().unwrap();
    assert!(found["values"]["ports"].as_array().unwrap().contains(&Value::from(port)), "{found}");
    let run = bench.only_run();
    assert!(run.record.checks.iter().any(|check| check.name == "jupyter" && check.cause == "open"));
    let stored = fs::read_to_string(run.dir.join("run.json")).unwrap();
    assert!(!json.contains("planted-word-7") && !stored.contains("planted-word-7"));
}

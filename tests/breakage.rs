//! `shice record` under what goes wrong around it: signals, closed streams, commands that misbehave.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use common::{Bench, is_alive, tells_in_one_line, text, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use shice::trace::run::Outcome;

/// Starts recording a shell script that writes its pid to `pid` and waits until it has.
fn start(bench: &Bench, repeats: &str, script: &str) -> (Child, i32) {
    let script = format!("echo $$ > pid; {script}");
    let arguments = ["record", "--env", "e", "--workload", "w", "--repeats", repeats, "--", "sh", "-c", &script];
    let recorder = bench.command(&arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    wait_until("the workload runs", || fs::read_to_string(bench.path("pid")).is_ok_and(|text| text.ends_with('\n')));
    (recorder, fs::read_to_string(bench.path("pid")).unwrap().trim().parse().unwrap())
}

fn send(recorder: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(recorder.id()).unwrap()), signal).unwrap();
}

#[test]
fn stopping_works_when_nobody_reads_standard_error_any_more() {
    let bench = Bench::new();
    let (mut recorder, workload) = start(&bench, "2", "exec sleep 60");
    drop(recorder.stderr.take());
    send(&recorder, Signal::SIGTERM);
    assert_eq!(recorder.wait().unwrap().code(), Some(130));
    assert!(!is_alive(workload));
    assert_eq!(bench.only_run().record.outcome, Outcome::Interrupted);
}

#[test]
fn the_end_of_the_terminal_ends_the_run_and_keeps_it() {
    let bench = Bench::new();
    let (mut recorder, workload) = start(&bench, "2", "exec sleep 60");
    send(&recorder, Signal::SIGHUP);
    assert_eq!(recorder.wait().unwrap().code(), Some(130));
    assert!(!is_alive(workload));
    assert_eq!(bench.only_run().record.outcome, Outcome::Interrupted);
}

#[test]
fn a_second_request_ends_a_workload_that_ignores_the_first() {
    let bench = Bench::new();
    let (mut recorder, workload) = start(&bench, "2", "trap '' TERM; while :; do sleep 0.1; done");
    send(&recorder, Signal::SIGINT);
    let mut asked_again = false;
    wait_until("the recorder has ended", || {
        if !std::mem::replace(&mut asked_again, true) {
            std::thread::sleep(std::time::Duration::from_millis(300));
            send(&recorder, Signal::SIGINT);
        }
        recorder.try_wait().unwrap().is_some()
    });
    assert!(!is_alive(workload));
    assert_eq!(bench.only_run().record.outcome, Outcome::Interrupted);
}

#[test]
fn a_child_that_the_recorder_was_started_with_is_neither_waited_for_nor_ended() {
    let bench = Bench::new();
    // Less than the grace that is given to what is left of a run.
    let script = format!(
        "(sleep 9; echo > over) & echo $! > earlier; exec {} record --env e --workload w --repeats 1 -- true",
        env!("CARGO_BIN_EXE_shice")
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).current_dir(bench.path("")).stderr(Stdio::null()).stdout(Stdio::null());
    assert!(shell.status().unwrap().success());
    let earlier = fs::read_to_string(bench.path("earlier")).unwrap().trim().parse().unwrap();
    assert!(is_alive(earlier) && !bench.path("over").exists());
    kill(Pid::from_raw(earlier), Signal::SIGKILL).unwrap();
    assert!(bench.only_run().record.survivors.is_empty());
}

#[test]
fn stopping_while_survivors_are_ended_stops_the_session() {
    let bench = Bench::new();
    let survivor = "(trap '' TERM; while :; do sleep 0.1; done) & echo done > ended";
    let (mut recorder, _) = start(&bench, "3", survivor);
    wait_until("the root has ended", || bench.path("ended").exists());
    std::thread::sleep(std::time::Duration::from_millis(900));
    send(&recorder, Signal::SIGINT);
    assert_eq!(recorder.wait().unwrap().code(), Some(130));
    assert_eq!(bench.trace().environments[0].runs.len(), 1);
}

#[test]
fn what_survivors_use_after_the_run_is_not_the_runs() {
    let bench = Bench::new();
    bench.record("(trap '' TERM; while :; do :; done) & sleep 0.5");
    let record = bench.only_run().record;
    let (used, time) = (record.cpu.best_ns().unwrap(), record.duration_ns.unwrap());
    // One loop on one core; it goes on for the five seconds of grace.
    assert!(used < time + time / 5, "{used} ns of CPU in {time} ns");
    assert_eq!(record.survivors, ["sh"]);
}

#[test]
fn a_workload_ended_by_a_real_time_signal_is_a_killed_run() {
    let bench = Bench::new();
    let output = bench.record("kill -40 $$");
    assert_eq!(output.status.code(), Some(168), "{}", text(&output.stderr));
    assert_eq!(bench.only_run().record.outcome, Outcome::Killed { signal: 40 });
}

#[test]
fn a_pipe_without_a_reader_ends_the_writer_as_it_does_without_us() {
    let bench = Bench::new();
    bench.record("sed -n 's/^SigIgn:[[:blank:]]*//p' /proc/self/status > ignored");
    let ignored = u64::from_str_radix(fs::read_to_string(bench.path("ignored")).unwrap().trim(), 16).unwrap();
    assert_eq!(ignored >> (Signal::SIGPIPE as i32 - 1) & 1, 0);
}

#[test]
fn a_script_that_cannot_be_executed_is_told_as_the_shell_tells_it_and_leaves_no_run() {
    let bench = Bench::new();
    let path = bench.path("script");
    fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let output = bench.shice(&["record", "--env", "e", "--workload", "w", "--", "./script"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(127), "{message}");
    assert!(message.contains("cannot execute"), "{message}");
    assert!(bench.files("traces").iter().all(|path| path.ends_with(".lock")), "{:?}", bench.files("traces"));
}

#[test]
fn the_same_case_twice_in_one_request_is_refused() {
    let bench = Bench::new();
    let mut command = bench.command(&["record", "--env", "e", "--quick", "idle", "idle"]);
    let stand_in = bench.path("shice-workloads");
    fs::write(&stand_in, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
    let output = command.env("PATH", bench.path("")).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("stands twice"), "{}", text(&output.stderr));
}

#[test]
fn a_program_that_is_replaced_while_it_records_goes_on() {
    let bench = Bench::new();
    let program = bench.path("shice");
    fs::copy(env!("CARGO_BIN_EXE_shice"), &program).unwrap();
    let mut command = std::process::Command::new(&program);
    command.args(["record", "--env", "e", "--workload", "w", "--repeats", "2", "--", "sh", "-c", "rm -f shice"]);
    let output = command.current_dir(bench.path("")).arg0("shice").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(bench.trace().environments[0].runs.len(), 2);
}

#[test]
fn a_command_that_is_empty_or_no_text_is_told_so_and_nothing_starts() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new();
    let record = ["record", "--env", "e", "--workload", "w", "--"];
    let output = bench.shice(&[record.as_slice(), &[""]].concat());
    tells_in_one_line(&output, 127, "the command is empty");
    let output = bench.command(&record).args(["cat".as_ref(), std::ffi::OsStr::from_bytes(b"caf\xe9.txt")]).output();
    tells_in_one_line(&output.unwrap(), 125, "word 2 of the command, \"caf\u{fffd}.txt\", is not UTF-8");
    assert!(!bench.path("traces").exists());
}

#[test]
fn a_run_is_not_told_as_started_where_it_could_not_be() {
    let bench = Bench::new();
    // No file may be as large as the room that is kept for the record.
    let script = "ulimit -f 100; exec \"$0\" record --env e --workload w --repeats 1 -- touch ran";
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", script, env!("CARGO_BIN_EXE_shice")]).current_dir(bench.path("")).output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{told}");
    assert!(told.contains(".reserve") && !told.contains("started"), "{told}");
    assert!(!bench.path("ran").exists());
}

#[test]
fn wrong_words_do_not_look_like_the_workloads_exit_code() {
    let bench = Bench::new();
    for (arguments, code) in
        [(vec!["record", "--no-such-flag"], 125), (vec!["render", "--no-such-flag"], 2), (vec!["--help"], 0)]
    {
        assert_eq!(bench.shice(&arguments).status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn a_command_that_tells_of_lacking_memory_and_fails_ran_out_of_memory() {
    let bench = Bench::new();
    let script = r#"echo '{"kind":"setting","name":"oom_phase","value":"train"}' >> "$SHICE_STEPS"; exit 12"#;
    let output = bench.shice(&["record", "--env", "e", "--workload", "w", "--repeats", "1", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(12));
    assert!(text(&output.stderr).contains("ran out of memory, exit code 12,"), "{}", text(&output.stderr));
    assert_eq!(bench.only_run().record.outcome, Outcome::OutOfMemory { signal: None, exit_code: Some(12) });
    bench.shice(&["render", "traces", "--out", "out"]);
    let report = fs::read_to_string(bench.path("out/e/zh.md")).unwrap();
    assert!(report.contains("内存不足，自行退出（退出码 12）"), "{report}");
}

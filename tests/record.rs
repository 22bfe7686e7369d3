//! `shice record` on commands of the user's own: what it measures, and what it does when things go wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::fs;

use common::{Bench, all_text, column, is_alive, own_groups, python, tells_in_one_line, text, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use shice::trace::run::{CoverageState, Outcome};
use shice::trace::tables::{Host, Memory, Process, ProcessSample, Step};

fn relative_difference(a: f64, b: f64) -> f64 {
    (a - b).abs() / b
}

fn pid_of(child: &std::process::Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

#[test]
fn cpu_and_memory_agree_with_what_the_process_says_of_itself() {
    let bench = Bench::new();
    // The reference is the process's own view: its CPU clock by Python, VmHWM by /proc/self/status, just before it ends.
    let script = "import time, resource\nblock = bytearray(200 << 20)\nwhile time.process_time() < 1.5: pass\n\
                  hwm = [line for line in open('/proc/self/status') if line.startswith('VmHWM')][0].split()[1]\n\
                  open('own.txt', 'w').write(f'{time.process_time()} {int(hwm) * 1024}')";
    fs::write(bench.path("burn.py"), script).unwrap();
    let output =
        bench.shice(&["record", "--env", "e", "--workload", "w", "--repeats", "1", "--", &python(), "burn.py"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let own: Vec<f64> =
        fs::read_to_string(bench.path("own.txt")).unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
    let run = bench.only_run();
    let cpu = run.record.cpu;
    // Ending takes CPU time too (200 MB are given back), which the process cannot see of itself.
    let clocks_s = cpu.clocks_ns.unwrap() as f64 / 1e9;
    assert!(clocks_s >= own[0] && clocks_s < own[0] + 0.25, "{clocks_s} against {}", own[0]);
    let rusage_s = (cpu.rusage_user_ns.unwrap() + cpu.rusage_system_ns.unwrap()) as f64 / 1e9;
    assert!(relative_difference(rusage_s, clocks_s) < 0.02, "{rusage_s} against {clocks_s}");
    let peak = column::<ProcessSample>(&run, "rss_peak_bytes").into_iter().fold(0.0, f64::max);
    assert!(relative_difference(peak, own[1]) < 0.02, "{peak} against {}", own[1]);
}

#[test]
fn a_run_shorter_than_an_interval_still_has_its_cpu_time_and_host_counters() {
    let bench = Bench::new();
    bench.record("exit 0");
    let run = bench.only_run();
    assert_eq!(run.record.outcome, Outcome::Finished);
    assert!(run.record.cpu.best_ns().unwrap() > 0);
    assert!(column::<Host>(&run, "cpu_user_ns").len() >= 2);
}

#[test]
fn workers_that_share_memory_are_all_seen_and_it_counts_once() {
    let bench = Bench::new();
    let fork = "import os, time\nblock = bytearray(b'x') * (500 << 20)\nfor n in range(4):\n  if os.fork() == 0:\n    \
                while time.process_time() < 0.6: pass\n    time.sleep(6); os._exit(0)\nfor n in range(4): os.wait()";
    fs::write(bench.path("fork.py"), fork).unwrap();
    // The reference is the kernel's account of the waited-for tree, which is what /usr/bin/time prints.
    let watch = "import os, resource, sys\npid = os.spawnv(os.P_NOWAIT, sys.executable, ['python3', 'fork.py'])\n\
                 tree = os.wait4(pid, 0)[2]\nown = resource.getrusage(resource.RUSAGE_SELF)\n\
                 open('used.txt', 'w').write(str(sum(u.ru_utime + u.ru_stime for u in (tree, own))))";
    fs::write(bench.path("watch.py"), watch).unwrap();
    let output =
        bench.shice(&["record", "--env", "e", "--workload", "w", "--repeats", "1", "--", &python(), "watch.py"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run = bench.only_run();
    let pss = column::<Memory>(&run, "pss_bytes").into_iter().fold(0.0, f64::max) / f64::from(1 << 20);
    assert!((500.0..545.0).contains(&pss), "PSS peaked at {pss} MiB");
    let processes = column::<Process>(&run, "process").into_iter().fold(0.0, f64::max) + 1.0;
    assert_eq!(processes, 6.0, "five and the one that watches them");
    let used_s: f64 = fs::read_to_string(bench.path("used.txt")).unwrap().parse().unwrap();
    let measured_s = run.record.cpu.best_ns().unwrap() as f64 / 1e9;
    assert!(relative_difference(measured_s, used_s) < 0.02, "{measured_s} s against {used_s} s");
}

#[test]
fn an_orphan_that_left_its_group_is_followed_named_and_ended() {
    let bench = Bench::new();
    bench.record("(setsid sh -c 'echo $$ > orphan.pid; exec sleep 60' &) ; sleep 0.5");
    let run = bench.only_run();
    assert_eq!(run.record.outcome, Outcome::Finished);
    assert_eq!(run.record.survivors, ["sleep"]);
    let pid = fs::read_to_string(bench.path("orphan.pid")).unwrap().trim().parse().unwrap();
    assert!(!is_alive(pid));
}

#[test]
fn cpu_time_of_children_that_came_and_went_between_samples_is_counted() {
    let bench = Bench::new();
    // Each child burns a bit and ends; the shell's `times` tells what its children used.
    bench.record("for n in 1 2 3 4 5 6 7 8; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done; times > times.txt");
    let times = fs::read_to_string(bench.path("times.txt")).unwrap();
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    let told: f64 = times.split_ascii_whitespace().map(seconds).sum();
    let measured = bench.only_run().record.cpu.best_ns().unwrap() as f64 / 1e9;
    assert!((measured - told).abs() < 0.05 + 0.02 * told, "{measured} against {told}");
}

#[test]
fn the_exit_code_of_a_single_run_is_handed_on() {
    for (script, code, outcome) in
        [("exit 7", 7, Outcome::Failed { exit_code: 7 }), ("kill -KILL $$", 137, Outcome::Killed { signal: 9 })]
    {
        let bench = Bench::new();
        let output = bench.record(script);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert_eq!(bench.only_run().record.outcome, outcome);
    }
}

#[test]
fn a_failed_run_keeps_the_end_of_its_output_and_a_finished_one_none() {
    let bench = Bench::new();
    let output = bench.record("echo out; echo to stderr >&2; exit 3");
    assert_eq!(text(&output.stdout), "out\n");
    assert!(text(&output.stderr).contains("to stderr"));
    let mut tail = bench.only_run().record.output_tail;
    tail.sort();
    assert_eq!(tail, ["out", "to stderr"]);
    let bench = Bench::new();
    bench.record("echo out");
    assert!(bench.only_run().record.output_tail.is_empty());
}

#[test]
fn a_command_that_is_missing_or_not_executable_is_told_before_anything_is_written() {
    let bench = Bench::new();
    fs::write(bench.path("plain"), "text").unwrap();
    for (command, code) in [("no-such-command-anywhere", 127), ("./plain", 126)] {
        let output = bench.shice(&["record", "--env", "e", "--workload", "w", "--", command]);
        assert_eq!(output.status.code(), Some(code));
        assert!(text(&output.stderr).contains(command));
    }
    assert!(!bench.path("traces").exists());
}

#[test]
fn wrong_arguments_are_one_clear_line_and_write_nothing() {
    let bench = Bench::new();
    for (arguments, expected) in [
        (vec!["record", "--env", "e", "resnet"], "unknown workload \"resnet\""),
        (vec!["record", "--env", "e"], "nothing to record"),
        (vec!["record", "--env", "", "--workload", "w", "--", "true"], "--env is empty"),
        (vec!["record", "--env", "e", "--repeats", "0", "--workload", "w", "--", "true"], "--repeats 0"),
        (vec!["record", "--env", "e", "--interval", "1ms", "--workload", "w", "--", "true"], "out of range"),
    ] {
        tells_in_one_line(&bench.shice(&arguments), 125, expected);
    }
    assert!(!bench.path("traces").exists());
}

#[test]
fn an_output_folder_that_cannot_be_made_is_named() {
    let bench = Bench::new();
    fs::write(bench.path("file"), "").unwrap();
    let output = bench.shice(&["record", "--env", "e", "--out", "file/traces", "--workload", "w", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("cannot create the folder file/traces"), "{}", text(&output.stderr));
}

#[test]
fn environments_of_any_name_lie_side_by_side_under_their_exact_names() {
    let bench = Bench::new();
    let names = ["A/B", "A-B", "中文", "4090", "\"quoted\" 'name'", "🔥", "../up"];
    for name in names {
        let output = bench.shice(&["record", "--env", name, "--workload", "w", "--repeats", "1", "--", "true"]);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    }
    let mut found: Vec<String> = bench.trace().environments.into_iter().map(|environment| environment.name).collect();
    found.sort();
    let mut expected = names.map(str::to_owned);
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(fs::read_dir(bench.path(".")).unwrap().count(), 1, "something was written beside traces/");
}

#[test]
fn a_case_is_not_recorded_twice_unless_asked_and_nothing_is_overwritten() {
    let bench = Bench::new();
    bench.record("true");
    let before = fs::read(bench.only_run().dir.join("run.json")).unwrap();
    let output = bench.record("true");
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("--append"), "{}", text(&output.stderr));
    bench.shice(&["record", "--env", "e", "--append", "--workload", "w", "--repeats", "2", "--", "sh", "-c", "true"]);
    let trace = bench.trace();
    let runs = &trace.environments[0].runs;
    assert_eq!(runs.iter().map(|run| run.record.run).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(fs::read(runs[0].dir.join("run.json")).unwrap(), before);
}

#[test]
fn another_command_is_no_repeat_of_a_case() {
    let bench = Bench::new();
    bench.record("true");
    let arguments = ["record", "--env", "e", "--append", "--workload", "w", "--repeats", "1", "--", "sleep", "0.1"];
    let output = bench.shice(&arguments);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("another command (sh -c true)"), "{}", text(&output.stderr));
    assert_eq!(bench.trace().environments[0].runs.len(), 1);
}

#[test]
fn a_machine_that_has_changed_is_refused_by_the_names_of_what_differs() {
    let bench = Bench::new();
    bench.record("true");
    bench.edit_record(|record| record["fingerprint"]["cpu_model"] = "Another CPU".into());
    let output = bench.shice(&["record", "--env", "e", "--workload", "other", "--repeats", "1", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("different: cpu_model"), "{}", text(&output.stderr));
}

#[test]
fn an_interrupted_run_ends_its_tree_and_keeps_what_was_recorded() {
    let bench = Bench::new();
    let script = "sh -c 'echo $$ > inner.pid; exec sleep 60' & wait";
    let arguments = ["record", "--env", "e", "--workload", "w", "--repeats", "3", "--", "sh", "-c", script];
    let recorder = bench.command(&arguments).stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_until("the workload runs", || {
        fs::read_to_string(bench.path("inner.pid")).is_ok_and(|text| text.ends_with('\n'))
    });
    std::thread::sleep(std::time::Duration::from_millis(600));
    kill(pid_of(&recorder), Signal::SIGINT).unwrap();
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(text(&output.stderr).contains("what was recorded is kept"));
    let run = bench.only_run();
    assert_eq!(run.record.outcome, Outcome::Interrupted);
    assert!(column::<Host>(&run, "t_ns").len() >= 5);
    let inner = fs::read_to_string(bench.path("inner.pid")).unwrap().trim().parse().unwrap();
    assert!(!is_alive(inner));
}

#[test]
fn a_killed_recorder_leaves_a_trace_that_is_read_with_at_most_a_second_missing() {
    let bench = Bench::new();
    let mut recorder =
        bench.command(&["record", "--env", "e", "--workload", "w", "--", "sleep", "60"]).spawn().unwrap();
    let journal = bench.path("traces/environment=e/case=w/run=1/node=0/journal.jsonl");
    wait_until("the run is being recorded", || journal.exists());
    std::thread::sleep(std::time::Duration::from_millis(3000));
    kill(pid_of(&recorder), Signal::SIGKILL).unwrap();
    recorder.wait().unwrap();
    let run = bench.only_run();
    assert_eq!((run.record.outcome, run.record.duration_ns), (Outcome::Incomplete, None));
    let last_s = column::<Host>(&run, "t_ns").into_iter().fold(0.0, f64::max) / 1e9;
    // The run began after the journal was made, so 3 s of it less 1 s must be there.
    assert!(last_s > 1.9, "samples end at {last_s} s");
    assert!(!journal.exists());
    // The workload outlives its recorder; this test must not leave it behind.
    let pid = column::<Process>(&run, "pid")[0] as i32;
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    wait_until("the workload has ended", || !is_alive(pid));
    // Nor must its control group stay: the next recorder in the same place removes it.
    bench.shice(&["record", "--env", "other", "--workload", "w", "--repeats", "1", "--", "true"]);
    assert_eq!(own_groups(recorder.id()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn secrets_and_addresses_in_arguments_environment_and_output_do_not_reach_the_trace() {
    let bench = Bench::new();
    let planted = [
        "token is hf_PLANTEDplantedPLANTED0123456789",
        "password: planted",
        "{\"password\": \"planted\"}",
        "Authorization: Bearer planted",
        "https://me:planted@host/x",
        "python train.py --hf-token planted --epochs 3",
        "--opt=api_key=planted",
        "Command '['train.py', '--token', 'planted']' failed",
        "from 10.98.76.54 [fd00:9876::54]:1 at 0a:98:76:54:32:10",
    ];
    let script = "for n in 1 2 3 4 5 6 7 8 9; do printf '%s\\n' \"$1\"; shift; done; echo $MY_KEY; printf '\\rstep 1\\rstep 2\\rpassword=planted'; exit 1";
    let mut arguments =
        vec!["record", "--env", "e", "--workload", "w", "--repeats", "1", "--", "sh", "-c", script, "sh"];
    arguments.extend(planted);
    arguments.extend(["-H", "Authorization: Bearer planted", "--password", "planted password", "--max-tokens", "10"]);
    bench.command(&arguments).env("MY_KEY", "sk-PLANTEDplantedPLANTED").output().unwrap();

    let run = bench.only_run();
    assert_eq!(run.record.command[run.record.command.len() - 2..], ["--max-tokens", "10"]);
    let tail = &run.record.output_tail;
    assert!(tail.contains(&"{\"password\": \"***\"}".to_owned()), "{tail:?}");
    assert!(tail.contains(&"from <ip> [<ip>]:1 at <mac>".to_owned()), "{tail:?}");
    assert_eq!(tail.last().unwrap(), "password=***");
    // Else nothing is looked at.
    assert!(all_text(&run.dir.join("process.parquet")).lines().any(|name| name == "sh"));
    for path in bench.files("traces") {
        let found = all_text(&path).to_lowercase();
        for secret in ["planted", "10.98.76", "fd00:9876", "0a:98:76"] {
            assert!(!found.contains(secret), "{secret} in {}: {found}", path.display());
        }
    }
}

#[test]
fn a_settings_label_makes_another_case_of_the_same_command() {
    let bench = Bench::new();
    for threads in ["1", "2"] {
        let set = format!("threads={threads}");
        bench.shice(&["record", "--env", "e", "--workload", "w", "--repeats", "1", "--set", &set, "--", "true"]);
    }
    let trace = bench.trace();
    let cases: Vec<String> = trace.environments[0].runs.iter().map(|run| run.record.case()).collect();
    assert_eq!(cases, ["w threads=1", "w threads=2"]);
}

#[test]
fn steps_with_odd_values_are_kept_and_lost_lines_show_in_the_ledger() {
    let bench = Bench::new();
    let script = "import json, os, time\nfile = open(os.environ['SHICE_STEPS'], 'a')\n\
                  def tell(t_ns, **more): return json.dumps({'kind': 'step', 't_ns': t_ns, **more})\n\
                  print(tell(time.monotonic_ns(), loss=float('nan'), samples=64.0), file=file)\n\
                  print(tell(time.time_ns()), file=file)\n\
                  file.write(tell(time.monotonic_ns(), samples=32))";
    fs::write(bench.path("steps.py"), script).unwrap();
    bench.record("exec python3 steps.py");
    let run = bench.only_run();
    assert_eq!(column::<Step>(&run, "samples"), [64.0, 32.0]);
    let coverage = run.record.coverage.iter().find(|coverage| coverage.metric == "step").unwrap();
    assert_eq!(coverage.state, CoverageState::Lost);
    assert!(run.record.events.iter().any(|event| event.contains("time.monotonic_ns()")), "{:?}", run.record.events);
}

/// Which case of which environment came when, as `environment/case#block`.
fn sequence(bench: &Bench) -> Vec<String> {
    let trace = bench.trace();
    let mut runs: Vec<_> = trace
        .environments
        .iter()
        .flat_map(|environment| &environment.runs)
        .map(|run| {
            (run.record.sequence, format!("{}/{}#{}", run.record.environment, run.record.case(), run.record.block))
        })
        .collect();
    runs.sort();
    assert!(runs.iter().zip(1..).all(|((sequence, _), place)| *sequence == place), "{runs:?}");
    runs.into_iter().map(|(_, name)| name).collect()
}

#[test]
fn what_is_swept_fills_the_command_and_every_second_block_runs_backwards() {
    let bench = Bench::new();
    let words = ["record", "--env", "e", "--repeats", "2", "--workload", "w", "--set", "seed=7", "--sweep", "n=1,2"];
    let script = "echo {n} {seed} ${HOME:+{other}} >> said";
    bench.shice(&[words.as_slice(), &["--", "sh", "-c", script]].concat());
    assert_eq!(sequence(&bench), ["e/w n=1 seed=7#1", "e/w n=2 seed=7#1", "e/w n=2 seed=7#2", "e/w n=1 seed=7#2"]);
    assert_eq!(fs::read_to_string(bench.path("said")).unwrap().replace(" {other}", ""), "1 7\n2 7\n2 7\n1 7\n");
}

#[test]
fn a_failing_run_is_recorded_and_the_others_go_on_unless_asked_to_stop() {
    let script = "test {n} = 2";
    let words = ["record", "--env", "e", "--repeats", "2", "--workload", "w", "--sweep", "n=1,2"];
    for (flags, outcomes) in [(vec![], "ffFF"), (vec!["--fail-fast"], "F")] {
        let bench = Bench::new();
        let output = bench.shice(&[words.as_slice(), &flags, &["--", "sh", "-c", script]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        let mut found: Vec<char> = bench.trace().environments[0]
            .runs
            .iter()
            .map(|run| if run.record.outcome.is_finished() { 'f' } else { 'F' })
            .collect();
        found.sort_by_key(|letter| std::cmp::Reverse(*letter));
        assert_eq!(found.into_iter().collect::<String>(), outcomes);
    }
}

#[test]
fn a_command_that_vanishes_in_between_loses_no_run_and_stops_no_other_case() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    for name in ["one", "two"] {
        // The first one takes itself away.
        fs::write(bench.path(name), "#!/bin/sh\ncase $0 in */one) rm -f $0 ;; esac\n").unwrap();
        fs::set_permissions(bench.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = bench.shice(&[
        "record",
        "--env",
        "e",
        "--repeats",
        "3",
        "--workload",
        "w",
        "--sweep",
        "n=one,two",
        "--",
        "./{n}",
    ]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("cannot execute").count(), 1, "{said}");
    let trace = bench.trace();
    let cases: Vec<String> = trace.environments[0].runs.iter().map(|run| run.record.case()).collect();
    assert_eq!(cases, ["w n=one", "w n=two", "w n=two", "w n=two"]);
}

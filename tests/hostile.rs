//! `shice record` on commands that misbehave and under conditions that are no good.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Bench, column, compile_library, is_alive, tells_in_one_line, text, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use shice::trace::run::{Coverage, CoverageState, Outcome};
use shice::trace::tables::{Host, Process};

/// Longer than anything here takes on a loaded machine: it hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Records a script once, after `first` was done in the shell that becomes the recorder.
fn record_after(bench: &Bench, first: &str, script: &str) -> Output {
    Command::new("sh")
        .args(["-c", &format!("{first}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_shice"), "record", "--env", "e"])
        .args(["--workload", "w", "--repeats", "1", "--", "sh", "-c", script])
        .current_dir(bench.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn start(bench: &Bench, more: &[&str], script: &str) -> Child {
    let arguments = ["record", "--env", "e", "--workload", "w", "--repeats", "1"].iter().chain(more);
    let arguments: Vec<&str> = arguments.copied().chain(["--", "sh", "-c", script]).collect();
    bench.command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(recorder: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(recorder.id()).unwrap()), signal).unwrap();
}

fn pid_in(bench: &Bench, name: &str) -> i32 {
    wait_until("the pid is written", || fs::read_to_string(bench.path(name)).is_ok_and(|text| text.ends_with('\n')));
    fs::read_to_string(bench.path(name)).unwrap().trim().parse().unwrap()
}

fn assert_whole(bench: &Bench) {
    let output = bench.shice(&["verify"]);
    assert!(output.status.success(), "{}", text(&output.stdout));
}

#[test]
fn a_daemon_that_closes_everything_is_followed_measured_and_ended() {
    let bench = Bench::new();
    let script = "import os, time\n\
                  if os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n\
                  open('daemon.pid', 'w').write(f'{os.getpid()}\\n')\nos.chdir('/')\nos.closerange(0, 1024)\n\
                  while time.process_time() < 0.5: pass\ntime.sleep(60)";
    fs::write(bench.path("daemon.py"), script).unwrap();
    let output = bench.record("python3 daemon.py; sleep 1.5");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!is_alive(pid_in(&bench, "daemon.pid")));
    let record = bench.only_run().record;
    assert_eq!(record.survivors.len(), 1, "{:?}", record.survivors);
    // The daemon's own CPU clock is the reference; the shell and Python's start come on top.
    assert!(record.cpu.clocks_ns.unwrap() > 450_000_000, "{:?}", record.cpu);
    assert_whole(&bench);
}

#[test]
fn a_command_that_closes_all_descriptors_runs_to_its_end() {
    let bench = Bench::new();
    fs::write(bench.path("close.py"), "import os, time\nos.closerange(0, 1024)\ntime.sleep(0.5)\nos._exit(3)").unwrap();
    let output = bench.record("exec python3 close.py");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let record = bench.only_run().record;
    assert_eq!(record.outcome, Outcome::Failed { exit_code: 3 });
    assert!(record.duration_ns.unwrap() > 450_000_000);
}

#[test]
fn the_cpu_time_of_a_thousand_short_children_is_counted() {
    let bench = Bench::new();
    let script = "import os\nfor n in range(1000):\n  pid = os.fork()\n  if pid == 0: sum(range(20000)); os._exit(0)\n  os.waitpid(pid, 0)\n\
                  t = os.times(); open('times.txt', 'w').write(str(sum(t[:4])))";
    fs::write(bench.path("fork.py"), script).unwrap();
    let output = bench.record("exec python3 fork.py");
    assert!(output.status.success(), "{}", text(&output.stderr));
    // Python's own account, of itself and of the children that it waited for, in ticks of 10 ms.
    let told: f64 = fs::read_to_string(bench.path("times.txt")).unwrap().parse().unwrap();
    let record = bench.only_run().record;
    let measured = record.cpu.best_ns().unwrap() as f64 / 1e9;
    assert!((measured - told).abs() < 0.1 + 0.05 * told, "{measured} s against {told} s");
    assert_whole(&bench);
}

#[test]
fn a_workload_that_ignores_sigterm_is_killed_after_the_grace_of_one_ctrl_c() {
    let bench = Bench::new();
    let recorder = start(&bench, &[], "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done");
    let workload = pid_in(&bench, "pid");
    let begun = Instant::now();
    send(&recorder, Signal::SIGINT);
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(begun.elapsed() >= Duration::from_secs(4) && begun.elapsed() < HANGS, "{:?}", begun.elapsed());
    assert!(!is_alive(workload));
    let run = bench.only_run();
    assert_eq!(run.record.outcome, Outcome::Interrupted);
    assert!(column::<Host>(&run, "t_ns").len() > 5);
    assert_whole(&bench);
}

#[test]
fn a_workload_that_stops_itself_does_not_hang_the_recorder_for_ever() {
    let bench = Bench::new();
    let recorder = start(&bench, &[], "echo $$ > pid; kill -STOP $$; sleep 60");
    let workload = pid_in(&bench, "pid");
    let state = || fs::read_to_string(format!("/proc/{workload}/stat")).unwrap_or_default();
    wait_until("it has stopped itself", || state().contains(") T "));
    let begun = Instant::now();
    send(&recorder, Signal::SIGINT);
    assert_eq!(recorder.wait_with_output().unwrap().status.code(), Some(130));
    // It was continued, so that it could heed the polite request: no grace had to pass.
    assert!(begun.elapsed() < HANGS);
    assert!(!is_alive(workload));
    assert_eq!(bench.only_run().record.outcome, Outcome::Interrupted);
}

#[test]
fn a_command_that_kills_its_own_process_group_kills_only_itself() {
    let bench = Bench::new();
    let output = bench.record("sleep 60 & kill -KILL 0");
    assert_eq!(output.status.code(), Some(137), "{}", text(&output.stderr));
    assert_eq!(bench.only_run().record.outcome, Outcome::Killed { signal: 9 });
    assert_whole(&bench);
}

#[test]
fn a_recorder_with_twenty_descriptors_records_a_tree_of_thirty_processes() {
    let bench = Bench::new();
    let output = record_after(
        &bench,
        "exec 3<&- 4<&- 5<&-; ulimit -n 20",
        "n=0; while [ $n -lt 30 ]; do n=$((n+1)); sleep 1 & done; wait",
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run = bench.only_run();
    assert_eq!(run.record.outcome, Outcome::Finished);
    assert!(column::<Process>(&run, "process").len() > 25);
    assert_whole(&bench);
}

#[test]
fn a_journal_that_may_not_grow_any_more_costs_samples_and_not_the_run() {
    let bench = Bench::new();
    // Blocks of 512 bytes: room for the reserve of 256 KiB, but not for the journal of 600 samples of many processes.
    let script = "n=0; while [ $n -lt 40 ]; do n=$((n+1)); sleep 4 & done; wait; echo done > done.txt";
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 520; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_shice"), "record", "--env", "e"])
        .args(["--workload", "w", "--repeats", "1", "--interval", "10ms", "--", "sh", "-c", script])
        .current_dir(bench.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{:?} {}", output.status, text(&output.stderr));
    assert_eq!(fs::read_to_string(bench.path("done.txt")).unwrap(), "done\n");
    let run = bench.only_run();
    assert_eq!(run.record.outcome, Outcome::Finished);
    assert!(run.record.events.iter().any(|event| event.contains("samples may be lost")), "{:?}", run.record.events);
    assert!(column::<Host>(&run, "t_ns").len() > 5);
}

/// Mounts a small file system in a name space of its own and does something there; `None` where that is not permitted.
fn on_a_small_disk(bench: &Bench, script: &str) -> Option<Output> {
    let mount = "mkdir -p disk && mount -t tmpfs -o size=1m none disk";
    let permitted = Command::new("unshare").args(["-m", "sh", "-c", mount]).current_dir(bench.path("")).output();
    if !permitted.is_ok_and(|output| output.status.success()) {
        // Past the test program's capture: a test that checks nothing must not look like one that did.
        let words = "skipped: a file system of a test's own needs the right to mount one (unshare -m)\n";
        std::io::stderr().write_all(words.as_bytes()).unwrap();
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &format!("{mount} && {script}"), env!("CARGO_BIN_EXE_shice")]);
    Some(command.current_dir(bench.path("")).stdin(Stdio::null()).output().unwrap())
}

#[test]
fn a_disk_that_fills_up_in_mid_run_loses_nothing_that_was_there() {
    let bench = Bench::new();
    let fill = "sleep 1; dd if=/dev/zero of=disk/fill bs=64k 2>/dev/null; sleep 1.5; exit 5";
    let script = format!(
        "{{ \"$0\" record --env e --out disk/traces --workload w --repeats 1 -- sh -c '{fill}' 2> told.txt; \
         echo $? > code.txt; rm disk/fill; \"$0\" list disk/traces > list.txt; \"$0\" verify disk/traces > verify.txt; \
         cp -r disk/traces traces; }}"
    );
    let Some(output) = on_a_small_disk(&bench, &script) else { return };
    let read = |name: &str| fs::read_to_string(bench.path(name)).unwrap_or_default();
    assert!(output.status.success(), "{} {}", text(&output.stderr), read("told.txt"));
    let told = read("told.txt");
    // The command's own code, unless the room that was kept for the record does not do for this machine's tables too.
    let is_unfinished = told.contains("the samples of the run stay in");
    assert_eq!(read("code.txt"), if is_unfinished { "125\n" } else { "5\n" }, "{told}");
    assert!(told.contains("samples may be lost; is the disk of"), "{told}");
    assert!(read("list.txt").contains("w: 1 failed"), "{} {told}", read("list.txt"));
    assert!(read("verify.txt").ends_with(": whole\n"), "{}", read("verify.txt"));
    let run = bench.only_run();
    assert_eq!(run.record.outcome, Outcome::Failed { exit_code: 5 });
    assert!(run.record.events.iter().any(|event| event.contains("samples may be lost")), "{:?}", run.record.events);
    // From before the disk was full.
    assert!(column::<Host>(&run, "t_ns").iter().any(|t_ns| *t_ns > 0.4e9));
    assert_ledger_claims_what_is_there(&run);
}

/// Of every table the ledger claims values if there is one, and else says that they were lost.
fn assert_ledger_claims_what_is_there(run: &shice::trace::Run) {
    for table in ["host", "core", "process_sample"] {
        let lines = || run.record.coverage.iter().filter(|entry| entry.table() == Some(table));
        let claimed = lines().any(|entry| entry.state.claims_values());
        assert_eq!(claimed, run.has_table(table), "{table}: {:?}", lines().collect::<Vec<_>>());
        let lost = |entry: &Coverage| entry.state == CoverageState::Lost && entry.reason.contains("kept on disk");
        assert!(claimed || lines().any(lost), "{table}: {:?}", lines().collect::<Vec<_>>());
    }
}

#[test]
fn a_disk_that_takes_no_sample_leaves_a_ledger_that_claims_none() {
    let bench = Bench::new();
    // Full before anything is written: samples wait a quarter of a second for each other.
    let fill =
        "dd if=/dev/zero of=disk/fill bs=1k 2>/dev/null; find disk -name journal.jsonl -size +0 > early.txt; sleep 2";
    let script = format!(
        "{{ \"$0\" record --env e --out disk/traces --workload w --repeats 1 -- sh -c '{fill}' 2> told.txt; rm disk/fill; \
         \"$0\" list disk/traces > list.txt; \"$0\" verify disk/traces > verify.txt; cp -r disk/traces traces; }}"
    );
    let Some(output) = on_a_small_disk(&bench, &script) else { return };
    let read = |name: &str| fs::read_to_string(bench.path(name)).unwrap_or_default();
    assert!(output.status.success(), "{} {}", text(&output.stderr), read("told.txt"));
    assert!(read("told.txt").contains("samples may be lost"), "{}", read("told.txt"));
    assert!(read("verify.txt").ends_with(": whole\n"), "{}", read("verify.txt"));
    let run = bench.only_run();
    assert_eq!(run.record.outcome, Outcome::Finished);
    assert!(run.record.events.iter().any(|event| event.contains("samples may be lost")), "{:?}", run.record.events);
    assert_ledger_claims_what_is_there(&run);
    // On a machine so slow that samples were written before, there is something to claim.
    assert_eq!(run.has_table("host"), !read("early.txt").is_empty(), "{}", read("early.txt"));
}

#[test]
fn two_recorders_into_one_environment_leave_the_first_unharmed() {
    let bench = Bench::new();
    let first = start(&bench, &[], "echo $$ > pid; sleep 2");
    pid_in(&bench, "pid");
    let second = bench.shice(&["record", "--env", "e", "--workload", "v", "--repeats", "1", "--", "true"]);
    tells_in_one_line(&second, 125, "another shice is recording into");
    assert!(first.wait_with_output().unwrap().status.success());
    assert_eq!(bench.only_run().record.outcome, Outcome::Finished);
    assert_whole(&bench);
}

#[test]
fn two_recorders_into_two_environments_go_side_by_side() {
    let bench = Bench::new();
    let first = start(&bench, &[], "echo $$ > pid; sleep 1.5");
    pid_in(&bench, "pid");
    let second = bench.shice(&["record", "--env", "f", "--workload", "w", "--repeats", "1", "--", "sleep", "0.5"]);
    assert!(second.status.success(), "{}", text(&second.stderr));
    assert!(first.wait_with_output().unwrap().status.success());
    let environments = bench.trace().environments;
    assert_eq!(environments.len(), 2);
    for environment in &environments {
        assert_eq!(environment.runs[0].record.outcome, Outcome::Finished);
        // Neither takes the other's processes for its own.
        let names = environment.runs[0].scan::<Process>().unwrap().unwrap().collect().unwrap();
        assert!(names.height() <= 3, "{} rows of processes", names.height());
    }
    assert_whole(&bench);
}

#[test]
fn an_output_folder_that_cannot_be_written_is_named_in_one_line() {
    let bench = Bench::new();
    fs::write(bench.path("traces"), "a file").unwrap();
    // Nobody, root included, makes folders in /proc.
    for out in ["traces", "/proc/traces"] {
        let output = bench.shice(&["record", "--env", "e", "--out", out, "--workload", "w", "--", "true"]);
        tells_in_one_line(&output, 125, &format!("cannot create the folder {out}/environment=e"));
    }
    let output = bench.shice(&["list"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("traces is no folder"), "{}", text(&output.stderr));
}

#[test]
fn children_that_outlive_the_run_are_left_where_that_is_asked_for_and_are_not_the_next_runs() {
    let bench = Bench::new();
    let burn = "(trap '' TERM; while :; do :; done) > /dev/null 2>&1 & echo $! >> left.pid; sleep 0.4";
    let arguments = ["record", "--env", "e", "--workload", "w", "--repeats", "1", "--leave-children"];
    let first: Vec<&str> = arguments.iter().copied().chain(["--", "sh", "-c", burn]).collect();
    let output = bench.shice(&first);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let left = pid_in(&bench, "left.pid");
    let alive = is_alive(left);
    kill(Pid::from_raw(left), Signal::SIGKILL).unwrap();
    assert!(alive, "it was ended all the same");
    let record = bench.only_run().record;
    assert!(record.left_children && record.survivors == ["sh"], "{:?}", record.survivors);
    bench.shice(&["render"]);
    for (language, words) in [("en", "left running"), ("zh", "保留")] {
        let report = fs::read_to_string(bench.path(&format!("site/e/{language}.md"))).unwrap();
        assert!(report.contains(words), "{report}");
    }
}

#[test]
fn what_is_left_of_one_run_and_ends_in_the_next_costs_the_next_nothing() {
    let bench = Bench::new();
    // The first run leaves a loop of a second and more behind, which ends by itself while the second run sleeps.
    let script = "if mkdir first 2>/dev/null; then \
                  python3 -c 'import time\nwhile time.process_time() < 1.5: pass' > /dev/null 2>&1 & fi; \
                  [ -e second ] && sleep 4; touch second; sleep 0.2";
    let arguments =
        ["record", "--env", "e", "--workload", "w", "--repeats", "2", "--leave-children", "--", "sh", "-c", script];
    let output = bench.shice(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let trace = bench.trace();
    let second = &trace.environments[0].runs[1].record;
    assert!(second.duration_ns.unwrap() > 4_000_000_000);
    assert!(second.cpu.best_ns().unwrap() < 500_000_000, "{:?}", second.cpu);
}

#[test]
fn a_wall_clock_that_is_set_in_mid_run_moves_no_sample_and_is_told() {
    let bench = Bench::new();
    let (library, offset) = (bench.path("clock.so"), bench.path("offset"));
    compile_library("clock/clock.c", &["-ldl"], &library);
    let script = "sleep 0.5; echo -7200 > offset.new; mv offset.new offset; sleep 0.5";
    let mut command =
        bench.command(&["record", "--env", "e", "--workload", "w", "--repeats", "1", "--", "sh", "-c", script]);
    let output = command.env("LD_PRELOAD", &library).env("SHICE_TEST_CLOCK", &offset).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run = bench.only_run();
    let expected = "the wall clock was changed by -7200.0 s during the run; times of samples are not affected";
    assert!(run.record.events.iter().any(|event| event == expected), "{:?}", run.record.events);
    let times = column::<Host>(&run, "t_ns");
    let last_s = times.last().unwrap() / 1e9;
    assert!(times.is_sorted() && (0.9..HANGS.as_secs_f64()).contains(&last_s), "{times:?}");
    let duration_s = run.record.duration_ns.unwrap() as f64 / 1e9;
    assert!((1.0..HANGS.as_secs_f64()).contains(&duration_s), "{duration_s} s");
    assert_whole(&bench);
    assert!(bench.shice(&["render"]).status.success());
}

#[test]
fn the_recorders_own_cost_is_what_the_kernel_says_of_it() {
    let bench = Bench::new();
    let recorder = start(&bench, &["--interval", "10ms"], "echo $$ > pid; sleep 4");
    pid_in(&bench, "pid");
    let pid = recorder.id();
    // User and system time in ticks of 10 ms, by proc(5), while it lives.
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<f64> = stat.rsplit_once(')')?.1.split(' ').skip(12).flat_map(str::parse).collect();
        Some(fields[0] + fields[1])
    };
    let peak = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:").map(str::to_owned))?;
        line.split_ascii_whitespace().next()?.parse::<f64>().ok()
    };
    let first = ticks().unwrap();
    let (begun, mut last, mut peak_kib) = (Instant::now(), first, 0.0_f64);
    while begun.elapsed() < Duration::from_millis(3400) {
        last = ticks().unwrap_or(last);
        peak_kib = peak().map_or(peak_kib, |peak| peak.max(peak_kib));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(recorder.wait_with_output().unwrap().status.success());
    let run = bench.only_run();
    let cost = run.record.recorder;
    let (told, seen) = (cost.cpu_ns.unwrap() as f64 / 1e9, (last - first) / 100.0);
    // What was seen lacks the first moments and the last half second.
    assert!(told >= seen - 0.02 && told < seen * 1.6 + 0.1, "{told} s told, {seen} s seen");
    let told_kib = cost.memory_peak_bytes.unwrap() as f64 / 1024.0;
    assert!(told_kib >= peak_kib * 0.98 && told_kib < peak_kib * 1.5, "{told_kib} KiB told, {peak_kib} KiB seen");
    // Every tick that was due is either met or missed.
    let due = run.record.duration_ns.unwrap() as u64 / 10_000_000;
    let counted = cost.ticks.unwrap() + cost.missed_ticks.unwrap();
    assert!(counted.abs_diff(due) <= 2, "{counted} of {due} ticks");
    let bytes: u64 = bench
        .files("traces")
        .iter()
        .filter(|path| path.display().to_string().contains("node=0"))
        .filter(|path| path.extension().is_some_and(|end| end == "parquet"))
        .map(|path| path.metadata().unwrap().len())
        .sum();
    assert_eq!(run.record.files.values().map(|sum| sum.bytes).sum::<u64>(), bytes);
    assert!(cost.journal_bytes.unwrap() > bytes, "a journal of {:?} bytes became {bytes}", cost.journal_bytes);
}

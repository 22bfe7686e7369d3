//! `shice record` on process trees: many processes, few descriptors, names that change, and strangers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Output, Stdio};

use common::{Bench, column, is_alive, python, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use polars::prelude::{DataType, col, lit};
use shice::aggregate::metric::Metric;
use shice::trace::Run;
use shice::trace::run::{Coverage, CoverageState};
use shice::trace::tables::{Process, ProcessSample};

const MIB: f64 = 1_048_576.0;

/// Records a script every 10 ms (or as told), after `first` was done in the shell that becomes the recorder.
fn record_after(bench: &Bench, first: &str, interval: &str, script: &str) -> Output {
    let output = Command::new("sh")
        .args(["-c", &format!("{first}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_shice"), "record", "--env", "e"])
        .args(["--workload", "w", "--repeats", "1", "--interval", interval, "--", "sh", "-c", script])
        .current_dir(bench.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

fn coverage(run: &Run, metric: &str) -> Coverage {
    run.record.coverage.iter().find(|entry| entry.metric == metric).unwrap().clone()
}

/// Number and name of each row of the process table.
fn names(run: &Run) -> Vec<(i64, String)> {
    let frame = run.scan::<Process>().unwrap().unwrap();
    let frame = frame.select([col("process").cast(DataType::Int64), col("name")]).collect().unwrap();
    let (numbers, names) = (frame.column("process").unwrap().i64().unwrap(), frame.column("name").unwrap());
    numbers.into_no_null_iter().zip(names.str().unwrap().iter().flatten().map(str::to_owned)).collect()
}

#[test]
fn many_processes_one_after_the_other_use_up_no_descriptors() {
    let bench = Bench::new();
    let burn = "import time\nblock = bytearray(b'x') * (150 << 20)\nwhile time.process_time() < 0.5: pass";
    fs::write(bench.path("burn.py"), burn).unwrap();
    let script = "n=0; while [ $n -lt 300 ]; do n=$((n+1)); sleep 0.01; done; python3 burn.py";
    record_after(&bench, "ulimit -n 64", "10ms", script);
    let run = bench.only_run();
    let seen = column::<Process>(&run, "process").into_iter().map(|process| process as i64).collect::<BTreeSet<_>>();
    assert!(seen.len() > 200, "{} processes", seen.len());
    let peak = column::<ProcessSample>(&run, "rss_peak_bytes").into_iter().fold(0.0, f64::max) / MIB;
    assert!((150.0..190.0).contains(&peak), "{peak} MiB");
    // What the short ones used after their last sample went unseen, so the kernel's account is the greater.
    let cpu = run.record.cpu;
    let rusage_s = (cpu.rusage_user_ns.unwrap() + cpu.rusage_system_ns.unwrap()) as f64 / 1e9;
    let clocks_s = cpu.clocks_ns.unwrap() as f64 / 1e9;
    assert!(clocks_s > 0.5 && clocks_s <= rusage_s + 0.02, "{clocks_s} against {rusage_s}");
    for metric in ["process", "process_sample.cpu_ns", "process_sample.memory"] {
        assert_eq!(coverage(&run, metric).state, CoverageState::Measured, "{:?}", coverage(&run, metric));
    }
}

#[test]
fn a_tree_of_many_processes_is_measured_whole_with_few_files_open() {
    let bench = Bench::new();
    let script = "n=0; while [ $n -lt 100 ]; do n=$((n+1)); sleep 1.2 & done; sleep 0.6; \
                  ls /proc/$PPID/fd | wc -l > descriptors.txt; wait";
    record_after(&bench, "ulimit -n 128", "100ms", script);
    let run = bench.only_run();
    let descriptors: u64 = fs::read_to_string(bench.path("descriptors.txt")).unwrap().trim().parse().unwrap();
    assert!(descriptors < 110, "{descriptors} descriptors");
    // Later some have ended, and others get rows of their own in their places.
    let times = column::<ProcessSample>(&run, "t_ns").into_iter();
    let rows = times.zip(column::<ProcessSample>(&run, "process")).filter(|(t_ns, _)| *t_ns < 1e9);
    let own: BTreeSet<i64> = rows.map(|(_, process)| process as i64).collect();
    assert_eq!(own.len(), 65, "64 and the sum of the others");
    let summed_up = column::<ProcessSample>(&run, "processes").into_iter().fold(0.0, f64::max);
    assert!(summed_up >= 37.0, "{summed_up} processes summed up");
    // 100 sleepers and their shell.
    let environment = bench.trace().environments.remove(0);
    let summary = shice::aggregate::summarise(&environment).unwrap();
    let processes = summary.cases[0].runs[0].values[&shice::aggregate::metric::Metric::Processes];
    assert!(processes >= 101.0, "{processes} processes");
    assert_eq!(coverage(&run, "process_sample.memory").state, CoverageState::Measured);
    assert_eq!(coverage(&run, "process_sample.io").state, CoverageState::Measured);
}

#[test]
fn a_process_that_becomes_another_program_has_both_names() {
    let bench = Bench::new();
    record_after(&bench, ":", "10ms", "sleep 0.2; exec sleep 0.2");
    let names = names(&bench.only_run());
    let of_root: Vec<&str> = names.iter().filter(|(process, _)| *process == 0).map(|(_, name)| name.as_str()).collect();
    assert!(of_root.ends_with(&["sh", "sleep"]), "{names:?}");
}

#[test]
fn a_name_that_ends_within_a_character_hides_no_process() {
    let bench = Bench::new();
    record_after(&bench, ":", "10ms", "cp \"$(command -v sleep)\" ./a训练训练训练; ./a训练训练训练 0.3");
    let run = bench.only_run();
    let names = names(&run);
    assert!(names.iter().any(|(_, name)| name.starts_with("a训练训练")), "{names:?}");
    assert_eq!(coverage(&run, "process_sample.memory").state, CoverageState::Measured);
}

#[test]
fn a_run_shorter_than_an_interval_tells_what_was_read_and_what_was_not() {
    let bench = Bench::new();
    record_after(&bench, ":", "5s", "exit 0");
    let run = bench.only_run();
    assert_eq!(coverage(&run, "process_sample.cpu_ns").state, CoverageState::Measured);
    for metric in ["process_sample.memory", "process_sample.io"] {
        let entry = coverage(&run, metric);
        assert_eq!(entry.state, CoverageState::Lost);
        assert_eq!(entry.reason, "the run ended before the first reading");
    }
}

#[test]
fn a_child_that_the_recorder_had_before_is_no_part_of_the_run() {
    let bench = Bench::new();
    let first = "sleep 30 >early.txt 2>&1 & echo $! > early.pid; sleep 0.05";
    record_after(&bench, first, "10ms", "sleep 0.2");
    let run = bench.only_run();
    let pid: i32 = fs::read_to_string(bench.path("early.pid")).unwrap().trim().parse().unwrap();
    assert!(is_alive(pid), "it is not the recorder's to end");
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    assert!(run.record.survivors.is_empty());
    assert!(!column::<Process>(&run, "pid").contains(&f64::from(pid)));
}

#[test]
fn idle_children_that_live_for_less_than_a_second_are_counted_while_they_live() {
    let bench = Bench::new();
    bench.record("for n in 1 2 3 4 5 6 7 8; do sleep 0.8 & done; wait");
    let environment = bench.trace().environments.remove(0);
    let summary = shice::aggregate::summarise(&environment).unwrap();
    let processes = summary.cases[0].runs[0].values[&shice::aggregate::metric::Metric::Processes];
    // Eight children and their shell.
    assert_eq!(processes, 9.0);
}

#[test]
fn a_run_of_a_millisecond_does_not_pay_for_the_recorders_own_start() {
    let bench = Bench::new();
    bench.record("exit 0");
    let record = bench.only_run().record;
    let (cpu, duration) = (record.cpu.best_ns().unwrap(), record.duration_ns.unwrap());
    // One process of one thread, and a millisecond for what the kernel does after its end.
    assert!(cpu <= duration + 1_000_000, "{cpu} ns of CPU in {duration} ns");
}

/// The figures of the only run.
fn values(bench: &Bench) -> BTreeMap<Metric, f64> {
    let environment = bench.trace().environments.remove(0);
    shice::aggregate::summarise(&environment).unwrap().cases.remove(0).runs.remove(0).values
}

#[test]
fn threads_are_no_processes_and_share_the_memory_of_theirs() {
    let bench = Bench::new();
    let script = "import threading, time\nblock = bytearray(b'x') * (500 << 20)\n\
                  for n in range(50): threading.Thread(target=time.sleep, args=(1.2,)).start()";
    fs::write(bench.path("threads.py"), script).unwrap();
    bench.record(&format!("exec {} threads.py", python()));
    let values = values(&bench);
    assert_eq!(values[&Metric::Processes], 1.0);
    assert_eq!(values[&Metric::Threads], 51.0);
    let peak = values[&Metric::MemorySumOfPeaks] / MIB;
    assert!((500.0..540.0).contains(&peak), "{peak} MiB");
}

#[test]
fn cpu_time_of_a_child_that_ends_stays_the_childs_and_no_window_has_more_than_there_are_cores() {
    let bench = Bench::new();
    let burn = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    let script = format!("for n in $(seq 50); do sh -c '{burn}' & done; wait; times > times.txt");
    record_after(&bench, ":", "50ms", &script);
    let run = bench.only_run();
    // The second line of the shell's `times` is its children's: minutes and seconds in user mode and in the kernel.
    let times = fs::read_to_string(bench.path("times.txt")).unwrap();
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    let children: f64 = times.lines().nth(1).unwrap().split_ascii_whitespace().map(seconds).sum();
    let samples = run.scan::<ProcessSample>().unwrap().unwrap().filter(col("process").eq(lit(0)));
    let of_root = samples.select([col("cpu_ns").max()]).collect().unwrap();
    let of_root = of_root.column("cpu_ns").unwrap().i64().unwrap().get(0).unwrap() as f64 / 1e9;
    assert!(of_root < children / 2.0, "the parent has {of_root} s, its children {children} s");
    let values = values(&bench);
    assert!(values[&Metric::CpuTime] > children * 0.98, "{} of {children} s", values[&Metric::CpuTime]);
    let greatest = values.get(&Metric::CpuUsageMax).copied().unwrap_or_default();
    assert!(greatest <= 1.1, "a window has {greatest} of all cores");
}

#[test]
fn what_a_child_wrote_is_counted_once_and_not_lost_with_it() {
    let bench = Bench::new();
    let write = "import os\nfile = open('block', 'wb')\nfile.write(bytes(100 << 20))\nfile.flush()\nos.fsync(file.fileno())\n\
                 own = [line for line in open('/proc/self/io') if line.startswith('write_bytes')][0].split()[1]\n\
                 open('own.txt', 'w').write(own)";
    fs::write(bench.path("write.py"), write).unwrap();
    bench.record("python3 write.py; true");
    // The reference is the process's own view. A file system in memory writes nothing to storage.
    let own: f64 = fs::read_to_string(bench.path("own.txt")).unwrap().parse().unwrap();
    let written = values(&bench)[&Metric::DiskWritten];
    assert!(written >= own && written < own + 20.0 * MIB, "{written} bytes against {own}");
}

#[test]
fn a_storm_of_short_processes_leaves_no_flood_of_words_or_rows() {
    let bench = Bench::new();
    let script = "n=0; while [ $n -lt 600 ]; do n=$((n+1)); /bin/true; (/bin/true &); done";
    let output = record_after(&bench, ":", "10ms", script);
    let run = bench.only_run();
    assert!(text(&output.stderr).lines().count() < 8, "{}", text(&output.stderr));
    assert!(run.record.events.is_empty(), "{:?}", run.record.events);
    let processes: BTreeSet<i64> = column::<Process>(&run, "process").iter().map(|process| *process as i64).collect();
    assert!(processes.len() <= 1025, "{} processes", processes.len());
    for metric in ["process", "process_sample.cpu_ns"] {
        assert_eq!(coverage(&run, metric).state, CoverageState::Measured, "{:?}", coverage(&run, metric));
    }
}

/// Forks 80 children that hold 1 MiB each; after 1.3 s some that came late, and so are summed up, grow to 24 MiB. Each tells
/// its own peaks of resident and virtual memory, which the kernel counts, at its end.
const MANY: &str = "\
import os, time
begun = time.monotonic()
def peaks():
    lines = [line.split() for line in open('/proc/self/status')]
    return ' '.join(words[1] for words in sorted(lines) if words[0] in ('VmHWM:', 'VmPeak:'))
def until(second):
    time.sleep(max(0, begun + second - time.monotonic()))
for n in range(80):
    if n == 66:
        time.sleep(0.5)
    if os.fork() == 0:
        block = bytearray(b'x') * (1 << 20)
        open(f'peak-{n}.txt', 'w').write(peaks())
        until(1.3)
        if n >= 74:
            more = bytearray(b'x') * (23 << 20)
        until(5.6 if n % 2 else 5.0)
        open(f'peak-{n}.txt', 'w').write(peaks())
        os._exit(0)
for n in range(80):
    os.wait()
open('peak-root.txt', 'w').write(peaks())
";

#[test]
fn of_more_processes_than_have_rows_each_peak_counts_once_also_of_those_that_get_rows_later() {
    let bench = Bench::new();
    fs::write(bench.path("many.py"), MANY).unwrap();
    bench.record(&format!("exec {} many.py", python()));
    let run = bench.only_run();
    let promoted = column::<Process>(&run, "own_rows_since_ns");
    assert!(promoted.len() >= 6, "only {} processes have left the sum", promoted.len());
    let told = fs::read_dir(bench.path("")).unwrap().map(|entry| entry.unwrap().path());
    let told = told.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("peak-"));
    let mib = |kib: &str| kib.parse::<f64>().unwrap() / 1024.0;
    let words: Vec<String> = told.map(|path| fs::read_to_string(path).unwrap()).collect();
    let peaks: Vec<(f64, f64)> =
        words.iter().map(|text| text.split_once(' ').unwrap()).map(|(rss, all)| (mib(rss), mib(all))).collect();
    assert_eq!(peaks.len(), 81);
    let right = peaks.iter().map(|(rss, _)| rss).sum::<f64>();
    let values = values(&bench);
    let found = values[&Metric::MemorySumOfPeaks] / MIB;
    // By hand: six that were counted twice would be 6 × 24 MiB more.
    assert!((found - right).abs() < 0.03 * right, "{found} MiB, should be {right} MiB");
    assert!(values[&Metric::Processes] == 81.0, "{} processes", values[&Metric::Processes]);
    let (found, right) = (values[&Metric::VirtualPeak] / MIB, peaks.iter().map(|(_, all)| *all).fold(0.0, f64::max));
    assert!(found <= 1.01 * right, "{found} MiB of virtual memory are more than any process had ({right} MiB)");
    let output = bench.shice(&["verify"]);
    assert!(output.status.success(), "{}", text(&output.stdout));
}

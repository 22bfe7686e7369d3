//! The run's control group and kills for lack of memory, on the real kernel where this user may make groups.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test may end so")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{Bench, column, own_groups, text};
use shice::record::cgroup::Cgroups;
use shice::trace::Run;
use shice::trace::run::{CoverageState, GroupScope, Outcome};
use shice::trace::tables::Cgroup;

const MIB: f64 = (1 << 20) as f64;

/// Whether the run got a group of its own for what `scope` is of; where it did not, the ledger must say why.
fn has_own(run: &Run, scope: Option<GroupScope>, metric: &str) -> bool {
    if scope == Some(GroupScope::Own) {
        return true;
    }
    let entry = run.record.coverage.iter().find(|entry| entry.metric == metric).unwrap();
    assert!(entry.reason.contains("group"), "{entry:?}");
    eprintln!("not tested here: {}", entry.reason);
    false
}

#[test]
fn cpu_time_of_processes_that_nobody_waits_for_is_in_the_runs_own_group() {
    let bench = Bench::new();
    // Whoever ignores SIGCHLD waits for nobody, so rusage knows nothing of the children; no sample falls into their
    // lives either. They tell by their own clocks what they used.
    let script = "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nfor n in range(8):\n  pid = os.fork()\n  \
                  if pid == 0:\n    while time.process_time() < 0.1: pass\n    open(f'{n}.txt', 'w').write(str(time.process_time())); os._exit(0)\n\
                  try: os.wait()\nexcept ChildProcessError: pass";
    fs::write(bench.path("burn.py"), script).unwrap();
    let arguments = ["record", "--env", "e", "--workload", "w", "--repeats", "1", "--interval", "30s", "--"];
    let recorder = bench.command(&[&arguments[..], &["python3", "burn.py"]].concat()).stderr(Stdio::null()).spawn();
    let (id, output) = recorder.map(|child| (child.id(), child.wait_with_output().unwrap())).unwrap();
    assert!(output.status.success());
    assert_eq!(own_groups(id), Vec::<PathBuf>::new(), "groups were left behind");
    let children: f64 =
        (0..8).map(|n| fs::read_to_string(bench.path(&format!("{n}.txt"))).unwrap().parse::<f64>().unwrap()).sum();
    let run = bench.only_run();
    let cpu = run.record.cpu;
    assert_eq!(cpu.cgroup_ns.is_some(), run.record.cgroup.cpu == Some(GroupScope::Own));
    if has_own(&run, run.record.cgroup.cpu, "cgroup.cpu") {
        let group = cpu.cgroup_ns.unwrap() as f64 / 1e9;
        // What Python's start and end take comes on top.
        assert!(group >= children && group < children + 1.5, "{group} against {children}");
        assert_eq!(cpu.best_ns(), cpu.cgroup_ns);
    }
}

#[test]
fn the_memory_peak_of_the_runs_own_group_is_that_of_its_processes_together() {
    let bench = Bench::new();
    let script = "import os, time\nfor n in range(2):\n  if os.fork() == 0:\n    block = bytearray(b'x') * (60 << 20); time.sleep(1); os._exit(0)\n\
                  for n in range(2): os.wait()";
    fs::write(bench.path("hold.py"), script).unwrap();
    bench.record("exec python3 hold.py");
    let run = bench.only_run();
    if has_own(&run, run.record.cgroup.memory, "cgroup.memory") {
        let peak = column::<Cgroup>(&run, "memory_peak_bytes").into_iter().fold(0.0, f64::max) / MIB;
        // Two times 60 MiB and what Python needs; some of its files may be in the page cache already.
        assert!((115.0..180.0).contains(&peak), "{peak} MiB");
        let environment = bench.trace().environments.remove(0);
        let summary = shice::aggregate::summarise(&environment).unwrap();
        let metric = shice::aggregate::metric::Metric::MemoryGroupPeak;
        assert_eq!(summary.cases[0].runs[0].values[&metric] / MIB, peak);
    }
}

#[test]
fn the_ledger_speaks_of_every_resource_and_names_no_path() {
    let bench = Bench::new();
    bench.record("true");
    let run = bench.only_run();
    for metric in ["cgroup.cpu", "cgroup.throttling", "cgroup.memory", "cgroup.threads", "cgroup.io"] {
        let entry = run.record.coverage.iter().find(|entry| entry.metric == metric).unwrap();
        assert!(!entry.source.contains('/'), "{entry:?}");
        assert!(entry.state == CoverageState::Measured || !entry.reason.is_empty(), "{entry:?}");
    }
}

/// A memory group with a limit, below that of this process, for a recorder to be started in.
struct Limited(PathBuf);

impl Limited {
    /// `None` where this user may make none.
    fn new(bytes: u64) -> Option<Self> {
        let dirs = Cgroups::of_this_process(Path::new("/proc")).memory_dirs();
        for parent in dirs {
            let dir = parent.join(format!("shice-test-{}", std::process::id()));
            if fs::create_dir(&dir).is_err() {
                continue;
            }
            let group = Self(dir);
            let limits = [
                ("memory.limit_in_bytes", bytes),
                ("memory.max", bytes),
                ("memory.memsw.limit_in_bytes", bytes),
                ("memory.swap.max", 0),
            ];
            let set = limits.map(|(file, bytes)| {
                let path = group.0.join(file);
                path.exists() && fs::write(path, bytes.to_string()).is_ok()
            });
            if set[0] || set[1] {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// Records a shell script in a group with 96 MiB of memory.
fn record_limited(bench: &Bench, group: &Limited, script: &str) -> std::process::Output {
    let start = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0.display());
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &start, "sh", env!("CARGO_BIN_EXE_shice")]).current_dir(bench.path(""));
    command.args(["record", "--env", "e", "--workload", "w", "--repeats", "1", "--", "sh", "-c", script]);
    command.stdin(Stdio::null()).output().unwrap()
}

const HUNGRY: &str = "python3 -c \"block = bytearray(b'x') * (400 << 20)\"";

#[test]
fn a_root_that_the_kernel_kills_for_lack_of_memory_is_told_apart() {
    let bench = Bench::new();
    let Some(group) = Limited::new(96 << 20) else { return eprintln!("not tested here: no memory group can be made") };
    let output = record_limited(&bench, &group, &format!("exec {HUNGRY}"));
    let run = bench.only_run();
    assert_eq!(
        run.record.outcome,
        Outcome::OutOfMemory { signal: Some(9), exit_code: None },
        "{}",
        text(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(137));
    assert!(text(&output.stderr).contains("killed for lack of memory"), "{}", text(&output.stderr));
    assert!(run.record.events.iter().any(|event| event.contains("for lack of memory")), "{:?}", run.record.events);
    let listed = bench.shice(&["list", "traces"]);
    assert!(text(&listed.stdout).contains("out_of_memory"), "{}", text(&listed.stdout));
}

#[test]
fn a_child_that_the_kernel_kills_for_lack_of_memory_is_an_event_and_no_outcome() {
    let bench = Bench::new();
    let Some(group) = Limited::new(96 << 20) else { return eprintln!("not tested here: no memory group can be made") };
    record_limited(&bench, &group, &format!("{HUNGRY}; exit 3"));
    let run = bench.only_run();
    assert_eq!(run.record.outcome, Outcome::Failed { exit_code: 3 });
    assert!(run.record.events.iter().any(|event| event.contains("for lack of memory")), "{:?}", run.record.events);
}

#[test]
fn another_sigkill_is_no_lack_of_memory() {
    let bench = Bench::new();
    bench.record("kill -KILL $$");
    let record = bench.only_run().record;
    if record.cgroup.memory == Some(GroupScope::Own) {
        assert_eq!(record.outcome, Outcome::Killed { signal: 9 });
    }
}

use std::fs;

use tempfile::TempDir;

use super::*;
use crate::trace::journal;
use crate::trace::tables::Row;

const SECOND: i64 = 1_000_000_000;
const MIB: i64 = 1 << 20;
const FLAG_KERNEL: i64 = 0x0020_0000;

/// A folder that looks like /proc, of a machine with 1000 MiB of memory.
struct Machine {
    folder: TempDir,
    probe: ForeignProbe,
    journal: Journal,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("proc")).unwrap();
        let journal = Journal::create(&folder.path().join("journal")).unwrap();
        let units = KernelUnits { tick_ns: 10_000_000, page_bytes: 4096 };
        let mask = Mask::of("/home/alice", "alice", "lab-gpu-7");
        let probe = ForeignProbe::new(&folder.path().join("proc"), RunClock::start(), mask, 1000 * MIB, units);
        Self { folder, probe, journal }
    }

    /// A process that was there before the run; CPU time in seconds, memory in MiB.
    fn put(&self, pid: i32, name: &str, parent: i32, flags: i64, cpu_s: i64, rss_mib: i64) {
        let dir = self.folder.path().join("proc").join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let (ticks, pages) = (cpu_s * 100, rss_mib * 256);
        let stat = format!("{pid} ({name}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {ticks} 0 0 0 20 0 1 0 1 0 {pages} 0");
        fs::write(dir.join("stat"), stat).unwrap();
    }

    fn look(&mut self, t_s: i64, of_run: &[i32]) {
        let tree = Mutex::new(TreeNow { pids: of_run.to_vec(), ..TreeNow::default() });
        self.probe.look(&tree, t_s * SECOND, &self.journal);
    }

    /// Time in seconds, number, name, CPU time in seconds, and number of processes of each row.
    fn told(&self) -> Vec<(i64, i64, String, Option<i64>, i64)> {
        self.journal.flush();
        let mut rows = Vec::new();
        journal::read(&self.folder.path().join("journal"), |row| {
            let Row::Foreign(row) = row else { return Ok(()) };
            let cpu_s = row.cpu_ns.map(|ns| ns / SECOND);
            rows.push((row.t_ns / SECOND, row.foreign, row.name.unwrap_or_default(), cpu_s, row.processes.unwrap()));
            Ok(())
        })
        .unwrap();
        rows
    }
}

#[test]
fn programs_are_told_of_once_they_use_more_than_a_hundredth_of_a_core() {
    let mut machine = Machine::new();
    machine.put(10, "busy", 1, 0, 100, 1);
    machine.put(11, "quiet", 1, 0, 50, 1);
    machine.look(0, &[]);
    machine.put(10, "busy", 1, 0, 103, 1);
    machine.look(100, &[]);
    machine.look(200, &[]);
    // By hand: 3 s in 100 s are 3 % of a core. From then on it is told of, whatever it does.
    let busy = |t| (t, 2, "busy".to_owned(), Some(3), 1);
    let all = |t| (t, 0, String::new(), None, 2);
    assert_eq!(machine.told(), [all(0), all(100), busy(100), all(200), busy(200)]);
}

#[test]
fn programs_that_hold_memory_are_told_of_at_once_and_under_masked_names() {
    let mut machine = Machine::new();
    machine.put(10, "alice-notes", 1, 0, 100, 11);
    machine.put(11, "small", 1, 0, 100, 9);
    machine.look(0, &[]);
    assert_eq!(machine.told(), [(0, 0, String::new(), None, 2), (0, 2, "<user>-notes".to_owned(), Some(0), 1)]);
}

#[test]
fn the_run_and_the_recorder_are_not_foreign_whoever_their_parents_are() {
    let mut machine = Machine::new();
    let recorder = machine.probe.recorder_pid;
    machine.put(recorder, "shice", 1, 0, 0, 500);
    machine.put(9_000_001, "root", recorder, 0, 0, 500);
    // Started since the last tick: not in the tree yet.
    machine.put(9_000_002, "child", 9_000_001, 0, 0, 500);
    // Of a container that was started from outside.
    machine.put(9_000_003, "contained", 1, 0, 0, 500);
    machine.put(9_000_004, "its child", 9_000_003, 0, 0, 500);
    machine.look(0, &[9_000_001, 9_000_003]);
    assert_eq!(machine.told(), [(0, 0, String::new(), None, 0)]);
}

#[test]
fn the_threads_of_the_kernel_are_one_program_whose_time_never_falls() {
    let mut machine = Machine::new();
    machine.put(2, "kthreadd", 0, FLAG_KERNEL, 7, 0);
    machine.put(30, "kworker/0:1", 2, FLAG_KERNEL, 20, 0);
    machine.look(0, &[]);
    machine.put(30, "kworker/0:1", 2, FLAG_KERNEL, 25, 0);
    machine.look(10, &[]);
    fs::remove_dir_all(machine.folder.path().join("proc/30")).unwrap();
    machine.look(20, &[]);
    let kernel: Vec<_> = machine.told().into_iter().filter(|row| row.1 == KERNEL).collect();
    let row = |t, threads| (t, 1, "kernel".to_owned(), Some(5), threads);
    assert_eq!(kernel, [row(10, 2), row(20, 1)]);
    assert_eq!(machine.probe.coverage().reason, "");
}

#[test]
fn a_pid_that_was_given_to_another_process_is_another_program() {
    let mut machine = Machine::new();
    machine.put(10, "first", 1, 0, 100, 20);
    machine.look(0, &[]);
    let stat = fs::read_to_string(machine.folder.path().join("proc/10/stat")).unwrap();
    let second = stat.replace("first", "second").replace(" 0 1 0 1 0 ", " 0 1 0 2 0 ");
    fs::write(machine.folder.path().join("proc/10/stat"), second).unwrap();
    machine.look(5, &[]);
    let programs: Vec<_> = machine.told().into_iter().filter(|row| row.1 >= FIRST_PROGRAM).collect();
    assert_eq!(programs, [(0, 2, "first".to_owned(), Some(0), 1), (5, 3, "second".to_owned(), Some(0), 1)]);
}

#[test]
fn processes_that_cannot_be_seen_are_told_of_in_the_ledger() {
    let mut machine = Machine::new();
    machine.put(10, "mine", 1, 0, 1, 1);
    machine.look(0, &[]);
    assert!(machine.probe.coverage().reason.contains("PID namespace"));
    machine.probe.hidden = 3;
    assert!(machine.probe.coverage().reason.starts_with("3 processes of other users are hidden"));
    machine.probe.proc = "/no/such/proc".into();
    machine.look(5, &[]);
    assert_eq!(machine.probe.coverage().state, CoverageState::Lost);
}

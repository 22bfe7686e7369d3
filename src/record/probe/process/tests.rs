use std::fs;

use super::*;
use crate::trace::run::CoverageState;
use tempfile::TempDir;

/// Above the greatest pid of any kernel, so that no real process is met.
const ROOT: i32 = 5_000_000;

/// A folder that looks like /proc.
struct Proc(TempDir);

impl Proc {
    fn new() -> Self {
        let proc = Self(tempfile::tempdir().unwrap());
        proc.put(ROOT, Pid::this().as_raw(), 100);
        proc
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("proc")
    }

    fn file(&self, pid: i32, name: &str) -> PathBuf {
        self.folder().join(pid.to_string()).join(name)
    }

    fn put(&self, pid: i32, parent: i32, start_ticks: i64) {
        fs::create_dir_all(self.file(pid, "")).unwrap();
        let zeros = "0 ".repeat(17);
        fs::write(self.file(pid, "stat"), format!("{pid} (worker) S {parent} {zeros}{start_ticks} 0")).unwrap();
        fs::write(self.file(pid, "status"), "Name:\tworker\nVmRSS:\t4 kB\nThreads:\t1\n").unwrap();
        fs::write(self.file(pid, "io"), "read_bytes: 1\nwrite_bytes: 2\n").unwrap();
    }

    fn probe(&self) -> (ProcessProbe, Journal) {
        let journal = Journal::create(&self.0.path().join("journal")).unwrap();
        let units = KernelUnits { tick_ns: 10_000_000, page_bytes: 4096 };
        (ProcessProbe::new(&self.folder(), Pid::from_raw(ROOT), &RunClock::start(), units), journal)
    }
}

fn pids(probe: &mut ProcessProbe, journal: &Journal) -> Vec<i32> {
    probe.sample(1, journal).pids
}

fn told(probe: &ProcessProbe, metric: &str) -> (CoverageState, String) {
    let entry = probe.coverage().into_iter().find(|entry| entry.metric == metric).unwrap();
    (entry.state, entry.reason)
}

#[test]
fn a_look_that_fails_takes_nobody_for_dead_and_is_counted() {
    let proc = Proc::new();
    proc.put(ROOT + 1, ROOT, 101);
    let (mut probe, journal) = proc.probe();
    assert_eq!(pids(&mut probe, &journal), [ROOT, ROOT + 1]);
    assert_eq!(told(&probe, "process"), (CoverageState::Measured, String::new()));
    let hidden = proc.0.path().join("hidden");
    fs::rename(proc.folder(), &hidden).unwrap();
    probe.find_members(2, &journal);
    fs::rename(&hidden, proc.folder()).unwrap();
    assert_eq!(pids(&mut probe, &journal), [ROOT, ROOT + 1]);
    let (state, reason) = told(&probe, "process");
    assert_eq!(state, CoverageState::Lost);
    assert!(reason.starts_with("1 of 4 readings failed"), "{reason}");
}

#[test]
fn a_process_that_cannot_be_looked_at_is_not_dead_and_one_that_vanished_is_no_failure() {
    let proc = Proc::new();
    proc.put(ROOT + 1, ROOT, 101);
    proc.put(ROOT + 2, ROOT, 102);
    let (mut probe, journal) = proc.probe();
    probe.find_members(0, &journal);
    for name in ["status", "stat"] {
        fs::remove_file(proc.file(ROOT + 1, name)).unwrap();
        fs::create_dir(proc.file(ROOT + 1, name)).unwrap();
        fs::remove_file(proc.file(ROOT + 2, name)).unwrap();
    }
    assert_eq!(pids(&mut probe, &journal), [ROOT, ROOT + 1]);
    let (state, reason) = told(&probe, "process_sample.memory");
    assert_eq!(state, CoverageState::Lost);
    assert!(reason.starts_with("1 of 2 readings failed"), "{reason}");
    assert_eq!(told(&probe, "process_sample.io").0, CoverageState::Measured);
}

#[test]
fn another_process_under_the_same_pid_is_another_process() {
    let proc = Proc::new();
    proc.put(ROOT + 1, ROOT, 101);
    let (mut probe, journal) = proc.probe();
    // As if its files were opened anew at each reading.
    probe.kept_open = 0;
    assert_eq!(pids(&mut probe, &journal), [ROOT, ROOT + 1]);
    proc.put(ROOT + 1, ROOT, 999);
    assert_eq!(pids(&mut probe, &journal), [ROOT]);
    assert_eq!(pids(&mut probe, &journal), [ROOT, ROOT + 1]);
    assert_eq!(probe.alive[&(ROOT + 1)].process(), 2);
}

#[test]
fn a_process_older_than_the_root_is_a_stranger_whoever_its_parent_is() {
    let proc = Proc::new();
    proc.put(ROOT + 1, Pid::this().as_raw(), 99);
    proc.put(ROOT + 2, Pid::this().as_raw(), 100);
    let (mut probe, journal) = proc.probe();
    assert_eq!(pids(&mut probe, &journal), [ROOT, ROOT + 2]);
    probe.last_words(ROOT + 1, 2, &journal);
    assert_eq!(probe.next_process, 2);
}

#[test]
fn a_process_of_the_runs_group_belongs_to_it_whoever_its_parent_is() {
    let proc = Proc::new();
    proc.put(ROOT + 1, 1, 50);
    let (mut probe, journal) = proc.probe();
    assert_eq!(pids(&mut probe, &journal), [ROOT]);
    let group = proc.0.path().join("group");
    fs::create_dir(&group).unwrap();
    fs::write(group.join("cgroup.procs"), format!("{}\n", ROOT + 1)).unwrap();
    probe.follow_group(&group);
    assert_eq!(pids(&mut probe, &journal), [ROOT, ROOT + 1]);
}

#[test]
fn where_a_container_is_followed_its_processes_alone_are_the_runs() {
    let proc = Proc::new();
    proc.put(ROOT + 1, ROOT, 101);
    let (mut probe, journal) = proc.probe();
    probe.expect_container();
    assert!(pids(&mut probe, &journal).is_empty(), "it is not found yet");
    let group = proc.0.path().join("group");
    fs::create_dir(&group).unwrap();
    fs::write(group.join("cgroup.procs"), format!("{}\n", ROOT + 1)).unwrap();
    probe.follow_group(&group);
    assert_eq!(pids(&mut probe, &journal), [ROOT + 1]);
    let outside: Vec<i32> = probe.survivors(false).into_iter().map(|(pid, _)| pid.as_raw()).collect();
    assert_eq!((outside, probe.survivors(true).len()), (vec![ROOT], 2));
    journal.flush();
    let mut roles = Vec::new();
    crate::trace::journal::read(&proc.0.path().join("journal"), |row| {
        if let crate::trace::tables::Row::Process(process) = row {
            roles.push((process.process, process.role.unwrap()));
        }
        Ok(())
    })
    .unwrap();
    roles.sort();
    let expected = [(0, "client"), (1, "client"), (1, "container")].map(|(number, role)| (number, role.to_owned()));
    assert_eq!(roles, expected);
}

#[test]
fn of_a_large_tree_the_first_keep_their_files_open() {
    let proc = Proc::new();
    for n in 1..100 {
        proc.put(ROOT + n, ROOT, 101);
    }
    let (mut probe, journal) = proc.probe();
    probe.kept_open = 64;
    assert_eq!(pids(&mut probe, &journal).len(), 100);
    assert_eq!(probe.alive.values().filter(|member| member.keeps_files_open()).count(), 64);
}

#[test]
fn cpu_time_of_which_no_clock_was_read_is_absent() {
    let proc = Proc::new();
    let (mut probe, journal) = proc.probe();
    probe.sample(1, &journal);
    assert_eq!(probe.cpu_ns(), None);
    assert_ne!(told(&probe, "process_sample.cpu_ns").0, CoverageState::Measured);
}

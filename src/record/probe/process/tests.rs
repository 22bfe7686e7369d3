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
        fs::write(self.file(pid, "statm"), "10 1 0 0 0 0 0\n").unwrap();
        fs::write(self.file(pid, "status"), "Name:\tworker\nVmHWM:\t4 kB\nVmSwap:\t0 kB\n").unwrap();
        fs::write(self.file(pid, "io"), "read_bytes: 1\nwrite_bytes: 2\n").unwrap();
    }

    /// Another process under a pid is told by its start; its memory is in pages of 4 KiB.
    fn put_with(&self, pid: i32, parent: i32, start_ticks: i64, pages: i64, written: i64) {
        self.put(pid, parent, start_ticks);
        fs::write(self.file(pid, "statm"), format!("10 {pages} 0 0 0 0 0\n")).unwrap();
        fs::write(self.file(pid, "io"), format!("read_bytes: 0\nwrite_bytes: {written}\n")).unwrap();
    }

    fn end(&self, pid: i32) {
        fs::remove_dir_all(self.file(pid, "")).unwrap();
    }

    fn newest_pid(&self, pid: i32) {
        fs::write(self.folder().join("loadavg"), format!("0.00 0.00 0.00 1/1 {pid}\n")).unwrap();
    }

    /// All rows of processes' samples in the journal.
    fn rows(&self, journal: &Journal) -> Vec<ProcessSample> {
        let mut rows = Vec::new();
        journal.flush();
        let read = crate::trace::journal::read(&self.0.path().join("journal"), |row| {
            if let crate::trace::Row::ProcessSample(row) = row {
                rows.push(row);
            }
            Ok(())
        });
        read.unwrap();
        rows
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
    assert_eq!(pids(&mut probe, &journal), [ROOT + 1, ROOT]);
    assert_eq!(told(&probe, "process"), (CoverageState::Measured, String::new()));
    let hidden = proc.0.path().join("hidden");
    fs::rename(proc.folder(), &hidden).unwrap();
    probe.find_members(2, &journal);
    fs::rename(&hidden, proc.folder()).unwrap();
    assert_eq!(pids(&mut probe, &journal), [ROOT + 1, ROOT]);
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
    for name in ["statm", "stat"] {
        fs::remove_file(proc.file(ROOT + 1, name)).unwrap();
        fs::create_dir(proc.file(ROOT + 1, name)).unwrap();
        fs::remove_file(proc.file(ROOT + 2, name)).unwrap();
    }
    assert_eq!(pids(&mut probe, &journal), [ROOT + 1, ROOT]);
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
    assert_eq!(pids(&mut probe, &journal), [ROOT + 1, ROOT]);
    proc.put(ROOT + 1, ROOT, 999);
    assert_eq!(pids(&mut probe, &journal), [ROOT]);
    assert_eq!(pids(&mut probe, &journal), [ROOT + 1, ROOT]);
    assert_eq!(probe.alive[&(ROOT + 1)].process, Some(2));
}

#[test]
fn a_process_older_than_the_root_is_a_stranger_whoever_its_parent_is() {
    let proc = Proc::new();
    proc.put(ROOT + 1, Pid::this().as_raw(), 99);
    proc.put(ROOT + 2, Pid::this().as_raw(), 100);
    let (mut probe, journal) = proc.probe();
    assert_eq!(pids(&mut probe, &journal), [ROOT + 2, ROOT]);
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
    assert_eq!(pids(&mut probe, &journal), [ROOT + 1, ROOT]);
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
    probe.kept_open = 16;
    assert_eq!(pids(&mut probe, &journal).len(), 100);
    assert_eq!(probe.alive.values().filter(|member| member.keeps_files_open()).count(), 16);
}

/// What the tree has written and holds at the last tick: by rows, each counter's last and each gauge's last value.
fn totals(rows: &[ProcessSample]) -> (i64, i64) {
    let mut last: std::collections::BTreeMap<i64, (i64, i64)> = Default::default();
    for row in rows {
        let of_process = last.entry(row.process).or_default();
        *of_process = (row.written_bytes.unwrap_or(of_process.0), row.rss_bytes.unwrap_or(0));
    }
    last.values().fold((0, 0), |sum, value| (sum.0 + value.0, sum.1 + value.1))
}

#[test]
fn of_many_processes_the_smallest_are_summed_up_and_the_sums_stay_right() {
    let proc = Proc::new();
    for n in 1..=100 {
        proc.put_with(ROOT + n, ROOT, 101, 1, 1000);
    }
    let (mut probe, journal) = proc.probe();
    let tree = probe.sample(0, &journal);
    assert_eq!((tree.pids.len(), tree.rss_bytes), (101, 101 * 4096));
    let rows = proc.rows(&journal);
    assert_eq!((rows.len(), totals(&rows)), (65, (100 * 1000, 101 * 4096)));
    let other = rows.iter().find(|row| row.processes.is_some()).unwrap();
    assert_eq!((other.processes, other.written_bytes, other.threads), (Some(37), Some(37_000), Some(0)));
    // One of the sum grows; it gets a number of its own at the next ranking, and brings nothing with it.
    let grown = probe.alive.values().find(|member| member.process.is_none()).unwrap().pid;
    proc.put_with(grown, ROOT, 101, 500, 5000);
    for t_ns in [SLOW_NS, 2 * SLOW_NS] {
        probe.sample(t_ns, &journal);
    }
    assert!(probe.alive[&grown].process.is_some());
    assert_eq!(probe.alive.values().filter(|member| member.process.is_some()).count(), 64);
    let rows = proc.rows(&journal);
    assert_eq!(totals(&rows), (99 * 1000 + 5000, (100 + 500) * 4096));
    let own = rows.iter().rfind(|row| Some(row.process) == probe.alive[&grown].process).unwrap();
    assert_eq!((own.written_bytes, own.rss_bytes), (Some(0), Some(500 * 4096)));
}

#[test]
fn a_storm_of_forks_stays_bounded_and_loses_nothing() {
    let proc = Proc::new();
    let (mut probe, journal) = proc.probe();
    probe.own_in_all = 25;
    let mut told = 0;
    for storm in 0..6 {
        let pids = (1..=10).map(|n| ROOT + 10 * storm + n);
        pids.clone().for_each(|pid| proc.put_with(pid, ROOT, 101, 1, 100));
        probe.sample(i64::from(storm), &journal);
        pids.for_each(|pid| proc.end(pid));
        told += 10 * 100;
    }
    // A parent that waits for nobody inherits nothing.
    let tree = probe.sample(30, &journal);
    assert_eq!((tree.pids, probe.alive.len()), (vec![ROOT], 1));
    let rows = proc.rows(&journal);
    assert_eq!(totals(&rows), (told, 4096));
    let processes: HashSet<i64> = rows.iter().map(|row| row.process).collect();
    assert_eq!(processes.len(), 26, "25 and the sum of the others");
}

#[test]
fn bytes_that_a_parent_inherits_when_it_waits_for_its_child_count_once() {
    let proc = Proc::new();
    proc.put_with(ROOT, Pid::this().as_raw(), 100, 1, 7);
    proc.put_with(ROOT + 1, ROOT, 101, 1, 1000);
    let (mut probe, journal) = proc.probe();
    probe.sample(1, &journal);
    proc.end(ROOT + 1);
    proc.put_with(ROOT, Pid::this().as_raw(), 100, 1, 7 + 1000 + 20);
    probe.sample(2, &journal);
    // The first 7 are the starting shim's.
    assert_eq!(totals(&proc.rows(&journal)).0, 1020);
}

#[test]
fn nobody_is_looked_for_as_long_as_no_pid_was_given_out() {
    let proc = Proc::new();
    proc.newest_pid(ROOT);
    let (mut probe, journal) = proc.probe();
    assert_eq!(pids(&mut probe, &journal), [ROOT]);
    proc.put(ROOT + 1, ROOT, 101);
    assert_eq!(pids(&mut probe, &journal), [ROOT], "the kernel says that there is nobody");
    proc.newest_pid(ROOT + 1);
    assert_eq!(pids(&mut probe, &journal), [ROOT + 1, ROOT]);
}

#[test]
fn a_kernel_that_is_found_to_lag_behind_is_believed_no_more() {
    let proc = Proc::new();
    proc.newest_pid(ROOT);
    let (mut probe, journal) = proc.probe();
    pids(&mut probe, &journal);
    proc.put(ROOT + 1, ROOT, 101);
    // The walk of each second finds it.
    assert_eq!(probe.sample(1 + SLOW_NS, &journal).pids.len(), 2);
    proc.put(ROOT + 2, ROOT, 101);
    assert_eq!(probe.sample(2 + SLOW_NS, &journal).pids.len(), 3);
}

#[test]
fn a_stranger_whose_pid_was_given_out_again_is_looked_at_anew() {
    let proc = Proc::new();
    proc.newest_pid(ROOT + 9);
    proc.put(ROOT + 5, 1, 101);
    let (mut probe, journal) = proc.probe();
    assert_eq!(pids(&mut probe, &journal), [ROOT]);
    proc.put(ROOT + 5, ROOT, 102);
    // Pids have begun anew meanwhile.
    proc.newest_pid(ROOT + 6);
    assert_eq!(pids(&mut probe, &journal).len(), 2);
}

#[test]
fn a_peak_is_read_again_only_after_page_faults_or_a_second() {
    let proc = Proc::new();
    let (mut probe, journal) = proc.probe();
    let faults = |count: i64| {
        let line = format!("{ROOT} (worker) S {} 0 0 0 0 0 {count} {}100 0", Pid::this().as_raw(), "0 ".repeat(11));
        fs::write(proc.file(ROOT, "stat"), line).unwrap();
    };
    let peak = |kib: i64| fs::write(proc.file(ROOT, "status"), format!("Name:\tw\nVmHWM:\t{kib} kB\n")).unwrap();
    let mut told = Vec::new();
    for (t_ns, count, kib) in [(1, 5, 4), (2, 5, 99), (3, 6, 8), (4, 6, 99), (SLOW_NS, 6, 12)] {
        faults(count);
        peak(kib);
        probe.sample(t_ns, &journal);
        told.push(probe.alive[&ROOT].last.rss_peak_bytes.unwrap() / 1024);
    }
    assert_eq!(told, [4, 4, 8, 8, 12]);
}

#[test]
fn cpu_time_of_which_no_clock_was_read_is_absent() {
    let proc = Proc::new();
    let (mut probe, journal) = proc.probe();
    probe.sample(1, &journal);
    assert_eq!(probe.cpu_ns(), None);
    assert_ne!(told(&probe, "process_sample.cpu_ns").0, CoverageState::Measured);
}

/// Counters as the kernel tells them: each a multiple of `n`, except for CPU time, of which a folder has no clock.
fn count(proc: &Proc, pid: i32, parent: i32, start_ticks: i64, n: i64) {
    proc.put(pid, parent, start_ticks);
    let zeros = "0 ".repeat(9);
    let stat = format!("{pid} (worker) S {parent} 0 0 0 0 0 {} 0 {} {zeros}{start_ticks} 0", 3 * n, 4 * n);
    fs::write(proc.file(pid, "stat"), stat).unwrap();
    fs::write(proc.file(pid, "io"), format!("read_bytes: {n}\nwrite_bytes: {}\n", 2 * n)).unwrap();
    let switches = format!("voluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{n}\n", 4 * n);
    fs::write(proc.file(pid, "status"), format!("Name:\tworker\nVmHWM:\t4 kB\n{switches}")).unwrap();
}

/// All counters but CPU time.
fn counted(row: &ProcessSample) -> [Option<i64>; 5] {
    [row.read_bytes, row.written_bytes, row.minor_faults, row.major_faults, row.context_switches]
}

#[test]
fn what_the_starting_shim_and_a_container_used_before_the_run_is_not_the_runs() {
    let proc = Proc::new();
    count(&proc, ROOT, Pid::this().as_raw(), 100, 1000);
    // Of the container: one that was there before, and one that comes with the run.
    count(&proc, ROOT + 1, 1, 50, 500);
    count(&proc, ROOT + 2, ROOT + 1, 120, 7);
    let group = proc.0.path().join("group");
    fs::create_dir(&group).unwrap();
    fs::write(group.join("cgroup.procs"), format!("{}\n{}\n", ROOT + 1, ROOT + 2)).unwrap();
    let (mut probe, journal) = proc.probe();
    probe.follow_group(&group);
    probe.find_members(0, &journal);
    count(&proc, ROOT, Pid::this().as_raw(), 100, 1001);
    count(&proc, ROOT + 1, 1, 50, 510);
    probe.sample(SLOW_NS, &journal);
    let rows = proc.rows(&journal);
    let last = |pid: i32| rows.iter().rfind(|row| Some(row.process) == probe.alive[&pid].process).unwrap();
    let by_hand = |n: i64| [n, 2 * n, 3 * n, 4 * n, 5 * n].map(Some);
    assert_eq!(counted(last(ROOT)), by_hand(1));
    assert_eq!(counted(last(ROOT + 1)), by_hand(10));
    assert_eq!(counted(last(ROOT + 2)), by_hand(7));
}

#[test]
fn a_counter_that_could_not_be_read_at_admission_begins_at_its_first_reading() {
    let proc = Proc::new();
    count(&proc, ROOT, Pid::this().as_raw(), 100, 1000);
    fs::remove_file(proc.file(ROOT, "io")).unwrap();
    let (mut probe, journal) = proc.probe();
    for (t_ns, n) in [(SLOW_NS, 1003), (2 * SLOW_NS, 1005)] {
        count(&proc, ROOT, Pid::this().as_raw(), 100, n);
        probe.sample(t_ns, &journal);
    }
    let last = proc.rows(&journal).pop().unwrap();
    assert_eq!(counted(&last), [2, 4, 15, 20, 25].map(Some));
}

#[test]
fn who_belongs_to_a_run_is_known_before_its_first_sample() {
    let proc = Proc::new();
    proc.put(ROOT + 1, 1, 50);
    let (mut probe, journal) = proc.probe();
    assert_eq!((probe.members().pids, probe.members().processes), (vec![ROOT], vec![0]));
    probe.expect_container();
    assert!(probe.members().pids.is_empty());
    let group = proc.0.path().join("group");
    fs::create_dir(&group).unwrap();
    fs::write(group.join("cgroup.procs"), format!("{}\n", ROOT + 1)).unwrap();
    probe.follow_group(&group);
    probe.find_members(0, &journal);
    assert_eq!((probe.members().pids, probe.members().processes), (vec![ROOT + 1], vec![1]));
    assert!(proc.rows(&journal).is_empty());
}

#[test]
fn children_of_the_recorder_that_were_there_before_are_never_the_runs() {
    let proc = Proc::new();
    // In the same tick as the root: their age alone does not tell.
    proc.put(ROOT + 1, Pid::this().as_raw(), 100);
    let (mut probe, journal) = proc.probe();
    fs::rename(proc.file(ROOT, ""), proc.0.path().join("root")).unwrap();
    let earlier = Earlier::of(&proc.folder(), Pid::this().as_raw());
    fs::rename(proc.0.path().join("root"), proc.file(ROOT, "")).unwrap();
    probe.leave_out(&earlier);
    proc.put(ROOT + 2, ROOT + 1, 150);
    assert_eq!(pids(&mut probe, &journal), [ROOT]);
    // Its parent has ended, and it was handed to the recorder.
    proc.end(ROOT + 1);
    proc.put(ROOT + 2, Pid::this().as_raw(), 150);
    (2..40).for_each(|t_ns| assert_eq!(probe.sample(t_ns, &journal).pids, [ROOT]));
    assert!(!probe.last_words(ROOT + 2, 40, &journal));
}

#[test]
fn peaks_of_the_sum_are_of_those_that_stayed_in_it_and_each_process_counts_once() {
    let proc = Proc::new();
    (1..=100).for_each(|n| proc.put_with(ROOT + n, ROOT, 101, 1, 0));
    let (mut probe, journal) = proc.probe();
    probe.sample(0, &journal);
    let last = |process: Option<i64>| {
        proc.rows(&journal)
            .into_iter()
            .rfind(|row| Some(row.process) == process && row.rss_peak_bytes.is_some())
            .unwrap()
    };
    let others = Some(probe.others.as_ref().unwrap().process);
    // Each has peaked at 4 KiB.
    assert_eq!(last(others).rss_peak_bytes, Some(37 * 4096));
    let summed_up = |probe: &ProcessProbe| -> Vec<i32> {
        let mut summed_up: Vec<&Member> = probe.alive.values().filter(|member| member.process.is_none()).collect();
        summed_up.sort_by_key(|member| member.order);
        summed_up.into_iter().map(|member| member.pid).collect()
    };
    let (grown, ended) = (summed_up(&probe)[0], summed_up(&probe)[1]);
    proc.put_with(grown, ROOT, 101, 500, 0);
    fs::write(proc.file(grown, "status"), "Name:\tworker\nVmHWM:\t2000 kB\n").unwrap();
    for t_ns in [SLOW_NS, 2 * SLOW_NS] {
        probe.sample(t_ns, &journal);
    }
    proc.end(ended);
    probe.sample(3 * SLOW_NS, &journal);
    // By hand: the grown one has left; the peak of the one that has ended stays; the one that came for the grown one has
    // told its peak in its own row.
    assert_eq!(last(others).rss_peak_bytes, Some(36 * 4096));
    assert_eq!(last(probe.alive[&grown].process).rss_peak_bytes, Some(2000 << 10));
    // That one grows in its turn, and gets another number: what it has is told there alone.
    let back = summed_up(&probe).into_iter().find(|pid| probe.alive[pid].untold_peak_bytes() == Some(0)).unwrap();
    proc.put_with(back, ROOT, 101, 300, 0);
    fs::write(proc.file(back, "status"), "Name:\tworker\nVmHWM:\t1200 kB\n").unwrap();
    for t_ns in [4 * SLOW_NS, 5 * SLOW_NS] {
        probe.sample(t_ns, &journal);
    }
    assert_eq!(last(others).rss_peak_bytes, Some(36 * 4096));
    assert_eq!(last(probe.alive[&back].process).rss_peak_bytes, Some(1200 << 10));
}

#[test]
fn a_process_that_leaves_the_sum_says_since_when_and_has_a_row_at_once() {
    let proc = Proc::new();
    (1..=100).for_each(|n| proc.put_with(ROOT + n, ROOT, 101, 1, 0));
    let (mut probe, journal) = proc.probe();
    probe.sample(0, &journal);
    let grown = probe.alive.values().find(|member| member.process.is_none()).unwrap().pid;
    proc.put_with(grown, ROOT, 101, 500, 0);
    // It is read at a full second, and ranked a little later.
    for t_ns in [SLOW_NS, SLOW_NS + 1] {
        probe.sample(t_ns, &journal);
    }
    probe.rank_next_ns = 0;
    probe.sample(SLOW_NS + 2, &journal);
    let number = probe.alive[&grown].process;
    let row = proc.rows(&journal).into_iter().find(|row| Some(row.process) == number).unwrap();
    assert_eq!((row.t_ns, row.rss_bytes), (SLOW_NS + 2, Some(500 * 4096)));
    let mut since = Vec::new();
    crate::trace::journal::read(&proc.0.path().join("journal"), |row| {
        if let crate::trace::tables::Row::Process(process) = row {
            since.extend(process.own_rows_since_ns.map(|since| (process.process, since)));
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(since, [(number.unwrap(), SLOW_NS + 2)]);
}

#[test]
fn a_child_that_is_waited_for_between_its_reading_and_its_parents_counts_once() {
    let proc = Proc::new();
    proc.put_with(ROOT, Pid::this().as_raw(), 100, 1, 7);
    proc.put_with(ROOT + 1, ROOT, 101, 1, 1000);
    let (mut probe, journal) = proc.probe();
    probe.kept_open = 0;
    probe.sample(1, &journal);
    probe.sample_one(ROOT + 1, 2, &journal);
    proc.end(ROOT + 1);
    proc.put_with(ROOT, Pid::this().as_raw(), 100, 1, 7 + 1000 + 20);
    probe.sample_one(ROOT, 2, &journal);
    // The first 7 are the starting shim's.
    assert_eq!(totals(&proc.rows(&journal)).0, 1020);
    proc.put_with(ROOT, Pid::this().as_raw(), 100, 1, 7 + 1000 + 30);
    probe.sample(3, &journal);
    let rows = proc.rows(&journal);
    assert_eq!(totals(&rows).0, 1030);
    let of_root: Vec<i64> = rows.iter().filter(|row| row.process == 0).filter_map(|row| row.written_bytes).collect();
    assert!(of_root.is_sorted(), "{of_root:?}");
}

#[test]
fn another_process_under_the_pid_of_one_that_is_summed_up_is_another_process() {
    let proc = Proc::new();
    proc.newest_pid(ROOT + 9);
    proc.put(ROOT + 1, ROOT, 101);
    let (mut probe, journal) = proc.probe();
    // The root alone has rows of its own.
    probe.own_in_all = 1;
    assert_eq!(pids(&mut probe, &journal), [ROOT + 1, ROOT]);
    // Its clock can be read, whoever is under the pid.
    probe.alive.get_mut(&(ROOT + 1)).unwrap().clock = nix::time::ClockId::pid_cpu_clock_id(Pid::this());
    assert_eq!(pids(&mut probe, &journal), [ROOT + 1, ROOT], "nobody is new");
    proc.put(ROOT + 1, ROOT, 999);
    // Pids have begun anew meanwhile.
    proc.newest_pid(ROOT + 6);
    assert_eq!(pids(&mut probe, &journal), [ROOT]);
    assert_eq!(probe.alive.len(), 1);
}

#[test]
fn a_gauge_of_the_sum_holds_all_of_them_or_is_absent() {
    let proc = Proc::new();
    let add = |n| {
        proc.put_with(ROOT + n, ROOT, 101, 2, 0);
        fs::create_dir(proc.file(ROOT + n, "fd")).unwrap();
        fs::write(proc.file(ROOT + n, "fd/0"), "").unwrap();
    };
    (1..=4).for_each(add);
    let (mut probe, journal) = proc.probe();
    // The root and one more have rows of their own.
    probe.own_in_all = 2;
    let gauges = |probe: &mut ProcessProbe, t_ns| {
        probe.sample(t_ns, &journal);
        let others = probe.others.as_ref().unwrap().process;
        let row = proc.rows(&journal).into_iter().rfind(|row| row.process == others).unwrap();
        (row.processes, row.rss_bytes, row.threads, row.open_files)
    };
    let all = gauges(&mut probe, 0);
    assert_eq!((all.0, all.1, all.2), (Some(3), Some(3 * 2 * 4096), Some(0)));
    assert!(all.3.is_some());
    // Which one has rows of its own is up to the order in which the folder was listed.
    let summed_up = probe.alive.values().find(|member| member.process.is_none()).unwrap().pid;
    // Between two readings of open files, which are due each second, the sum is as it was.
    fs::write(proc.file(summed_up, "statm"), "10 3 0 0 0 0 0\n").unwrap();
    assert_eq!(gauges(&mut probe, SLOW_NS / 4), (Some(3), Some(7 * 4096), Some(0), all.3));
    // One that cannot be read is not left out, and one that has ended holds nothing.
    fs::remove_file(proc.file(summed_up, "statm")).unwrap();
    fs::create_dir(proc.file(summed_up, "statm")).unwrap();
    assert_eq!(gauges(&mut probe, SLOW_NS / 3), (Some(3), None, Some(0), all.3));
    fs::remove_dir(proc.file(summed_up, "statm")).unwrap();
    fs::write(proc.file(summed_up, "statm"), "0 0 0 0 0 0 0\n").unwrap();
    assert_eq!(gauges(&mut probe, SLOW_NS / 2).1, Some(4 * 4096));
}

#[test]
fn clients_of_a_container_are_in_no_sum_of_its_processes() {
    let proc = Proc::new();
    (1..=4).for_each(|n| proc.put_with(ROOT + n, ROOT, 101, 2, 0));
    let (mut probe, journal) = proc.probe();
    probe.own_in_all = 2;
    probe.expect_container();
    probe.sample(0, &journal);
    let others = probe.others.as_ref().unwrap().process;
    assert!(proc.rows(&journal).iter().all(|row| row.process != others || row.rss_bytes.unwrap_or(0) == 0));
}

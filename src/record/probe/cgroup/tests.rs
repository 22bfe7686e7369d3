use std::fs;

use super::*;
use crate::trace::tables::Row;

/// A group's folder with these files, read as the run's own.
fn group(version: Version, scope: GroupScope, files: &[(&str, &str)]) -> (tempfile::TempDir, CgroupProbe) {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, files);
    let dir = folder.path().to_owned();
    let accounted = || Some(Accounted { dir: dir.clone(), version, scope, note: String::new() });
    let accounting = Accounting {
        cpu: accounted(),
        throttling: accounted(),
        memory: accounted(),
        processes: accounted(),
        io: accounted(),
    };
    (folder, CgroupProbe::new(accounting))
}

fn write(folder: &tempfile::TempDir, files: &[(&str, &str)]) {
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
}

fn rows(folder: &tempfile::TempDir, mut sample: impl FnMut(&Journal)) -> Vec<Cgroup> {
    let path = folder.path().join("journal");
    let journal = Journal::create(&path).unwrap();
    sample(&journal);
    journal.flush();
    let mut rows = Vec::new();
    crate::trace::journal::read(&path, |row| {
        if let Row::Cgroup(row) = row {
            rows.push(row);
        }
        Ok(())
    })
    .unwrap();
    rows
}

#[test]
fn version_two_is_read_in_base_units_with_counters_from_the_first_reading() {
    let before = [
        ("cpu.stat", "usage_usec 100\nuser_usec 70\nsystem_usec 30\nnr_periods 5\nnr_throttled 1\nthrottled_usec 9\n"),
        ("memory.current", "5000\n"),
        ("memory.peak", "6000\n"),
        ("memory.stat", "anon 1\ninactive_file 1200\nactive_file 3\n"),
        ("memory.swap.current", "0\n"),
        ("memory.events", "low 0\noom 1\noom_kill 1\noom_group_kill 0\n"),
        ("pids.current", "12\n"),
        ("io.stat", ""),
    ];
    let (folder, mut probe) = group(Version::V2, GroupScope::Own, &before);
    let rows = rows(&folder, |journal| {
        probe.sample(0, journal);
        let after = [
            (
                "cpu.stat",
                "usage_usec 400\nuser_usec 270\nsystem_usec 130\nnr_periods 9\nnr_throttled 3\nthrottled_usec 19\n",
            ),
            ("memory.events", "low 0\noom 3\noom_kill 3\n"),
            ("io.stat", "9999:1 rbytes=10 wbytes=20 rios=1\n9999:2 rbytes=1 wbytes=2 rios=1\n"),
        ];
        write(&folder, &after);
        probe.sample(7, journal);
    });
    let expected = Cgroup {
        t_ns: 7,
        cpu_ns: Some(300_000),
        cpu_user_ns: Some(200_000),
        cpu_system_ns: Some(100_000),
        throttled_ns: Some(10_000),
        throttled_periods: Some(2),
        periods: Some(4),
        memory_bytes: Some(5000),
        working_set_bytes: Some(3800),
        memory_peak_bytes: Some(6000),
        swap_bytes: Some(0),
        threads: Some(12),
        oom_kills: Some(2),
        read_bytes: Some(11),
        written_bytes: Some(22),
    };
    assert_eq!(rows[1], expected);
    assert_eq!((probe.cpu_ns(), probe.oom_kills()), (Some(300_000), Some((2, GroupScope::Own))));
    assert!(probe.coverage().iter().all(|entry| entry.state == CoverageState::Measured), "{:#?}", probe.coverage());
}

#[test]
fn version_one_tells_throttling_in_nanoseconds_and_its_working_set_with_groups_below() {
    let files = [
        ("cpuacct.usage", "1000\n"),
        ("cpuacct.usage_user", "600\n"),
        ("cpuacct.usage_sys", "400\n"),
        ("cpu.stat", "nr_periods 5\nnr_throttled 1\nthrottled_time 9\n"),
        ("memory.usage_in_bytes", "5000\n"),
        ("memory.max_usage_in_bytes", "6000\n"),
        ("memory.stat", "inactive_file 1\ntotal_inactive_file 1200\ntotal_swap 77\n"),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"),
        ("pids.current", "3\n"),
        ("blkio.throttle.io_service_bytes", "9999:1 Read 5\n9999:1 Write 6\n9999:1 Total 11\nTotal 11\n"),
    ];
    let (folder, mut probe) = group(Version::V1, GroupScope::Own, &files);
    let rows = rows(&folder, |journal| {
        probe.sample(0, journal);
        write(
            &folder,
            &[("cpuacct.usage", "1500\n"), ("cpu.stat", "nr_periods 6\nnr_throttled 2\nthrottled_time 19\n")],
        );
        probe.sample(1, journal);
    });
    let row = &rows[1];
    assert_eq!((row.cpu_ns, row.throttled_ns, row.working_set_bytes), (Some(500), Some(10), Some(3800)));
    assert_eq!((row.swap_bytes, row.oom_kills, row.read_bytes), (Some(77), Some(0), Some(0)));
}

#[test]
fn a_peak_from_before_the_run_is_no_peak_of_the_run() {
    let files = [("memory.current", "5\n"), ("memory.peak", "100\n")];
    let (folder, mut probe) = group(Version::V2, GroupScope::Shared, &files);
    let rows = rows(&folder, |journal| {
        probe.sample(0, journal);
        write(&folder, &[("memory.peak", "101\n")]);
        probe.sample(1, journal);
    });
    assert_eq!([rows[0].memory_peak_bytes, rows[1].memory_peak_bytes], [None, Some(101)]);
    assert_eq!(probe.cpu_ns(), None, "a shared group's CPU time is not the run's");
}

#[test]
fn what_a_group_lacks_is_unsupported_and_the_ledger_names_no_path() {
    let (folder, mut probe) = group(Version::V2, GroupScope::Shared, &[("cpu.stat", "usage_usec 1\n")]);
    rows(&folder, |journal| probe.sample(0, journal));
    let coverage = probe.coverage();
    let state = |metric: &str| coverage.iter().find(|entry| entry.metric == metric).unwrap().state;
    assert_eq!(state("cgroup.cpu"), CoverageState::Measured);
    assert_eq!(state("cgroup.memory_peak_bytes"), CoverageState::Unsupported);
    assert!(coverage.iter().all(|entry| !entry.source.contains('/')), "{coverage:#?}");
    let nowhere = CgroupProbe::new(Accounting::default());
    assert_eq!(nowhere.coverage().len(), 5);
}

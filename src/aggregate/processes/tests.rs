use super::*;
use crate::aggregate::testing::{SECOND, frame, ns, record, ticks};
use crate::trace::tables::{self, ProcessSample};

fn measured(rows: Vec<ProcessSample>, starts: &[(i64, f64)], interval_ns: i64) -> Figures {
    let mut figures = Figures::default();
    let record = RunRecord { interval_ns, ..record() };
    let starts = starts.iter().map(|(process, start)| (*process, ns(*start))).collect();
    tree(frame(rows), &Known { starts, ..Known::default() }, &record, &mut figures).unwrap();
    figures
}

fn sample(t_ns: i64, process: i64) -> ProcessSample {
    ProcessSample { t_ns, process, ..ProcessSample::default() }
}

/// A root at half a core, and two workers that live from 2.03 s to 7.41 s and use one core each.
fn forked(interval_ns: i64) -> Vec<ProcessSample> {
    let mut rows = Vec::new();
    for t in ticks(interval_ns, 10 * SECOND) {
        rows.push(ProcessSample { cpu_ns: Some(t / 2), rss_bytes: Some(100), threads: Some(3), ..sample(t, 0) });
        for worker in (1..=2).filter(|_| t >= ns(2.03) && t <= ns(7.41)) {
            let cpu_ns = Some(t - ns(2.03));
            rows.push(ProcessSample { cpu_ns, rss_bytes: Some(50), threads: Some(1), ..sample(t, worker) });
        }
    }
    rows
}

#[test]
fn processes_outside_a_container_are_told_apart_by_the_role_that_they_had_last() {
    let row = |process: i64, role: &str| tables::Process { process, role: Some(role.to_owned()), ..Default::default() };
    let rows =
        [row(0, "client"), row(1, "client"), row(1, "container"), row(2, "container"), tables::Process::default()];
    assert_eq!(clients(frame(rows)).unwrap().into_iter().collect::<Vec<_>>(), [0]);
}

#[test]
fn forked_workers_count_with_the_root_at_any_interval() {
    let starts = [(0, 0.0), (1, 2.03), (2, 2.03)];
    for interval in [0.1, 0.25] {
        let figures = measured(forked(ns(interval)), &starts, ns(interval));
        let cpu = &figures.windows[&Quantity::RunCpu].windows();
        assert_eq!(cpu.len(), 10);
        for (k, share) in cpu {
            // By hand, in cores: the root's half, and for each worker the part of the window in which it lived.
            // What it used after its last sample is not seen, which is less than one interval of each.
            let lived = (*k as f64 + 1.0).min(7.41) - (*k as f64).max(2.03);
            let right = 0.5 + 2.0 * lived.max(0.0);
            let tolerance = if *k == 7 { 2.0 * interval } else { 1e-6 };
            assert!((share * 2.0 - right).abs() < tolerance, "{interval} s, window {k}: {share} {right}");
        }
        assert_eq!(figures.values[&Metric::Processes], 3.0);
        assert_eq!(figures.values[&Metric::Threads], 5.0);
    }
}

#[test]
fn a_process_that_ends_half_way_leaves_the_sum_of_memory() {
    for interval in [0.1, 0.25] {
        let figures = measured(forked(ns(interval)), &[], ns(interval));
        let rss = &figures.windows[&Quantity::MemoryRss].windows();
        assert!([0, 1, 8, 9].iter().all(|k| (rss[k] - 100.0).abs() < 1e-6), "{rss:?}");
        assert!((3..=6).all(|k| (rss[&k] - 200.0).abs() < 1e-6), "{rss:?}");
        // It lived for 0.41 s of the window; the last sample holds for one interval.
        assert!((rss[&7] - (100.0 + 100.0 * 0.41)).abs() <= 100.0 * interval, "{rss:?}");
    }
}

#[test]
fn memory_ends_with_the_sample_that_no_longer_has_it() {
    let row = |t: f64, process, rss_bytes| ProcessSample { cpu_ns: Some(0), rss_bytes, ..sample(ns(t), process) };
    let mut rows: Vec<_> = (0..=30).map(|tick| row(f64::from(tick) * 0.1, 0, Some(100))).collect();
    rows.extend([row(1.0, 1, Some(10)), row(1.75, 1, None), row(2.75, 1, None)]);
    rows.sort_by_key(|row| row.t_ns);
    let rss = measured(rows, &[(1, 0.8)], ns(0.1)).windows.remove(&Quantity::MemoryRss).unwrap().windows();
    // By hand: from its start at 0.8 s to 1.75 s.
    let right = [100.0 + 10.0 * 0.2, 100.0 + 10.0 * 0.75, 100.0];
    assert!(rss.values().zip(right).all(|(bytes, right)| (bytes - right).abs() < 1e-6), "{rss:?}");
}

#[test]
fn a_process_that_does_not_change_is_written_rarely_and_stays_in_the_sums() {
    let mut rows = Vec::new();
    for t in ticks(ns(0.1), ns(9.5)) {
        rows.push(ProcessSample { cpu_ns: Some(t), rss_bytes: Some(10), ..sample(t, 0) });
        if t % ns(1.1) == 0 {
            rows.push(ProcessSample { cpu_ns: Some(7), rss_bytes: Some(1), threads: Some(1), ..sample(t, 1) });
        }
    }
    let figures = measured(rows, &[], ns(0.1));
    let rss = &figures.windows[&Quantity::MemoryRss].windows();
    assert!(rss.len() == 9 && rss.values().all(|bytes| (bytes - 11.0).abs() < 1e-9), "{rss:?}");
    let cpu = &figures.windows[&Quantity::RunCpu].windows();
    assert!(cpu.values().all(|share| (share - 0.5).abs() < 1e-6), "{cpu:?}");
}

#[test]
fn short_workers_never_add_up_to_more_than_they_used() {
    // One after the other, each 0.2 s at one core, seen once or twice.
    let mut rows = Vec::new();
    let mut starts = Vec::new();
    for worker in 0..50_i64 {
        let start = worker * ns(0.2) + ns(0.03);
        starts.push((worker, start as f64 / 1e9));
        for t in ticks(ns(0.1), 10 * SECOND).filter(|t| (start..start + ns(0.2)).contains(t)) {
            rows.push(ProcessSample { cpu_ns: Some(t - start), ..sample(t, worker) });
        }
    }
    let cpu = measured(rows, &starts, ns(0.1)).windows.remove(&Quantity::RunCpu).unwrap().windows();
    assert!(cpu.values().all(|share| *share > 0.3 && *share <= 0.5 + 1e-9), "{cpu:?}");
}

#[test]
fn a_clock_that_steps_back_voids_its_windows_only() {
    let rows = ticks(ns(0.5), 5 * SECOND).map(|t| {
        let cpu = if t <= 2 * SECOND { t } else { t - ns(2.4) };
        ProcessSample { cpu_ns: Some(cpu), ..sample(t, 0) }
    });
    let cpu = measured(rows.collect(), &[], ns(0.5)).windows.remove(&Quantity::RunCpu).unwrap().windows();
    assert_eq!(cpu.keys().copied().collect::<Vec<_>>(), [0, 1, 3, 4]);
    assert!(cpu.values().all(|share| (share - 0.5).abs() < 1e-9), "{cpu:?}");
}

#[test]
fn a_gap_in_sampling_has_no_windows() {
    let rows = ticks(ns(0.1), 10 * SECOND).filter(|t| *t <= 3 * SECOND || *t >= 6 * SECOND).map(|t| ProcessSample {
        cpu_ns: Some(t),
        rss_bytes: Some(5),
        ..sample(t, 0)
    });
    let figures = measured(rows.collect(), &[], ns(0.1));
    for quantity in [Quantity::RunCpu, Quantity::MemoryRss] {
        let kept: Vec<i64> = figures.windows[&quantity].windows().keys().copied().collect();
        assert_eq!(kept, [0, 1, 2, 6, 7, 8, 9], "{quantity:?}");
    }
}

#[test]
fn peaks_and_bytes_are_the_greatest_so_far_summed_over_processes() {
    let row = |t: f64, process, peak, read| ProcessSample {
        rss_peak_bytes: Some(peak),
        virtual_bytes: Some(peak * 10),
        open_files: Some(peak + 3),
        read_bytes: read,
        ..sample(ns(t), process)
    };
    // The last reading of process 0 is that of a process on its way out.
    let rows = vec![row(0.0, 0, 30, Some(5)), row(0.1, 0, 40, Some(9)), row(0.1, 1, 7, None), row(0.2, 0, 0, Some(0))];
    let values = measured(rows, &[], ns(0.1)).values;
    assert_eq!(values[&Metric::MemorySumOfPeaks], 47.0);
    assert_eq!((values[&Metric::VirtualPeak], values[&Metric::OpenFiles]), (400.0, 43.0));
    assert_eq!((values[&Metric::DiskRead], values.get(&Metric::DiskWritten)), (9.0, None));
}

#[test]
fn processes_that_follow_each_other_are_not_there_at_once() {
    let rows = vec![sample(0, 0), sample(ns(0.1), 0), sample(ns(0.2), 1), sample(ns(0.3), 1)];
    let figures = measured(rows, &[], ns(0.1));
    assert_eq!(figures.values, BTreeMap::from([(Metric::Processes, 1.0)]));
    assert!(figures.windows.is_empty());
}

#[test]
fn a_row_that_sums_up_many_processes_counts_as_many() {
    let row = |t: f64, processes| ProcessSample { processes: Some(processes), ..sample(ns(t), 7) };
    // By hand: the root, and 3, 40 and 0 others at a time.
    let rows = [0.0, 0.1, 0.2].map(|t| sample(ns(t), 0)).into_iter().chain([row(0.0, 3), row(0.1, 40), row(0.2, 0)]);
    assert_eq!(measured(rows.collect(), &[], ns(0.1)).values[&Metric::Processes], 41.0);
}

/// A row of the identities: number, pid, start, and since when it has rows of its own where it was summed up before.
fn identity(process: i64, pid: i64, start_ns: i64, own_rows_since_ns: Option<i64>) -> tables::Process {
    tables::Process { process, pid: Some(pid), start_ns: Some(start_ns), own_rows_since_ns, ..Default::default() }
}

#[test]
fn starts_and_first_numbers_are_read_from_the_identities() {
    let rows = [
        identity(0, 100, 0, None),
        identity(1, 101, 50, None),
        tables::Process { process: 2, ..tables::Process::default() },
        identity(3, 102, 20, Some(70)),
        identity(4, 101, 50, Some(90)),
        // The pid was given out again.
        identity(5, 101, 95, None),
    ];
    let known = known(frame(rows)).unwrap();
    assert_eq!(known.starts, BTreeMap::from([(0, 0), (1, 50), (3, 70), (4, 90), (5, 95)]));
    assert_eq!(known.first_numbers, BTreeMap::from([(0, 0), (1, 1), (3, 3), (4, 1), (5, 5)]));
}

#[test]
fn a_process_that_leaves_the_sum_counts_there_no_more_and_in_its_own_rows_from_then_on() {
    // The root holds 100; 1 sums up three of 10, 10 and 40 bytes, of which the last leaves it at 4 s, in the place of 2,
    // which holds 5; at 7 s it goes back, having grown to 60, and at 8 s it gets a third number.
    let row = |t: f64, process, rss: i64, peak: i64| ProcessSample {
        cpu_ns: Some(0),
        rss_bytes: Some(rss),
        rss_peak_bytes: Some(peak),
        virtual_bytes: Some(1000 + rss),
        open_files: Some(7),
        threads: Some(1),
        ..sample(ns(t), process)
    };
    let others = |t: f64, n: i64, rss, peaks| ProcessSample {
        processes: Some(n),
        threads: Some(n),
        virtual_bytes: Some(9000),
        open_files: Some(7 * n),
        ..row(t, 1, rss, peaks)
    };
    let mut rows = Vec::new();
    for tick in 0..=100 {
        let t = f64::from(tick) * 0.1;
        rows.push(row(t, 0, 100, 100));
        rows.push(match tick {
            0..40 => others(t, 3, 60, 60),
            40..70 => others(t, 3, 25, 20),
            70..80 => others(t, 4, 85, 20),
            _ => others(t, 3, 25, 20),
        });
        rows.extend((0..40).contains(&tick).then(|| row(t, 2, 5, 5)));
        rows.extend((tick == 40).then(|| sample(ns(t), 2)));
        rows.extend((40..70).contains(&tick).then(|| row(t, 3, 60, 60)));
        rows.extend((tick == 70).then(|| sample(ns(t), 3)));
        rows.extend((80..=100).contains(&tick).then(|| row(t, 4, 50, 60)));
    }
    let identities = [
        identity(0, 100, 0, None),
        tables::Process { process: 1, start_ns: Some(0), ..Default::default() },
        identity(2, 102, 0, None),
        identity(3, 103, 0, Some(ns(4.0))),
        identity(4, 103, 0, Some(ns(8.0))),
    ];
    let mut figures = Figures::default();
    let record = RunRecord { interval_ns: ns(0.1), ..record() };
    tree(frame(rows), &known(frame(identities)).unwrap(), &record, &mut figures).unwrap();
    let right = [
        // By hand: root 100, the two that stayed 20, the one that was put in 5, the grown one 60.
        (Metric::MemorySumOfPeaks, 185.0),
        // The root's; what many have together is no process's.
        (Metric::VirtualPeak, 1100.0),
        (Metric::OpenFiles, 7.0),
        (Metric::Processes, 5.0),
        (Metric::Threads, 5.0),
    ];
    for (metric, right) in right {
        assert_eq!(figures.values[&metric], right, "{metric:?}");
    }
    let rss: Vec<f64> = figures.windows[&Quantity::MemoryRss].windows().values().copied().collect();
    let right = [165.0, 165.0, 165.0, 165.0, 185.0, 185.0, 185.0, 185.0, 175.0, 175.0];
    assert!(rss.len() == 10 && rss.iter().zip(right).all(|(rss, right)| (rss - right).abs() < 1e-6), "{rss:?}");
}

#[test]
fn an_empty_table_gives_nothing() {
    let figures = measured(Vec::new(), &[], ns(0.1));
    assert!(figures.values.is_empty() && figures.windows.is_empty());
}

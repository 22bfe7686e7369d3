//! Whether what `run.json` tells can be true. Figures rest on it: a limit of no cores, or a negative time, would make
//! every share that is told of it nonsense.

use super::run::{Coverage, Limits, RunRecord};

/// More than ten years of nanoseconds: no run lasts longer.
const LONGEST_NS: i64 = 10 * 366 * 24 * 3600 * 1_000_000_000;
/// How much more CPU time than cores × time is let pass: ticks that come a little early, and readings that are taken one
/// after the other.
const CPU_MARGIN: f64 = 1.01;
/// Likewise for runs of milliseconds, whose processes start and end outside of them.
const CPU_SLACK_NS: f64 = 250e6;
/// A reading of the recorder that is under way when the run ends goes on to its own end.
const AFTER_THE_RUN_NS: f64 = 10e9;
/// More cores than any machine has.
const MOST_CORES: u32 = 1 << 20;

/// What cannot be true, one phrase each; nothing where all can.
pub fn implausible(record: &RunRecord) -> Vec<String> {
    let mut found = Vec::new();
    let mut claim = |holds: bool, phrase: &dyn Fn() -> String| {
        if !holds {
            found.push(phrase());
        }
    };
    let limits = record.limits;
    claim((1..=MOST_CORES).contains(&limits.cores_online), &|| {
        format!("limits.cores_online is {}", limits.cores_online)
    });
    if let Some(cores) = limits.cpu_cores {
        claim(cores.is_finite() && cores > 0.0, &|| format!("limits.cpu_cores is {cores}"));
    }
    for (name, bytes) in
        [("memory_total_bytes", Some(limits.memory_total_bytes)), ("memory_bytes", limits.memory_bytes)]
    {
        let bytes = bytes.unwrap_or(i64::MAX);
        claim(bytes > 0, &|| format!("limits.{name} is {bytes}"));
    }
    for (name, time) in [("interval_ns", Some(record.interval_ns)), ("duration_ns", record.duration_ns)] {
        claim(time.is_none_or(|time| (1..=LONGEST_NS).contains(&time)), &|| format!("{name} is {}", time.unwrap_or(0)));
    }
    let times = [
        ("cpu.clocks_ns", record.cpu.clocks_ns),
        ("cpu.cgroup_ns", record.cpu.cgroup_ns),
        ("cpu.rusage_user_ns", record.cpu.rusage_user_ns),
        ("cpu.rusage_system_ns", record.cpu.rusage_system_ns),
        ("recorder.cpu_ns", record.recorder.cpu_ns),
        ("recorder.memory_probe_cpu_ns", record.recorder.memory_probe_cpu_ns),
        ("recorder.late_max_ns", record.recorder.late_max_ns),
    ];
    for (name, time) in times {
        // CPU time is of many cores, but not of more than there are.
        let most = LONGEST_NS.saturating_mul(i64::from(limits.cores_online.max(1)));
        claim(time.is_none_or(|time| (0..=most).contains(&time)), &|| format!("{name} is {}", time.unwrap_or(0)));
    }
    let numbers = [("run", record.run), ("sequence", record.sequence), ("block", record.block)];
    for (name, number) in numbers {
        claim(number > 0, &|| format!("{name} is {number}, which should count from 1"));
    }
    claim(record.coverage.iter().all(names_a_metric), &|| "a line of coverage names no metric".to_owned());
    found
}

/// What `run.json` tells that does not fit together, one phrase each. Such a run can be read, but its figures cannot be
/// told: of what `verify` names, `list` and the reports say the same.
pub fn contradictions(record: &RunRecord) -> Vec<String> {
    let (mut found, limits) = (Vec::new(), record.limits);
    if record.duration_ns.is_none() && record.outcome.is_finished() {
        found.push("the run is finished, but has no duration_ns".to_owned());
    }
    if let Some(most) = record.duration_ns.map(|duration_ns| most_cpu_ns(limits, duration_ns)) {
        let times = [
            ("clocks", record.cpu.clocks_ns, most),
            ("rusage", record.cpu.rusage_ns(), most),
            ("control group", record.cpu.cgroup_ns, most),
            ("of the recorder", record.recorder.cpu_ns, most + AFTER_THE_RUN_NS),
            ("of the memory probe", record.recorder.memory_probe_cpu_ns, most + AFTER_THE_RUN_NS),
        ];
        for (name, used, most) in times {
            if let Some(used) = used.map(|used| used as f64).filter(|used| *used > most) {
                let (used, most) = (used / 1e9, most / 1e9);
                found.push(format!(
                    "CPU time ({name}) is {used:.3} s, more than all cores could give in the time ({most:.3} s)"
                ));
            }
        }
    }
    if limits.cpu_cores.is_some_and(|cores| cores > f64::from(limits.cores_online)) {
        found.push("limits.cpu_cores is more than limits.cores_online".to_owned());
    }
    if limits.memory_bytes.is_some_and(|bytes| bytes > limits.memory_total_bytes) {
        found.push("limits.memory_bytes is more than limits.memory_total_bytes".to_owned());
    }
    found
}

/// The most CPU time that the cores of the machine can give in a time.
pub fn most_cpu_ns(limits: Limits, time_ns: i64) -> f64 {
    most_of_cores_ns(f64::from(limits.cores_online), time_ns)
}

/// Likewise one core.
pub fn most_of_one_core_ns(time_ns: i64) -> f64 {
    most_of_cores_ns(1.0, time_ns)
}

fn most_of_cores_ns(cores: f64, time_ns: i64) -> f64 {
    cores * time_ns.max(0) as f64 * CPU_MARGIN + CPU_SLACK_NS
}

fn names_a_metric(entry: &Coverage) -> bool {
    !entry.metric.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::run::Outcome;

    #[test]
    fn a_record_as_recorded_is_plausible() {
        assert!(implausible(&RunRecord::for_tests(Outcome::Finished)).is_empty());
    }

    #[test]
    fn each_thing_that_cannot_be_is_named() {
        type Change = fn(&mut RunRecord);
        let wrong: [(Change, &str); 13] = [
            (|record| record.limits.cores_online = 0, "limits.cores_online is 0"),
            (|record| record.limits.cpu_cores = Some(f64::NAN), "limits.cpu_cores is NaN"),
            (|record| record.limits.cpu_cores = Some(0.0), "limits.cpu_cores is 0"),
            (|record| record.limits.memory_bytes = Some(-1), "limits.memory_bytes is -1"),
            (|record| record.interval_ns = 0, "interval_ns is 0"),
            (|record| record.duration_ns = Some(-5), "duration_ns is -5"),
            (|record| record.duration_ns = Some(0), "duration_ns is 0"),
            (|record| record.duration_ns = Some(i64::MAX), "duration_ns is 9223372036854775807"),
            (|record| record.cpu.clocks_ns = Some(-1), "cpu.clocks_ns is -1"),
            (|record| record.cpu.cgroup_ns = Some(-1), "cpu.cgroup_ns is -1"),
            (|record| record.cpu.cgroup_ns = Some(i64::MAX), "cpu.cgroup_ns is 9223372036854775807"),
            (|record| record.recorder.memory_probe_cpu_ns = Some(-1), "recorder.memory_probe_cpu_ns is -1"),
            (|record| record.run = 0, "run is 0"),
        ];
        for (change, expected) in wrong {
            let mut record = RunRecord::for_tests(Outcome::Finished);
            change(&mut record);
            let found = implausible(&record);
            assert!(found.len() == 1 && found[0].contains(expected), "{found:?} should be {expected:?}");
        }
    }

    #[test]
    fn no_way_of_counting_cpu_time_may_tell_more_than_the_cores_could_give() {
        type Change = fn(&mut RunRecord, i64);
        // Two cores for 10 s; what the recorder reads may end after the run.
        let ways: [(Change, &str, i64); 5] = [
            (|record, ns| record.cpu.clocks_ns = Some(ns), "clocks", 20),
            (|record, ns| (record.cpu.rusage_user_ns, record.cpu.rusage_system_ns) = (Some(ns), Some(0)), "rusage", 20),
            (|record, ns| record.cpu.cgroup_ns = Some(ns), "control group", 20),
            (|record, ns| record.recorder.cpu_ns = Some(ns), "of the recorder", 30),
            (|record, ns| record.recorder.memory_probe_cpu_ns = Some(ns), "of the memory probe", 30),
        ];
        for (change, name, most) in ways {
            for (seconds, wrong) in [(most, 0), (most + 1, 1)] {
                let mut record =
                    RunRecord { duration_ns: Some(10_000_000_000), ..RunRecord::for_tests(Outcome::Finished) };
                change(&mut record, seconds * 1_000_000_000);
                let found = contradictions(&record);
                assert_eq!(found.len(), wrong, "{name} {found:?}");
                assert!(found.iter().all(|fault| fault.contains(&format!("({name}) is {seconds}.000 s"))), "{found:?}");
            }
        }
    }
}

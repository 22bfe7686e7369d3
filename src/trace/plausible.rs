//! Whether what `run.json` tells can be true. Figures rest on it: a limit of no cores, or a negative time, would make
//! every share that is told of it nonsense.

use super::run::{Coverage, RunRecord};

/// More than ten years of nanoseconds: no run lasts longer.
const LONGEST_NS: i64 = 10 * 366 * 24 * 3600 * 1_000_000_000;
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
    claim(limits.cpu_cores.is_finite() && limits.cpu_cores > 0.0, &|| {
        format!("limits.cpu_cores is {}", limits.cpu_cores)
    });
    for (name, bytes) in [("memory_total_bytes", limits.memory_total_bytes), ("memory_bytes", limits.memory_bytes)] {
        claim(bytes > 0, &|| format!("limits.{name} is {bytes}"));
    }
    claim((1..=LONGEST_NS).contains(&record.interval_ns), &|| format!("interval_ns is {}", record.interval_ns));
    let times = [
        ("duration_ns", record.duration_ns),
        ("cpu.clocks_ns", record.cpu.clocks_ns),
        ("cpu.rusage_user_ns", record.cpu.rusage_user_ns),
        ("cpu.rusage_system_ns", record.cpu.rusage_system_ns),
        ("recorder.cpu_ns", record.recorder.cpu_ns),
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
        let wrong: [(Change, &str); 9] = [
            (|record| record.limits.cores_online = 0, "limits.cores_online is 0"),
            (|record| record.limits.cpu_cores = f64::NAN, "limits.cpu_cores is NaN"),
            (|record| record.limits.cpu_cores = 0.0, "limits.cpu_cores is 0"),
            (|record| record.limits.memory_bytes = -1, "limits.memory_bytes is -1"),
            (|record| record.interval_ns = 0, "interval_ns is 0"),
            (|record| record.duration_ns = Some(-5), "duration_ns is -5"),
            (|record| record.duration_ns = Some(i64::MAX), "duration_ns is 9223372036854775807"),
            (|record| record.cpu.clocks_ns = Some(-1), "cpu.clocks_ns is -1"),
            (|record| record.run = 0, "run is 0"),
        ];
        for (change, expected) in wrong {
            let mut record = RunRecord::for_tests(Outcome::Finished);
            change(&mut record);
            let found = implausible(&record);
            assert!(found.len() == 1 && found[0].contains(expected), "{found:?} should be {expected:?}");
        }
    }
}

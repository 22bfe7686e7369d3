//! How long a session will take, by what earlier runs of the same cases took.

use std::collections::HashMap;
use std::time::Duration;

use crate::record::plan::Plan;
use crate::record::plan::order::Slot;
use crate::trace::Run;
use crate::trace::open::Environment;

/// How long each case's last finished run took in each environment.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    known: HashMap<(usize, usize), Duration>,
}

/// The sum over a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Of all runs whose case has been recorded before.
    pub time: Duration,
    /// How many runs belong to cases that have not.
    pub unknown_runs: usize,
}

impl Durations {
    /// Learns from the runs of one of the plan's environments.
    pub(super) fn learn(&mut self, plan: &Plan, target: usize, before: &Environment) {
        for (place, case) in plan.targets[target].cases.iter().enumerate() {
            let name = case.name();
            let finished = |run: &&Run| run.record.outcome.is_finished() && run.record.case() == name;
            let last = before.runs.iter().rev().find(finished).and_then(|run| run.record.duration_ns);
            self.known.extend(last.map(|ns| ((target, place), Duration::from_nanos(ns.unsigned_abs()))));
        }
    }

    pub(super) fn insert(&mut self, slot: Slot, duration_ns: i64) {
        self.known.insert((slot.target, slot.case), Duration::from_nanos(duration_ns.unsigned_abs()));
    }

    /// How long the next run of a case is expected to take.
    pub fn of(&self, slot: Slot) -> Option<Duration> {
        self.known.get(&(slot.target, slot.case)).copied()
    }

    /// How long one run of each case is expected to take, as far as that is known.
    pub(super) fn of_block(&self, counts: impl Fn(&(usize, usize)) -> bool) -> Duration {
        self.known.iter().filter(|(case, _)| counts(case)).map(|(_, time)| *time).sum()
    }

    pub fn estimate(&self, plan: &Plan) -> Estimate {
        let once: Duration = self.known.values().sum();
        let cases: usize = plan.targets.iter().map(|target| target.cases.len()).sum();
        Estimate {
            time: once.saturating_mul(plan.repeats),
            unknown_runs: (cases - self.known.len()).saturating_mul(plan.repeats as usize),
        }
    }
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = Duration::from_secs(self.time.as_secs_f64().ceil() as u64);
        let time = humantime::format_duration(whole);
        match (self.time.is_zero(), self.unknown_runs) {
            (true, _) => write!(formatter, "no estimate, because no run of these cases has finished before"),
            (false, 0) => write!(formatter, "about {time}"),
            (false, unknown) => {
                write!(formatter, "about {time}, not counting the {unknown} run(s) of cases without an earlier one")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_says_what_it_does_not_hold() {
        let estimate = |ms, unknown_runs| Estimate { time: Duration::from_millis(ms), unknown_runs }.to_string();
        assert_eq!(estimate(0, 3), "no estimate, because no run of these cases has finished before");
        assert_eq!(estimate(61_200, 0), "about 1m 2s");
        assert_eq!(estimate(100, 4), "about 1s, not counting the 4 run(s) of cases without an earlier one");
    }
}

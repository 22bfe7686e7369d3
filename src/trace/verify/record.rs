//! What `run.json` tells, beyond what reading refuses: totals against the time, and runs against each other.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Checked, Verdict};
use crate::trace::run::{REMEDY, RunRecord};

/// How much more CPU time than cores × time is let pass: ticks that come a little early, and readings that are taken one
/// after the other.
const CPU_MARGIN: f64 = 1.01;
/// Likewise for runs of milliseconds, whose processes start and end outside of them.
const CPU_SLACK_NS: f64 = 250e6;

/// Checks a record by itself.
pub(super) fn check(path: &Path, record: &RunRecord, verdict: &mut Verdict) {
    let Some(duration_ns) = record.duration_ns else {
        if record.outcome.is_finished() {
            verdict.problem(path, "the run is finished, but has no duration_ns", REMEDY);
        }
        return;
    };
    let most = f64::from(record.limits.cores_online) * duration_ns as f64 * CPU_MARGIN + CPU_SLACK_NS;
    let rusage = record.cpu.rusage_user_ns.zip(record.cpu.rusage_system_ns).map(|(user, system)| user + system);
    for (name, used) in
        [("clocks", record.cpu.clocks_ns), ("rusage", rusage), ("of the recorder", record.recorder.cpu_ns)]
    {
        if let Some(used) = used.filter(|used| *used as f64 > most) {
            let (used, most) = (used as f64 / 1e9, most / 1e9);
            let what =
                format!("CPU time ({name}) is {used:.3} s, more than all cores could give in the time ({most:.3} s)");
            verdict.problem(path, &what, REMEDY);
        }
    }
    if record.limits.cpu_cores > f64::from(record.limits.cores_online) {
        verdict.problem(path, "limits.cpu_cores is more than limits.cores_online", REMEDY);
    }
    if record.limits.memory_bytes > record.limits.memory_total_bytes {
        verdict.problem(path, "limits.memory_bytes is more than limits.memory_total_bytes", REMEDY);
    }
}

/// Within one session every run has a place of its own.
pub(super) fn of_sessions(environment: &Path, checked: &[Checked], verdict: &mut Verdict) {
    let mut places: BTreeMap<(i64, u32), &Checked> = BTreeMap::new();
    for run in checked {
        if let Some(other) = places.insert((run.record.session_unix_ns, run.record.sequence), run) {
            let name = |run: &Checked| format!("case={}/run={}", run.case_slug, run.record.run);
            let what = format!("{} and {} have the same place in one session", name(other), name(run));
            verdict.problem(environment, &what, "one of them is a copy: remove it");
        }
    }
}

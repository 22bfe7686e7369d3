//! Whether memory did not suffice: the kernel killed for it, told apart from any other SIGKILL, or the command told so.

use std::collections::BTreeMap;
use std::path::Path;

use nix::sys::signal::Signal;

use super::probe::kernel;
use crate::trace::run::{GroupScope, Outcome};

/// The setting that a workload tells when memory ran out: the phase that it was in.
const OOM_PHASE: &str = "oom_phase";

/// How many processes were killed for lack of memory during the run, and among whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kills {
    pub count: i64,
    pub among: Among,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// The run's own group, or the container's.
    Run,
    /// The group that the recorder may share with others.
    SharedGroup,
    /// All processes of the machine.
    Machine,
}

/// Processes of the whole machine that were killed for lack of memory since boot; `None` before Linux 4.13.
pub fn machine_kills(proc: &Path) -> Option<i64> {
    kernel::flat_value(&std::fs::read_to_string(proc.join("vmstat")).ok()?, "oom_kill")
}

impl Kills {
    /// The evidence that is closest to the run: of its group, else of the shared group, else of the machine. The nearer
    /// one's "none" holds: what was killed elsewhere is not the run's.
    pub fn nearest(of_group: Option<(i64, GroupScope)>, of_machine: Option<i64>) -> Option<Self> {
        let group = of_group.map(|(count, scope)| {
            let among = if scope.is_the_runs() { Among::Run } else { Among::SharedGroup };
            Self { count, among }
        });
        group.or(of_machine.map(|count| Self { count, among: Among::Machine })).filter(|kills| kills.count > 0)
    }

    /// The outcome in the light of the kills, and the sentence that says what is known.
    ///
    /// A root process that SIGKILL ended while the counter rose is taken for killed by the kernel also on the evidence
    /// of a shared group or the machine, because few others send that signal; the sentence says what it rests on.
    pub fn judge(self, outcome: Outcome) -> (Outcome, String) {
        let times = self.count;
        let killed = Outcome::Killed { signal: Signal::SIGKILL as i32 };
        let root = outcome == killed;
        let outcome = if root { Outcome::OutOfMemory { signal: outcome.signal(), exit_code: None } } else { outcome };
        let sentence = match (self.among, root) {
            (Among::Run, true) => format!(
                "the kernel killed {times} process(es) of the run for lack of memory, and the root process was ended by \
                 SIGKILL"
            ),
            (Among::Run, false) => {
                format!("the kernel killed {times} process(es) of the run for lack of memory, but not the root process")
            }
            (Among::SharedGroup | Among::Machine, true) => format!(
                "the kernel killed {times} process(es) {} for lack of memory during the run, and the root process was \
                 ended by SIGKILL, which the recorder did not send; that it was this one is likely, not certain",
                self.place()
            ),
            (Among::SharedGroup | Among::Machine, false) => format!(
                "the kernel killed {times} process(es) {} for lack of memory during the run; it may not have been one of \
                 this run",
                self.place()
            ),
        };
        (outcome, sentence)
    }

    fn place(self) -> &'static str {
        match self.among {
            Among::Machine => "on this machine",
            _ => "of the recorder's control group",
        }
    }
}

/// The outcome in the light of what the command told: one that failed after it set `oom_phase` met a lack of memory that it
/// could report itself, as `shice-workloads` does.
pub fn as_told(outcome: Outcome, told: &BTreeMap<String, String>) -> Outcome {
    match outcome {
        Outcome::Failed { exit_code } if told.contains_key(OOM_PHASE) => {
            Outcome::OutOfMemory { signal: None, exit_code: Some(exit_code) }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_failed_and_told_of_lacking_memory_ran_out_of_it_and_no_other_did() {
        let failed = Outcome::Failed { exit_code: 12 };
        let told = BTreeMap::from([(OOM_PHASE.to_owned(), "train".to_owned())]);
        assert_eq!(as_told(failed, &told), Outcome::OutOfMemory { signal: None, exit_code: Some(12) });
        assert_eq!(as_told(failed, &BTreeMap::new()), failed);
        // One that went on with a smaller batch, say.
        assert_eq!(as_told(Outcome::Finished, &told), Outcome::Finished);
        assert_eq!(as_told(SIGKILLED, &told), SIGKILLED);
    }

    const SIGKILLED: Outcome = Outcome::Killed { signal: 9 };
    const OUT_OF_MEMORY: Outcome = Outcome::OutOfMemory { signal: Some(9), exit_code: None };

    fn judged(of_group: Option<(i64, GroupScope)>, of_machine: Option<i64>, outcome: Outcome) -> (Outcome, String) {
        let kills = Kills::nearest(of_group, of_machine);
        kills.map_or((outcome, String::new()), |kills| kills.judge(outcome))
    }

    #[test]
    fn a_sigkill_while_the_groups_counter_rose_is_a_lack_of_memory() {
        let (outcome, sentence) = judged(Some((1, GroupScope::Own)), Some(1), SIGKILLED);
        assert_eq!(outcome, OUT_OF_MEMORY);
        assert!(sentence.contains("of the run"), "{sentence}");
    }

    #[test]
    fn a_sigkill_without_a_kill_in_the_runs_own_group_is_someone_elses_signal() {
        assert_eq!(judged(Some((0, GroupScope::Own)), Some(3), SIGKILLED), (SIGKILLED, String::new()));
    }

    #[test]
    fn evidence_that_others_share_is_said_to_be_shared() {
        for (group, machine) in [(Some((1, GroupScope::Shared)), None), (None, Some(2))] {
            let (outcome, sentence) = judged(group, machine, SIGKILLED);
            assert_eq!(outcome, OUT_OF_MEMORY);
            assert!(sentence.contains("likely, not certain"), "{sentence}");
            let (outcome, sentence) = judged(group, machine, Outcome::Finished);
            assert_eq!(outcome, Outcome::Finished);
            assert!(sentence.contains("may not have been one of this run"), "{sentence}");
        }
    }

    #[test]
    fn a_child_that_was_killed_changes_no_outcome_but_is_told() {
        let failed = Outcome::Failed { exit_code: 137 };
        let (outcome, sentence) = judged(Some((2, GroupScope::Container)), None, failed);
        assert_eq!(outcome, failed);
        assert!(sentence.starts_with("the kernel killed 2 process(es) of the run"), "{sentence}");
        assert_eq!(judged(None, None, SIGKILLED).0, SIGKILLED);
    }

    #[test]
    fn the_machines_counter_is_read_from_vmstat() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("vmstat"), "pgfault 1\noom_kill 7\noom_kill_x 9\n").unwrap();
        assert_eq!(machine_kills(folder.path()), Some(7));
        assert_eq!(machine_kills(&folder.path().join("none")), None);
    }
}

//! `shice record`.

use anyhow::{Error, Result};

use crate::console;
use crate::record::child::CannotStart;
use crate::record::plan::{Plan, Request};
use crate::record::session::{self, End, Recorded, RecordedEnvironment};

/// Exit code for what went wrong in recording itself, as `env` and `timeout` have it.
pub const OWN_FAILURE: u8 = 125;
const INTERRUPTED: u8 = 130;
/// Exit codes of commands that a signal ended begin after this, as in the shell.
const SIGNAL_BASE: i32 = 128;

/// Records, says where the trace lies, and returns the exit code.
///
/// # Errors
/// Nothing could be recorded, or recording itself failed.
pub fn run(request: Request) -> Result<u8> {
    let dry_run = request.dry_run;
    let plan = Plan::new(request)?;
    if dry_run {
        return super::dry_run::run(&plan);
    }
    let recorded = session::record(&plan)?;
    for environment in &recorded.environments {
        let RecordedEnvironment { folder, runs, dropped } = environment;
        if *dropped > 0 {
            console::say(&format!(
                "{dropped} run(s) are not kept: no run of their case finished, so the earlier runs stay in their place"
            ));
        }
        console::say(&format!("{runs} run(s) recorded in {}", folder.display()));
    }
    Ok(code(&recorded))
}

/// The exit code of an error of [`run`].
pub fn exit_code(error: &Error) -> u8 {
    let cannot_start = error.chain().find_map(|cause| cause.downcast_ref::<CannotStart>());
    cannot_start.map_or(OWN_FAILURE, |cannot| byte(cannot.exit_code))
}

fn code(recorded: &Recorded) -> u8 {
    if recorded.interrupted {
        return INTERRUPTED;
    }
    match recorded.ends.as_slice() {
        [End::Ran(outcome)] if recorded.planned == 1 => {
            let of_signal = outcome.signal().map(|signal| SIGNAL_BASE + signal);
            of_signal.or(outcome.exit_code()).map_or(1, byte)
        }
        // Nothing ran at all: told as for a command that was missing from the start.
        [End::NotStarted { exit_code }, others @ ..] if !others.iter().any(|end| matches!(end, End::Ran(_))) => {
            byte(*exit_code)
        }
        ends => u8::from(!ends.iter().all(|end| end.is_finished())),
    }
}

fn byte(code: i32) -> u8 {
    u8::try_from(code).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::run::Outcome;

    fn code_of(ends: &[End], planned: usize, interrupted: bool) -> u8 {
        code(&Recorded { environments: Vec::new(), ends: ends.to_vec(), planned, interrupted })
    }

    #[test]
    fn one_run_hands_on_its_own_exit_code_and_several_become_one() {
        let [finished, failed, killed, interrupted] =
            [Outcome::Finished, Outcome::Failed { exit_code: 7 }, Outcome::Killed { signal: 9 }, Outcome::Interrupted]
                .map(End::Ran);
        assert_eq!(code_of(&[finished], 1, false), 0);
        assert_eq!(code_of(&[failed], 1, false), 7);
        assert_eq!(code_of(&[killed], 1, false), 137);
        let [by_kernel, told] = [(Some(9), None), (None, Some(12))]
            .map(|(signal, exit_code)| End::Ran(Outcome::OutOfMemory { signal, exit_code }));
        assert_eq!(code_of(&[by_kernel], 1, false), 137);
        assert_eq!(code_of(&[told], 1, false), 12);
        assert_eq!(code_of(&[finished, failed], 2, false), 1);
        assert_eq!(code_of(&[finished, finished], 2, false), 0);
        assert_eq!(code_of(&[interrupted], 1, true), 130);
        // Stopped at the first of several.
        assert_eq!(code_of(&[failed], 5, false), 1);
    }

    #[test]
    fn a_command_that_cannot_be_started_tells_as_the_shell_does_unless_others_ran() {
        let missing = End::NotStarted { exit_code: 127 };
        assert_eq!(code_of(&[missing], 5, false), 127);
        assert_eq!(code_of(&[missing, End::NotStarted { exit_code: 126 }], 10, false), 127);
        assert_eq!(code_of(&[End::Ran(Outcome::Finished), missing], 2, false), 1);
        assert_eq!(code_of(&[missing, End::Ran(Outcome::Finished)], 2, false), 1);
    }
}

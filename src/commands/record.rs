//! `shice record`.

use anyhow::{Error, Result};

use crate::console;
use crate::record::child::CannotStart;
use crate::record::plan::{Plan, Request};
use crate::record::session::{self, Recorded};
use crate::trace::run::Outcome;

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
    let plan = Plan::new(request)?;
    let recorded = session::record(&plan)?;
    console::say(&format!("{} run(s) recorded in {}", recorded.outcomes.len(), recorded.folder.display()));
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
    match recorded.outcomes.as_slice() {
        [Outcome::Failed { exit_code }] => byte(*exit_code),
        [Outcome::Killed { signal }] => byte(SIGNAL_BASE + signal),
        outcomes => u8::from(outcomes.iter().any(|outcome| !outcome.is_finished())),
    }
}

fn byte(code: i32) -> u8 {
    u8::try_from(code).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(outcomes: &[Outcome], interrupted: bool) -> Recorded {
        Recorded { folder: "traces".into(), outcomes: outcomes.to_vec(), interrupted }
    }

    #[test]
    fn one_run_hands_on_its_own_exit_code_and_several_become_one() {
        let failed = Outcome::Failed { exit_code: 7 };
        let killed = Outcome::Killed { signal: 9 };
        assert_eq!(code(&recorded(&[Outcome::Finished], false)), 0);
        assert_eq!(code(&recorded(&[failed], false)), 7);
        assert_eq!(code(&recorded(&[killed], false)), 137);
        assert_eq!(code(&recorded(&[Outcome::Finished, failed], false)), 1);
        assert_eq!(code(&recorded(&[Outcome::Interrupted], true)), 130);
    }
}

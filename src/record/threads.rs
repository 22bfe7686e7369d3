//! Threads of the recorder. Where no more can be had (`ulimit -u`, a limit of the control group) that is an error to tell
//! of, not the end of the program.

use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use anyhow::{Context, Result};

const REFUSED: &str =
    "the system gives shice no further thread; raise `ulimit -u` or the pids limit of the control group";

/// Starts a thread that may outlive whoever starts it.
///
/// # Errors
/// There is none to be had.
pub fn start<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(work).context(REFUSED)
}

/// A thread of a probe within a run, or why it has none; a run is recorded without it.
pub struct Helper<'scope, T>(Result<ScopedJoinHandle<'scope, T>>);

impl<'scope, T: Send + 'scope> Helper<'scope, T> {
    pub fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        name: &str,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> Self {
        Self(Builder::new().name(name.to_owned()).spawn_scoped(scope, work).context(REFUSED))
    }

    /// Waits for what it came to.
    ///
    /// # Errors
    /// Why it came to nothing, in the ledger's words.
    pub fn join(self) -> Result<T, String> {
        let thread = self.0.map_err(|error| format!("{error:#}"))?;
        thread.join().map_err(|_| "the thread that was to read it has failed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_that_cannot_be_started_or_fails_says_why() {
        let refused: Helper<'_, ()> = Helper(Err(anyhow::anyhow!("out of threads").context(REFUSED)));
        assert!(refused.join().unwrap_err().contains("raise `ulimit -u`"));
        std::thread::scope(|scope| {
            assert_eq!(Helper::start(scope, "seven", || 7).join(), Ok(7));
            let failing = Helper::start(scope, "failing", || std::panic::panic_any(()));
            assert!(failing.join().unwrap_err().contains("has failed"));
        });
    }
}

//! The lock of an environment's folder: two recorders never write into the same one.

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::layout::LOCK_FILE;
use crate::files;

/// How long a lock is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// Held while it lives. The kernel lets go of it when the process dies, however it dies.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock of an environment's folder, which must exist.
    ///
    /// # Errors
    /// Another recorder holds it, or the file cannot be made.
    pub fn take(environment: &Path) -> Result<Self> {
        match Self::wait(environment)? {
            Some(lock) => Ok(lock),
            None => Err(held(environment)),
        }
    }

    /// As [`Lock::take`], without taking it or making anything.
    ///
    /// # Errors
    /// Another recorder holds it.
    pub fn refuse_if_held(environment: &Path) -> Result<()> {
        if Self::is_held(environment) { Err(held(environment)) } else { Ok(()) }
    }

    /// The lock, or `None` where somebody holds it for longer than another reader needs to finish a run.
    ///
    /// # Errors
    /// The file cannot be made; it is named.
    pub fn wait(environment: &Path) -> Result<Option<Self>> {
        let begun = Instant::now();
        loop {
            match Self::try_take(environment)? {
                None if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
                lock => return Ok(lock),
            }
        }
    }

    /// The open file that carries the lock, for a child process: the lock is held until both have let go of it.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn share(&self) -> Result<File> {
        self.file.try_clone().context("cannot hand the lock of the environment's folder on")
    }

    /// Whether a recorder, or a reader that finishes a run, holds the lock of an environment's folder. Changes nothing.
    pub fn is_held(environment: &Path) -> bool {
        let file = files::open(&environment.join(LOCK_FILE));
        file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    fn try_take(environment: &Path) -> Result<Option<Self>> {
        let path = environment.join(LOCK_FILE);
        let failed = || format!("cannot lock {}", path.display());
        // A pipe in its place is an error, not a wait for its reader.
        let mut options = File::options();
        options.create(true).append(true).custom_flags(nix::libc::O_NONBLOCK);
        let file = options.open(&path).with_context(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).with_context(failed),
        }
    }
}

fn held(environment: &Path) -> anyhow::Error {
    anyhow!("another shice is recording into {}; wait for it, or use another --env or --out", environment.display())
}

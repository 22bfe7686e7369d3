//! Finishes runs in a short-lived process of this very program: writing Parquet takes tens of megabytes of memory that are
//! not given back, and the recorder's own memory is to stay the same over many runs.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::console::say;
use crate::trace::lock::Lock;
use crate::trace::open::{finish_environment, has_unfinished};

/// Hidden first argument by which this program finishes what was recorded; the second is the environment's folder.
pub const FINISHER: &str = "__finish";

/// Turns all journals of an environment into Parquet, where there are any.
///
/// # Errors
/// A run could not be finished; its journal is kept, and the message says what happens to it.
pub fn finish(environment: &Path, lock: &Lock) -> Result<()> {
    if has_unfinished(environment)? { derive(environment, lock) } else { Ok(()) }
}

/// Writes what is derived of an environment's runs anew, and finishes those that are not. The other process holds the lock
/// too: should this one be killed, nobody else begins with the same runs.
///
/// # Errors
/// As [`finish`].
pub fn derive(environment: &Path, lock: &Lock) -> Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("shice").arg(FINISHER).arg(environment);
    // One thread is enough for files of this size. In a group of its own, Ctrl-C does not cut it.
    command.env("POLARS_MAX_THREADS", "1").process_group(0);
    command.stdin(lock.share()?).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().context("cannot start another process of shice")?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    match output.status.signal() {
        Some(signal) => bail!(
            "the process that turns samples into Parquet was ended by signal {signal} (out of memory?); nothing is \
             lost, and the next `shice list` or `render` tries again"
        ),
        None => bail!("{}", message.trim_end()),
    }
}

/// What the process does; returns its exit code.
pub fn run(arguments: &[OsString]) -> u8 {
    let [environment] = arguments else { return 2 };
    match finish_environment(Path::new(environment)) {
        Ok(()) => 0,
        Err(error) => {
            say(&format!("{error:#}"));
            1
        }
    }
}

//! The workload's root process: started stopped, watched, ended with all that it left behind, and waited for.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::{Signal, kill, killpg, raise};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, execv};

use crate::trace::run::Outcome;

/// Hidden first argument by which this program starts a command: stop, wait to be continued, become the command.
pub const SHIM: &str = "__start-stopped";

/// A command that could not be started at all; the exit code is the shell's for it.
#[derive(Debug)]
pub struct CannotStart {
    pub exit_code: i32,
    message: String,
}

impl std::fmt::Display for CannotStart {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for CannotStart {}

const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// Finds what the shell would run for `program`.
///
/// # Errors
/// [`CannotStart`] where there is no such program or it may not be executed.
pub fn resolve(program: &str) -> Result<PathBuf, CannotStart> {
    let candidates: Vec<PathBuf> = if program.contains('/') {
        vec![PathBuf::from(program)]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|dir| dir.join(program)).collect()
    };
    let is_executable =
        |path: &&PathBuf| path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    if let Some(found) = candidates.iter().find(is_executable) {
        return std::path::absolute(found).map_err(|error| CannotStart {
            exit_code: NOT_FOUND,
            message: format!("cannot find {program:?}: {error}"),
        });
    }
    Err(if candidates.iter().any(|path| path.exists()) {
        CannotStart {
            exit_code: NOT_EXECUTABLE,
            message: format!("cannot execute {program:?}: it is a folder or lacks the execute permission (chmod +x)"),
        }
    } else {
        CannotStart {
            exit_code: NOT_FOUND,
            message: format!("cannot find the command {program:?}; check its spelling and PATH"),
        }
    })
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Spec {
    /// As found by [`resolve`].
    pub program: PathBuf,
    /// The command as given; the first word is what the process sees as its own name.
    pub command: Vec<String>,
    pub environment: Vec<(OsString, OsString)>,
}

/// A root process and its process group.
#[derive(Debug)]
pub struct Child {
    pub pid: Pid,
    pub stdout: Option<std::process::ChildStdout>,
    pub stderr: Option<std::process::ChildStderr>,
}

impl Child {
    /// Starts a command stopped, in a process group of its own, so that the probes can be ready before it runs.
    ///
    /// # Errors
    /// It could not be started, or did not stop.
    pub fn start_stopped(spec: &Spec) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let this_program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(this_program);
        command.arg(SHIM).arg(&spec.program).args(&spec.command).envs(spec.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", spec.program.display()))?;
        let pid = Pid::from_raw(i32::try_from(child.id()).context("the process id is out of range")?);
        match waitpid(pid, Some(WaitPidFlag::WUNTRACED)).context("cannot wait for the started process")? {
            WaitStatus::Stopped(..) => Ok(Self { pid, stdout: child.stdout.take(), stderr: child.stderr.take() }),
            status => Err(anyhow!("{} ended before it began ({status:?})", spec.program.display())),
        }
    }

    /// Lets the stopped process run.
    ///
    /// # Errors
    /// The signal could not be sent.
    pub fn resume(&self) -> Result<()> {
        kill(self.pid, Signal::SIGCONT).context("cannot start the stopped process")
    }

    /// Sends a signal to the process group and to `others`, which may have left it.
    pub fn signal_all(&self, signal: Signal, others: &[Pid]) {
        // Whoever is gone already needs no signal.
        let _ = killpg(self.pid, signal);
        for pid in others {
            let _ = kill(*pid, signal);
        }
    }
}

/// Ended children of this process, the root or orphans handed to it, one a call: the pid, while its last figures can
/// still be read. [`reap`] lets it go.
pub fn next_ended() -> Option<Pid> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, flags).ok()?.pid()
}

/// Waits for an ended child and tells how it ended.
pub fn reap(pid: Pid) -> Option<Outcome> {
    match waitpid(pid, None).ok()? {
        WaitStatus::Exited(_, 0) => Some(Outcome::Finished),
        WaitStatus::Exited(_, exit_code) => Some(Outcome::Failed { exit_code }),
        WaitStatus::Signaled(_, signal, _) => Some(Outcome::Killed { signal: signal as i32 }),
        _ => None,
    }
}

/// The shim: stops itself, and once continued becomes the command. Returns only if that failed.
pub fn run_shim(arguments: &[OsString]) -> anyhow::Error {
    let [program, command @ ..] = arguments else { return anyhow!("{SHIM} is for shice itself") };
    if let Err(error) = raise(Signal::SIGSTOP) {
        return anyhow!("cannot stop before the start: {error}");
    }
    let text = |word: &OsStr| CString::new(word.as_bytes());
    let words: Result<Vec<CString>, _> = command.iter().map(|word| text(word)).collect();
    match (text(program), words) {
        (Ok(path), Ok(words)) => match execv(&path, &words) {
            Err(error) => anyhow!("cannot execute {}: {error}", Path::new(program).display()),
        },
        _ => anyhow!("a word of the command holds a NUL byte"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_command_is_127_and_one_without_permission_126() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plain.txt");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(resolve("no-such-command-anywhere").unwrap_err().exit_code, 127);
        assert_eq!(resolve(file.to_str().unwrap()).unwrap_err().exit_code, 126);
        assert_eq!(resolve(folder.path().to_str().unwrap()).unwrap_err().exit_code, 126);
        assert!(resolve("sh").unwrap().is_absolute());
    }
}

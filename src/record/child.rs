//! The workload's root process: started stopped, watched, ended with all that it left behind, and waited for.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::{Signal, kill, killpg, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::ended::Earlier;
use super::output::{self, Ours, Window};
use super::run::PROC;

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
    if program.is_empty() {
        let message = "the command is empty where the program should be named (was a variable of the shell empty?)";
        return Err(CannotStart { exit_code: NOT_FOUND, message: message.to_owned() });
    }
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
    /// Where the shim tells that the command could not be executed.
    pub failure: PathBuf,
}

/// A root process and its process group.
#[derive(Debug)]
pub struct Child {
    pub pid: Pid,
    /// Other children of ours that were there before it.
    pub earlier: Earlier,
    /// What the command writes; taken by whoever reads it.
    pub stdout: Option<File>,
    pub stderr: Option<File>,
    /// Of those that are pseudo-terminals.
    windows: Vec<Window>,
    /// It stands still, and nobody else will ever let it run: it ends with this value.
    stands_still: Cell<bool>,
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.stands_still.get() {
            // Where it cannot be ended nothing more can be done.
            let _ = kill(self.pid, Signal::SIGKILL);
            let _ = waitpid(self.pid, None);
        }
    }
}

impl Child {
    /// Starts a command stopped, in a process group of its own, so that the probes can be ready before it runs.
    ///
    /// # Errors
    /// It could not be started, or did not stop.
    pub fn start_stopped(spec: &Spec) -> Result<Self> {
        let earlier = Earlier::look(Path::new(PROC));
        // This very program, also when its file has been replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("shice").arg(SHIM).arg(&spec.failure).arg(&spec.program).args(&spec.command);
        command.envs(spec.environment.iter().cloned()).process_group(0);
        let [stdout, stderr] = [output::ends(Ours::Stdout)?, output::ends(Ours::Stderr)?];
        command.stdin(Stdio::null()).stdout(stdout.child).stderr(stderr.child);
        let child = command.spawn().context("cannot start another process of shice")?;
        // With it go our own copies of the ends that the child writes to: else they would never end.
        drop(command);
        let pid = Pid::from_raw(i32::try_from(child.id()).context("the process id is out of range")?);
        let started = Self {
            pid,
            earlier,
            stdout: Some(stdout.stream),
            stderr: Some(stderr.stream),
            windows: stdout.window.into_iter().chain(stderr.window).collect(),
            stands_still: Cell::new(true),
        };
        match waitpid(pid, Some(WaitPidFlag::WUNTRACED)).context("cannot wait for the started process")? {
            WaitStatus::Stopped(..) => Ok(started),
            status => {
                // It was waited for: its pid may be another's by now.
                started.stands_still.set(false);
                let program = spec.program.display();
                Err(anyhow!("{program} ended before it began ({status:?}); start it by hand to see why"))
            }
        }
    }

    /// Lets the stopped process run. One that is never let run is ended when this value goes.
    ///
    /// # Errors
    /// The signal could not be sent.
    pub fn resume(&self) -> Result<()> {
        kill(self.pid, Signal::SIGCONT).context("cannot start the stopped process")?;
        self.stands_still.set(false);
        Ok(())
    }

    /// Gives the command's pseudo-terminals the size of our terminal, and tells the command of it: only a terminal's own
    /// session would be told by the kernel.
    pub fn resize(&self) {
        self.windows.iter().for_each(Window::follow);
        if !self.windows.is_empty() {
            let _ = killpg(self.pid, Signal::SIGWINCH);
        }
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

/// Why the command could not be executed, if that is how its process ended.
pub fn execution_failure(failure: &Path) -> Option<CannotStart> {
    let text = std::fs::read_to_string(failure).ok()?;
    let (exit_code, message) = text.split_once(' ')?;
    Some(CannotStart { exit_code: exit_code.parse().ok()?, message: message.to_owned() })
}

/// The shim: stops itself, and once continued becomes the command. Returns only if that failed, with its exit code.
pub fn run_shim(arguments: &[OsString]) -> u8 {
    let [failure, program, name, words @ ..] = arguments else { return byte(NOT_FOUND) };
    if raise(Signal::SIGSTOP).is_err() {
        return byte(NOT_EXECUTABLE);
    }
    // Unlike a bare execve this gives back the signals that Rust's start has set aside: SIGPIPE ends a process again.
    let error = Command::new(program).arg0(name).args(words).exec();
    let exit_code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    let program = Path::new(program).display();
    // Where even this cannot be written the exit code still tells.
    let _ = std::fs::write(failure, format!("{exit_code} cannot execute {program}: {error}; is its first line right?"));
    byte(exit_code)
}

fn byte(exit_code: i32) -> u8 {
    u8::try_from(exit_code).unwrap_or(u8::MAX)
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
        let nothing = resolve("").unwrap_err();
        assert!(nothing.exit_code == 127 && nothing.to_string().contains("the command is empty"), "{nothing}");
        assert_eq!(resolve(file.to_str().unwrap()).unwrap_err().exit_code, 126);
        assert_eq!(resolve(folder.path().to_str().unwrap()).unwrap_err().exit_code, 126);
        assert!(resolve("sh").unwrap().is_absolute());
    }

    fn standing(pid: Pid) -> Child {
        let stands_still = Cell::new(true);
        Child { pid, earlier: Earlier::default(), stdout: None, stderr: None, windows: Vec::new(), stands_still }
    }

    #[test]
    fn a_child_that_is_never_let_run_is_ended_and_waited_for() {
        // A stand-in for the shim: it stops itself.
        let mut process = Command::new("sh").args(["-c", "kill -STOP $$"]).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(process.id()).unwrap());
        assert!(matches!(waitpid(pid, Some(WaitPidFlag::WUNTRACED)), Ok(WaitStatus::Stopped(..))));
        let child = standing(pid);
        drop(child);
        let error = process.wait().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(nix::libc::ECHILD), "it was not waited for");
    }

    #[test]
    fn a_child_that_runs_outlives_the_value() {
        let mut process = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(process.id()).unwrap());
        let child = standing(pid);
        child.resume().unwrap();
        drop(child);
        assert!(process.try_wait().unwrap().is_none(), "it has ended");
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

//! One process of the tree: who it is and what can be read of it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::ledger::Ledger;
use crate::record::clock::nanoseconds;
use crate::record::probe::kernel::{self, Identity};
use crate::record::source::Source;
use crate::trace::tables::ProcessSample;

/// A process, identified by pid and start time.
pub(super) struct Member {
    pub(super) pid: i32,
    pub(super) start_ticks: i64,
    /// Number of the parent within the run.
    pub(super) parent: Option<i64>,
    /// Whether it was ever seen in the control group that is followed.
    pub(super) inside: bool,
    pub(super) name: String,
    /// The name that is in the journal already.
    pub(super) written_name: Option<String>,
    /// The name as /proc/PID/status told it last.
    told_name: String,
    clock: nix::Result<ClockId>,
    files: Files,
    /// CPU time before the run started: what the starting shim used.
    pub(super) cpu_base_ns: i64,
    pub(super) last: ProcessSample,
    pub(super) written_ns: i64,
}

struct Files {
    folder: PathBuf,
    status: Source,
    io: Source,
    /// Whether they stay open between readings, as long as there are descriptors for it.
    stay_open: bool,
}

/// What is the matter with the process that once had the pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Alive,
    /// It has ended, but was not waited for.
    Zombie,
    /// It is no longer there, or another one is under its pid.
    Gone,
    /// It could not be looked at.
    Unknown,
}

/// Who is under a pid; `None` where nobody is.
///
/// # Errors
/// The process may be there, but cannot be looked at.
pub(super) fn identity(proc: &Path, pid: i32) -> io::Result<Option<Identity>> {
    identity_in(&proc.join(pid.to_string()))
}

fn identity_in(folder: &Path) -> io::Result<Option<Identity>> {
    // A name may be any bytes.
    match fs::read(folder.join("stat")) {
        Ok(text) => match kernel::identity(&String::from_utf8_lossy(&text)) {
            Some(identity) => Ok(Some(identity)),
            None => Err(io::Error::new(ErrorKind::InvalidData, "/proc/PID/stat is not in the form that was expected")),
        },
        Err(error) if has_vanished(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opening the file of a process that has ended fails in one way, reading one that was open in another.
fn has_vanished(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

impl Member {
    pub(super) fn new(proc: &Path, pid: i32, identity: &Identity, process: i64, stay_open: bool) -> Self {
        let folder = proc.join(pid.to_string());
        Self {
            pid,
            start_ticks: identity.start_ticks,
            parent: None,
            inside: false,
            name: identity.name.clone(),
            written_name: None,
            told_name: identity.name.clone(),
            clock: ClockId::pid_cpu_clock_id(Pid::from_raw(pid)),
            files: Files {
                status: Source::new(folder.join("status"), &[]),
                io: Source::new(folder.join("io"), &[]),
                folder,
                stay_open,
            },
            cpu_base_ns: 0,
            last: ProcessSample { process, ..ProcessSample::default() },
            written_ns: i64::MIN,
        }
    }

    /// Number of the process within the run.
    pub(super) fn process(&self) -> i64 {
        self.last.process
    }

    pub(super) fn keeps_files_open(&self) -> bool {
        self.files.stay_open
    }

    /// CPU time since the run's start.
    pub(super) fn cpu_ns(&self) -> io::Result<i64> {
        let time = clock_gettime(self.clock?)?;
        Ok(nanoseconds(time.tv_sec(), time.tv_nsec()) - self.cpu_base_ns)
    }

    /// Looks whether the process is still there, and what it is called by now.
    pub(super) fn look(&mut self) -> Fate {
        match identity_in(&self.files.folder) {
            Ok(Some(now)) if now.start_ticks == self.start_ticks => {
                self.name = now.name;
                if now.state == 'Z' { Fate::Zombie } else { Fate::Alive }
            }
            Ok(_) => Fate::Gone,
            Err(_) => Fate::Unknown,
        }
    }

    /// Whether it runs, as far as one can see: what cannot be looked at is not taken for dead.
    pub(super) fn is_alive(&self) -> bool {
        match identity_in(&self.files.folder) {
            Ok(now) => now.is_some_and(|now| now.start_ticks == self.start_ticks && now.state != 'Z'),
            Err(_) => true,
        }
    }

    /// Reads all there is; `None` if the process is gone.
    pub(super) fn read(&mut self, t_ns: i64, ledger: &mut Ledger) -> Option<ProcessSample> {
        let mut sample = ProcessSample { t_ns, process: self.process(), ..ProcessSample::default() };
        let (files, told_name) = (&mut self.files, &mut self.told_name);
        // A file that is held open stays with its process; one that is opened anew may be another's by now.
        let held_open = files.status.is_open() && files.io.is_open();
        let mut renamed = false;
        let status = files.status.try_read(|text| {
            let name = kernel::status_name(text)?;
            renamed = name != told_name;
            name.clone_into(told_name);
            fill_status(&mut sample, text)
        });
        let io = files.io.try_read(|text| fill_io(&mut sample, text));
        if !files.stay_open {
            files.status.close();
            files.io.close();
        }
        let cpu = self.cpu_ns();
        let all_read = status.is_ok() && io.is_ok() && cpu.is_ok();
        let fate = if all_read && held_open && !renamed { Fate::Alive } else { self.look() };
        if fate == Fate::Gone {
            return None;
        }
        sample.cpu_ns = if fate == Fate::Zombie { cpu.ok() } else { ledger.cpu.count(cpu) };
        // A zombie has no memory left, and that is no failure.
        if fate != Fate::Zombie {
            if status.is_err() || sample.rss_bytes.is_some() {
                ledger.memory.count(status);
            }
            ledger.io.count(io);
        }
        Some(sample)
    }
}

/// Fills what /proc/PID/status tells. A zombie has no memory lines: they stay null.
fn fill_status(sample: &mut ProcessSample, text: &str) -> Option<()> {
    sample.threads = kernel::keyed_value(text, "Threads");
    sample.rss_bytes = kernel::keyed_value(text, "VmRSS");
    sample.rss_peak_bytes = kernel::keyed_value(text, "VmHWM");
    sample.virtual_bytes = kernel::keyed_value(text, "VmSize");
    sample.swap_bytes = kernel::keyed_value(text, "VmSwap");
    sample.threads.map(|_| ())
}

fn fill_io(sample: &mut ProcessSample, text: &str) -> Option<()> {
    sample.read_bytes = kernel::keyed_value(text, "read_bytes");
    sample.written_bytes = kernel::keyed_value(text, "write_bytes");
    sample.read_bytes.map(|_| ())
}

//! One process of the tree: who it is and what can be read of it.

use std::io;
use std::path::Path;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::files::{Files, OwnTraffic};
use super::ledger::Ledger;
use crate::record::clock::nanoseconds;
use crate::record::probe::kernel::{self, Identity, Traffic};
use crate::record::source::has_vanished;
use crate::trace::tables::ProcessSample;

/// Time between readings of what moves little, and the longest silence of a process in which nothing moves: a reader can
/// tell "unchanged" from "gone".
pub(super) const SLOW_NS: i64 = 1_000_000_000;

/// A process, identified by pid and start time.
pub(super) struct Member {
    pub(super) pid: i32,
    pub(super) start_ticks: i64,
    pub(super) parent_pid: i32,
    /// Position among all that were ever admitted: a child comes after its parent.
    pub(super) order: u64,
    /// Number within the run; `None` for one of those that are summed up as `other`.
    pub(super) process: Option<i64>,
    /// Number of the parent within the run.
    pub(super) parent: Option<i64>,
    /// Whether it was ever seen in the control group that is followed.
    pub(super) inside: bool,
    pub(super) name: String,
    /// The name that is in the journal already.
    pub(super) written_name: Option<String>,
    pub(super) first_seen_ns: i64,
    /// Since when it has rows of its own, if it was summed up before.
    pub(super) own_rows_since_ns: Option<i64>,
    pub(super) clock: nix::Result<ClockId>,
    files: Files,
    pub(super) traffic: OwnTraffic,
    /// Read already for the reading that is to come.
    traffic_ahead: Option<io::Result<Traffic>>,
    /// What each counter had come to when the process was admitted, where that is not the run's; a counter that could not
    /// be read then (`None`) begins at its first reading.
    base: [Option<i64>; 6],
    /// The last good reading of everything; counters count from the process's own start, or from [`Self::base`].
    pub(super) last: ProcessSample,
    /// Whether its memory, threads and files are gone: it has ended, or is about to.
    pub(super) holds_nothing: bool,
    /// What the process counted under `other` before it got a number of its own.
    pub(super) counted_before: Counts,
    /// Highest resident memory so far, and what rows of its own have told of it by when it was last summed up.
    peak_bytes: Option<i64>,
    told_peak_bytes: i64,
    /// Page faults when memory's peak was read last: without new ones it cannot have grown.
    faults_at_peak: Option<i64>,
    slow_next_ns: i64,
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

/// What one reading found.
pub(super) struct Reading {
    /// Counters count as those of [`Member::last`].
    pub(super) sample: ProcessSample,
    /// To be written even if nothing has changed.
    pub(super) slow: bool,
}

/// What one reading found besides /proc/PID/stat; `None` for what was not due.
struct Found {
    cpu_ns: io::Result<i64>,
    pages: io::Result<(i64, i64)>,
    traffic: io::Result<Traffic>,
    status: Option<io::Result<kernel::Status>>,
    open_files: Option<io::Result<i64>>,
}

impl Found {
    fn failed(&self) -> bool {
        self.cpu_ns.is_err()
            || self.pages.is_err()
            || self.traffic.is_err()
            || matches!(self.status, Some(Err(_)))
            || matches!(self.open_files, Some(Err(_)))
    }
}

/// Values of all counters of a sample, in the order of [`counters`].
pub(super) type Counts = [i64; 6];

/// The counters of a sample; the others are gauges.
pub(super) fn counters(sample: &mut ProcessSample) -> [&mut Option<i64>; 6] {
    [
        &mut sample.cpu_ns,
        &mut sample.read_bytes,
        &mut sample.written_bytes,
        &mut sample.minor_faults,
        &mut sample.major_faults,
        &mut sample.context_switches,
    ]
}

impl Member {
    /// A process without a number, whose files are opened for each reading.
    pub(super) fn new(proc: &Path, pid: i32, identity: &Identity, order: u64, first_seen_ns: i64) -> Self {
        Self {
            pid,
            start_ticks: identity.start_ticks,
            parent_pid: identity.parent_pid,
            order,
            process: None,
            parent: None,
            inside: false,
            name: identity.name.clone(),
            written_name: None,
            first_seen_ns,
            own_rows_since_ns: None,
            clock: ClockId::pid_cpu_clock_id(Pid::from_raw(pid)),
            files: Files::new(proc, pid),
            traffic: OwnTraffic::default(),
            traffic_ahead: None,
            base: [Some(0); 6],
            last: ProcessSample::default(),
            holds_nothing: false,
            counted_before: Counts::default(),
            peak_bytes: None,
            told_peak_bytes: 0,
            faults_at_peak: None,
            slow_next_ns: i64::MIN,
        }
    }

    pub(super) fn keep_files_open(&mut self, stay_open: bool) {
        self.files.stay_open = stay_open;
    }

    pub(super) fn keeps_files_open(&self) -> bool {
        self.files.stay_open
    }

    /// Counts everything from here on: what the process has used so far is not the run's.
    pub(super) fn count_from_here(&mut self) {
        self.base = [None; 6];
        let mut sample = ProcessSample { cpu_ns: self.clock_ns().ok(), ..ProcessSample::default() };
        // Whatever cannot be read now begins at its first reading.
        let _ = self.look(&mut sample);
        let traffic = self.read_traffic().ok();
        self.fill_traffic(&mut sample, traffic);
        let status = self.files.status.try_read(kernel::status).unwrap_or_default();
        sample.context_switches = status.context_switches;
        self.files.release();
        self.take_base_off(&mut sample);
    }

    /// CPU time before it was admitted that is not the run's.
    pub(super) fn cpu_base_ns(&self) -> i64 {
        let [cpu_ns, ..] = self.base;
        cpu_ns.unwrap_or(0)
    }

    /// Makes counters of the process's own start those of the run.
    fn take_base_off(&mut self, sample: &mut ProcessSample) {
        for (value, base) in counters(sample).into_iter().zip(&mut self.base) {
            *value = value.map(|value| value - *base.get_or_insert(value));
        }
    }

    /// CPU time since the process's own start.
    fn clock_ns(&self) -> io::Result<i64> {
        let time = clock_gettime(self.clock?)?;
        Ok(nanoseconds(time.tv_sec(), time.tv_nsec()))
    }

    /// Whether it runs, as far as one can see: what cannot be looked at is not taken for dead.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.look(&mut ProcessSample::default()), (Fate::Alive | Fate::Unknown, _))
    }

    /// Whether the process is gone, or another one is under its pid.
    pub(super) fn is_gone(&mut self) -> bool {
        self.look(&mut ProcessSample::default()).0 == Fate::Gone
    }

    /// Looks whether the process is still there, what it is called by now, and what /proc/PID/stat counts.
    fn look(&mut self, sample: &mut ProcessSample) -> (Fate, io::Result<()>) {
        let (name, parent_pid, start_ticks) = (&mut self.name, &mut self.parent_pid, self.start_ticks);
        let looked = self.files.stat.try_read(|text| {
            let stat = kernel::process_stat(text)?;
            if stat.start_ticks != start_ticks {
                return Some(Fate::Gone);
            }
            if stat.name != name {
                stat.name.clone_into(name);
            }
            *parent_pid = stat.parent_pid;
            sample.threads = Some(stat.threads);
            sample.minor_faults = Some(stat.minor_faults);
            sample.major_faults = Some(stat.major_faults);
            Some(match stat.state {
                'Z' => Fate::Zombie,
                // It was waited for, and its parent has its counters already.
                'X' => Fate::Gone,
                _ => Fate::Alive,
            })
        });
        self.files.release();
        match looked {
            Ok(fate) => (fate, Ok(())),
            Err(error) if has_vanished(&error) => (Fate::Gone, Ok(())),
            Err(error) => (Fate::Unknown, Err(error)),
        }
    }

    /// Whether more than the clock is to be read. Of a process that is only part of a sum that is so each second, and
    /// where another one may have its pid by now: the clock does not tell.
    pub(super) fn is_due(&self, t_ns: i64, may_be_another: bool) -> bool {
        self.process.is_some() || may_be_another || t_ns >= self.slow_next_ns || self.clock.is_err()
    }

    /// Makes everything due, and to be written.
    pub(super) fn read_all_next(&mut self) {
        self.slow_next_ns = i64::MIN;
    }

    /// Sums the process up from here on.
    pub(super) fn join_others(&mut self) -> Option<i64> {
        self.keep_files_open(false);
        self.told_peak_bytes = self.peak_bytes.unwrap_or(0);
        self.process.take()
    }

    /// Highest resident memory so far, less what rows of its own have told.
    pub(super) fn untold_peak_bytes(&self) -> Option<i64> {
        self.peak_bytes.map(|peak| peak - self.told_peak_bytes)
    }

    /// Reads all that is due (see [`Self::is_due`]); `None` if the process is gone.
    pub(super) fn read(&mut self, t_ns: i64, page_bytes: i64, is_due: bool, ledger: &mut Ledger) -> Option<Reading> {
        let slow = t_ns >= self.slow_next_ns;
        if !is_due && let Ok(cpu_ns) = self.clock_ns() {
            return Some(self.clock_alone(t_ns, cpu_ns));
        }
        let mut sample = ProcessSample { t_ns, ..ProcessSample::default() };
        let (mut fate, looked) = self.look(&mut sample);
        if fate == Fate::Gone {
            return None;
        }
        let found = self.find(&sample, slow);
        if fate == Fate::Alive && found.failed() {
            // It may have ended meanwhile, which is no failure.
            fate = self.look(&mut ProcessSample::default()).0;
        }
        self.files.release();
        match fate {
            Fate::Gone => return None,
            // It has no memory left.
            Fate::Zombie => {
                self.holds_nothing = true;
                (sample.cpu_ns, sample.threads) = (found.cpu_ns.ok(), None);
                self.fill_traffic(&mut sample, found.traffic.ok());
            }
            Fate::Alive | Fate::Unknown => {
                ledger.faults.count(looked);
                self.fill(&mut sample, found, page_bytes, slow, ledger);
            }
        }
        self.take_base_off(&mut sample);
        if slow {
            self.slow_next_ns = t_ns - t_ns.rem_euclid(SLOW_NS) + SLOW_NS;
        }
        self.remember(&sample);
        Some(Reading { sample, slow })
    }

    /// Of a process that is only part of a sum the clock costs nothing to read; the rest is read each second.
    fn clock_alone(&mut self, t_ns: i64, cpu_ns: i64) -> Reading {
        let mut clock = ProcessSample { cpu_ns: Some(cpu_ns), ..ProcessSample::default() };
        self.take_base_off(&mut clock);
        self.last.cpu_ns = self.last.cpu_ns.max(clock.cpu_ns);
        Reading { sample: ProcessSample { t_ns, ..self.last.clone() }, slow: false }
    }

    /// Reads what is due besides /proc/PID/stat.
    fn find(&mut self, sample: &ProcessSample, slow: bool) -> Found {
        let faults = sample.minor_faults.zip(sample.major_faults).map(|(minor, major)| minor + major);
        // Resident memory grows by page faults alone, so a spike between two readings has left some.
        let has_grown = faults.is_none() || faults != self.faults_at_peak;
        self.faults_at_peak = faults;
        Found {
            cpu_ns: self.clock_ns(),
            pages: self.files.statm.try_read(kernel::memory_pages),
            traffic: self.traffic_ahead.take().unwrap_or_else(|| self.read_traffic()),
            status: (slow || has_grown).then(|| self.files.status.try_read(kernel::status)),
            open_files: slow.then(|| self.files.count_open()),
        }
    }

    /// Reads the process's I/O for the reading that is to come; by how much it has grown, if it has.
    pub(super) fn read_traffic_ahead(&mut self) -> Option<Traffic> {
        let read = self.read_traffic();
        let grown = read.as_ref().ok().and_then(|counted| self.traffic.growth(*counted));
        self.traffic_ahead = Some(read);
        grown
    }

    fn read_traffic(&mut self) -> io::Result<Traffic> {
        self.files.io.try_read(|text| {
            let bytes = |key| kernel::keyed_value(text, key);
            Some(Traffic { inward: bytes("read_bytes")?, outward: bytes("write_bytes")? })
        })
    }

    fn fill(&mut self, sample: &mut ProcessSample, found: Found, page_bytes: i64, slow: bool, ledger: &mut Ledger) {
        sample.cpu_ns = ledger.cpu.count(found.cpu_ns);
        // A process that has just ended has no pages, which is not 0 bytes.
        self.holds_nothing = matches!(found.pages, Ok((0, _)));
        let pages = if self.holds_nothing { None } else { ledger.memory.count(found.pages) };
        if let Some((virtual_pages, resident_pages)) = pages {
            sample.virtual_bytes = Some(virtual_pages * page_bytes);
            sample.rss_bytes = Some(resident_pages * page_bytes);
        }
        let traffic = ledger.io.count(found.traffic);
        self.fill_traffic(sample, traffic);
        match found.status {
            None => (sample.rss_peak_bytes, sample.swap_bytes) = (self.last.rss_peak_bytes, self.last.swap_bytes),
            Some(status) => {
                ledger.status(&status, pages.is_some(), slow);
                let status = status.unwrap_or_default();
                (sample.rss_peak_bytes, sample.swap_bytes) = (status.rss_peak_bytes, status.swap_bytes);
                sample.context_switches = status.context_switches.filter(|_| slow);
            }
        }
        sample.open_files = found.open_files.and_then(|count| ledger.open_files.count(count));
    }

    fn fill_traffic(&mut self, sample: &mut ProcessSample, counted: Option<Traffic>) {
        let own = counted.map(|counted| self.traffic.of(counted));
        sample.read_bytes = own.map(|own| own.inward);
        sample.written_bytes = own.map(|own| own.outward);
    }

    /// Reads what is still to be had of a process that has ended but was not waited for: its memory is gone, its counters
    /// stand.
    pub(super) fn last_words(&mut self, t_ns: i64, ledger: &mut Ledger) -> ProcessSample {
        let mut sample = ProcessSample { t_ns, ..ProcessSample::default() };
        self.look(&mut sample).1.ok();
        sample.threads = None;
        self.holds_nothing = true;
        sample.cpu_ns = ledger.cpu.count(self.clock_ns());
        let traffic = self.read_traffic().ok();
        self.fill_traffic(&mut sample, traffic);
        self.files.release();
        self.take_base_off(&mut sample);
        sample.cpu_ns = sample.cpu_ns.max(self.last.cpu_ns);
        self.remember(&sample);
        sample
    }

    /// A reading that failed, or was not due, leaves the last good one.
    fn remember(&mut self, sample: &ProcessSample) {
        self.peak_bytes = self.peak_bytes.max(sample.rss_peak_bytes);
        let mut before = std::mem::replace(&mut self.last, sample.clone());
        for (now, before) in counters(&mut self.last).into_iter().zip(counters(&mut before)) {
            *now = now.or(*before);
        }
        self.last.open_files = self.last.open_files.or(before.open_files);
    }

    /// A sample as it is written: counters from where the process got its number.
    pub(super) fn row(&self, sample: &ProcessSample, process: i64) -> ProcessSample {
        let mut row = ProcessSample { process, ..sample.clone() };
        for (value, before) in counters(&mut row).into_iter().zip(self.counted_before) {
            *value = value.map(|value| value - before);
        }
        row
    }
}

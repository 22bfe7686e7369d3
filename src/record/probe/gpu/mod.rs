//! GPUs, by NVIDIA's management library.
//!
//! Each GPU has a thread that only calls the driver and sends what it said. Everything else, the ledger included, is
//! done by whoever collects, so that a driver that hangs holds up neither other probes nor the end of the run.

mod asleep;
mod choice;
pub mod driver;
pub mod glance;
pub mod inventory;
mod ledger;
mod mapping;
mod memory;
mod own;
mod processes;
mod reading;
mod recorded;
mod samples;
mod sensors;
mod session;
mod visible;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

pub use self::choice::GpuChoice;
use self::driver::Driver;
use self::ledger::Ledger;
use self::mapping::Mapping;
use self::reading::Reading;
use self::recorded::{Family, Recorded};
use self::sensors::Reader;
pub use self::session::Gpus;
use self::session::Opened;
use crate::record::clock::RunClock;
use crate::record::run::PROC;
use crate::record::stop::Stop;
use crate::trace::Journal;
use crate::trace::run::{Coverage, GpuRef};

/// Drivers refresh their sensors no faster; closer readings would show the same sample again.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);
/// They keep their own samples for some seconds only.
const LONGEST_PERIOD: Duration = Duration::from_secs(1);
/// How long the start and the end of a run wait for the driver.
const PATIENCE: Duration = Duration::from_millis(500);

/// What the threads send.
enum Message {
    Reading(Box<Reading>),
    /// A GPU was woken by somebody, and the driver opened, or why it could not be.
    Awake(Result<Driver, String>),
}

/// Records the GPUs that the command can see, or that the user chose.
pub struct GpuProbe {
    session: Gpus,
    gpus: Vec<Recorded>,
    /// What is to be said of the choice of GPUs.
    choice: Vec<Coverage>,
    mapping: Mapping,
    period: Duration,
    messages: Receiver<Message>,
    /// For threads that begin later; `None` where none will.
    sender: Option<Sender<Message>>,
    /// Readings from before the run's start, at most one a GPU.
    early: Vec<Reading>,
    stop: Arc<Stop>,
    family: Family,
    events: Vec<String>,
}

/// What the progress line shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpusNow {
    /// Mean over the recorded GPUs.
    pub utilisation_ratio: Option<f64>,
    /// Sum over the recorded GPUs.
    pub memory_used_bytes: Option<i64>,
}

/// What a run's record is told at the end.
#[derive(Clone, Debug, Default)]
pub struct GpusOfRun {
    pub coverage: Vec<Coverage>,
    /// What went wrong, in a sentence each.
    pub events: Vec<String>,
    /// What CUDA calls device 0, 1, …; `None` where that is not known.
    pub cuda_devices: Option<Vec<GpuRef>>,
    /// Indices of the GPUs on which a process of the run was seen; `None` where the driver cannot tell.
    pub used: Option<Vec<u32>>,
}

impl GpuProbe {
    /// Begins to read, and waits a little for the first readings: what a counter shows before the command runs is its
    /// zero. `root` is the process that becomes the command.
    pub fn start(gpus: &Gpus, root: i32, interval: Duration) -> Self {
        let (sender, messages) = mpsc::channel();
        let mut probe = Self {
            session: gpus.clone(),
            gpus: Vec::new(),
            choice: Vec::new(),
            mapping: Mapping::default(),
            period: interval.clamp(SHORTEST_PERIOD, LONGEST_PERIOD),
            messages,
            sender: Some(sender),
            early: Vec::new(),
            stop: Arc::default(),
            family: Family { pids: [root].into(), namespaced: own::in_pid_namespace() },
            events: Vec::new(),
        };
        match gpus.opened() {
            Opened::Driver(driver) => probe.read_all(driver),
            Opened::Absent(reason) => probe.choice.push(ledger::absent(reason)),
            Opened::Asleep => probe.watch_sleep(),
        }
        probe.await_first();
        probe
    }

    /// Starts a thread for each GPU that is to be recorded.
    fn read_all(&mut self, driver: &Driver) {
        let selection = self.session.select(driver);
        self.choice.extend(selection.remarks);
        self.mapping = Mapping::new(&driver.gpus, selection.cuda);
        // The channel ends when the last thread does.
        let Some(sender) = self.sender.take() else { return };
        for gpu in selection.gpus {
            let Some(inventory) = driver.gpus.get(gpu.gpu as usize) else { continue };
            let reader = Reader::new(driver.nvml, gpu, inventory, self.session.wakes());
            match sensors::spawn(reader, self.period, Arc::clone(&self.stop), sender.clone()) {
                Ok(_) => self.gpus.push(Recorded::new(gpu)),
                Err(error) => {
                    self.events.push(format!("{} is not recorded: no thread ({error})", ledger::name(gpu)));
                }
            }
        }
    }

    /// A GPU that sleeps is left alone, and recorded from the moment on at which the command wakes it.
    fn watch_sleep(&mut self) {
        let Some(sender) = self.sender.clone() else { return };
        self.choice.push(ledger::absent(asleep::REASON));
        if let Err(error) =
            sensors::spawn_watch(Path::new(asleep::DEVICES), self.period, Arc::clone(&self.stop), sender)
        {
            self.events.push(format!("GPUs that wake are not recorded: no thread ({error})"));
        }
    }

    fn await_first(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.early.len() < self.gpus.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(Message::Reading(reading)) = self.messages.recv_timeout(left) else { break };
            // The one closest to the start counts.
            self.early.retain(|early| early.gpu != reading.gpu);
            self.early.push(*reading);
        }
    }

    /// Writes what has been read since the last call; `pids` are the run's processes now.
    pub fn collect(&mut self, clock: &RunClock, pids: &[i32], journal: &Journal) {
        // A process that has ended since a reading is still in its list.
        self.family.pids.extend(pids);
        for reading in std::mem::take(&mut self.early) {
            self.write(reading, clock, journal);
        }
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Reading(reading) => self.write(*reading, clock, journal),
                Message::Awake(driver) => self.awake(driver, clock),
            }
        }
    }

    fn awake(&mut self, driver: Result<Driver, String>, clock: &RunClock) {
        self.choice.clear();
        match driver {
            Ok(driver) => {
                let seconds = clock.now_ns() as f64 / 1e9;
                self.events.push(format!("a GPU was asleep at the start and is recorded from {seconds:.1} s on"));
                self.read_all(&driver);
            }
            Err(reason) => self.choice.push(ledger::absent(&reason)),
        }
    }

    fn write(&mut self, reading: Reading, clock: &RunClock, journal: &Journal) {
        if let Some(gpu) = self.gpus.iter_mut().find(|gpu| gpu.gpu == reading.gpu) {
            self.events.extend(gpu.take(reading, clock, &mut self.family, journal));
            if let Some(pid) = gpu.newly_used_by.take() {
                // A process that has ended meanwhile, or is another user's, tells nothing.
                let environ = std::fs::read(Path::new(PROC).join(pid.to_string()).join("environ"));
                environ.into_iter().for_each(|environ| self.mapping.learn(&environ));
            }
        }
    }

    /// The last readings, summed up.
    pub fn now(&self) -> GpusNow {
        let whole = || self.gpus.iter().filter(|gpu| gpu.gpu.mig_instance.is_none());
        let ratios: Vec<f64> = whole().filter_map(|gpu| gpu.last.utilisation_ratio).collect();
        let bytes = whole().filter_map(|gpu| gpu.last.memory_used_bytes);
        GpusNow {
            utilisation_ratio: (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64),
            memory_used_bytes: bytes.reduce(|sum, bytes| sum + bytes),
        }
    }

    /// Asks for the last readings; to be called as soon as the command has ended.
    pub fn stop(&self) {
        self.stop.ask();
    }

    /// Waits a little for the last readings, and tells what became of all.
    pub fn finish(mut self, clock: &RunClock, pids: &[i32], journal: &Journal) -> GpusOfRun {
        self.stop();
        self.collect(clock, pids, journal);
        self.sender = None;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.messages.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Message::Reading(reading)) => self.write(*reading, clock, journal),
                Ok(Message::Awake(_)) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let late = format!("the GPU driver did not answer within {PATIENCE:?} of the run's end");
                    self.events.push(format!("{late}: the last readings are missing"));
                    break;
                }
            }
        }
        let used = self.used();
        let ledgers: Vec<Ledger> = self.gpus.into_iter().map(Recorded::into_ledger).collect();
        let mut coverage = ledger::coverage(&ledgers);
        coverage.extend(self.choice);
        GpusOfRun { coverage, events: self.events, cuda_devices: self.mapping.cuda, used }
    }

    /// Known only where the driver's lists could be matched with the run's processes.
    fn used(&self) -> Option<Vec<u32>> {
        let mut used: Vec<u32> = self.gpus.iter().filter(|gpu| gpu.was_used).map(|gpu| gpu.gpu.gpu).collect();
        used.sort_unstable();
        used.dedup();
        (self.gpus.iter().any(|gpu| gpu.was_listed) && !self.family.namespaced || !used.is_empty()).then_some(used)
    }
}

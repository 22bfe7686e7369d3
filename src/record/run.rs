//! One run: start the command, watch it, keep everything.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Result;

use super::cgroup::Cgroups;
use super::child::{self, Child, Spec};
use super::clock;
use super::container::Follow;
use super::cost::Used;
use super::fingerprint::loaded::Loaded;
use super::mask::Mask;
use super::oom;
use super::output::{Kept, Streams};
use super::plan::Case;
use super::probe::foreign::ForeignProbe;
use super::probe::gpu::Gpus;
use super::probe::kernel::KernelUnits;
use super::probe::memory::{Inbox, MemoryProbe};
use super::probe::process::TreeNow;
use super::progress::Progress;
use super::signals::Signals;
use super::steps::{self, StepsReader};
use super::stop::Stop;
use super::threads::Helper;
use super::watch::{Outlets, Span, Watch};
use crate::trace::finish;
use crate::trace::journal::Journal;
use crate::trace::layout::{CONTAINER_ID_FILE, JOURNAL_FILE, NOT_EXECUTED_FILE, OUTPUT_FILE, STEPS_FILE};
use crate::trace::run::{CpuTotals, Outcome, RunRecord, StepReading};

/// Where the kernel tells about processes and the machine.
pub const PROC: &str = "/proc";
pub const SYS: &str = "/sys";

/// What a session lends to each of its runs.
#[derive(Clone, Copy)]
pub struct Desk<'a> {
    pub signals: &'a Signals,
    pub progress: &'a Progress,
    pub cgroups: &'a Cgroups,
    pub mask: &'a Mask,
    pub gpus: &'a Gpus,
    /// How steps are read from the output.
    pub step_reading: &'a StepReading,
    /// Whether the whole output is kept.
    pub keep_output: bool,
    /// Leave processes running that outlive the root.
    pub leave_children: bool,
    /// What the user sees of the run's name.
    pub title: &'a str,
    /// How long the last run of the case took.
    pub expected: Option<Duration>,
}

/// Records one run of a case into `folder`, which must be empty; `record` says what is run, and is completed. The journal
/// is left to be finished.
///
/// # Errors
/// The recording itself failed: a file could not be written, or the command could not be started.
pub fn record_run(folder: &Path, case: &Case, record: &mut RunRecord, desk: Desk<'_>) -> Result<()> {
    let journal = Journal::create(&folder.join(JOURNAL_FILE))?;
    let mut steps = StepsReader::create(&folder.join(STEPS_FILE), desk.step_reading)?;
    let kept = desk.keep_output.then(|| Kept::create(&folder.join(OUTPUT_FILE))).transpose()?;
    let mut environment: Vec<(OsString, OsString)> = vec![(steps::VARIABLE.into(), steps.path().into())];
    environment.extend(record.set_variables.iter().map(|(name, value)| (name.into(), value.into())));
    let cid_file = std::path::absolute(folder.join(CONTAINER_ID_FILE))?;
    let follow = case.container.as_ref().map(|launch| Follow::new(launch, &cid_file, record.limits));
    if let Some(follow) = &follow {
        follow.describe(desk.mask, record);
    }
    let started = case.container.as_ref().map(|launch| launch.started(&case.command, &cid_file, &record.set_variables));
    let (program, command) = started.unwrap_or((None, case.command.clone()));
    let spec = Spec {
        program: program.unwrap_or_else(|| case.program.clone()),
        command,
        environment,
        failure: std::path::absolute(folder.join(NOT_EXECUTED_FILE))?,
    };
    finish::write_record(folder, record)?;
    finish::reserve_space(folder)?;

    let used_before = Used::so_far();
    let mut child = Child::start_stopped(&spec)?;
    let streams = Streams::pass_on(&mut child, desk.progress, kept, || steps.output_reader())?;
    // Nothing is left that could keep it from starting.
    desk.progress.begin(desk.title, desk.expected);
    let span = measure(&child, &journal, &mut steps, record, desk, follow)?;
    let output = streams.close();
    if let Some(failure) = child::execution_failure(&spec.failure) {
        return Err(failure.into());
    }

    record.cpu = cpu_totals(&span, used_before.as_ref());
    if record.outcome != Outcome::Finished {
        record.output_tail = output.tail.iter().map(|line| desk.mask.text(line)).collect();
    }
    let (coverage, bad_lines) = steps.close(&journal);
    record.effective = desk.mask.values(steps.settings());
    record.outcome = oom::as_told(record.outcome, &record.effective);
    record.coverage.push(coverage);
    record.coverage.sort_by(|a, b| a.metric.cmp(&b.metric));
    let failure = journal.failure();
    if let Some(failure) = &failure {
        desk.progress.say(&format!("{failure}; is the disk of {} full?", folder.display()));
    }
    record.events.extend(bad_lines.into_iter().chain(output.not_kept).chain(output.not_passed_on).chain(failure));
    mask_words(record, desk.mask);
    record.recorder.journal_bytes = Some(journal.written_bytes());
    drop(journal);
    finish::write_last_record(folder, record)
}

/// Errors and names of sources hold paths, and those hold names.
fn mask_words(record: &mut RunRecord, mask: &Mask) {
    let of_ledger = record.coverage.iter_mut().flat_map(|entry| [&mut entry.source, &mut entry.reason]);
    for words in record.events.iter_mut().chain(of_ledger) {
        *words = mask.text(words);
    }
}

/// Watches the run on this thread, while others read proportional memory, look at what else runs, see what is loaded,
/// and keep the journal on disk.
fn measure(
    child: &Child,
    journal: &Journal,
    steps: &mut StepsReader,
    record: &mut RunRecord,
    desk: Desk<'_>,
    follow: Option<Follow>,
) -> Result<Span> {
    let (stop, inbox, tree) = (Stop::default(), Inbox::default(), Mutex::new(TreeNow::default()));
    let interval = Duration::from_nanos(record.interval_ns.unsigned_abs());
    let outlets = Outlets { journal, tree: &tree, memory: &inbox };
    let watch = Watch::begin(child, steps, outlets, desk, interval, follow)?;
    record.started_unix_ns = clock::unix_ns();
    let memory = MemoryProbe::new(Path::new(PROC), watch.clock());
    let units = KernelUnits::of_this_kernel();
    let total_bytes = record.limits.memory_total_bytes;
    let foreign = ForeignProbe::new(Path::new(PROC), watch.clock(), desk.mask.clone(), total_bytes, units);
    let loaded = Loaded::new(Path::new(PROC), desk.mask);
    let (span, coverage, memory_cpu_ns, loaded, unsynced) = std::thread::scope(|scope| {
        let memory = Helper::start(scope, "memory", || memory.run(&inbox, journal));
        let foreign = Helper::start(scope, "foreign", || foreign.run(&tree, journal, |time| stop.wait(time)));
        let sync = Helper::start(scope, "sync", || journal.sync_until(|time| stop.wait(time)));
        let loaded = Helper::start(scope, "loaded", || loaded.watch(&tree, |time| stop.wait(time)));
        let stopping = AskOnDrop(&stop, &inbox);
        let span = watch.until_the_end(record);
        drop(stopping);
        let (mut coverage, memory_cpu_ns) = memory
            .join()
            .map_or_else(|why| (MemoryProbe::lost(&why), None), |(coverage, cpu_ns)| (coverage, Some(cpu_ns)));
        coverage.extend(foreign.join().unwrap_or_else(|why| ForeignProbe::lost(&why)));
        // A journal that cannot be synced shows in its own failure, or at the end when Parquet is written.
        let unsynced = sync.join().err();
        (span, coverage, memory_cpu_ns, loaded.join(), unsynced)
    });
    record.coverage.extend(coverage);
    record.recorder.memory_probe_cpu_ns = memory_cpu_ns;
    let sentence = |why| format!("the journal was not kept on disk while the run went on: {why}");
    record.events.extend(unsynced.map(sentence));
    match loaded {
        Ok(loaded) => loaded.write(record),
        Err(why) => record.coverage.push(Loaded::lost(&why)),
    }
    Ok(span)
}

/// All ways to the run's CPU time. The shim's start, before the run began, is taken off.
fn cpu_totals(span: &Span, before: Option<&Used>) -> CpuTotals {
    let mut totals = CpuTotals { clocks_ns: span.clocks_ns, cgroup_ns: span.cgroup_ns, ..CpuTotals::default() };
    if let Some((before, after)) = before.zip(span.used) {
        let user_ns = after.user_ns - before.user_ns - span.shim_cpu_ns;
        // What the shim used in the kernel is more than what the run used in user mode where the run is very short.
        let system_ns = after.system_ns - before.system_ns + user_ns.min(0);
        totals.rusage_user_ns = Some(user_ns.max(0));
        totals.rusage_system_ns = Some(system_ns.max(0));
    }
    totals
}

/// Asks to stop when it goes out of scope, also by a panic: threads that wait would wait for ever.
struct AskOnDrop<'a>(&'a Stop, &'a Inbox);

impl Drop for AskOnDrop<'_> {
    fn drop(&mut self) {
        self.0.ask();
        self.1.stop();
    }
}

//! A recording session: every case of a plan, block by block, into the folders of one or more environments.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result};

mod folder;
mod ready;
mod refuse;

use folder::{Folder, Place};

use super::cgroup::Cgroups;
use super::child::CannotStart;
use super::clock;
use super::fingerprint::{self, Machine};
use super::mask::Mask;
use super::plan::Plan;
use super::plan::order::Slot;
use super::probe::gpu::driver::Driver;
use super::progress::Progress;
use super::run::{Desk, PROC, record_run};
use super::signals::Signals;
use crate::trace::check::Check;
use crate::trace::open::Environment;
use crate::trace::run::{CpuTotals, Groups, Outcome, RecorderCost, RunRecord};
use crate::trace::version::SCHEMA_VERSION;

/// How a session ended.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// In the order of the plan.
    pub environments: Vec<RecordedEnvironment>,
    /// Of every run that was tried, in the order in which they came.
    pub ends: Vec<End>,
    /// How many runs were planned.
    pub planned: usize,
    /// The user stopped it before all runs were recorded.
    pub interrupted: bool,
}

/// What a session added to an environment.
#[derive(Clone, Debug)]
pub struct RecordedEnvironment {
    pub folder: PathBuf,
    /// How many runs.
    pub runs: usize,
}

/// How one run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It ran and is recorded.
    Ran(Outcome),
    /// The command could not be started, so there is no run; the exit code is the shell's for it.
    NotStarted { exit_code: i32 },
}

impl End {
    /// Whether the run gives figures.
    pub fn is_finished(self) -> bool {
        matches!(self, End::Ran(outcome) if outcome.is_finished())
    }
}

/// Records a plan.
///
/// # Errors
/// Nothing could be recorded, or recording itself failed; what was recorded before is kept.
pub fn record(plan: &Plan) -> Result<Recorded> {
    let hold = |target: &super::plan::Target| Folder::hold(&plan.out, &target.environment);
    let folders = plan.targets.iter().map(hold).collect::<Result<Vec<_>>>()?;
    let cgroups = Cgroups::of_this_process(Path::new(PROC));
    let gpus = Driver::open();
    let machine = Machine::inspect(Path::new(PROC), &cgroups, gpus.as_ref().ok())?;
    let mask = Mask::of_this_user();
    let mut durations = HashMap::new();
    for (place, (target, folder)) in plan.targets.iter().zip(&folders).enumerate() {
        if let Some(before) = folder.open()? {
            refuse::check(target, plan.existing, &before, &machine, &mask)?;
            durations.extend(durations_so_far(plan, place, &before));
        }
    }
    let checks = ready::look(plan, &machine, &cgroups, &gpus);
    nix::sys::prctl::set_child_subreaper(true).context("cannot become the parent of orphaned processes")?;
    let mut session = Session {
        plan,
        folders,
        machine,
        cgroups,
        gpus,
        mask,
        signals: Signals::listen()?,
        progress: Progress::new(),
        checks,
        began_unix_ns: clock::unix_ns(),
        durations,
        given_up: HashSet::new(),
    };
    let recorded = session.record_all();
    session.progress.end();
    recorded
}

/// Which case of which environment.
type Key = (usize, usize);

/// How long the last finished run took of each case that was recorded before.
fn durations_so_far(plan: &Plan, target: usize, before: &Environment) -> HashMap<Key, Duration> {
    let mut durations = HashMap::new();
    for (place, case) in plan.targets[target].cases.iter().enumerate() {
        let name = case.name();
        let finished = |run: &&crate::trace::Run| run.record.outcome.is_finished() && run.record.case() == name;
        let last = before.runs.iter().rev().find(finished).and_then(|run| run.record.duration_ns);
        durations.extend(last.map(|ns| ((target, place), Duration::from_nanos(ns.unsigned_abs()))));
    }
    durations
}

struct Session<'a> {
    plan: &'a Plan,
    /// Of the plan's targets.
    folders: Vec<Folder>,
    machine: Machine,
    cgroups: Cgroups,
    /// Opened once: loading the driver can take seconds.
    gpus: Result<Driver, String>,
    mask: Mask,
    signals: Signals,
    progress: Progress,
    /// Of this machine, before anything ran.
    checks: Vec<Check>,
    began_unix_ns: i64,
    /// How long each case's last run took.
    durations: HashMap<Key, Duration>,
    /// Cases whose command could not be started.
    given_up: HashSet<Key>,
}

impl Session<'_> {
    /// Goes on after a run that failed or could not be started, unless the plan says otherwise.
    fn record_all(&mut self) -> Result<Recorded> {
        let environment = |folder: &Folder| RecordedEnvironment { folder: folder.path.clone(), runs: 0 };
        let mut recorded = Recorded {
            environments: self.folders.iter().map(environment).collect(),
            ends: Vec::new(),
            planned: self.plan.runs(),
            interrupted: false,
        };
        for (sequence, slot) in (1..).zip(self.plan.order()) {
            if self.given_up.contains(&(slot.target, slot.case)) {
                continue;
            }
            let end = self.record_one(slot, sequence)?;
            recorded.ends.push(end);
            recorded.environments[slot.target].runs += usize::from(matches!(end, End::Ran(_)));
            if end == End::Ran(Outcome::Interrupted) || self.signals.stop_requests() > 0 {
                recorded.interrupted = true;
                break;
            }
            if self.plan.fail_fast && !end.is_finished() {
                self.progress.say("Stopping at the first run that did not finish (--fail-fast)");
                break;
            }
        }
        Ok(recorded)
    }

    fn record_one(&mut self, slot: Slot, sequence: u32) -> Result<End> {
        let (case, key) = (self.plan.case(slot), (slot.target, slot.case));
        let place = self.folders[slot.target].make_place(&case.name())?;
        let title = self.title(slot);
        let expected = self.durations.get(&key).copied();
        self.progress.begin(&title, expected);
        let mut record = self.new_record(slot, place.run, sequence);
        let desk = Desk {
            signals: &self.signals,
            progress: &self.progress,
            cgroups: &self.cgroups,
            mask: &self.mask,
            gpus: &self.gpus,
            expected,
        };
        if let Err(error) = record_run(&place.node, case, &mut record, desk) {
            return self.not_recorded(slot, &place, &record, error);
        }
        if let Some(duration_ns) = record.duration_ns {
            self.durations.insert(key, Duration::from_nanos(duration_ns.unsigned_abs()));
        }
        self.progress.say(&format!("{title}: {}", in_words(&record)));
        self.folders[slot.target].derive()?;
        Ok(End::Ran(record.outcome))
    }

    /// A command that cannot be started is the end of its case only; all else that fails here is our own failure.
    fn not_recorded(&mut self, slot: Slot, place: &Place, record: &RunRecord, error: Error) -> Result<End> {
        let exit_code = error.downcast_ref::<CannotStart>().map(|cannot| cannot.exit_code);
        if record.duration_ns.is_none() || exit_code.is_some() {
            place.give_up();
        }
        let error = error.context(format!("cannot record {}", self.title(slot)));
        let Some(exit_code) = exit_code else { return Err(error) };
        self.progress.say(&format!("shice: {error:#}; the other runs of this case are left out"));
        self.given_up.insert((slot.target, slot.case));
        Ok(End::NotStarted { exit_code })
    }

    /// `image-a · small-cnn device=cpu · run 2/5`; the environment only where there are several.
    fn title(&self, slot: Slot) -> String {
        let environment = match self.plan.targets.as_slice() {
            [_] => String::new(),
            targets => format!("{} · ", targets[slot.target].environment),
        };
        format!("{environment}{} · run {}/{}", self.plan.case(slot).name(), slot.block, self.plan.repeats)
    }

    fn new_record(&self, slot: Slot, run: u32, sequence: u32) -> RunRecord {
        let case = self.plan.case(slot);
        RunRecord {
            schema_version: SCHEMA_VERSION.to_owned(),
            shice_version: env!("CARGO_PKG_VERSION").to_owned(),
            environment: self.plan.targets[slot.target].environment.clone(),
            workload: case.workload.clone(),
            settings: case.settings.clone(),
            effective: Default::default(),
            command: self.mask.command(&case.command),
            run,
            node: 0,
            session_unix_ns: self.began_unix_ns,
            sequence,
            block: slot.block,
            started_unix_ns: clock::unix_ns(),
            interval_ns: i64::try_from(self.plan.interval.as_nanos()).unwrap_or(i64::MAX),
            outcome: Outcome::Recording,
            duration_ns: None,
            cpu: CpuTotals::default(),
            cgroup: Groups::default(),
            limits: self.machine.limits,
            fingerprint: self.machine.fingerprint.clone(),
            volatile: fingerprint::volatile(Path::new(PROC)),
            libraries: Vec::new(),
            checks: self.checks.clone(),
            coverage: Vec::new(),
            recorder: RecorderCost::default(),
            files: BTreeMap::new(),
            survivors: Vec::new(),
            output_tail: Vec::new(),
            events: Vec::new(),
        }
    }
}

fn in_words(record: &RunRecord) -> String {
    let outcome = match record.outcome {
        Outcome::Failed { exit_code } => format!("failed with exit code {exit_code}"),
        Outcome::Killed { signal } => format!("killed by signal {signal}"),
        Outcome::OutOfMemory { .. } => "killed for lack of memory".to_owned(),
        other => other.word().to_owned(),
    };
    let seconds = |ns: Option<i64>| ns.map_or("unknown".to_owned(), |ns| format!("{:.2} s", ns as f64 / 1e9));
    format!("{outcome} after {}, CPU {}", seconds(record.duration_ns), seconds(record.cpu.best_ns()))
}

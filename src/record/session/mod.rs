//! A recording session: every case of a plan, block by block, into the folders of one or more environments.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result};

mod estimate;
mod folder;
mod ground;
mod limit;
mod ready;
mod refuse;

pub use estimate::{Durations, Estimate};
use folder::{Folder, Place};
use ground::Ground;
pub use ground::{Preview, preview};
use limit::{LeftOut, TimeLimit};

use super::child::CannotStart;
use super::clock;
use super::fingerprint;
use super::plan::order::Slot;
use super::plan::{Existing, Plan};
use super::progress::Progress;
use super::run::{Desk, PROC, record_run};
use super::signals::Signals;
use super::steps;
use crate::trace::check::Check;
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
    /// How many more did not take the place of earlier ones, because none of their case finished.
    pub dropped: usize,
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
    let mut folders = plan.targets.iter().map(hold).collect::<Result<Vec<_>>>()?;
    let ground = Ground::look(plan)?;
    let mut durations = Durations::default();
    let befores = folders.iter().map(Folder::open).collect::<Result<Vec<_>>>()?;
    for (place, before) in befores.iter().enumerate() {
        before.as_ref().map_or(Ok(()), |before| ground.check(plan, place, before, &mut durations))?;
    }
    if plan.existing == Existing::Replace {
        for (folder, before) in folders.iter_mut().zip(&befores) {
            before.as_ref().map_or(Ok(()), |before| folder.replace(before, &plan.targets[0].cases))?;
        }
    }
    let checks = ready::look(plan, &ground.machine, &ground.cgroups, &ground.gpus);
    nix::sys::prctl::set_child_subreaper(true).context("cannot become the parent of orphaned processes")?;
    let mut session = Session {
        plan,
        folders,
        ground,
        signals: Signals::listen()?,
        progress: Progress::new(),
        checks,
        began_unix_ns: clock::unix_ns(),
        durations,
        given_up: HashSet::new(),
    };
    if let Some(left_out) = &plan.left_out {
        session.progress.say(left_out);
    }
    if plan.runs() > plan.repeats as usize {
        session.progress.say(&in_figures(plan, &session.durations));
    }
    if let Some(words) = ready::in_words(&session.checks) {
        session.progress.say(&words);
    }
    let recorded = session.record_all();
    session.progress.end();
    session.settle(recorded)
}

/// `12 runs: 2 environments × 3 cases × 2 repeats; about 1m 4s`.
pub fn in_figures(plan: &Plan, durations: &Durations) -> String {
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let cases = plan.targets.first().map_or(0, |target| target.cases.len());
    format!(
        "{}: {} × {} × {}; {}",
        count(plan.runs(), "run"),
        count(plan.targets.len(), "environment"),
        count(cases, "case"),
        count(plan.repeats as usize, "repeat"),
        durations.estimate(plan)
    )
}

struct Session<'a> {
    plan: &'a Plan,
    /// Of the plan's targets.
    folders: Vec<Folder>,
    ground: Ground,
    signals: Signals,
    progress: Progress,
    /// Of this machine, before anything ran.
    checks: Vec<Check>,
    began_unix_ns: i64,
    durations: Durations,
    /// Cases whose command could not be started, or for which there is no time, each in its environment.
    given_up: HashSet<(usize, usize)>,
}

impl Session<'_> {
    /// Goes on after a run that failed or could not be started, unless the plan says otherwise.
    fn record_all(&mut self) -> Result<Recorded> {
        let environment = |folder: &Folder| RecordedEnvironment { folder: folder.path.clone(), runs: 0, dropped: 0 };
        let mut recorded = Recorded {
            environments: self.folders.iter().map(environment).collect(),
            ends: Vec::new(),
            planned: self.plan.runs(),
            interrupted: false,
        };
        let mut limit = TimeLimit::new(self.plan.time_limit);
        for (sequence, slot) in (1..).zip(self.plan.order()) {
            if self.given_up.contains(&(slot.target, slot.case)) {
                continue;
            }
            let of_block = self.durations.of_block(|case| !self.given_up.contains(case));
            if let Some(left_out) = limit.refuses(slot, self.durations.of(slot), of_block) {
                self.progress.say(&left_out.in_words(&self.title(slot), slot.block));
                match left_out {
                    LeftOut::Blocks { .. } => break,
                    LeftOut::Case { .. } => self.given_up.insert((slot.target, slot.case)),
                };
                continue;
            }
            let end = self.record_one(slot, sequence)?;
            recorded.ends.push(end);
            recorded.environments[slot.target].runs += usize::from(matches!(end, End::Ran(_)));
            if end == End::Ran(Outcome::Interrupted) || self.signals.stop_requests() > 0 {
                // A container that was only watched ends the session well.
                recorded.interrupted = !end.is_finished() || recorded.ends.len() < recorded.planned;
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
        let case = self.plan.case(slot);
        let place = self.folders[slot.target].make_place(&case.name())?;
        let title = self.title(slot);
        let expected = self.durations.of(slot);
        let mut record = self.new_record(slot, place.run, sequence);
        let desk = Desk {
            signals: &self.signals,
            progress: &self.progress,
            cgroups: &self.ground.cgroups,
            mask: &self.ground.mask,
            gpus: &self.ground.gpus,
            step_reading: self.plan.step_reading_of(case),
            keep_output: self.plan.keep_output,
            leave_children: self.plan.leave_children,
            title: &title,
            expected,
        };
        if let Err(error) = record_run(&place.node, case, &mut record, desk) {
            return self.not_recorded(slot, &place, &record, error);
        }
        if let Some(duration_ns) = record.duration_ns {
            self.durations.insert(slot, duration_ns);
        }
        self.progress.say(&format!("{title}: {}", in_words(&record)));
        self.folders[slot.target].recorded(&case.name(), record.outcome)?;
        Ok(End::Ran(record.outcome))
    }

    /// Runs that were to replace others and did not are cleared away, however the session ended.
    fn settle(self, recorded: Result<Recorded>) -> Result<Recorded> {
        let dropped = self.folders.iter().map(Folder::settle).collect::<Vec<_>>();
        let mut recorded = recorded?;
        for (environment, dropped) in recorded.environments.iter_mut().zip(dropped) {
            environment.dropped = dropped?;
            environment.runs = environment.runs.saturating_sub(environment.dropped);
        }
        Ok(recorded)
    }

    /// A command that cannot be started is the end of its case only; all else that fails here is our own failure.
    fn not_recorded(&mut self, slot: Slot, place: &Place, record: &RunRecord, error: Error) -> Result<End> {
        let exit_code = error.downcast_ref::<CannotStart>().map(|cannot| cannot.exit_code);
        let never_ran = record.duration_ns.is_none() || exit_code.is_some();
        // What could not be recorded whole replaces nothing.
        if never_ran || place.staged {
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
            command: self.ground.mask.command(&case.command),
            set_variables: steps::variables(self.plan.step_reading_of(case)),
            step_reading: self
                .plan
                .reads_output_of(case)
                .then(|| steps::masked(&self.plan.step_reading, &self.ground.mask)),
            run,
            node: 0,
            session_unix_ns: self.began_unix_ns,
            sequence,
            block: slot.block,
            started_unix_ns: clock::unix_ns(),
            interval_ns: i64::try_from(self.plan.interval.as_nanos()).unwrap_or(i64::MAX),
            outcome: Outcome::Recording,
            duration_ns: None,
            container: None,
            cpu: CpuTotals::default(),
            cgroup: Groups::default(),
            limits: self.ground.machine.limits,
            fingerprint: self.ground.machine.fingerprint.clone(),
            volatile: fingerprint::volatile(Path::new(PROC)),
            libraries: BTreeMap::new(),
            software: BTreeMap::new(),
            packages: BTreeMap::new(),
            variables: BTreeMap::new(),
            checks: self.checks.clone(),
            cuda_devices: None,
            gpus_used: None,
            coverage: Vec::new(),
            recorder: RecorderCost::default(),
            files: BTreeMap::new(),
            survivors: Vec::new(),
            left_children: false,
            keeps_identity: self.plan.keep_identity,
            output_tail: Vec::new(),
            events: Vec::new(),
        }
    }
}

fn in_words(record: &RunRecord) -> String {
    let outcome = match record.outcome {
        Outcome::Failed { exit_code } => format!("failed with exit code {exit_code}"),
        Outcome::Killed { signal } => format!("killed by signal {signal}"),
        Outcome::OutOfMemory { exit_code: Some(exit_code), .. } => format!("ran out of memory, exit code {exit_code},"),
        Outcome::OutOfMemory { .. } => "killed for lack of memory".to_owned(),
        other => other.word().to_owned(),
    };
    let seconds = |ns: Option<i64>| ns.map_or("unknown".to_owned(), |ns| format!("{:.2} s", ns as f64 / 1e9));
    format!("{outcome} after {}, CPU {}", seconds(record.duration_ns), seconds(record.cpu.best_ns()))
}

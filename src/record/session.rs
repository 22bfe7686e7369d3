//! A recording session: every case of a plan, repeat by repeat, into one environment's folder.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::cgroup::Cgroups;
use super::child::CannotStart;
use super::clock;
use super::fingerprint::{self, Machine};
use super::mask::Mask;
use super::plan::{Case, Plan};
use super::probe::gpu::driver::Driver;
use super::progress::Progress;
use super::run::{Desk, PROC, record_run};
use super::signals::Signals;
use crate::files;
use crate::trace::environment::write_derived;
use crate::trace::layout::{case_dir, environment_dir, node_dir};
use crate::trace::lock::Lock;
use crate::trace::open::{Environment, open_environment_holding, partitions};
use crate::trace::run::{CpuTotals, Outcome, RecorderCost, RunRecord};
use crate::trace::version::SCHEMA_VERSION;

/// How a session ended.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The environment's folder.
    pub folder: PathBuf,
    /// Of every run, in the order in which they were recorded.
    pub outcomes: Vec<Outcome>,
    /// The user stopped it before all runs were recorded.
    pub interrupted: bool,
}

/// Records a plan.
///
/// # Errors
/// Nothing could be recorded, or recording itself failed; what was recorded before is kept.
pub fn record(plan: &Plan) -> Result<Recorded> {
    let folder = environment_dir(&plan.out, &plan.environment);
    files::create_dir(&folder)?;
    let lock = Lock::take(&folder)?;
    let before = open_environment_holding(&folder, &lock)?.environment;
    let cgroups = Cgroups::of_this_process(Path::new(PROC));
    let gpus = Driver::open();
    let machine = Machine::inspect(Path::new(PROC), &cgroups, gpus.as_ref().ok())?;
    let mask = Mask::of_this_user();
    if let Some(before) = &before {
        refuse_another_command(plan, before, &mask)?;
        if !plan.append {
            refuse_what_differs(plan, before, &machine)?;
        }
    }
    nix::sys::prctl::set_child_subreaper(true).context("cannot become the parent of orphaned processes")?;
    let mut session = Session {
        plan,
        folder,
        machine,
        cgroups,
        gpus,
        mask,
        signals: Signals::listen()?,
        progress: Progress::new(),
        lock,
        began_unix_ns: clock::unix_ns(),
        durations: HashMap::new(),
    };
    let recorded = session.record_all();
    session.progress.end();
    recorded
}

/// Runs of one case are repeats of one command, also with `--append`.
fn refuse_another_command(plan: &Plan, before: &Environment, mask: &Mask) -> Result<()> {
    for case in &plan.cases {
        let command = mask.command(&case.command);
        let other = before.runs.iter().find(|run| run.record.case() == case.name() && run.record.command != command);
        if let Some(run) = other {
            bail!(
                "the case \"{}\" was recorded with another command ({}); use another --workload name, or tell the two \
                 apart with --set KEY=VALUE",
                case.name(),
                run.record.command.join(" ")
            );
        }
    }
    Ok(())
}

/// Without `--append` an environment stays what it was: the same machine, and no case twice.
fn refuse_what_differs(plan: &Plan, before: &Environment, machine: &Machine) -> Result<()> {
    let Some(last) = before.runs.last() else { return Ok(()) };
    let differing = fingerprint::differing_keys(&last.record.fingerprint, &machine.fingerprint);
    if !differing.is_empty() {
        bail!(
            "the environment {:?} was recorded on something else (different: {}); use another --env, or --append to mix them",
            plan.environment,
            differing.join(", ")
        );
    }
    let recorded = |case: &&Case| before.runs.iter().any(|run| run.record.case() == case.name());
    if let Some(case) = plan.cases.iter().find(recorded) {
        bail!(
            "the case \"{}\" is already recorded in {}; use --append to add runs, or another --env or --out",
            case.name(),
            before.dir.display()
        );
    }
    Ok(())
}

struct Session<'a> {
    plan: &'a Plan,
    folder: PathBuf,
    machine: Machine,
    cgroups: Cgroups,
    /// Opened once: loading the driver can take seconds.
    gpus: Result<Driver, String>,
    mask: Mask,
    signals: Signals,
    progress: Progress,
    lock: Lock,
    began_unix_ns: i64,
    /// How long each case's last run took.
    durations: HashMap<String, Duration>,
}

impl Session<'_> {
    /// Repeats are the outer loop, so that a machine that drifts favours no case.
    fn record_all(&mut self) -> Result<Recorded> {
        let mut outcomes = Vec::new();
        let mut interrupted = false;
        'session: for block in 1..=self.plan.repeats {
            for case in &self.plan.cases {
                let sequence = u32::try_from(outcomes.len() + 1).unwrap_or(u32::MAX);
                let outcome = self.record_one(case, block, sequence)?;
                outcomes.push(outcome);
                if outcome == Outcome::Interrupted || self.signals.stop_requests() > 0 {
                    interrupted = true;
                    break 'session;
                }
            }
        }
        Ok(Recorded { folder: self.folder.clone(), outcomes, interrupted })
    }

    fn record_one(&mut self, case: &Case, block: u32, sequence: u32) -> Result<Outcome> {
        let name = case.name();
        let case_folder = case_dir(&self.folder, &name);
        let run = next_run(&case_folder)?;
        let folder = node_dir(&case_folder, run);
        files::create_new_dir(&folder)?;

        let title = format!("{name} · run {block}/{}", self.plan.repeats);
        let expected = self.durations.get(&name).copied();
        self.progress.begin(&title, expected);
        let mut record = self.new_record(case, run, block, sequence);
        let desk = Desk {
            signals: &self.signals,
            progress: &self.progress,
            cgroups: &self.cgroups,
            mask: &self.mask,
            gpus: &self.gpus,
            expected,
        };
        if let Err(error) = record_run(&folder, case, &mut record, desk) {
            if record.duration_ns.is_none() || error.is::<CannotStart>() {
                // The command never ran: there is nothing to keep.
                let _ = std::fs::remove_dir_all(folder.parent().unwrap_or(&folder));
            }
            return Err(error.context(format!("cannot record {title}")));
        }
        if let Some(duration_ns) = record.duration_ns {
            self.durations.insert(name, Duration::from_nanos(duration_ns.unsigned_abs()));
        }
        self.progress.say(&format!("{title}: {}", in_words(&record)));
        if let Some(environment) = open_environment_holding(&self.folder, &self.lock)?.environment {
            write_derived(&environment)?;
        }
        Ok(record.outcome)
    }

    fn new_record(&self, case: &Case, run: u32, block: u32, sequence: u32) -> RunRecord {
        RunRecord {
            schema_version: SCHEMA_VERSION.to_owned(),
            shice_version: env!("CARGO_PKG_VERSION").to_owned(),
            environment: self.plan.environment.clone(),
            workload: case.workload.clone(),
            settings: case.settings.clone(),
            effective: Default::default(),
            command: self.mask.command(&case.command),
            run,
            node: 0,
            session_unix_ns: self.began_unix_ns,
            sequence,
            block,
            started_unix_ns: clock::unix_ns(),
            interval_ns: i64::try_from(self.plan.interval.as_nanos()).unwrap_or(i64::MAX),
            outcome: Outcome::Recording,
            duration_ns: None,
            cpu: CpuTotals::default(),
            limits: self.machine.limits,
            fingerprint: self.machine.fingerprint.clone(),
            volatile: fingerprint::volatile(Path::new(PROC)),
            libraries: Vec::new(),
            coverage: Vec::new(),
            recorder: RecorderCost::default(),
            survivors: Vec::new(),
            output_tail: Vec::new(),
            events: Vec::new(),
        }
    }
}

/// One more than the highest number that was ever used for the case.
fn next_run(case: &Path) -> Result<u32> {
    if !case.exists() {
        return Ok(1);
    }
    let numbers = partitions(case, "run")?.into_iter().filter_map(|(number, _)| number.parse::<u32>().ok());
    Ok(numbers.max().unwrap_or(0) + 1)
}

fn in_words(record: &RunRecord) -> String {
    let outcome = match record.outcome {
        Outcome::Failed { exit_code } => format!("failed with exit code {exit_code}"),
        Outcome::Killed { signal } => format!("killed by signal {signal}"),
        other => other.word().to_owned(),
    };
    let seconds = |ns: Option<i64>| ns.map_or("unknown".to_owned(), |ns| format!("{:.2} s", ns as f64 / 1e9));
    format!("{outcome} after {}, CPU {}", seconds(record.duration_ns), seconds(record.cpu.best_ns()))
}

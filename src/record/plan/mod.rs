//! What is to be recorded: a command line or a suite, checked and completed before anything is started or written.
//!
//! ```text
//! words ─┐                  ┌ settings (combinations), placeholders
//!        ├─ wish ── cases ──┴ Plan ── order
//! suite ─┘
//! ```

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

mod attach;
pub mod cases;
mod devices;
pub mod nearest;
pub mod order;
pub mod placeholders;
pub mod settings;
pub mod shipped;
pub mod suite;
pub mod wish;
pub mod words;

pub use cases::Case;
use nearest::hint;
use order::Slot;
use wish::{EnvironmentWish, Wish, check_environment};

use super::probe::gpu::GpuChoice;
use super::steps::progress::check_pattern;
use crate::trace::run::StepReading;

/// Gives a spread worth comparing.
const DEFAULT_REPEATS: u32 = 5;
const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);

/// What the user asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Name of the environment; of a suite that has environments, the one to record.
    pub environment: Option<String>,
    /// A suite in the place of workloads, command and settings.
    pub suite: Option<PathBuf>,
    /// Names of shipped workloads; exactly one name of the user's own with `command`.
    pub workloads: Vec<String>,
    /// The user's own command; empty for shipped workloads.
    pub command: Vec<String>,
    pub devices: Vec<String>,
    pub settings: Vec<(String, String)>,
    /// Settings that take several values in turn.
    pub sweeps: Vec<(String, Vec<String>)>,
    pub quick: bool,
    pub repeats: Option<u32>,
    pub interval: Option<Duration>,
    /// Which GPUs are recorded.
    pub gpus: GpuChoice,
    pub out: PathBuf,
    pub existing: Existing,
    pub fail_fast: bool,
    /// Leave names of user and machine, home paths and addresses unmasked.
    pub keep_identity: bool,
    /// Leave processes running that outlive the command.
    pub leave_children: bool,
    /// Tell what would be done, and do nothing.
    pub dry_run: bool,
    /// How steps are read from the output of the user's own commands.
    pub step_reading: StepReading,
    /// Whether the whole output of each run is kept.
    pub keep_output: bool,
    /// A container that runs already, by name or id.
    pub container: Option<String>,
    /// How long to watch it at most, where there is no command.
    pub duration: Option<Duration>,
    /// Within this time all runs are to end.
    pub time_limit: Option<Duration>,
}

/// What becomes of runs that a case has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Nothing is recorded.
    Refuse,
    /// They stay, and new ones are added.
    Append,
    /// They go once a new one has finished.
    Replace,
}

/// What will be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// All have the same cases, in the same order.
    pub targets: Vec<Target>,
    pub repeats: u32,
    pub interval: Duration,
    pub gpus: GpuChoice,
    pub out: PathBuf,
    pub existing: Existing,
    /// Stop at the first run that does not finish.
    pub fail_fast: bool,
    /// How steps are read from the output of the user's own commands.
    pub step_reading: StepReading,
    pub keep_output: bool,
    pub keep_identity: bool,
    pub leave_children: bool,
    /// Within this time all runs are to end, as far as earlier ones tell how long they take.
    pub time_limit: Option<Duration>,
    /// What was asked for and cannot be done here, where that was allowed for.
    pub left_out: Option<String>,
}

/// What will be recorded of one environment.
#[derive(Clone, Debug)]
pub struct Target {
    /// Exact name.
    pub environment: String,
    pub cases: Vec<Case>,
}

impl Plan {
    /// Checks a request.
    ///
    /// # Errors
    /// One clear sentence for the first thing that is wrong; [`super::child::CannotStart`] where a command is missing.
    pub fn new(mut request: Request) -> Result<Self> {
        let attach = attach::wanted(&mut request)?;
        words::check_numbers(&request)?;
        let mut wish = match &request.suite {
            Some(file) => suite::read(file)?,
            None => words::wish(&request)?,
        };
        check_step_reading(&request.step_reading, &wish)?;
        let environments = environments(request.environment.as_deref(), &wish)?;
        let left_out = devices::settle(&mut wish, &environments)?;
        let target = |environment: &EnvironmentWish| {
            let cases = cases::cases(&wish.cases, environment)?;
            Ok(Target { environment: environment.name.clone(), cases })
        };
        let mut plan = Self {
            targets: environments.iter().map(target).collect::<Result<_>>()?,
            repeats: request.repeats.or(wish.repeats).unwrap_or(DEFAULT_REPEATS),
            interval: request.interval.or(wish.interval).unwrap_or(DEFAULT_INTERVAL),
            gpus: request.gpus,
            out: request.out,
            existing: request.existing,
            fail_fast: request.fail_fast,
            step_reading: request.step_reading,
            keep_output: request.keep_output,
            keep_identity: request.keep_identity,
            leave_children: request.leave_children,
            time_limit: request.time_limit,
            left_out,
        };
        attach::containers(&mut plan, attach)?;
        Ok(plan)
    }

    /// All runs in their order.
    pub fn order(&self) -> impl Iterator<Item = Slot> + use<> {
        order::order(self.repeats, self.targets.len(), self.targets.first().map_or(0, |target| target.cases.len()))
    }

    /// How many runs there will be.
    pub fn runs(&self) -> usize {
        let cases: usize = self.targets.iter().map(|target| target.cases.len()).sum();
        cases.saturating_mul(self.repeats as usize)
    }

    /// Whether a case's output may be read for steps: the shipped workloads tell theirs.
    pub fn reads_output_of(&self, case: &Case) -> bool {
        !shipped::is_shipped(&case.workload)
    }

    /// How steps are read from the output of a case.
    pub fn step_reading_of(&self, case: &Case) -> &StepReading {
        if self.reads_output_of(case) { &self.step_reading } else { &StepReading::Off }
    }

    pub fn case(&self, slot: Slot) -> &Case {
        &self.targets[slot.target].cases[slot.case]
    }
}

/// The environments that are to be recorded: all of the wish or the one named among them, else the one named.
fn environments(name: Option<&str>, wish: &Wish) -> Result<Vec<EnvironmentWish>> {
    let Some(name) = name else {
        if wish.environments.is_empty() {
            bail!("no environment is named; give one, such as --env laptop");
        }
        return Ok(wish.environments.clone());
    };
    check_environment("--env", name)?;
    if wish.environments.is_empty() {
        return Ok(vec![EnvironmentWish { name: name.to_owned(), prefix: Vec::new(), origin: "--env".to_owned() }]);
    }
    let known: Vec<&str> = wish.environments.iter().map(|environment| environment.name.as_str()).collect();
    match wish.environments.iter().find(|environment| environment.name == name) {
        Some(environment) => Ok(vec![environment.clone()]),
        None => bail!("--env {name:?}: the suite has no environment of that name; {}", hint(name, &known)),
    }
}

/// How steps are read must have something to be read from, and a pattern must be one.
fn check_step_reading(reading: &StepReading, wish: &Wish) -> Result<()> {
    if *reading != StepReading::Auto && wish.cases.iter().all(|case| case.command.is_none()) {
        bail!(
            "--steps and --step-pattern are for a command of your own; the shipped workloads tell their steps; leave them out"
        );
    }
    match reading {
        StepReading::Pattern { pattern } => check_pattern(pattern),
        StepReading::Auto | StepReading::Off => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            environment: Some("laptop".into()),
            suite: None,
            workloads: vec!["mine".into()],
            command: vec!["sh".into(), "-c".into(), "true".into()],
            devices: vec![],
            settings: vec![("threads".into(), "2".into())],
            sweeps: vec![],
            quick: false,
            repeats: None,
            interval: None,
            gpus: GpuChoice::default(),
            out: "traces".into(),
            existing: Existing::Refuse,
            fail_fast: false,
            keep_identity: false,
            leave_children: false,
            dry_run: false,
            step_reading: StepReading::Auto,
            keep_output: false,
            container: None,
            duration: None,
            time_limit: None,
        }
    }

    #[test]
    fn a_command_of_ones_own_becomes_one_case_named_by_its_settings() {
        let plan = Plan::new(request()).unwrap();
        assert_eq!((plan.targets.len(), plan.targets[0].cases.len()), (1, 1));
        assert_eq!(plan.targets[0].cases[0].name(), "mine threads=2");
    }

    #[test]
    fn what_is_swept_fills_placeholders_and_makes_cases_and_what_is_set_may_only_label_them() {
        let command = ["sh", "-c", "echo $1 ${2} {other}", "{batch}"].map(str::to_owned).to_vec();
        let sweeps = vec![("batch".to_owned(), vec!["16".to_owned(), "32".to_owned()])];
        let plan = Plan::new(Request { command, sweeps, ..request() }).unwrap();
        let cases = &plan.targets[0].cases;
        assert_eq!(
            cases.iter().map(Case::name).collect::<Vec<_>>(),
            ["mine batch=16 threads=2", "mine batch=32 threads=2"]
        );
        assert_eq!(cases[1].command, ["sh", "-c", "echo $1 ${2} {other}", "32"]);
        assert_eq!((plan.runs(), plan.order().count()), (10, 10));
    }

    #[test]
    fn each_thing_that_is_wrong_has_its_own_sentence() {
        type Change = fn(&mut Request);
        let wrong: [(Change, &str); 18] = [
            (|request| (request.container = Some("c".into()), request.repeats = Some(1)).0, "recorded once"),
            (
                |request| (request.container = Some("c".into()), request.devices = vec!["cpu".into(), "cuda".into()]).0,
                "--device: a container that runs already is recorded once; name one device",
            ),
            (|request| request.command = vec!["docker".into(), "run".into(), "-d".into(), "x".into()], "docker"),
            (|request| request.environment = None, "no environment is named"),
            (|request| request.environment = Some(" ".into()), "--env is empty"),
            (|request| request.environment = Some("a\nb".into()), "control character"),
            (|request| request.repeats = Some(0), "--repeats 0"),
            (|request| request.interval = Some(Duration::from_millis(1)), "out of range"),
            (|request| request.devices = vec!["cpu".into(), "cuda:0".into()], "put {device} where the value belongs"),
            (|request| request.sweeps = vec![("threads".into(), vec!["4".into()])], "\"threads\" is given twice"),
            (|request| request.workloads = vec!["idle".into()], "shipped workload"),
            (|request| request.workloads = vec!["w a=1".into()], "is no name"),
            (|request| request.workloads.clear(), "needs one name"),
            (
                |request| request.step_reading = StepReading::Pattern { pattern: "(".into() },
                "--step-pattern \"(\" is no regular expression: unclosed group",
            ),
            (|request| request.settings[0].0 = "hf-token".into(), "--set hf-token: this looks like a secret"),
            (|request| request.settings[0].1 = "https://me:pw@host".into(), "--set threads: the value looks like"),
            (|request| request.command = vec!["no-such-command-anywhere".into()], "cannot find the command"),
            (|request| (request.command.clear(), request.workloads = vec!["resnet".into()]).0, "unknown workload"),
        ];
        for (change, expected) in wrong {
            let mut request = request();
            change(&mut request);
            let message = Plan::new(request).unwrap_err().to_string();
            assert!(message.contains(expected), "{message:?} should contain {expected:?}");
        }
    }
}

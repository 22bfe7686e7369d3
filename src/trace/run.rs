//! `run.json`: what one run was, what it ran on, how it ended, and what could not be measured.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::check::Check;
use super::plausible::implausible;
use super::sums::Sum;
use super::version;
use crate::files;

/// Everything that is known of a run besides its samples.
///
/// Written when the run starts (outcome [`Outcome::Recording`]) and again when it is finished.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// `major.minor` of the trace's schema.
    pub schema_version: String,
    /// Version of the recording program.
    pub shice_version: String,
    /// Exact name of the environment.
    pub environment: String,
    pub workload: String,
    /// Settings as requested; those left to the workload's default are absent.
    pub settings: BTreeMap<String, String>,
    /// What the settings became, as the workload told through `SHICE_STEPS`.
    #[serde(default)]
    pub effective: BTreeMap<String, String>,
    /// The command that was run, with secrets masked.
    pub command: Vec<String>,
    /// Variables that the recorder set for the command, besides `SHICE_STEPS`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set_variables: BTreeMap<String, String>,
    /// Whether steps were looked for in the command's output; null where they never are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_reading: Option<StepReading>,
    /// Number of the repeat, from 1.
    pub run: u32,
    /// Number of the machine within the run.
    pub node: u32,
    /// When the recording session began, as Unix time; runs of one `shice record` share it.
    pub session_unix_ns: i64,
    /// Position of the run within its session, from 1.
    pub sequence: u32,
    /// Runs of one block were interleaved and may be paired; from 1.
    pub block: u32,
    /// The wall-clock anchor: Unix time of the run's start (`t_ns` = 0).
    pub started_unix_ns: i64,
    /// Requested time between samples of host and processes.
    pub interval_ns: i64,
    pub outcome: Outcome,
    /// Start to exit of the root process. Null where the recording was cut.
    #[serde(default)]
    pub duration_ns: Option<i64>,
    /// The container that the command worked in, whose figures the run's are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Followed>,
    /// CPU time of the whole tree.
    #[serde(default)]
    pub cpu: CpuTotals,
    /// Whose control group the table `cgroup` tells of.
    #[serde(default)]
    pub cgroup: Groups,
    pub limits: Limits,
    /// Hardware and software that should stay the same between runs of one environment.
    pub fingerprint: BTreeMap<String, Value>,
    /// What may differ from run to run (load before the start, free memory, …).
    #[serde(default)]
    pub volatile: BTreeMap<String, Value>,
    /// File names of libraries that matter, as found loaded in the workload's processes, with their versions where
    /// those could be told.
    #[serde(default, deserialize_with = "names_or_versions")]
    pub libraries: BTreeMap<String, Option<String>>,
    /// Components as the processes had them loaded, in keys that can be compared: `python`, `torch`, `torch_cuda` (the
    /// CUDA that torch was built for), `cuda_runtime`, `cudnn`, `cublas`, `nccl`, `mkl`, `openblas`, `onednn`, `openmp`
    /// (which runtime), `package_index` (host), `conda_channels`. Null: loaded, in a version that nobody tells. Several
    /// versions are separated by commas.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub software: BTreeMap<String, Option<String>>,
    /// Python packages of the environment that the processes used, with their versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
    /// Environment variables of the processes that matter to the libraries, masked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Whether the environment was ready, as found before the session's first run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// What CUDA calls device 0, 1, … in the command; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_devices: Option<Vec<GpuRef>>,
    /// GPUs (NVML's indices) on which a process of the run was seen; absent where the driver cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_used: Option<Vec<u32>>,
    /// What was measured, from where, and what was not.
    #[serde(default)]
    pub coverage: Vec<Coverage>,
    /// What recording cost.
    #[serde(default)]
    pub recorder: RecorderCost,
    /// Length and hash of each table's file; empty where the run was not finished, or by an older program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, Sum>,
    /// Names of processes that outlived the root process and were ended by the recorder.
    #[serde(default)]
    pub survivors: Vec<String>,
    /// Such processes were not ended, but left running.
    #[serde(default, skip_serializing_if = "is_false")]
    pub left_children: bool,
    /// Names of user and machine, home paths and addresses were not masked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keeps_identity: bool,
    /// Last lines of a failed run's output, masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_tail: Vec<String>,
    /// What went wrong in recording, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
}

/// Whether and how steps are looked for in a command's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum StepReading {
    /// Progress bars and lines of well-known spellings.
    Auto,
    Off,
    /// Lines that a regular expression of the user's fits, and no others.
    Pattern {
        pattern: String,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands on a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// Still running, or its recorder died before it could say more.
    Recording,
    /// Exit code 0.
    Finished,
    /// Another exit code.
    Failed { exit_code: i32 },
    /// Ended by a signal that the recorder did not send.
    Killed { signal: i32 },
    /// Memory did not suffice: either the kernel ended it by a signal, and an event says what that rests on, or the command
    /// told so itself and exited.
    OutOfMemory {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    /// Ended because the user stopped the recording.
    Interrupted,
    /// The recorder died; what it had written was kept.
    Incomplete,
}

impl Outcome {
    /// Whether the run's figures may enter a summary.
    pub fn is_finished(self) -> bool {
        self == Outcome::Finished
    }

    /// What it exited with, where it exited.
    pub fn exit_code(self) -> Option<i32> {
        match self {
            Outcome::Finished => Some(0),
            Outcome::Failed { exit_code } => Some(exit_code),
            Outcome::OutOfMemory { exit_code, .. } => exit_code,
            _ => None,
        }
    }

    /// What ended it, where a signal did.
    pub fn signal(self) -> Option<i32> {
        match self {
            Outcome::Killed { signal } => Some(signal),
            Outcome::OutOfMemory { signal, .. } => signal,
            _ => None,
        }
    }

    /// The word in `runs.parquet`; the same as in `run.json`.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Recording => "recording",
            Outcome::Finished => "finished",
            Outcome::Failed { .. } => "failed",
            Outcome::Killed { .. } => "killed",
            Outcome::OutOfMemory { .. } => "out_of_memory",
            Outcome::Interrupted => "interrupted",
            Outcome::Incomplete => "incomplete",
        }
    }
}

/// CPU time of the tree by up to three independent ways, each a lower bound: clocks miss what a process did after its
/// last sample, rusage misses processes that nobody waited for, a control group those that were moved out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTotals {
    /// Sum over all processes of the last reading of their CPU clock.
    pub clocks_ns: Option<i64>,
    /// User time that the kernel accounted for all processes waited for (rusage).
    pub rusage_user_ns: Option<i64>,
    /// System time, likewise.
    pub rusage_system_ns: Option<i64>,
    /// CPU time of the run's control group, of its own or the container's; null where there is none.
    #[serde(default)]
    pub cgroup_ns: Option<i64>,
}

impl CpuTotals {
    /// The greatest of the lower bounds, in nanoseconds.
    pub fn best_ns(&self) -> Option<i64> {
        self.clocks_ns.max(self.rusage_ns()).max(self.cgroup_ns)
    }

    /// User and system time that the kernel accounted for all processes waited for.
    pub fn rusage_ns(&self) -> Option<i64> {
        self.rusage_user_ns.zip(self.rusage_system_ns).map(|(user, system)| user.saturating_add(system))
    }
}

/// How a container came to be part of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// Program of the container's client: `docker`, `podman` or `nerdctl`.
    pub client: String,
    /// What the user called a container that ran already; null where the run's command started it.
    #[serde(default)]
    pub attached: Option<String>,
}

/// Whose control group was read, by kind of resource; null where none tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    #[serde(default)]
    pub cpu: Option<GroupScope>,
    /// The CPU quota and its throttling.
    #[serde(default)]
    pub throttling: Option<GroupScope>,
    /// Memory, swap and kills for lack of memory.
    #[serde(default)]
    pub memory: Option<GroupScope>,
    #[serde(default)]
    pub processes: Option<GroupScope>,
    #[serde(default)]
    pub io: Option<GroupScope>,
}

/// Whose control group it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupScope {
    /// That of the container in which the run's command works.
    Container,
    /// One that the recorder made for the run.
    Own,
    /// The one that the recorder itself is in, and others may be.
    Shared,
}

impl GroupScope {
    /// Whether all that the group tells is the run's.
    pub fn is_the_runs(self) -> bool {
        matches!(self, GroupScope::Container | GroupScope::Own)
    }
}

/// What the run was allowed to use: the smallest of what the machine has and what its cgroups and affinity grant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Logical cores of the machine that are online.
    pub cores_online: u32,
    /// Cores' worth of CPU time that the run may use; null where its container was not seen.
    pub cpu_cores: Option<f64>,
    /// Memory of the machine.
    pub memory_total_bytes: i64,
    /// Memory that the run may use; null where its container was not seen.
    pub memory_bytes: Option<i64>,
}

impl Limits {
    /// Of a run on the same machine of which nobody knows what it may use.
    pub fn without_grants(self) -> Self {
        Self { cpu_cores: None, memory_bytes: None, ..self }
    }
}

/// A GPU, or a MIG instance of one, by NVML's indices: those of the fingerprint's `gpus` and of the table `gpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GpuRef {
    pub gpu: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig_instance: Option<u32>,
}

/// One line of the coverage ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// `table.column`, `table.` and how the names of several columns begin, one of the groups of
    /// [`tables`](super::tables::GROUPS), or `table` for all of its columns; [`SOFTWARE`] for what is in `run.json`.
    pub metric: String,
    pub state: CoverageState,
    /// The interface that was read, or would have been.
    pub source: String,
    /// Why values are missing, or what is to be known of them; empty where there is nothing to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The ledger's name for what was found loaded in the workload's processes.
pub const SOFTWARE: &str = "run.software";
/// The line of the ledger for what is a followed container's in `limits` and `fingerprint`.
pub const CONTAINER: &str = "run.container";

impl Coverage {
    /// The table that the line is about; `None` for one that tells of what is in `run.json`.
    pub fn table(&self) -> Option<&str> {
        let table = self.metric.split_once('.').map_or(self.metric.as_str(), |(table, _)| table);
        (![SOFTWARE, CONTAINER].contains(&self.metric.as_str())).then_some(table)
    }

    /// Whether it says that there are values, of a table that is not there.
    pub fn claims_missing(&self, is_there: impl Fn(&str) -> bool) -> bool {
        self.state.claims_values() && self.table().is_some_and(|table| !is_there(table))
    }

    /// The column, or the beginning of several columns' names, that the line is about; `None` for the whole table.
    pub fn column(&self) -> Option<&str> {
        self.metric.split_once('.').map(|(_, column)| column)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoverageState {
    Measured,
    /// The machine, kernel or driver has no such figure.
    Unsupported,
    /// It exists, but this user may not read it.
    Denied,
    /// It was measured, and then readings failed.
    Lost,
    /// Taken from a log of another tool.
    Imported,
}

impl CoverageState {
    /// Whether it says that there are values.
    pub fn claims_values(self) -> bool {
        matches!(self, Self::Measured | Self::Imported)
    }
}

/// What the recorder itself used during the measured span; null where the recording was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecorderCost {
    pub cpu_ns: Option<i64>,
    pub memory_peak_bytes: Option<i64>,
    /// Ticks of the sampling schedule that were met.
    pub ticks: Option<u64>,
    /// Ticks that were due while the last one still ran or the recorder got no CPU.
    pub missed_ticks: Option<u64>,
    /// Greatest lateness of a tick.
    pub late_max_ns: Option<i64>,
    pub journal_bytes: Option<u64>,
    /// The part of `cpu_ns` that reading proportional memory took.
    #[serde(default)]
    pub memory_probe_cpu_ns: Option<i64>,
}

/// What can be done about a damaged record or table.
pub(super) const REMEDY: &str = "remove this run's folder, or restore it from a copy";
/// What is wrong where a table is not there that should be.
pub(super) const FILE_IS_MISSING: &str = "the file is missing";

/// Opens one of a run's files to be read.
///
/// # Errors
/// It cannot be read, or it is no file; it is named.
pub(super) fn open_of_run(path: &Path) -> Result<File> {
    match files::open(path) {
        Err(error) if files::is_of_another_kind(&error) => {
            bail!("{} is damaged: {error}; {REMEDY}", path.display())
        }
        file => file.with_context(|| format!("cannot read {}", path.display())),
    }
}

impl RunRecord {
    /// What `diff` pairs and `record` repeats: the workload and its settings as requested.
    pub fn case(&self) -> String {
        case_name(&self.workload, &self.settings)
    }

    /// Reads `run.json`.
    ///
    /// # Errors
    /// The file cannot be read, is no run record, tells what cannot be, or is of an unknown schema major; the path is
    /// named.
    pub fn read(path: &Path) -> Result<Self> {
        let (mut file, mut text) = (open_of_run(path)?, Vec::new());
        file.read_to_end(&mut text).with_context(|| format!("cannot read {}", path.display()))?;
        let value: Value = serde_json::from_slice(&text)
            .with_context(|| format!("{} is damaged or no JSON; {REMEDY}", path.display()))?;
        let version = value.get("schema_version").and_then(Value::as_str).unwrap_or_default();
        version::check(version).with_context(|| format!("cannot use {}", path.display()))?;
        let record: Self =
            serde_json::from_value(value).with_context(|| format!("{} is no run record; {REMEDY}", path.display()))?;
        let wrong = implausible(&record);
        if !wrong.is_empty() {
            bail!("{} tells what cannot be ({}); {REMEDY}", path.display(), wrong.join(", "));
        }
        Ok(record)
    }
}

/// Traces had the names alone once.
fn names_or_versions<'de, D: Deserializer<'de>>(input: D) -> Result<BTreeMap<String, Option<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Names(Vec<String>),
        Versions(BTreeMap<String, Option<String>>),
    }
    Ok(match Form::deserialize(input)? {
        Form::Names(names) => names.into_iter().map(|name| (name, None)).collect(),
        Form::Versions(versions) => versions,
    })
}

/// Name of a case: the workload, then the settings as requested in the order of their names.
pub fn case_name(workload: &str, settings: &BTreeMap<String, String>) -> String {
    settings.iter().fold(workload.to_owned(), |name, (key, value)| format!("{name} {key}={value}"))
}

#[cfg(test)]
impl RunRecord {
    /// A run of its own place and time, of the environment `e` and the case `w`.
    pub(crate) fn numbered(run: u32, outcome: Outcome) -> Self {
        let (environment, workload, settings) = ("e".to_owned(), "w".to_owned(), BTreeMap::new());
        let (sequence, started_unix_ns) = (run, run.into());
        let record = Self::for_tests(outcome);
        Self { environment, workload, settings, run, sequence, started_unix_ns, ..record }
    }

    /// A run on two cores with 1000 bytes of memory, sampled at 100 ms, of which nothing else is known.
    pub(crate) fn for_tests(outcome: Outcome) -> Self {
        let value = serde_json::json!({
            "schema_version": version::SCHEMA_VERSION, "shice_version": "0", "environment": "test", "workload": "own",
            "settings": {"device": "cpu"}, "command": ["true"], "run": 1, "node": 0,
            "session_unix_ns": 0, "sequence": 1, "block": 1, "started_unix_ns": 0, "interval_ns": 100_000_000,
            "outcome": outcome,
            "limits": {"cores_online": 2, "cpu_cores": 2.0, "memory_total_bytes": 1000, "memory_bytes": 1000},
            "fingerprint": {"os": "a"},
        });
        serde_json::from_value(value).unwrap()
    }
}

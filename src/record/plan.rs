//! What is to be recorded: arguments checked and completed before anything is started or written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::child::{self, CannotStart};
use super::mask;
use crate::trace::run::case_name;

/// The shipped workloads, as `shice-workloads` knows them.
pub const SHIPPED: [&str; 2] = ["idle", "small-cnn"];
const WORKLOADS_PROGRAM: &str = "shice-workloads";
/// The host's counters tick every 10 ms: sampling faster shows nothing new.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// What the user asked for.
#[derive(Clone, Debug)]
pub struct Request {
    pub environment: String,
    /// Names of shipped workloads; exactly one name of the user's own with `command`.
    pub workloads: Vec<String>,
    /// The user's own command; empty for shipped workloads.
    pub command: Vec<String>,
    pub devices: Vec<String>,
    pub settings: Vec<(String, String)>,
    pub quick: bool,
    pub repeats: u32,
    pub interval: Duration,
    pub out: PathBuf,
    pub append: bool,
}

/// What will be done.
#[derive(Clone, Debug)]
pub struct Plan {
    pub environment: String,
    pub cases: Vec<Case>,
    pub repeats: u32,
    pub interval: Duration,
    pub out: PathBuf,
    pub append: bool,
}

/// One case: what is started for it, and under which name it is kept.
#[derive(Clone, Debug)]
pub struct Case {
    pub workload: String,
    pub settings: BTreeMap<String, String>,
    /// As found on this machine.
    pub program: PathBuf,
    /// As it is started and shown; the first word is the program's own name.
    pub command: Vec<String>,
}

impl Case {
    pub fn name(&self) -> String {
        case_name(&self.workload, &self.settings)
    }
}

impl Plan {
    /// Checks a request.
    ///
    /// # Errors
    /// One clear sentence for the first thing that is wrong; [`CannotStart`] where a command is missing.
    pub fn new(request: Request) -> Result<Self> {
        if request.environment.trim().is_empty() {
            bail!("--env is empty; give the environment a name, such as --env cuda-v2.8");
        }
        if request.environment.chars().any(char::is_control) {
            bail!("--env {:?} holds a control character; use a name of one line", request.environment);
        }
        if request.repeats == 0 {
            bail!("--repeats 0 would record nothing; use 1 or more (5 give a spread worth comparing)");
        }
        if !(SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&request.interval) {
            bail!(
                "--interval {:?} is out of range; use {SHORTEST_INTERVAL:?} to {LONGEST_INTERVAL:?}",
                request.interval
            );
        }
        refuse_secrets(&request.settings)?;
        let cases = if request.command.is_empty() { shipped_cases(&request)? } else { vec![own_case(&request)?] };
        if let Some(twice) =
            cases.iter().enumerate().find(|(n, case)| cases[..*n].iter().any(|other| other.name() == case.name()))
        {
            bail!("the case \"{}\" stands twice in the request; name it once and use --repeats", twice.1.name());
        }
        Ok(Self {
            environment: request.environment,
            cases,
            repeats: request.repeats,
            interval: request.interval,
            out: request.out,
            append: request.append,
        })
    }
}

/// Settings are published and name the case's folder: no place for a secret, which the sentence does not repeat either.
fn refuse_secrets(settings: &[(String, String)]) -> Result<()> {
    for (key, value) in settings {
        if mask::is_secret_name(key) {
            bail!(
                "--set {key}=… looks like a secret, and settings are published; hand it on by an environment variable"
            );
        }
        if mask::without_secrets(value) != *value {
            bail!(
                "the value of --set {key} looks like a secret or an address, and settings are published; leave it out"
            );
        }
    }
    Ok(())
}

fn own_case(request: &Request) -> Result<Case> {
    let [workload] = request.workloads.as_slice() else {
        bail!("a command of your own needs one name: --workload NAME -- COMMAND…");
    };
    if SHIPPED.contains(&workload.as_str()) {
        bail!("{workload:?} is the name of a shipped workload; name your own command otherwise");
    }
    // `w a=1` would be the same case as `w` with the setting a=1.
    if workload.trim().is_empty() || workload.contains(|c: char| c.is_control() || c == '=') {
        bail!("--workload {workload:?} is no name; use a word such as --workload resnet50");
    }
    if request.quick || request.settings.iter().any(|(key, _)| key == "quick") {
        bail!("--quick shortens the shipped workloads; leave it out for a command of your own");
    }
    let program = child::resolve(&request.command[0])?;
    let mut settings: BTreeMap<_, _> = request.settings.iter().cloned().collect();
    match request.devices.as_slice() {
        [] => {}
        [device] => drop(settings.insert("device".to_owned(), device.clone())),
        _ => bail!("a command of your own is recorded on one device a time; --device only labels it"),
    }
    Ok(Case { workload: workload.clone(), settings, program, command: request.command.clone() })
}

fn shipped_cases(request: &Request) -> Result<Vec<Case>> {
    if request.workloads.is_empty() {
        bail!("nothing to record; name a workload ({}), or your own: --workload NAME -- COMMAND…", SHIPPED.join(", "));
    }
    if let Some(unknown) = request.workloads.iter().find(|name| !SHIPPED.contains(&name.as_str())) {
        bail!(
            "unknown workload {unknown:?}; shipped are {}; for your own use --workload NAME -- COMMAND…",
            SHIPPED.join(", ")
        );
    }
    let program = workloads_program()?;
    check_devices(&program, &request.devices)?;
    let devices: Vec<Option<&String>> =
        if request.devices.is_empty() { vec![None] } else { request.devices.iter().map(Some).collect() };
    let mut cases = Vec::new();
    for device in devices {
        for workload in &request.workloads {
            cases.push(shipped_case(request, workload, device, &program));
        }
    }
    Ok(cases)
}

fn shipped_case(request: &Request, workload: &str, device: Option<&String>, program: &Path) -> Case {
    let mut settings: BTreeMap<String, String> = request.settings.iter().cloned().collect();
    if let Some(device) = device {
        settings.insert("device".to_owned(), device.clone());
    }
    let mut command = vec![WORKLOADS_PROGRAM.to_owned(), workload.to_owned()];
    for (key, value) in &settings {
        command.extend([format!("--{key}"), value.clone()]);
    }
    if request.quick {
        settings.insert("quick".to_owned(), "true".to_owned());
        command.push("--quick".to_owned());
    }
    Case { workload: workload.to_owned(), settings, program: program.to_owned(), command }
}

/// The program of the shipped workloads: beside this one, else on PATH.
fn workloads_program() -> Result<PathBuf> {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(WORKLOADS_PROGRAM));
    match beside.filter(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => child::resolve(WORKLOADS_PROGRAM).map_err(|error: CannotStart| {
            anyhow::Error::new(error)
                .context("the shipped workloads need the program shice-workloads; `make build` builds it")
        }),
    }
}

/// Asks the workloads' own libtorch which devices it can use.
fn check_devices(program: &Path, devices: &[String]) -> Result<()> {
    if devices.iter().all(|device| matches!(device.as_str(), "cpu" | "auto")) {
        return Ok(());
    }
    let output =
        Command::new(program).arg("devices").output().with_context(|| format!("cannot run {}", program.display()))?;
    let usable: Vec<String> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if usable.is_empty() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("{} cannot tell its devices: {}", program.display(), why.trim());
    }
    match devices.iter().find(|device| device.as_str() != "auto" && !usable.contains(device)) {
        Some(missing) => bail!("device {missing:?} cannot be used here; usable are {}", usable.join(", ")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            environment: "laptop".into(),
            workloads: vec!["mine".into()],
            command: vec!["sh".into(), "-c".into(), "true".into()],
            devices: vec![],
            settings: vec![("threads".into(), "2".into())],
            quick: false,
            repeats: 3,
            interval: Duration::from_millis(100),
            out: "traces".into(),
            append: false,
        }
    }

    #[test]
    fn a_command_of_ones_own_becomes_one_case_named_by_its_settings() {
        let plan = Plan::new(request()).unwrap();
        assert_eq!(plan.cases.len(), 1);
        assert_eq!(plan.cases[0].name(), "mine threads=2");
    }

    #[test]
    fn settings_that_only_sound_like_secrets_are_taken() {
        for key in ["tokenizer", "max-tokens", "author"] {
            let settings = vec![(key.to_owned(), "2.11.0".to_owned())];
            assert!(Plan::new(Request { settings, ..request() }).is_ok(), "{key}");
        }
    }

    #[test]
    fn each_thing_that_is_wrong_has_its_own_sentence() {
        type Change = fn(&mut Request);
        let wrong: [(Change, &str); 11] = [
            (|request| request.environment = " ".into(), "--env is empty"),
            (|request| request.environment = "a\nb".into(), "control character"),
            (|request| request.repeats = 0, "--repeats 0"),
            (|request| request.interval = Duration::from_millis(1), "out of range"),
            (|request| request.workloads = vec!["idle".into()], "shipped workload"),
            (|request| request.workloads = vec!["w a=1".into()], "is no name"),
            (|request| request.workloads.clear(), "needs one name"),
            (|request| request.settings[0].0 = "hf-token".into(), "--set hf-token=… looks like a secret"),
            (|request| request.settings[0].1 = "https://me:pw@host".into(), "the value of --set threads looks like"),
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

//! A wish becomes cases: every combination of settings, with the command that is started for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Result, bail};

use super::nearest::hint;
use super::placeholders::{Braces, Unfilled, fill};
use super::settings::{Axis, combinations};
use super::shipped::{self, QUICK};
use super::wish::{CaseWish, EnvironmentWish, Word};
use crate::record::container::Launch;
use crate::record::{child, mask};
use crate::trace::run::case_name;

/// One case: what is started for it, and under which name it is kept.
#[derive(Clone, Debug)]
pub struct Case {
    pub workload: String,
    pub settings: BTreeMap<String, String>,
    /// As found on this machine.
    pub program: PathBuf,
    /// As it is started and shown; the first word is the program's own name.
    pub command: Vec<String>,
    /// The container that the command starts or works in.
    pub container: Option<Launch>,
}

impl Case {
    pub fn name(&self) -> String {
        case_name(&self.workload, &self.settings)
    }
}

/// All cases of one environment, in the order in which they were asked for.
///
/// # Errors
/// One clear sentence for the first thing that is wrong; [`child::CannotStart`] where a command is missing.
pub fn cases(wishes: &[CaseWish], environment: &EnvironmentWish) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    let mut names = BTreeSet::new();
    for wish in wishes {
        for case in cases_of(wish, environment)? {
            if !names.insert(case.name()) {
                bail!("{}: the case \"{}\" stands twice; name it once and use --repeats", wish.origin, case.name());
            }
            cases.push(case);
        }
    }
    Ok(cases)
}

fn cases_of(wish: &CaseWish, environment: &EnvironmentWish) -> Result<Vec<Case>> {
    check_name(wish)?;
    check_quick(wish)?;
    let combinations = combinations(&wish.axes)?;
    let mut used = BTreeSet::new();
    let mut cases = Vec::new();
    for settings in combinations {
        let mut command = filled(&environment.prefix, &settings, Braces::Template, &mut used)?;
        command.extend(match &wish.command {
            Some(words) => filled(words, &settings, wish.braces, &mut used)?,
            None => shipped::command(&wish.workload, &settings),
        });
        let own_program = wish.command.is_none() && environment.prefix.is_empty();
        let program = if own_program { shipped::program()? } else { child::resolve(&command[0])? };
        cases.push(Case { workload: wish.workload.clone(), settings, program, command, container: None });
    }
    match shipped::settings(&wish.workload) {
        Some(known) => refuse_unknown_settings(wish, known, &used)?,
        None => refuse_sweeps_without_effect(&wish.axes, &used)?,
    }
    Ok(cases)
}

fn check_name(wish: &CaseWish) -> Result<()> {
    let CaseWish { workload, origin, .. } = wish;
    if wish.command.is_some() && shipped::is_shipped(workload) {
        bail!("{origin}: {workload:?} is the name of a shipped workload; name your own command otherwise");
    }
    // `w a=1` would be the same case as `w` with the setting a=1.
    if workload.trim().is_empty() || workload.contains(|c: char| c.is_control() || c == '=') {
        bail!("{origin}: {workload:?} is no name; use a word such as resnet50");
    }
    if let Some(found) = mask::found(workload) {
        bail!("{origin}: the name holds {}, and names are published; use another", found.in_words());
    }
    Ok(())
}

fn check_quick(wish: &CaseWish) -> Result<()> {
    let Some(quick) = wish.axes.iter().find(|axis| axis.key == QUICK) else { return Ok(()) };
    if wish.command.is_some() {
        bail!("{}: this shortens the shipped workloads; leave it out for a command of your own", quick.origin);
    }
    if quick.values != ["true"] {
        bail!("{}: this is either true or left out", quick.origin);
    }
    Ok(())
}

fn filled(
    words: &[Word],
    settings: &BTreeMap<String, String>,
    braces: Braces,
    used: &mut BTreeSet<String>,
) -> Result<Vec<String>> {
    let mut filled = Vec::with_capacity(words.len());
    for Word { text, origin } in words {
        match fill(text, settings, braces, used) {
            Ok(word) => filled.push(word),
            Err(Unfilled::Unknown(key)) => {
                let known: Vec<&str> = settings.keys().map(String::as_str).collect();
                bail!("{origin}: no setting has the name of the placeholder {{{key}}}; {}", hint(&key, &known));
            }
            Err(Unfilled::Stray(brace)) => bail!(
                "{origin}: the brace {brace:?} of {text:?} belongs to no placeholder such as {{batch-size}}; write \
                 {brace}{brace} for the brace itself"
            ),
        }
    }
    Ok(filled)
}

/// A shipped workload would end at once with an option that it does not know.
fn refuse_unknown_settings(wish: &CaseWish, known: &[&str], used: &BTreeSet<String>) -> Result<()> {
    let is_known = |axis: &&Axis| known.contains(&axis.key.as_str()) || used.contains(&axis.key);
    match wish.axes.iter().find(|axis| !is_known(axis)) {
        Some(Axis { key, origin, .. }) => {
            bail!("{origin}: the workload {} has no setting {key:?}; {}", wish.workload, hint(key, known))
        }
        None => Ok(()),
    }
}

/// A command that does not change with what is swept would be measured several times under different names.
fn refuse_sweeps_without_effect(axes: &[Axis], used: &BTreeSet<String>) -> Result<()> {
    let idle = axes.iter().find(|axis| axis.values.len() > 1 && !used.contains(&axis.key));
    match idle {
        Some(Axis { key, origin, .. }) => bail!(
            "{origin}: the command would be the same for all values of {key:?}; put {{{key}}} where the value belongs"
        ),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Word> {
        text.split(' ').map(|word| Word { text: word.to_owned(), origin: "suite.toml:3".to_owned() }).collect()
    }

    fn wish(command: &str, axes: &[(&str, &[&str])]) -> CaseWish {
        let axis = |(key, values): &(&str, &[&str])| Axis {
            key: (*key).to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            origin: "suite.toml:5".to_owned(),
        };
        CaseWish {
            workload: "w".to_owned(),
            optional: false,
            command: Some(words(command)),
            axes: axes.iter().map(axis).collect(),
            braces: Braces::Template,
            origin: "suite.toml:2".to_owned(),
        }
    }

    fn environment(prefix: &str) -> EnvironmentWish {
        let prefix = if prefix.is_empty() { Vec::new() } else { words(prefix) };
        EnvironmentWish { name: "e".to_owned(), prefix, origin: String::new() }
    }

    #[test]
    fn a_command_is_its_prefix_and_its_own_words_with_placeholders_filled() {
        let wishes = [wish("sh -c {n}", &[("seed", &["7"]), ("n", &["1", "2"])])];
        let cases = cases(&wishes, &environment("env WHICH={seed}")).unwrap();
        let commands: Vec<String> = cases.iter().map(|case| case.command.join(" ")).collect();
        assert_eq!(commands, ["env WHICH=7 sh -c 1", "env WHICH=7 sh -c 2"]);
        assert_eq!(cases[1].name(), "w n=2 seed=7");
        assert!(cases[0].program.ends_with("env"));
    }

    #[test]
    fn what_cannot_be_filled_is_told_with_where_it_stands() {
        for (command, axes, expected) in [
            (
                "sh {wokers}",
                ("workers", &["1"] as &[&str]),
                "suite.toml:3: no setting has the name of the placeholder {wokers}; did you mean \"workers\"?",
            ),
            ("sh {", ("workers", &["1"]), "suite.toml:3: the brace '{' of \"{\" belongs to no placeholder"),
            (
                "sh",
                ("workers", &["1", "2"]),
                "suite.toml:5: the command would be the same for all values of \"workers\"",
            ),
            ("sh", ("quick", &["true"]), "suite.toml:5: this shortens the shipped workloads"),
        ] {
            let message = cases(&[wish(command, &[axes])], &environment("")).unwrap_err().to_string();
            assert!(message.contains(expected), "{message:?} should contain {expected:?}");
        }
    }

    #[test]
    fn one_name_for_two_cases_is_refused() {
        let wishes = [wish("sh", &[("a", &["1"])]), wish("env", &[("a", &["1"])])];
        let message = cases(&wishes, &environment("")).unwrap_err().to_string();
        assert!(message.contains("the case \"w a=1\" stands twice"), "{message}");
    }
}

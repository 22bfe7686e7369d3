//! A suite: commands and settings, written once in a TOML file. `docs/suite.md` explains it to users.

use std::path::Path;

use anyhow::{Context, Result, bail};

mod reader;

use super::placeholders::Braces;
use super::settings::{Axis, check_key, check_value};
use super::shipped::{self, is_shipped};
use super::wish::{CaseWish, EnvironmentWish, Wish, Word, check_environment, check_interval, check_repeats};
use reader::{Source, Table, Value};

const KEYS: [&str; 4] = ["repeats", "interval", "environment", "case"];
const ENVIRONMENT_KEYS: [&str; 2] = ["name", "prefix"];
const CASE_KEYS: [&str; 5] = ["workload", "command", "optional", "settings", "sweep"];

/// The suites that ship with this program, by name.
const SHIPPED: [(&str, &str); 4] = [
    ("quick", include_str!("shipped/quick.toml")),
    ("articles", include_str!("shipped/articles.toml")),
    ("sweep", include_str!("shipped/sweep.toml")),
    ("sweep-large", include_str!("shipped/sweep-large.toml")),
];

/// Reads a suite: one that ships, by its name, or a file.
///
/// # Errors
/// The file cannot be read, is no TOML, or says something that a suite cannot say: file, line and key are named.
pub fn read(suite: &Path) -> Result<Wish> {
    let shipped = SHIPPED.iter().find(|(name, _)| suite.as_os_str() == *name);
    if let Some((name, text)) = shipped {
        return parse(&Source { file: format!("the shipped suite {name}"), text });
    }
    let text = std::fs::read_to_string(suite).with_context(|| {
        format!("cannot read the suite {} (shipped are {}; name another by its file)", suite.display(), names())
    })?;
    parse(&Source { file: suite.display().to_string(), text: &text })
}

/// The names of the shipped suites, for people.
pub fn names() -> String {
    SHIPPED.map(|(name, _)| name).join(", ")
}

fn parse(source: &Source<'_>) -> Result<Wish> {
    let document = source.parse()?;
    let top = source.document(&document, &KEYS)?;
    let mut wish = Wish::default();
    if let Some(value) = top.get("repeats") {
        let repeats = value.whole_number("repeats = 5")?;
        check_repeats(&value.origin(), repeats)?;
        wish.repeats = Some(repeats);
    }
    if let Some(value) = top.get("interval") {
        let text = value.text("text, such as interval = \"100ms\"")?;
        let interval = humantime::parse_duration(&text).map_err(|error| {
            value.error(&format!("{text:?} is no time ({error}); write it like interval = \"100ms\""))
        })?;
        check_interval(&value.origin(), interval)?;
        wish.interval = Some(interval);
    }
    for table in top.tables("environment", &ENVIRONMENT_KEYS)? {
        wish.environments.push(environment(&table, &wish.environments)?);
    }
    for table in top.tables("case", &CASE_KEYS)? {
        wish.cases.push(case(&table)?);
    }
    if wish.cases.is_empty() {
        bail!("{} has no [[case]], so there is nothing to record; docs/suite.md has an example", source.file);
    }
    Ok(wish)
}

fn environment(table: &Table<'_>, others: &[EnvironmentWish]) -> Result<EnvironmentWish> {
    let value = table.required("name", "name = \"image-a\"")?;
    let (name, origin) = (value.text("text, such as name = \"image-a\"")?, value.origin());
    check_environment(&origin, &name)?;
    if let Some(other) = others.iter().find(|other| other.name == name) {
        bail!("{origin}: {name:?} is the name of two environments, here and by {}; rename one", other.origin);
    }
    let prefix = table.get("prefix").map_or(Ok(Vec::new()), |value| words(&value))?;
    Ok(EnvironmentWish { name, prefix, origin })
}

fn case(table: &Table<'_>) -> Result<CaseWish> {
    let value = table.required("workload", "workload = \"resnet50\"")?;
    let (workload, origin) = (value.text("text, such as workload = \"resnet50\"")?, value.origin());
    let command = table.get("command").map(|value| words(&value)).transpose()?;
    match &command {
        None if !is_shipped(&workload) => bail!(
            "{origin}: unknown workload {workload:?}; shipped are {}; for one of your own add command = [\"python\", …]",
            shipped::names()
        ),
        Some(words) if words.is_empty() => {
            bail!(
                "{}: a command has at least one word; write command = [\"python3\", …], or leave it out for a shipped workload",
                table.line_of("command")
            )
        }
        _ => {}
    }
    let optional = table.get("optional").map(|value| value.truth("true or false")).transpose()?.unwrap_or(false);
    if let Some(value) = table.get("optional").filter(|_| optional && command.is_some()) {
        bail!("{}: only of a shipped workload it is known which devices can be used; leave it out", value.origin());
    }
    let mut axes = Vec::new();
    for value in table.entries("settings")? {
        axes.push(axis(&value, vec![setting(&value)?])?);
    }
    for value in table.entries("sweep")? {
        let values = value.list("a list of values, such as [1, 2, 4]")?;
        axes.push(axis(&value, values.iter().map(setting).collect::<Result<_>>()?)?);
    }
    Ok(CaseWish { workload, command, optional, axes, braces: Braces::Template, origin })
}

fn axis(value: &Value<'_>, values: Vec<String>) -> Result<Axis> {
    check_key(value.key).map_err(|message| value.error(&message))?;
    for text in &values {
        check_value(value.key, text).map_err(|message| value.error(&message))?;
    }
    Ok(Axis { key: value.key.to_owned(), values, origin: value.origin() })
}

fn setting(value: &Value<'_>) -> Result<String> {
    value.scalar("text, a number, true or false")
}

fn words(value: &Value<'_>) -> Result<Vec<Word>> {
    let what = "a list of words, such as [\"python\", \"train.py\"]";
    let word = |value: &Value<'_>| Ok(Word { text: value.text("words in quotes")?, origin: value.origin() });
    value.list(what)?.iter().map(word).collect()
}

#[cfg(test)]
mod tests;

//! Checks in words: what was found, why it matters, and what to do. For the terminal, and for reports.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use super::language::Language;
use super::words::Words;
use super::{escape, format};
use crate::trace::check::{Check, CheckState};

/// A check in words, not escaped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) state: CheckState,
    pub(crate) title: String,
    /// What was found.
    pub(crate) text: String,
    /// What to do, where something is to be done.
    pub(crate) fix: Option<String>,
    /// The commands for it, one a line.
    pub(crate) commands: Option<String>,
}

/// The sign of a state.
pub(crate) fn sign(state: CheckState) -> &'static str {
    match state {
        CheckState::Ok => "✅",
        CheckState::Warning => "⚠",
        CheckState::Failed => "❌",
        CheckState::Unknown => format::ABSENT,
    }
}

/// Key of a state's name in the catalogues.
pub(crate) fn key(state: CheckState) -> &'static str {
    match state {
        CheckState::Ok => "check.state.ok",
        CheckState::Warning => "check.state.warning",
        CheckState::Failed => "check.state.failed",
        CheckState::Unknown => "check.state.unknown",
    }
}

/// Joins checks that follow each other and say the same of what could not be found out, such as all that a machine
/// without GPU has to say of GPUs.
pub(crate) fn grouped(words: &Words, checks: &[Told]) -> Result<Vec<Told>> {
    let same = |a: &Told, b: &Told| a.state == CheckState::Unknown && b.state == a.state && a.text == b.text;
    let join = |group: &[Told]| -> Result<Option<Told>> {
        let titles: Vec<String> = group.iter().map(|told| told.title.clone()).collect();
        let title = words.list(&titles)?;
        Ok(group.first().map(|first| Told { title, ..first.clone() }))
    };
    checks.chunk_by(same).map(join).filter_map(Result::transpose).collect()
}

/// Puts a check into words. One that this program does not know keeps its own name and cause: it is another version's.
pub(crate) fn tell(words: &Words, check: &Check) -> Result<Told> {
    let values: BTreeMap<&String, String> =
        check.values.iter().map(|(key, value)| Ok((key, shown(words, key, value)?))).collect::<Result<_>>()?;
    let phrase = |ending: &str| {
        let key = format!("check.{}.{}{ending}", check.name, check.cause);
        words.find(&key).and_then(|_| words.fill(&key, &values).ok())
    };
    let title = words.find(&format!("check.{}", check.name)).unwrap_or(&check.name);
    Ok(Told {
        state: check.state,
        title: title.to_owned(),
        text: phrase("").unwrap_or_else(|| check.cause.clone()),
        fix: phrase(".fix"),
        commands: phrase(".run"),
    })
}

/// A piece of evidence as text.
fn shown(words: &Words, key: &str, value: &Value) -> Result<String> {
    Ok(match value {
        Value::Null => format::ABSENT.to_owned(),
        Value::String(text) => escape::line(text),
        Value::Number(number) if key.ends_with("_bytes") => {
            number.as_i64().map_or_else(|| number.to_string(), format::bytes)
        }
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), format::plain),
        Value::Array(items) => {
            words.list(&items.iter().map(|item| shown(words, key, item)).collect::<Result<Vec<_>>>()?)?
        }
        other => escape::line(&other.to_string()),
    })
}

#[derive(Serialize)]
struct Counts {
    ok: usize,
    warning: usize,
    failed: usize,
    unknown: usize,
}

/// All checks as text for a terminal.
///
/// # Errors
/// A catalogue is faulty.
pub fn terminal(checks: &[Check], language: Language, coloured: bool) -> Result<String> {
    let words = Words::of(language)?;
    let mut text = format!("{}\n\n", words.get("check.heading")?);
    let told = checks.iter().map(|check| tell(&words, check)).collect::<Result<Vec<_>>>()?;
    for told in grouped(&words, &told)? {
        // The dash is as wide as one letter, the signs are as wide as two.
        let (sign, gap) = (
            sign(told.state),
            if matches!(told.state, CheckState::Unknown | CheckState::Warning) { "  " } else { " " },
        );
        let title = if coloured { format!("\u{1b}[1m{}\u{1b}[0m", told.title) } else { told.title };
        text += &format!("{sign}{gap}{title}{}{}\n", words.get("colon")?, told.text);
        if let Some(fix) = told.fix {
            text += &format!("   {}{}{fix}\n", words.get("check.fix")?, words.get("colon")?);
        }
        for command in told.commands.iter().flat_map(|commands| commands.lines()) {
            text += &format!("     {command}\n");
        }
    }
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let counts = Counts {
        ok: count(CheckState::Ok),
        warning: count(CheckState::Warning),
        failed: count(CheckState::Failed),
        unknown: count(CheckState::Unknown),
    };
    Ok(text + &format!("\n{}\n", words.fill("check.counts", &counts)?))
}

#[cfg(test)]
mod tests;

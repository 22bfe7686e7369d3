//! `shice verify`: whether traces are whole.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use crate::trace::verify::{Verdict, verify};

/// Exit code where something is wrong.
const PROBLEMS: u8 = 2;

/// Prints all that is wrong, one line each, and then what was looked at.
///
/// # Errors
/// There is no such folder, or nothing was recorded into it.
pub fn run(traces: &Path) -> Result<u8> {
    let verdict = verify(traces)?;
    let mut text: String = verdict.problems.iter().map(|problem| format!("{problem}\n")).collect();
    text += &in_words(&verdict);
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(if verdict.problems.is_empty() { 0 } else { PROBLEMS })
}

/// `10 runs, 62 tables, 61 234 rows: whole`
fn in_words(verdict: &Verdict) -> String {
    let end = match verdict.problems.len() {
        0 => "whole".to_owned(),
        problems => many(problems as u64, "problem"),
    };
    let recording = match verdict.recording {
        0 => String::new(),
        runs => format!(" ({} being recorded left out)", many(runs as u64, "run")),
    };
    let looked_at = [(verdict.runs as u64, "run"), (verdict.tables as u64, "table"), (verdict.rows, "row")];
    let looked_at = looked_at.map(|(number, name)| many(number, name)).join(", ");
    format!("{looked_at}{recording}: {end}\n")
}

fn many(number: u64, name: &str) -> String {
    format!("{} {name}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Thousands apart: 61 234.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, rest) = digits.split_at(first);
    let groups = rest.as_bytes().chunks(3).map(String::from_utf8_lossy);
    let head = (!head.is_empty()).then(|| head.into());
    head.into_iter().chain(groups).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_says_what_was_looked_at() {
        let mut verdict = Verdict { runs: 10, tables: 62, rows: 61_234, ..Verdict::default() };
        assert_eq!(in_words(&verdict), "10 runs, 62 tables, 61 234 rows: whole\n");
        verdict.problems.push("x".to_owned());
        verdict.recording = 1;
        assert_eq!(in_words(&verdict), "10 runs, 62 tables, 61 234 rows (1 run being recorded left out): 1 problem\n");
    }

    #[test]
    fn thousands_stand_apart() {
        let right = [(0, "0"), (7, "7"), (100, "100"), (1000, "1 000"), (1_234_567, "1 234 567")];
        for (number, text) in right {
            assert_eq!(grouped(number), text);
        }
    }
}

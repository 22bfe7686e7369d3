//! The summary: whom the environment is for, its strengths, what to set, and a line a case.

use anyhow::Result;
use serde::Serialize;

use super::advice;
use super::headline;
use super::places::Places;
use super::{CaseSentence, endings};
use crate::report::across::advice::{Advice, Line};
use crate::report::context::Context;
use crate::report::escape;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    /// A few sentences over all.
    overall: Vec<String>,
    strengths: Vec<String>,
    /// Settings that the measurements favour.
    settings: Vec<String>,
    cases: Vec<CaseSentence>,
}

pub(super) fn build(
    context: &Context<'_>,
    fits: &[Line<'_>],
    strengths: &[Line<'_>],
    given: &[Advice<'_>],
    section: usize,
    places: &Places,
) -> Result<Summary> {
    let cited = |line: &Line<'_>| advice::cited(context, &format!("summary.strength.{}", line.name), line, places);
    let fitting = fits.iter().map(|line| advice::text(context, &format!("summary.fit.{}", line.name), line));
    Ok(Summary {
        overall: [measured(context)].into_iter().chain(fitting).collect::<Result<_>>()?,
        strengths: strengths.iter().map(cited).collect::<Result<_>>()?,
        settings: settings(context, given, section)?,
        cases: cases(context)?,
    })
}

/// How much was measured.
fn measured(context: &Context<'_>) -> Result<String> {
    #[derive(Serialize)]
    struct Measured {
        environment: String,
        cases: usize,
        runs: usize,
        finished: usize,
    }
    let cases = &context.summary.cases;
    let measured = Measured {
        environment: escape::text(&context.summary.name),
        cases: cases.len(),
        runs: cases.iter().map(|case| case.runs.len()).sum(),
        finished: cases.iter().map(|case| case.finished()).sum(),
    };
    context.words.fill("summary.measured", &measured)
}

/// The concrete settings that advice names, with the scenario they are for; each once.
fn settings(context: &Context<'_>, given: &[Advice<'_>], section: usize) -> Result<Vec<String>> {
    #[derive(Serialize)]
    struct Setting {
        scenario: String,
        section: String,
        codes: String,
    }
    let mut settings = Vec::new();
    for (advice, part) in given.iter().zip(1..) {
        let mut codes: Vec<String> = advice.lines.iter().filter_map(Line::favoured).map(escape::code_cell).collect();
        codes.dedup();
        if codes.is_empty() {
            continue;
        }
        let scenario = context.words.get(&format!("advice.{}.title", advice.scenario.key()))?.to_owned();
        let setting = Setting { scenario, section: format!("{section}.{part}"), codes: context.words.list(&codes)? };
        settings.push(context.words.fill("summary.setting", &setting)?);
    }
    Ok(settings)
}

fn cases(context: &Context<'_>) -> Result<Vec<CaseSentence>> {
    let mut sentences = Vec::new();
    for case in &context.summary.cases {
        let mut sentence = headline::of_case(context, case)?;
        // Where nothing else can be told, how the runs ended is the result.
        if case.finished() == 0 {
            sentence.cautions = endings::of_case(context, case)?;
        }
        sentences.push(sentence);
    }
    Ok(sentences)
}

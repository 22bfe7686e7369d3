//! Advice by scenario in words.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::endings;
use super::places::Places;
use super::ratio::Times;
use crate::report::across::advice::{Advice, Cite, Line, Value};
use crate::report::context::Context;
use crate::report::escape;
use crate::report::format;

#[derive(Clone, Debug, Serialize)]
pub(super) struct AdviceView {
    /// Last part of the number of its heading.
    number: usize,
    title: String,
    /// What to know of the scenario before.
    lead: String,
    lines: Vec<String>,
    /// What was not tried; empty where all was.
    missing: String,
}

pub(super) fn build(context: &Context<'_>, advice: &[Advice<'_>], places: &Places) -> Result<Vec<AdviceView>> {
    let view = |(advice, number): (&Advice<'_>, usize)| {
        let phrase = |part: &str| format!("advice.{}.{part}", advice.scenario.key());
        let lead = if advice.is_measured { "lead" } else { "absent" };
        Ok(AdviceView {
            number,
            title: context.words.get(&phrase("title"))?.to_owned(),
            lead: context.words.get(&phrase(lead))?.to_owned(),
            lines: advice
                .lines
                .iter()
                .map(|line| cited(context, &format!("advice.{}", line.name), line, places))
                .collect::<Result<_>>()?,
            missing: if advice.is_measured { missing(context, advice)? } else { String::new() },
        })
    };
    advice.iter().zip(1..).map(view).collect()
}

fn missing(context: &Context<'_>, advice: &Advice<'_>) -> Result<String> {
    #[derive(Serialize)]
    struct Missing {
        settings: String,
    }
    if advice.missing.is_empty() {
        return Ok(String::new());
    }
    let names = advice.missing.iter().map(|key| context.words.get(&format!("advice.setting.{key}")).map(str::to_owned));
    let settings = context.words.list(&names.collect::<Result<Vec<_>>>()?)?;
    context.words.fill("advice.missing", &Missing { settings })
}

/// A line with links to what it rests on.
pub(super) fn cited(context: &Context<'_>, key: &str, line: &Line<'_>, places: &Places) -> Result<String> {
    #[derive(Serialize)]
    struct Cited {
        text: String,
        places: String,
    }
    let links: Vec<String> = line.cites.iter().map(|cite| link(cite, places)).filter(|link| !link.is_empty()).collect();
    let cited = Cited { text: text(context, key, line)?, places: context.words.list(&links)? };
    context.words.fill("advice.cited", &cited)
}

fn link(cite: &Cite<'_>, places: &Places) -> String {
    match cite {
        Cite::Case(case) => places.case(case),
        Cite::Sweep(index) => places.sweeps.get(*index).map(|place| place.link()).unwrap_or_default(),
    }
}

/// A phrase filled with the values of a line.
pub(super) fn text(context: &Context<'_>, key: &str, line: &Line<'_>) -> Result<String> {
    let values: BTreeMap<&str, Json> =
        line.values.iter().map(|(name, value)| Ok((*name, filled(context, value)?))).collect::<Result<_>>()?;
    let text = context.words.fill(key, &values)?;
    // A name of a case may end in a bracket that brings its own space.
    Ok(text.replace("） ", "）"))
}

fn filled(context: &Context<'_>, value: &Value<'_>) -> Result<Json> {
    Ok(match value {
        Value::Code(code) => json!(escape::code_cell(code)),
        Value::List(codes) => {
            json!(context.words.list(&codes.iter().map(|code| escape::code_cell(code)).collect::<Vec<_>>())?)
        }
        Value::Text(text) => json!(text),
        Value::Of(unit, number) => json!(format::value(*unit, *number)),
        Value::Times(ratio) => serde_json::to_value(Times::of(context, ratio)?)?,
        Value::Case(case) => json!(escape::text(&context.case_title(case)?)),
        Value::Lack(lack) => {
            json!(lack.map(|lack| endings::place(context, lack)).transpose()?.unwrap_or_default())
        }
    })
}

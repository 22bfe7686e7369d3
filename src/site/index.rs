//! The index of all environments.

use anyhow::Result;
use serde::Serialize;

use super::page::STYLE;
use super::{Environment, FEED, markdown};
use crate::report::language::Language;
use crate::report::template;
use crate::report::words::Words;

#[derive(Serialize)]
struct Index {
    style: &'static str,
    feed: &'static str,
    languages: Vec<IndexLanguage>,
}

#[derive(Serialize)]
struct IndexLanguage {
    tag: &'static str,
    title: String,
    lead: String,
    empty: String,
    feed: String,
    reports: Vec<IndexReport>,
}

#[derive(Serialize)]
struct IndexReport {
    title: String,
    href: String,
    figures: Vec<(String, String)>,
}

/// The index, once in each language.
pub(super) fn index(environments: &[Environment]) -> Result<String> {
    let languages =
        Language::ALL.into_iter().map(|language| of_language(language, environments)).collect::<Result<_>>()?;
    template::render("index.html", &Index { style: STYLE, feed: FEED, languages })
}

fn of_language(language: Language, environments: &[Environment]) -> Result<IndexLanguage> {
    let words = Words::of(language)?;
    let reports = environments.iter().flat_map(|environment| &environment.reports);
    let reports = reports.filter(|report| report.language == language).map(|report| IndexReport {
        title: markdown::plain(&report.title),
        href: format!("{}/{}.html", report.slug, language.key()),
        figures: report.key_figures.clone(),
    });
    Ok(IndexLanguage {
        tag: language.tag(),
        title: words.get("index.title")?.to_owned(),
        lead: words.get("index.lead")?.to_owned(),
        empty: words.get("index.empty")?.to_owned(),
        feed: words.get("index.feed")?.to_owned(),
        reports: reports.collect(),
    })
}

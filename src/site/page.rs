//! The shell around a report's body, and the index.

use anyhow::Result;
use serde::Serialize;

use super::markdown::{self, Entry, Labels};
use crate::report::language::Language;
use crate::report::words::Words;
use crate::report::{Report, template};

/// Part of every page, so that a page is one file.
const STYLE: &str = include_str!("../../templates/page.css");

#[derive(Serialize)]
struct Page<'a> {
    tag: &'static str,
    title: String,
    style: &'static str,
    alternates: Vec<Alternate>,
    /// File of the Markdown.
    markdown: String,
    words: PageWords<'a>,
    head: String,
    contents: Vec<Entry>,
    body: String,
}

#[derive(Serialize)]
struct PageWords<'a> {
    index: &'a str,
    markdown: &'a str,
    contents: &'a str,
}

/// The same report in some language, its own included.
#[derive(Serialize)]
struct Alternate {
    tag: &'static str,
    file: String,
    name: String,
}

#[derive(Serialize)]
struct Index {
    style: &'static str,
    languages: Vec<IndexLanguage>,
}

#[derive(Serialize)]
struct IndexLanguage {
    tag: &'static str,
    title: String,
    lead: String,
    empty: String,
    reports: Vec<IndexReport>,
}

#[derive(Serialize)]
struct IndexReport {
    title: String,
    href: String,
    figures: Vec<(String, String)>,
}

/// The HTML page of a report; `siblings` are all reports of its environment.
pub(super) fn page(report: &Report, siblings: &[&Report]) -> Result<String> {
    let words = Words::of(report.language)?;
    let labels = Labels { permalink: words.get("page.permalink")?, table: words.get("page.table")? };
    let body = markdown::render(&report.markdown, &report.charts, labels);
    let page = Page {
        tag: report.language.tag(),
        title: markdown::plain(&report.title),
        style: STYLE,
        alternates: siblings.iter().map(|sibling| alternate(sibling.language)).collect::<Result<_>>()?,
        markdown: format!("{}.md", report.language.key()),
        words: PageWords {
            index: words.get("page.index")?,
            markdown: words.get("page.markdown")?,
            contents: words.get("page.contents")?,
        },
        head: body.head,
        contents: body.contents,
        body: body.rest,
    };
    template::render("page.html", &page)
}

fn alternate(language: Language) -> Result<Alternate> {
    let name = Words::of(language)?.get("page.language")?.to_owned();
    Ok(Alternate { tag: language.tag(), file: format!("{}.html", language.key()), name })
}

/// The index of all environments, once in each language.
pub(super) fn index(reports: &[Report]) -> Result<String> {
    let languages =
        Language::ALL.into_iter().map(|language| index_language(language, reports)).collect::<Result<_>>()?;
    template::render("index.html", &Index { style: STYLE, languages })
}

fn index_language(language: Language, reports: &[Report]) -> Result<IndexLanguage> {
    let words = Words::of(language)?;
    let reports = reports.iter().filter(|report| report.language == language).map(|report| IndexReport {
        title: markdown::plain(&report.title),
        href: format!("{}/{}.html", report.slug, language.key()),
        figures: report.key_figures.clone(),
    });
    Ok(IndexLanguage {
        tag: language.tag(),
        title: words.get("index.title")?.to_owned(),
        lead: words.get("index.lead")?.to_owned(),
        empty: words.get("index.empty")?.to_owned(),
        reports: reports.collect(),
    })
}

//! The page that lists the raw traces of an environment, file by file: a web server need not list folders.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::page::{self, Alternate, STYLE};
use super::{Environment, Raw, address};
use crate::report::language::Language;
use crate::report::words::Words;
use crate::report::{Report, template};

/// How the names of these pages begin.
const PREFIX: &str = "data.";

#[derive(Serialize)]
struct DataPage<'a> {
    tag: &'static str,
    title: String,
    style: &'static str,
    address: String,
    alternates: Vec<Alternate>,
    report: String,
    words: BTreeMap<&'static str, &'a str>,
    whole: Vec<File>,
    cases: Vec<Case<'a>>,
}

#[derive(Serialize)]
struct Case<'a> {
    slug: &'a str,
    name: &'a str,
    runs: Vec<Run>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Run {
    run: String,
    files: Vec<File>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct File {
    name: String,
    href: String,
}

/// Name of the page.
pub(super) fn name(language: Language) -> String {
    format!("{PREFIX}{}.html", language.key())
}

/// The page in a report's language.
pub(super) fn page(environment: &Environment, raw: &Raw, report: &Report, base: Option<&str>) -> Result<String> {
    #[derive(Serialize)]
    struct Title<'a> {
        name: &'a str,
    }
    const WORDS: [(&str, &str); 11] = [
        ("bar", "page.bar"),
        ("index", "page.index"),
        ("permalink", "page.permalink"),
        ("table", "page.table"),
        ("runs", "page.runs"),
        ("document", "page.document"),
        ("lead", "data.lead"),
        ("back", "data.back"),
        ("whole", "data.whole"),
        ("run", "data.run"),
        ("files", "data.files"),
    ];
    let (language, data) = (report.language, &environment.data);
    let words = Words::of(language)?;
    let cases = report.cases.iter().map(|(slug, name)| Case { slug, name, runs: runs(raw, slug) });
    let page = DataPage {
        tag: language.tag(),
        title: words.fill("data.title", &Title { name: &data.name })?,
        style: STYLE,
        address: base.map(|base| format!("{base}{}/", data.slug)).unwrap_or_default(),
        alternates: page::alternates(language, PREFIX)?,
        report: format!("{}.html", language.key()),
        words: WORDS.into_iter().map(|(name, key)| Ok((name, words.get(key)?))).collect::<Result<_>>()?,
        whole: raw.files.iter().filter(|path| !path.contains('/')).map(|path| file(raw, path, path)).collect(),
        cases: cases.collect(),
    };
    template::render("data.html", &page)
}

fn file(raw: &Raw, name: &str, path: &str) -> File {
    File { name: name.to_owned(), href: format!("{}{}", raw.base, address::encode(path)) }
}

/// The files of a case's runs, a run with its node where it has more than one.
fn runs(raw: &Raw, slug: &str) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let prefix = format!("case={slug}/");
    for path in &raw.files {
        let Some((run, name)) = path.strip_prefix(&prefix).and_then(|rest| rest.rsplit_once('/')) else { continue };
        let run = run.trim_start_matches("run=").trim_end_matches("/node=0");
        if runs.last().is_none_or(|last| last.run != run) {
            runs.push(Run { run: run.to_owned(), files: Vec::new() });
        }
        runs.last_mut().into_iter().for_each(|last| last.files.push(file(raw, name, path)));
    }
    runs
}

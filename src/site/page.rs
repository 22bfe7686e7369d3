//! The shell around a report's body.

use anyhow::Result;
use serde::Serialize;

use super::markdown::{self, Around, Entry, Labels};
use super::{DOCUMENT, RUNS, Raw, address, data_page};
use crate::report::data::Data;
use crate::report::language::Language;
use crate::report::words::Words;
use crate::report::{Report, template};

/// Part of every page, so that a page is one file.
pub(super) const STYLE: &str = include_str!("../../templates/page.css");

#[derive(Serialize)]
struct Page<'a> {
    tag: &'static str,
    title: String,
    description: String,
    style: &'static str,
    /// Absent on a page that stands alone.
    links: Option<Links>,
    downloads: Downloads,
    words: PageWords<'a>,
    head: String,
    contents: Vec<Entry>,
    body: String,
}

/// Other files of the site.
#[derive(Serialize)]
struct Links {
    /// Address of the report's folder in the web, with a slash at its end; empty where it is not known.
    address: String,
    markdown: String,
    /// The page that lists the raw traces.
    raw: Option<String>,
    alternates: Vec<Alternate>,
}

#[derive(Serialize)]
struct Downloads {
    runs: String,
    runs_name: String,
    document: String,
    document_name: String,
}

#[derive(Serialize)]
struct PageWords<'a> {
    bar: &'a str,
    index: &'a str,
    markdown: &'a str,
    runs: &'a str,
    document: &'a str,
    raw: &'a str,
    contents: &'a str,
}

/// The same page in some language, its own included.
#[derive(Serialize)]
pub(super) struct Alternate {
    tag: &'static str,
    file: String,
    name: String,
    is_other: bool,
}

/// Where a page stands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// In a site, at this address.
    Site { address: Option<&'a str>, raw: Option<&'a Raw> },
    /// Anywhere, alone.
    Alone,
}

/// The HTML page of a report.
pub(super) fn page(report: &Report, data: &Data, place: Place<'_>) -> Result<String> {
    let words = Words::of(report.language)?;
    let labels = Labels {
        permalink: words.get("page.permalink")?,
        table: words.get("page.table")?,
        code: words.get("page.code")?,
        chart: words.get("page.chart")?,
    };
    let files = data_page::name(report.language);
    let moved = match place {
        Place::Site { raw: Some(raw), .. } => Some((raw.address(), files.as_str())),
        _ => None,
    };
    let around = Around { is_alone: matches!(place, Place::Alone), moved };
    let body = markdown::render(&report.markdown, &report.charts, labels, around);
    let page = Page {
        tag: report.language.tag(),
        title: markdown::plain(&report.title),
        description: report.headline.as_deref().map(markdown::plain).unwrap_or_default(),
        style: STYLE,
        links: links(report, place)?,
        downloads: downloads(data, place),
        words: PageWords {
            bar: words.get("page.bar")?,
            index: words.get("page.index")?,
            markdown: words.get("page.markdown")?,
            runs: words.get("page.runs")?,
            document: words.get("page.document")?,
            raw: words.get("page.raw")?,
            contents: words.get("page.contents")?,
        },
        head: body.head,
        contents: body.contents,
        body: body.rest,
    };
    template::render("page.html", &page)
}

fn links(report: &Report, place: Place<'_>) -> Result<Option<Links>> {
    let Place::Site { address, raw } = place else { return Ok(None) };
    Ok(Some(Links {
        address: address.map(|address| format!("{address}{}/", report.slug)).unwrap_or_default(),
        markdown: format!("{}.md", report.language.key()),
        raw: raw.map(|_| data_page::name(report.language)),
        alternates: alternates(report.language, "")?,
    }))
}

/// The data beside the page, or within it where nothing is beside it.
fn downloads(data: &Data, place: Place<'_>) -> Downloads {
    let name = |file: &str| format!("{}-{file}", data.slug);
    let [runs, document] = match place {
        Place::Site { .. } => [RUNS, DOCUMENT].map(str::to_owned),
        Place::Alone => [address::data("text/csv", &data.runs), address::data("application/json", &data.document)],
    };
    Downloads { runs, runs_name: name(RUNS), document, document_name: name(DOCUMENT) }
}

/// A page in all languages, and in the one for readers of any other.
pub(super) fn alternates(own: Language, prefix: &str) -> Result<Vec<Alternate>> {
    let file = |language: Language| format!("{prefix}{}.html", language.key());
    let of = |language: Language| -> Result<Alternate> {
        let name = Words::of(language)?.get("page.language")?.to_owned();
        Ok(Alternate { tag: language.tag(), file: file(language), name, is_other: language != own })
    };
    let mut alternates: Vec<Alternate> = Language::ALL.into_iter().map(of).collect::<Result<_>>()?;
    let any = Alternate { tag: "x-default", file: file(Language::English), name: String::new(), is_other: false };
    alternates.push(any);
    Ok(alternates)
}

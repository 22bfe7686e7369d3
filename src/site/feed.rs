//! The Atom feed (RFC 4287): an entry for each report. Its times are those of the newest runs, so that nothing but a new
//! recording makes it new.

use anyhow::Result;
use serde::Serialize;

use super::{Environment, address, markdown};
use crate::report::language::Language;
use crate::report::words::Words;
use crate::report::{Report, template};

#[derive(Serialize)]
struct Feed<'a> {
    id: String,
    title: String,
    updated: &'a str,
    /// Address of the site; empty where it is not known, and all addresses are relative to the feed's.
    base: &'a str,
    entries: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    tag: &'static str,
    id: String,
    title: String,
    updated: &'a str,
    href: String,
    summary: String,
}

/// The feed of all reports, of which there is at least one.
pub(super) fn feed(environments: &[Environment], base: Option<&str>) -> Result<String> {
    let base = base.unwrap_or_default();
    let entries = environments.iter().flat_map(|environment| {
        environment.reports.iter().map(move |report| entry(report, &environment.data.updated, base))
    });
    let titles = Language::ALL.map(|language| Ok(Words::of(language)?.get("feed.title")?.to_owned()));
    let feed = Feed {
        // Whatever environments come and go. Only an address makes it that of one site.
        id: address::urn(&[base]),
        title: titles.into_iter().collect::<Result<Vec<_>>>()?.join(" · "),
        updated: environments.iter().map(|environment| environment.data.updated.as_str()).max().unwrap_or_default(),
        base,
        entries: entries.collect(),
    };
    template::render("feed.xml", &feed)
}

fn entry<'a>(report: &Report, updated: &'a str, base: &str) -> Entry<'a> {
    let key = report.language.key();
    Entry {
        tag: report.language.tag(),
        id: address::urn(&[base, &report.slug, key]),
        title: markdown::plain(&report.title),
        updated,
        href: format!("{}/{key}.html", report.slug),
        summary: report.headline.as_deref().map(markdown::plain).unwrap_or_default(),
    }
}

//! Reports -> a static site: Markdown with pictures, HTML pages with inline charts, an index, data for programs. Never sees
//! a number.
//!
//! ```text
//! SITE/index.html, feed.xml
//!      <environment>/zh.md, en.md, zh.html, en.html       the report
//!                   /charts/<case>-<chart>.<language>.png  its charts, for the Markdown
//!                   /charts/<case>-<chart>.csv             and their numbers
//!                   /runs.csv, report.json                 its figures, for programs
//!                   /data.zh.html, data.en.html            where the raw traces are, file by file
//!                   /traces/                               a copy of them, where that is wanted
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::files;
use crate::report::Report;
use crate::report::data::Data;

mod address;
mod data_page;
mod feed;
mod index;
mod markdown;
mod page;
mod raw;

pub use address::encode;
use page::Place;
pub use raw::Raw;

const CHARTS: &str = "charts";
/// The page to open first.
pub const INDEX: &str = "index.html";
const FEED: &str = "feed.xml";
/// The table of runs.
pub const RUNS: &str = "runs.csv";
/// The report for programs.
pub const DOCUMENT: &str = "report.json";
/// What every page and feed of ours says of itself, as the templates have it.
const GENERATORS: [&str; 2] = [r#"<meta name="generator" content="shice">"#, "<generator>shice</generator>"];

/// What a site tells of an environment.
#[derive(Clone, Debug)]
pub struct Environment {
    /// In each language.
    pub reports: Vec<Report>,
    pub data: Data,
    /// Where its raw traces are; none where pages cannot lead to them.
    pub raw: Option<Raw>,
}

/// Writes the site of some environments below `out`. What it replaces is its own: pages, and charts of reports that are
/// written again. Other files stay. With `address`, the site's own in the web, links for machines are absolute; it ends in a
/// slash.
///
/// # Errors
/// A page of somebody else's would be replaced, and nothing is written; something cannot be written, with its path; or
/// a template is faulty.
pub fn write(out: &Path, environments: &[Environment], address: Option<&str>) -> Result<()> {
    refuse_foreign_pages(&pages(out, environments))?;
    for environment in environments {
        write_environment(out, environment, address)?;
    }
    files::create_dir(out)?;
    files::write(&out.join(FEED), feed::feed(environments, address)?.as_bytes())?;
    files::write(&out.join(INDEX), index::index(environments)?.as_bytes())
}

/// Writes each report as one page that stands alone: it leads to no other file. Returns the pages.
///
/// # Errors
/// As [`write`].
pub fn write_alone(out: &Path, environments: &[Environment]) -> Result<Vec<PathBuf>> {
    let reports: Vec<(&Report, &Data)> = environments
        .iter()
        .flat_map(|environment| environment.reports.iter().map(|report| (report, &environment.data)))
        .collect();
    let place = |report: &Report| out.join(format!("{}.{}.html", report.slug, report.language.key()));
    let pages: Vec<PathBuf> = reports.iter().map(|(report, _)| place(report)).collect();
    refuse_foreign_pages(&pages)?;
    files::create_dir(out)?;
    for ((report, data), path) in reports.into_iter().zip(&pages) {
        files::write(path, page::page(report, data, Place::Alone)?.as_bytes())?;
    }
    Ok(pages)
}

/// Where pages will be.
fn pages(out: &Path, environments: &[Environment]) -> Vec<PathBuf> {
    let of_report = |report: &Report| {
        let names = [format!("{}.html", report.language.key()), data_page::name(report.language)];
        names.map(|name| out.join(&report.slug).join(name))
    };
    let reports = environments.iter().flat_map(|environment| &environment.reports);
    [INDEX, FEED].map(|name| out.join(name)).into_iter().chain(reports.flat_map(of_report)).collect()
}

fn refuse_foreign_pages(pages: &[PathBuf]) -> Result<()> {
    for page in pages {
        // What is no text is no page of ours either; what cannot be read at all shows when it is written.
        let ours = match files::read(page) {
            Ok(bytes) => GENERATORS.iter().any(|ours| String::from_utf8_lossy(&bytes).contains(ours)),
            Err(error) => !files::is_of_another_kind(&error),
        };
        if !ours {
            bail!("{} is no page of shice's and would be replaced; use another --out, or move it away", page.display());
        }
    }
    Ok(())
}

fn write_environment(out: &Path, environment: &Environment, address: Option<&str>) -> Result<()> {
    let data = &environment.data;
    let folder = out.join(&data.slug);
    files::create_dir(&folder)?;
    environment.raw.iter().try_for_each(|raw| raw.write(&folder))?;
    files::write(&folder.join(RUNS), data.runs.as_bytes())?;
    files::write(&folder.join(DOCUMENT), data.document.as_bytes())?;
    let place = Place::Site { address, raw: environment.raw.as_ref() };
    for report in &environment.reports {
        write_report(&folder, report)?;
        let page = page::page(report, data, place)?;
        files::write(&folder.join(format!("{}.html", report.language.key())), page.as_bytes())?;
        write_data_page(&folder, environment, report, address)?;
    }
    Ok(())
}

/// The page of the raw traces; where there is none any more, an earlier one goes.
fn write_data_page(folder: &Path, environment: &Environment, report: &Report, address: Option<&str>) -> Result<()> {
    let path = folder.join(data_page::name(report.language));
    match &environment.raw {
        Some(raw) => files::write(&path, data_page::page(environment, raw, report, address)?.as_bytes()),
        None if path.is_file() => fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display())),
        None => Ok(()),
    }
}

/// The report as Markdown, with its charts.
fn write_report(folder: &Path, report: &Report) -> Result<()> {
    let charts = folder.join(CHARTS);
    files::create_dir(&charts)?;
    remove_stale_charts(&charts, report)?;
    for chart in &report.charts {
        files::write(&folder.join(&chart.path), &chart.png()?)?;
        files::write(&folder.join(chart.csv_path()), chart.csv.as_bytes())?;
    }
    files::write(&folder.join(format!("{}.md", report.language.key())), report.markdown.as_bytes())
}

/// Charts of the same language, and numbers of charts, that an earlier report had and this one lacks.
fn remove_stale_charts(charts: &Path, report: &Report) -> Result<()> {
    let paths = report.charts.iter().flat_map(|chart| [chart.path.clone(), chart.csv_path()]);
    let wanted: BTreeSet<String> = paths.filter_map(|path| path.rsplit('/').next().map(str::to_owned)).collect();
    let ending = format!(".{}.png", report.language.key());
    for entry in fs::read_dir(charts).with_context(|| format!("cannot list {}", charts.display()))? {
        let path = entry.with_context(|| format!("cannot list {}", charts.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if (name.ends_with(&ending) || name.ends_with(".csv")) && !wanted.contains(name) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Reports -> a static site: Markdown with pictures, HTML pages with inline charts, an index. Never sees a number.
//!
//! ```text
//! SITE/index.html
//!      <environment>/zh.md, en.md, zh.html, en.html
//!                   /charts/<case>-<chart>.<language>.png
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::files;
use crate::report::Report;

mod markdown;
mod page;

const CHARTS: &str = "charts";
const INDEX: &str = "index.html";
/// What every page of ours says of itself, as the templates have it.
const GENERATOR: &str = r#"<meta name="generator" content="shice">"#;

/// Writes the site of all reports below `out`. What it replaces is its own: pages, and charts of reports that are
/// written again. Other files stay.
///
/// # Errors
/// A page of somebody else's would be replaced, and nothing is written; something cannot be written, with its path; or
/// a template is faulty.
pub fn write(out: &Path, reports: &[Report]) -> Result<()> {
    refuse_foreign_pages(out, reports)?;
    for report in reports {
        let siblings: Vec<&Report> = reports.iter().filter(|other| other.slug == report.slug).collect();
        write_report(out, report, &siblings)?;
    }
    files::create_dir(out)?;
    files::write(&out.join(INDEX), page::index(reports)?.as_bytes())
}

fn refuse_foreign_pages(out: &Path, reports: &[Report]) -> Result<()> {
    let pages = reports.iter().map(|report| out.join(&report.slug).join(format!("{}.html", report.language.key())));
    for page in std::iter::once(out.join(INDEX)).chain(pages) {
        // What is no text is no page of ours either; what cannot be read at all shows when it is written.
        let ours = match files::read(&page) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).contains(GENERATOR),
            Err(error) => !files::is_of_another_kind(&error),
        };
        if !ours {
            bail!("{} is no page of shice's and would be replaced; use another --out, or move it away", page.display());
        }
    }
    Ok(())
}

fn write_report(out: &Path, report: &Report, siblings: &[&Report]) -> Result<()> {
    let folder = out.join(&report.slug);
    let charts = folder.join(CHARTS);
    files::create_dir(&charts)?;
    remove_stale_charts(&charts, report)?;
    for chart in &report.charts {
        files::write(&folder.join(&chart.path), &chart.png()?)?;
    }
    let key = report.language.key();
    files::write(&folder.join(format!("{key}.md")), report.markdown.as_bytes())?;
    files::write(&folder.join(format!("{key}.html")), page::page(report, siblings)?.as_bytes())
}

/// Charts of the same language that an earlier report had and this one lacks.
fn remove_stale_charts(charts: &Path, report: &Report) -> Result<()> {
    let wanted: BTreeSet<&str> = report.charts.iter().filter_map(|chart| chart.path.rsplit('/').next()).collect();
    let ending = format!(".{}.png", report.language.key());
    for entry in fs::read_dir(charts).with_context(|| format!("cannot list {}", charts.display()))? {
        let path = entry.with_context(|| format!("cannot list {}", charts.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(&ending) && !wanted.contains(name) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

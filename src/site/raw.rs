//! The raw traces of an environment, as pages lead to them: where they lie beside the site, or as a copy within it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result, bail};

use super::address;
use crate::files;

/// Folder of the copy below a report's.
const TRACES: &str = "traces";

/// Raw traces that pages can lead to.
#[derive(Clone, Debug)]
pub struct Raw {
    /// Address of the environment's folder from the report's, with a slash at its end.
    pub(super) base: String,
    /// Files below it, a slash between folders.
    pub(super) files: Vec<String>,
    /// The folder that is to be copied; none where they lie beside the site.
    source: Option<PathBuf>,
}

impl Raw {
    /// The files of an environment's folder where site and traces lie side by side: what is published together then stays
    /// together. From any other place the way would tell where things lie on this machine.
    pub fn beside(out: &Path, environment: &Path, files: &[PathBuf]) -> Option<Self> {
        let traces = absolute(environment).ok()?.parent()?.to_owned();
        let site = absolute(out).ok()?;
        let is_beside = site.parent()?.canonicalize().ok()? == traces.parent()?.canonicalize().ok()?;
        let folder = format!("{}/{}", traces.file_name()?.to_str()?, environment.file_name()?.to_str()?);
        is_beside.then(|| Self::new(&format!("../../{folder}"), files, None))
    }

    /// A copy of them below the report's folder, made when the site is written.
    pub fn copied(slug: &str, environment: &Path, files: &[PathBuf]) -> Self {
        Self::new(&format!("{TRACES}/environment={slug}"), files, Some(environment.to_owned()))
    }

    /// Address of the folder from a report.
    pub fn address(&self) -> &str {
        &self.base
    }

    fn new(folder: &str, files: &[PathBuf], source: Option<PathBuf>) -> Self {
        let files = files.iter().filter_map(|path| path.to_str()).map(str::to_owned).collect();
        Self { base: format!("{}/", address::encode(folder)), files, source }
    }

    /// Makes the copy in the report's folder, where there is to be one.
    ///
    /// # Errors
    /// Something cannot be copied, or there are recordings already that these traces lack, which may be the only ones; it is
    /// named.
    pub(super) fn write(&self, report: &Path) -> Result<()> {
        let Some(source) = &self.source else { return Ok(()) };
        let target = report.join(&self.base);
        files::create_dir(&target)?;
        if target.canonicalize().ok() == source.canonicalize().ok() {
            return Ok(());
        }
        let ours = self.files.iter().map(|file| target.join(file)).collect();
        if let Some(other) = first_other(&target, &ours)? {
            bail!(
                "{} is not in the traces that are rendered, and would stand among their copy; move {} away",
                other.display(),
                target.display()
            );
        }
        self.files.iter().try_for_each(|file| copy(&source.join(file), &target.join(file)))
    }
}

/// A file below a folder that is none of ours. Parts that a copy left when it was cut are no files yet.
fn first_other(folder: &Path, ours: &BTreeSet<PathBuf>) -> Result<Option<PathBuf>> {
    let cannot = || format!("cannot list {}", folder.display());
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let is_part = path.extension().is_some_and(|ending| ending == "part");
        let found = if path.is_dir() {
            first_other(&path, ours)?
        } else {
            Some(path).filter(|path| !is_part && !ours.contains(path))
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Copies a file, piece by piece: a day's table is large.
fn copy(from: &Path, to: &Path) -> Result<()> {
    files::create_dir(to.parent().unwrap_or(Path::new(".")))?;
    let part = files::part_of(to);
    let mut source = files::open(from).with_context(|| format!("cannot read {}", from.display()))?;
    files::create(&part)
        .and_then(|mut target| std::io::copy(&mut source, &mut target))
        .with_context(|| format!("cannot write {}", part.display()))?;
    files::put_in_place(&part, to)
}

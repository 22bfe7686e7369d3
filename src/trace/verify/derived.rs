//! `environment.json` and `runs.parquet` against the runs that they are derived from. Where they are missing nothing is
//! lost: they can be written anew.

use std::path::Path;

use anyhow::{Context, Result, bail};
use polars::prelude::{DataFrame, ParquetReader, SerReader};
use serde_json::Value;

use super::{Checked, Verdict};
use crate::files;
use crate::trace::environment::{environment_value, runs_frame};
use crate::trace::layout::{ENVIRONMENT_FILE, RUNS_FILE, partition};
use crate::trace::open::{Environment, Run, sort};
use crate::trace::unharmed::unharmed;

const REMEDY: &str = "it is derived from the runs: remove it, and the next recording writes it anew";

/// Checks both files of an environment, of which all runs could be read.
pub(super) fn check(dir: &Path, checked: Vec<Checked>, verdict: &mut Verdict) {
    let environment = as_environment(dir, checked);
    let files = [
        (ENVIRONMENT_FILE, json_differs as fn(&Path, &Environment) -> Result<()>),
        (RUNS_FILE, |path, environment| unharmed(|| runs_differ(path, environment))),
    ];
    for (name, differs) in files {
        let path = dir.join(name);
        if let Err(error) = if path.exists() { differs(&path, &environment) } else { Ok(()) } {
            verdict.problem(&path, &format!("{error:#}"), REMEDY);
        }
    }
}

fn as_environment(dir: &Path, checked: Vec<Checked>) -> Environment {
    let run = |run: Checked| Run { dir: dir.to_owned(), case_slug: run.case_slug, record: run.record, copy: None };
    let mut runs: Vec<Run> = checked.into_iter().map(run).collect();
    sort(&mut runs);
    let name = runs.first().map(|run| run.record.environment.clone()).unwrap_or_default();
    let slug = partition(dir, "environment").unwrap_or_default();
    Environment { name, slug, dir: dir.to_owned(), runs, damaged: Vec::new() }
}

fn json_differs(path: &Path, environment: &Environment) -> Result<()> {
    let text = files::read(path).context("it cannot be read")?;
    let found: Value = serde_json::from_slice(&text).context("it is damaged or no JSON")?;
    let right = environment_value(environment);
    for key in ["name", "fingerprint"] {
        if found.get(key) != right.get(key) {
            bail!("its {key:?} is not that of the runs");
        }
    }
    Ok(())
}

fn runs_differ(path: &Path, environment: &Environment) -> Result<()> {
    let found = files::open(path).context("it cannot be read")?;
    let found: DataFrame = ParquetReader::new(found).finish().context("it is damaged or no Parquet file")?;
    let right = runs_frame(environment)?;
    if found.height() != right.height() {
        bail!("it lists {} run(s), but there are {}", found.height(), right.height());
    }
    for column in right.columns() {
        // An older minor lacks columns; those that it has must agree.
        let same = found.column(column.name()).map_or(true, |found| found.equals_missing(column));
        if !same {
            bail!("its column {:?} is not that of the runs", column.name().as_str());
        }
    }
    Ok(())
}

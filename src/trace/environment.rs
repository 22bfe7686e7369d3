//! The derived files of an environment: `environment.json` and `runs.parquet`. Both can be rebuilt from `run.json`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use polars::prelude::{Column, DataFrame, KeyValueMetadata, ParquetWriter};
use serde_json::{Value, json};

use super::layout::{ENVIRONMENT_FILE, RUNS_FILE, fnv1a};
use super::open::Environment;
use super::run::RunRecord;
use super::version::SCHEMA_VERSION;
use crate::files;

/// Writes both files anew.
///
/// # Errors
/// Names the file that could not be written.
pub fn write_derived(environment: &Environment) -> Result<()> {
    let value = environment_value(environment);
    let mut text = serde_json::to_vec_pretty(&value).context("cannot put the environment into JSON")?;
    text.push(b'\n');
    files::write(&environment.dir.join(ENVIRONMENT_FILE), &text)?;
    write_runs(environment)
}

/// What `environment.json` holds.
pub(super) fn environment_value(environment: &Environment) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "name": environment.name,
        "fingerprint": common_fingerprint(&records(environment)),
    })
}

fn records(environment: &Environment) -> Vec<&RunRecord> {
    environment.runs.iter().map(|run| &run.record).collect()
}

/// The keys on which all runs agree.
fn common_fingerprint(records: &[&RunRecord]) -> BTreeMap<String, Value> {
    let Some((first, others)) = records.split_first() else { return BTreeMap::new() };
    let mut common = first.fingerprint.clone();
    common.retain(|key, value| others.iter().all(|other| other.fingerprint.get(key) == Some(value)));
    common
}

fn write_runs(environment: &Environment) -> Result<()> {
    let path = environment.dir.join(RUNS_FILE);
    let failed = || format!("cannot write {}", path.display());
    let part = files::part_of(&path);
    let mut frame = runs_frame(environment)?;
    let file = files::create(&part).with_context(failed)?;
    let footer = KeyValueMetadata::from_static(vec![("shice.schema_version".into(), SCHEMA_VERSION.into())]);
    ParquetWriter::new(&file).with_key_value_metadata(Some(footer)).finish(&mut frame).with_context(failed)?;
    file.sync_all().with_context(failed)?;
    files::put_in_place(&part, &path)
}

/// What `runs.parquet` holds: a row a run.
///
/// # Errors
/// None of the columns can differ in length, so there is none to be expected.
pub(super) fn runs_frame(environment: &Environment) -> Result<DataFrame> {
    let records = records(environment);
    let text = |name: &str, value: &dyn Fn(&RunRecord) -> String| {
        Column::new(name.into(), records.iter().map(|record| value(record)).collect::<Vec<_>>())
    };
    let integer = |name: &str, value: &dyn Fn(&RunRecord) -> Option<i64>| {
        Column::new(name.into(), records.iter().map(|record| value(record)).collect::<Vec<_>>())
    };
    let slugs: Vec<&str> = environment.runs.iter().map(|run| run.case_slug.as_str()).collect();
    Ok(DataFrame::new_infer_height(vec![
        Column::new("case".into(), slugs),
        integer("run", &|record| Some(record.run.into())),
        integer("node", &|record| Some(record.node.into())),
        text("workload", &|record| record.workload.clone()),
        text("settings", &|record| json!(record.settings).to_string()),
        text("effective", &|record| json!(record.effective).to_string()),
        text("outcome", &|record| record.outcome.word().to_owned()),
        integer("exit_code", &|record| record.outcome.exit_code().map(i64::from)),
        integer("signal", &|record| record.outcome.signal().map(i64::from)),
        integer("started_unix_ns", &|record| Some(record.started_unix_ns)),
        integer("duration_ns", &|record| record.duration_ns),
        integer("cpu_ns", &|record| record.cpu.best_ns()),
        text("fingerprint", &|record| format!("{:08x}", fnv1a(json!(record.fingerprint).to_string().as_bytes()))),
        integer("session_unix_ns", &|record| Some(record.session_unix_ns)),
        integer("sequence", &|record| Some(record.sequence.into())),
        integer("block", &|record| Some(record.block.into())),
    ])?)
}

//! Writes traces of any length and number of runs, through the crate's own trace API, for `benches/render/run.py`.
//!
//! The tables are those that the recorder writes, at 100 ms; cores are sampled each second above 32 of them, as it does.
//! The same arguments give the same trace.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::json;
use shice::trace::version::SCHEMA_VERSION;
use shice::trace::{RunRecord, finish, layout, sums};

mod samples;

const USAGE: &str = "usage: render FOLDER --runs N [--distinct N] --seconds S [--cores N] [--processes N] [--gpus N]";
const SECOND: i64 = 1_000_000_000;
const INTERVAL: i64 = SECOND / 10;

/// What one run is like.
#[derive(Clone, Copy, Debug)]
struct Shape {
    runs: u32,
    /// Runs beyond these have the tables of earlier ones, as hard links: reading them costs the same, writing nothing.
    distinct: u32,
    seconds: i64,
    cores: i64,
    processes: i64,
    gpus: i64,
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let (folder, shape) = arguments(&words)?;
    let environment = layout::environment_dir(&folder, "bench");
    let mut folders: Vec<PathBuf> = Vec::new();
    for run in 1..=shape.runs {
        let record = record(run, shape)?;
        let folder = layout::node_dir(&layout::case_dir(&environment, &record.case()), run);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        match folders.get((run - 1) as usize % shape.distinct as usize) {
            Some(first) if run > shape.distinct => link_tables(first, &folder)?,
            _ => samples::write(&folder, run, shape)?,
        }
        finish::write_record(&folder, &RunRecord { files: sums::of_tables(&folder)?, ..record })?;
        folders.push(folder);
    }
    Ok(())
}

fn arguments(words: &[String]) -> Result<(PathBuf, Shape)> {
    let [folder, options @ ..] = words else { bail!(USAGE) };
    let mut shape = Shape { runs: 1, distinct: u32::MAX, seconds: 60, cores: 2, processes: 4, gpus: 2 };
    for option in options.chunks(2) {
        let [name, value] = option else { bail!(USAGE) };
        let value: u32 = value.parse().with_context(|| format!("{name} {value}: {USAGE}"))?;
        match name.as_str() {
            "--runs" => shape.runs = value,
            "--distinct" => shape.distinct = value.max(1),
            "--seconds" => shape.seconds = value.into(),
            "--cores" => shape.cores = value.into(),
            "--processes" => shape.processes = value.into(),
            "--gpus" => shape.gpus = value.into(),
            _ => bail!("{name}: {USAGE}"),
        }
    }
    Ok((PathBuf::from(folder), shape))
}

fn link_tables(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        if name.to_string_lossy().ends_with(".parquet") {
            fs::hard_link(from.join(&name), to.join(&name))
                .with_context(|| format!("cannot link {}", name.display()))?;
        }
    }
    Ok(())
}

fn record(run: u32, shape: Shape) -> Result<RunRecord> {
    let gpus: Vec<_> = (0..shape.gpus)
        .map(|_| json!({"name": "GPU", "memory_total_bytes": 80_i64 << 30, "compute_capability": "9.0"}))
        .collect();
    let metrics = ["host", "core", "cgroup", "process", "process_sample", "memory", "gpu", "step"];
    let coverage: Vec<_> =
        metrics.iter().map(|name| json!({"metric": name, "state": "measured", "source": "generated"})).collect();
    let memory_bytes = 1_i64 << 40;
    let record = json!({
        "schema_version": SCHEMA_VERSION, "shice_version": env!("CARGO_PKG_VERSION"), "environment": "bench",
        "workload": "generated", "settings": BTreeMap::from([("device", "cuda")]),
        "effective": {"device": "cuda:0"}, "command": ["true"],
        "run": run, "node": 0, "session_unix_ns": 0, "sequence": run, "block": run,
        "started_unix_ns": i64::from(run) * shape.seconds * SECOND, "interval_ns": INTERVAL,
        "outcome": {"status": "finished"}, "duration_ns": shape.seconds * SECOND,
        "cpu": {"clocks_ns": shape.seconds * SECOND, "rusage_user_ns": null, "rusage_system_ns": null},
        "cgroup": {"cpu": "own", "memory": "own"},
        "limits": {
            "cores_online": shape.cores, "cpu_cores": shape.cores as f64,
            "memory_total_bytes": memory_bytes, "memory_bytes": memory_bytes,
        },
        "fingerprint": {"os": "generated", "cores_online": shape.cores, "gpus": gpus},
        "gpus_used": (0..shape.gpus).collect::<Vec<_>>(),
        "coverage": coverage,
        "recorder": {
            "cpu_ns": SECOND, "memory_peak_bytes": 1 << 24, "ticks": shape.seconds * 10, "missed_ticks": 0,
            "late_max_ns": 0, "journal_bytes": 0,
        },
    });
    Ok(serde_json::from_value(record)?)
}

//! Where things lie: slugs for names, and the paths below a folder of traces.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub const ENVIRONMENT_FILE: &str = "environment.json";
pub const RUNS_FILE: &str = "runs.parquet";
pub const RUN_FILE: &str = "run.json";
pub const JOURNAL_FILE: &str = "journal.jsonl";
/// What the workload appends to while it runs; the recorder moves it into the journal.
pub const STEPS_FILE: &str = "steps.jsonl";
/// The whole output of the command, where the user asked to keep it.
pub const OUTPUT_FILE: &str = "output.log";
/// Keeps room on the disk for the record of a run that fills it.
pub const RESERVE_FILE: &str = ".reserve";
/// Where a container's client leaves the id of the container that it has made.
pub const CONTAINER_ID_FILE: &str = "container-id.txt";
/// Where the shim tells that the command could not be executed.
pub const NOT_EXECUTED_FILE: &str = "not-executed.txt";
/// Files that the recorder needs while it records; besides the journal, whose samples become tables, a finished run has
/// none of them any more.
pub const WORKING_FILES: [&str; 4] = [STEPS_FILE, RESERVE_FILE, CONTAINER_ID_FILE, NOT_EXECUTED_FILE];
pub const LOCK_FILE: &str = ".lock";

/// `environment=<slug>` below the folder of traces.
pub fn environment_dir(traces: &Path, environment: &str) -> PathBuf {
    traces.join(format!("environment={}", slug(environment)))
}

/// `case=<slug>` below an environment's folder.
pub fn case_dir(environment: &Path, case: &str) -> PathBuf {
    environment.join(format!("case={}", slug(case)))
}

/// `run=<n>/node=0` below a case's folder. Until cluster recording exists there is one node.
pub fn node_dir(case: &Path, run: u32) -> PathBuf {
    case.join(format!("run={run}")).join("node=0")
}

/// A name as one folder: lower-case ASCII, beginning with a letter, never something that a reader with hive
/// partitioning would take for a number, date or boolean. A name that had to be altered ends in a hash of the
/// exact name, so that `A/B`, `A-B` and `中文` stay apart.
pub fn slug(name: &str) -> String {
    let kept: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let mut words = kept.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    words.truncate(MAX_SLUG);
    let words = words.trim_matches(['-', '.']);
    let plain = if words.starts_with(|c: char| c.is_ascii_lowercase()) && !is_literal(words) {
        words.to_owned()
    } else {
        format!("e-{words}").trim_end_matches('-').to_owned()
    };
    if plain == name { plain } else { format!("{plain}-{:08x}", fnv1a(name.as_bytes())) }
}

/// Leaves room for the hash and for the longest file name that common file systems take (255 bytes).
const MAX_SLUG: usize = 80;

/// Words that readers of hive partitions turn into something other than text.
fn is_literal(word: &str) -> bool {
    matches!(word, "true" | "false" | "null" | "none" | "nan" | "inf" | "infinity")
}

/// FNV-1a, 32 bits: stable over releases and machines, which std's hashers do not promise.
pub(super) fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The folders `<key>=<value>` of a folder, as (value, path) in the order of their values.
///
/// # Errors
/// The folder cannot be listed; it is named.
pub fn partitions(folder: &Path, key: &str) -> Result<Vec<(String, PathBuf)>> {
    let failed = || format!("cannot list {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if let Some(value) = partition(&path, key).filter(|_| path.is_dir()) {
            found.push((value, path));
        }
    }
    found.sort();
    Ok(found)
}

/// The value of a folder `<key>=<value>`.
pub(super) fn partition(path: &Path, key: &str) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    Some(name.strip_prefix(key)?.strip_prefix('=')?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_is_its_own_slug() {
        for name in ["cuda-v2.8", "laptop", "e-4090", "a_b"] {
            assert_eq!(slug(name), name);
        }
    }

    #[test]
    fn names_that_differ_get_slugs_that_differ() {
        let names = [
            "A/B", "A-B", "a-b", "a b", "中文", "英文", "4090", "e-4090", "e", "🔥", "true", "e-true", "a\"b", "..",
            "-",
        ];
        let slugs: std::collections::BTreeSet<String> = names.iter().map(|name| slug(name)).collect();
        assert_eq!(slugs.len(), names.len(), "{slugs:?}");
    }

    #[test]
    fn a_slug_is_one_safe_folder_name() {
        for name in [
            "../../etc",
            "4090",
            "2026-12-01",
            "1e5",
            "TRUE",
            "nan",
            "中文",
            "🔥",
            "",
            " ",
            "a\nb",
            "'\"",
            &"长名 long ".repeat(100),
        ] {
            let slug = slug(name);
            assert!(slug.starts_with(|c: char| c.is_ascii_lowercase()), "{name:?} -> {slug}");
            assert!(
                slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._".contains(&b)),
                "{slug}"
            );
            assert!(slug.parse::<f64>().is_err() && slug.len() <= MAX_SLUG + 11, "{slug}");
        }
    }

    #[test]
    fn the_hash_is_the_published_fnv1a() {
        // Reference values of the FNV authors' test suite.
        assert_eq!(fnv1a(b""), 0x811c_9dc5);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
    }
}

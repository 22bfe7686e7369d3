//! Sums of a run's tables, by which a file that is no longer what was written is known before it is decoded: Parquet
//! notices few changes by itself, and its reader can be brought down by some.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::run::{REMEDY, open_of_run};

/// Length and hash of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    pub bytes: u64,
    /// FNV-1a of 64 bits, in hexadecimal digits: against accidents, not against forgers.
    pub fnv1a64: String,
}

/// The sums of all tables in a folder, by the files' names.
///
/// # Errors
/// Names the file or folder that cannot be read.
pub fn of_tables(folder: &Path) -> Result<BTreeMap<String, Sum>> {
    let failed = || format!("cannot list {}", folder.display());
    let mut sums = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(failed)? {
        let name = entry.with_context(failed)?.file_name();
        if let Some(name) = name.to_str().filter(|name| name.ends_with(".parquet") && !name.starts_with('.')) {
            sums.insert(name.to_owned(), of_file(&folder.join(name))?);
        }
    }
    Ok(sums)
}

/// Refuses a file that is not what was written.
///
/// # Errors
/// The file is another one, or cannot be read; it is named.
pub fn check(path: &Path, sum: &Sum) -> Result<()> {
    let found = of_file(path)?;
    refuse_another_length(path, found.bytes, sum)?;
    if found != *sum {
        bail!("{} is damaged: its bytes are not those that were written; {REMEDY}", path.display());
    }
    Ok(())
}

/// As [`check`], of the length alone: nothing is read.
///
/// # Errors
/// As [`check`].
pub fn check_length(path: &Path, sum: &Sum) -> Result<()> {
    let file = open_of_run(path)?.metadata().with_context(|| format!("cannot read {}", path.display()))?;
    refuse_another_length(path, file.len(), sum)
}

fn refuse_another_length(path: &Path, bytes: u64, sum: &Sum) -> Result<()> {
    if bytes != sum.bytes {
        bail!("{} is damaged: it has {bytes} bytes where {} were written; {REMEDY}", path.display(), sum.bytes);
    }
    Ok(())
}

fn of_file(path: &Path) -> Result<Sum> {
    let failed = || format!("cannot read {}", path.display());
    let mut file = open_of_run(path)?;
    let (mut chunk, mut bytes, mut hash) = (vec![0; 64 << 10], 0, OFFSET_BASIS);
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(Sum { bytes, fnv1a64: format!("{hash:016x}") }),
            Ok(count) => {
                bytes += count as u64;
                hash = fnv1a64(hash, &chunk[..count]);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).with_context(failed),
        }
    }
}

/// Where FNV-1a of 64 bits begins.
const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv1a64(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_fnv1a() {
        // Reference values of the FNV authors' test suite.
        assert_eq!(fnv1a64(OFFSET_BASIS, b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a64(OFFSET_BASIS, b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_file_that_changed_in_any_byte_or_in_length_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.parquet");
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        fs::write(folder.path().join(".core.parquet.part"), "x").unwrap();
        let sums = of_tables(folder.path()).unwrap();
        assert_eq!(sums.keys().collect::<Vec<_>>(), ["host.parquet"]);
        let sum = &sums["host.parquet"];
        check(&path, sum).unwrap();
        for at in [0, 100_000, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            fs::write(&path, &changed).unwrap();
            assert!(check(&path, sum).unwrap_err().to_string().contains("host.parquet is damaged"));
        }
        fs::write(&path, &bytes[1..]).unwrap();
        for check in [check, check_length] {
            assert!(check(&path, sum).unwrap_err().to_string().contains("199999 bytes where 200000 were written"));
        }
    }
}

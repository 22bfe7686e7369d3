//! Files as slices, read where they lie.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use memmap2::Mmap;

/// Maps a file that is not empty.
///
/// # Errors
/// It cannot be read, or is empty.
#[allow(unsafe_code)]
pub(crate) fn open(path: &Path) -> Result<Mmap> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let kind = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(kind.is_file(), "{} is no file", path.display());
    ensure!(kind.len() > 0, "{} is empty", path.display());
    // SAFETY: the bytes are only read, and any bytes will do. A file that somebody shortens meanwhile ends the process,
    // as it would end any program that maps it; weights and tokens are files that nobody changes while they are used.
    let mapped = unsafe { Mmap::map(&file) };
    mapped.with_context(|| format!("cannot map {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_with_something_in_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty");
        std::fs::write(&empty, []).unwrap();
        for (path, what) in [(folder.path(), "is no file"), (&empty, "is empty"), (&folder.path().join("x"), "cannot")]
        {
            let message = open(path).unwrap_err().to_string();
            assert!(message.contains(what) && message.contains(&path.display().to_string()), "{message}");
        }
    }
}

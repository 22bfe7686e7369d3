//! Files as slices, read where they lie.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use memmap2::Mmap;
use shice::files;

/// Maps a file that is not empty.
///
/// # Errors
/// It cannot be read, or is empty.
#[allow(unsafe_code)]
pub(crate) fn open(path: &Path) -> Result<Mmap> {
    let file = files::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let size = file.metadata().with_context(|| format!("cannot read {}", path.display()))?.len();
    ensure!(size > 0, "{} is empty", path.display());
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
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let nothing = folder.path().join("nothing");
        for (path, what) in
            [(folder.path(), "a folder"), (&empty, "is empty"), (&pipe, "a named pipe"), (&nothing, "cannot read")]
        {
            let message = format!("{:#}", open(path).unwrap_err());
            assert!(message.contains(what) && message.contains(&path.display().to_string()), "{message}");
        }
    }
}

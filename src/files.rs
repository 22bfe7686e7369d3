//! Files written whole or not at all, with errors that say what failed and where.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

/// Creates a folder and its parents.
///
/// # Errors
/// Names the folder.
pub fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot create the folder {}", path.display()))
}

/// Creates a folder that must not be there yet, and its parents.
///
/// # Errors
/// It is there already, or cannot be made; it is named.
pub fn create_new_dir(path: &Path) -> Result<()> {
    if let Some(parent) = path.parent() {
        create_dir(parent)?;
    }
    fs::create_dir(path).with_context(|| format!("cannot create the folder {}", path.display()))
}

/// Replaces a file by `bytes`: a reader, or a crash, sees the old file or the new one, never a part.
///
/// # Errors
/// Names the file.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = part_of(path);
    File::create(&part)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .with_context(|| format!("cannot write {}", part.display()))?;
    put_in_place(&part, path)
}

/// Where a file is written before it takes the place of `path`.
pub fn part_of(path: &Path) -> std::path::PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".part");
    path.with_file_name(name)
}

/// Moves a synced part to its place, and syncs the folder, so that the move itself survives a power loss.
///
/// # Errors
/// Names the file.
pub fn put_in_place(part: &Path, path: &Path) -> Result<()> {
    fs::rename(part, path).with_context(|| format!("cannot put {} in place", path.display()))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A file system that cannot sync folders has still done the rename.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

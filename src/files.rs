//! Files written whole or not at all, and read only where they are files, with errors that say what failed and where.

use std::fs::{self, File, FileType};
use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
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
    create(&part)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .with_context(|| format!("cannot write {}", part.display()))?;
    put_in_place(&part, path)
}

/// Opens a file to be read, and nothing else: a pipe may never have a writer, and a device no end.
///
/// # Errors
/// It is not there, may not be read, or [`is_of_another_kind`].
pub fn open(path: &Path) -> std::io::Result<File> {
    // Before it is opened too: to open a device can do something to it.
    refuse_other_kinds(path.metadata()?.file_type())?;
    let file = File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    refuse_other_kinds(file.metadata()?.file_type())?;
    Ok(file)
}

/// All bytes of a file.
///
/// # Errors
/// As [`open`].
pub fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let (mut file, mut bytes) = (open(path)?, Vec::new());
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// An empty file in place of whatever file is there. A pipe in its place is an error, not a wait for its reader.
///
/// # Errors
/// It cannot be made.
pub fn create(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).custom_flags(nix::libc::O_NONBLOCK).open(path)
}

/// Whether an error of [`open`] says that there is something, but no file.
pub fn is_of_another_kind(error: &Error) -> bool {
    error.kind() == ErrorKind::InvalidInput && error.raw_os_error().is_none()
}

fn refuse_other_kinds(found: FileType) -> std::io::Result<()> {
    let kind = match found {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_block_device() || kind.is_char_device() => "a device",
        _ => "something else",
    };
    Err(Error::new(ErrorKind::InvalidInput, format!("it is {kind} where a file belongs")))
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_files_are_opened_and_what_else_is_there_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        let _listener = UnixListener::bind(path("socket")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("device")).unwrap();
        for (name, kind) in
            [("pipe", "a named pipe"), ("socket", "a socket"), ("folder", "a folder"), ("device", "a device")]
        {
            let error = read(&path(name)).unwrap_err();
            assert!(is_of_another_kind(&error) && error.to_string().contains(kind), "{name}: {error}");
        }
        assert!(!is_of_another_kind(&read(&path("nothing")).unwrap_err()));
        assert!(create(&path("pipe")).is_err());
        write(&path("file"), b"x").unwrap();
        assert_eq!(read(&path("file")).unwrap(), b"x");
    }
}

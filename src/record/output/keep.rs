//! The whole output of a run in a file, where the user asked for it: as it came, both streams in the order of reading.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use nix::sys::statvfs::fstatvfs;

/// Room on the disk that the samples of the run may need: output is not kept beyond.
const LEFT_FREE_BYTES: u64 = 64 << 20;
/// On a small disk, this part of it.
const LEFT_FREE_PART: u64 = 8;
/// How much is written between two looks at the room.
const LOOK_EVERY_BYTES: u64 = 1 << 20;

/// A file that takes output until the disk is nearly full.
#[derive(Debug)]
pub struct Kept(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    file: File,
    written: u64,
    looked_at: Option<u64>,
    /// Why nothing more is kept.
    ended: Option<String>,
    closed: bool,
}

impl Kept {
    /// # Errors
    /// Names the file that could not be made.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create_new(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(Mutex::new(Inner { file, written: 0, looked_at: None, ended: None, closed: false })))
    }

    pub(super) fn take(&self, output: &[u8]) {
        self.lock().take(output);
    }

    /// Takes nothing more: what somebody outside the run prints later is not of the run. Tells why the file does not
    /// hold the whole output, if so.
    pub(super) fn close(&self) -> Option<String> {
        let mut inner = self.lock();
        inner.closed = true;
        inner.ended.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take(&mut self, output: &[u8]) {
        if self.closed || self.ended.is_some() {
            return;
        }
        if self.looked_at.is_none_or(|at| self.written - at >= LOOK_EVERY_BYTES) {
            self.looked_at = Some(self.written);
            if !self.has_room() {
                return self.end("the disk is nearly full");
            }
        }
        match self.file.write_all(output) {
            Ok(()) => self.written += output.len() as u64,
            Err(error) => self.end(&error.to_string()),
        }
    }

    /// Whether enough room is left for the rest of the run; a file system that does not tell has it.
    fn has_room(&self) -> bool {
        fstatvfs(&self.file).map_or(true, |disk| {
            let all = disk.blocks() * disk.fragment_size();
            let free = disk.blocks_available() * disk.fragment_size();
            free > LEFT_FREE_BYTES.min(all / LEFT_FREE_PART) + LOOK_EVERY_BYTES.min(all / LEFT_FREE_PART)
        })
    }

    fn end(&mut self, why: &str) {
        self.ended = Some(format!("the output was kept only up to its byte {} ({why})", self.written));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output.log");
        let kept = Kept::create(&path).unwrap();
        kept.take(b"one\xff\r");
        kept.take(b"two");
        assert_eq!(kept.close(), None);
        kept.take(b"later");
        assert_eq!(std::fs::read(&path).unwrap(), b"one\xff\rtwo");
    }

    #[test]
    fn a_disk_that_takes_no_more_ends_the_keeping_and_nothing_else() {
        let file = File::options().write(true).open("/dev/full").unwrap();
        let kept = Kept(Mutex::new(Inner { file, written: 0, looked_at: Some(0), ended: None, closed: false }));
        kept.take(b"one");
        kept.take(b"two");
        let ended = kept.close().unwrap();
        assert!(ended.contains("up to its byte 0") && ended.contains("space"), "{ended}");
    }
}

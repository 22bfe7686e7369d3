//! Who is under a pid right now.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::kernel::{self, Identity};
use crate::record::source::has_vanished;

/// Who is under a pid; `None` where nobody is.
///
/// # Errors
/// The process may be there, but cannot be looked at.
pub fn who_is(proc: &Path, pid: i32) -> io::Result<Option<Identity>> {
    // A name may be any bytes.
    match fs::read(proc.join(pid.to_string()).join("stat")) {
        Ok(text) => match kernel::identity(&String::from_utf8_lossy(&text)) {
            Some(identity) => Ok(Some(identity)),
            None => Err(io::Error::new(ErrorKind::InvalidData, "/proc/PID/stat is not in the form that was expected")),
        },
        Err(error) if has_vanished(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

//! Words to the user on standard error.

use std::io::Write;

/// Writes a line. A reader that went away, or a full disk behind a redirection, is no reason to fail.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

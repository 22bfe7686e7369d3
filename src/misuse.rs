//! What is told where the words of the command line are wrong.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use shice::commands;
use shice::console::say;

use crate::ERROR;

/// Help and version are no error; wrong words are, and for `record` must not look like the workload's own exit code.
pub(crate) fn tell(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let recording = arguments.get(1).is_some_and(|first| first == "record");
    match no_text(arguments).filter(|_| error.kind() == ErrorKind::InvalidUtf8) {
        Some(words) => say(&format!("shice: {words}")),
        // A reader that went away needs no help text.
        None => drop(error.print()),
    }
    match (error.exit_code(), recording) {
        (0, _) => ExitCode::SUCCESS,
        (_, true) => ExitCode::from(commands::record::OWN_FAILURE),
        (_, false) => ExitCode::from(ERROR),
    }
}

/// Names the argument that is no text, where one had to be: the command's, whose words a trace holds, before others. The
/// parser says no more than that there is one.
fn no_text(arguments: &[OsString]) -> Option<String> {
    let is_no_text = |argument: &OsString| argument.to_str().is_none();
    let command = arguments.iter().position(|argument| argument == "--").map_or(arguments.len(), |at| at + 1);
    let of_command = arguments[command..].iter().position(is_no_text);
    let (whose, number, argument) = match of_command {
        Some(at) => ("of the command", at + 1, &arguments[command + at]),
        None => {
            let at = arguments.iter().position(is_no_text)?;
            ("of shice", at, &arguments[at])
        }
    };
    let instead = match of_command {
        Some(_) => "rename the file, or put the command into a script (-- sh run.sh)",
        None => "write it otherwise",
    };
    let shown = argument.to_string_lossy();
    Some(format!("word {number} {whose}, {shown:?}, is not UTF-8, and traces hold words as text; {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_is_no_text_is_named() {
        use std::os::unix::ffi::OsStringExt;
        let words = |words: &[&[u8]]| words.iter().map(|word| OsString::from_vec(word.to_vec())).collect::<Vec<_>>();
        let told = no_text(&words(&[b"shice", b"record", b"--out", b"\xff", b"--", b"cat", b"caf\xe9.txt"])).unwrap();
        assert!(told.starts_with("word 2 of the command, \"caf\u{fffd}.txt\", is not UTF-8"), "{told}");
        let told = no_text(&words(&[b"shice", b"record", b"--env", b"\xff", b"--", b"true"])).unwrap();
        assert!(told.starts_with("word 3 of shice, \"\u{fffd}\", is not UTF-8"), "{told}");
        assert_eq!(no_text(&words(&[b"shice", b"list"])), None);
    }
}

//! The container client, called for a short answer: within a time limit, and without a word on the terminal.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::record::threads;
use crate::trace::client::is_client;

const LOOK: Duration = Duration::from_millis(10);

/// What calls the client: `docker`, or `sudo docker --context x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    words: Vec<String>,
}

impl Client {
    pub fn new(words: &[String]) -> Self {
        Self { words: words.to_vec() }
    }

    /// Name of the client's program.
    pub fn name(&self) -> &str {
        self.words.iter().rev().find_map(|word| is_client(word)).unwrap_or("docker")
    }

    /// What the client prints, without the blanks around it; `None` where it fails, prints nothing, or takes too long.
    pub fn ask(&self, arguments: &[&str], limit: Duration) -> Option<String> {
        let (program, options) = self.words.split_first()?;
        let mut command = Command::new(program);
        command.args(options).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let mut stdout = child.stdout.take()?;
        // Read beside the waiting: a full pipe would hold the client up, and one that hangs must not hold us up.
        let read = move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).map(|_| bytes)
        };
        let Ok(answer) = threads::start("client", read) else {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        };
        let begun = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if begun.elapsed() < limit => std::thread::sleep(LOOK),
                _ => {
                    // Whatever it has become of it, nothing more is wanted of it.
                    let _ = child.kill();
                    let _ = child.wait();
                    return None;
                }
            }
        };
        // A helper of the client that lives on may hold the pipe open.
        while !answer.is_finished() && begun.elapsed() < limit {
            std::thread::sleep(LOOK);
        }
        if !status.success() || !answer.is_finished() {
            return None;
        }
        let text = String::from_utf8_lossy(&answer.join().ok()?.ok()?).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Client {
        Client::new(&["sh".to_owned(), "-c".to_owned(), script.to_owned()])
    }

    #[test]
    fn an_answer_is_had_within_the_limit_or_not_at_all() {
        let limit = Duration::from_secs(20);
        assert_eq!(shell("echo ' abc '").ask(&[], limit).as_deref(), Some("abc"));
        assert_eq!(shell("echo abc; exit 1").ask(&[], limit), None);
        assert_eq!(shell("true").ask(&[], limit), None);
        let begun = Instant::now();
        assert_eq!(shell("exec sleep 60").ask(&[], Duration::from_millis(50)), None);
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_client_is_named_by_its_program() {
        let words = ["sudo", "/usr/bin/podman", "--log-level", "debug"].map(str::to_owned);
        assert_eq!(Client::new(&words).name(), "podman");
    }
}

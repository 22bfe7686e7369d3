//! A trace is meant to be published: takes secrets, addresses and personal names out of text before it is stored.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

mod addresses;
mod names;
mod secrets;

pub use names::is_secret_name;

/// What stands in the place of a secret.
const MASKED: &str = "***";
/// Between the words of a command: no argument can hold it.
const WORD_END: char = '\0';

/// The names that this machine's user would not want to publish.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    /// Only secrets are masked.
    keeps_identity: bool,
    home: Option<String>,
    names: Vec<(String, &'static str)>,
}

impl Mask {
    /// Of the user and machine that this process runs as and on.
    pub fn of_this_user() -> Self {
        let home = std::env::var("HOME").ok();
        let user = home.as_deref().and_then(|home| Path::new(home).file_name()?.to_str().map(str::to_owned));
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
        Self::new(home, user, host)
    }

    /// Of secrets alone: whoever publishes the trace wants to be known.
    pub fn of_secrets() -> Self {
        Self { keeps_identity: true, ..Self::default() }
    }

    /// Of a user and machine made up for a test.
    #[cfg(test)]
    pub(crate) fn of(home: &str, user: &str, host: &str) -> Self {
        Self::new(Some(home.into()), Some(user.into()), Some(host.into()))
    }

    fn new(home: Option<String>, user: Option<String>, host: Option<String>) -> Self {
        // Names that everybody has, and those too short to be told from other words, are left as they are.
        let personal = |name: &String| {
            name.len() > 3 && !matches!(name.as_str(), "root" | "user" | "home" | "ubuntu" | "localhost")
        };
        let user = user.filter(personal).map(|name| (name, "<user>"));
        let host = host.filter(personal).map(|name| (name, "<host>"));
        Self {
            keeps_identity: false,
            home: home.filter(|home| home.len() > 1),
            names: user.into_iter().chain(host).collect(),
        }
    }

    /// A command's words. They are read as one text, since a secret's name and its value may be words of their own.
    pub fn command(&self, words: &[String]) -> Vec<String> {
        let joined: String = words.iter().flat_map(|word| [WORD_END.to_string(), word.clone()]).collect();
        self.text(&joined).split(WORD_END).skip(1).map(str::to_owned).collect()
    }

    /// Free text: a line of output, a value.
    pub fn text(&self, text: &str) -> String {
        if self.keeps_identity {
            return without_logins(text);
        }
        let mut masked = without_secrets(text);
        if let Some(home) = &self.home {
            masked = masked.replace(home.as_str(), "~");
        }
        self.names.iter().fold(masked, |text, (name, instead)| text.replace(name.as_str(), instead))
    }

    /// The name of a process. The kernel cuts it after 15 bytes, so that a token need not be there to its end.
    pub fn process_name(&self, name: &str) -> String {
        if secrets::begins_token(name) { MASKED.to_owned() } else { self.text(name) }
    }

    /// Settings by their names: the value of a secret one is masked whole, others as text.
    pub fn values(&self, values: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let masked = |(name, value): (&String, &String)| {
            let hide = is_secret_name(name) && !secrets::is_harmless(value);
            (self.text(name), if hide { MASKED.to_owned() } else { self.text(value) })
        };
        values.iter().map(masked).collect()
    }
}

/// Masks what is secret whoever the user is: secrets and addresses.
pub fn without_secrets(text: &str) -> String {
    replace(&without_logins(text), addresses::find)
}

fn without_logins(text: &str) -> String {
    replace(text, |text, at| secrets::find(text, at).map(|range| (range, MASKED)))
}

/// Puts something else in the place of whatever `find` finds at a position, or after it.
fn replace(text: &str, find: impl Fn(&str, usize) -> Option<(Range<usize>, &'static str)>) -> String {
    let (mut replaced, mut copied, mut at) = (String::with_capacity(text.len()), 0, 0);
    while at < text.len() {
        match find(text, at) {
            Some((range, instead)) => {
                replaced.push_str(&text[copied..range.start]);
                replaced.push_str(instead);
                copied = range.end;
                at = range.end.max(at + 1);
            }
            None => at += 1,
        }
    }
    replaced.push_str(&text[copied..]);
    replaced
}

/// The byte before a position.
fn byte_before(text: &str, at: usize) -> Option<u8> {
    at.checked_sub(1).map(|before| text.as_bytes()[before])
}

/// Whether a word may begin here: not in the midst of another, though after an escape such as `\n` spelled out.
fn begins_word(text: &str, at: usize) -> bool {
    match byte_before(text, at) {
        Some(byte) if byte.is_ascii_alphanumeric() => byte_before(text, at - 1) == Some(b'\\'),
        _ => true,
    }
}

/// Where a run of bytes that begins here ends.
fn run_end(text: &str, at: usize, belongs: impl Fn(u8) -> bool) -> usize {
    let bytes = text.as_bytes();
    bytes[at..].iter().position(|byte| !belongs(*byte)).map_or(bytes.len(), |length| at + length)
}

#[cfg(test)]
mod tests;

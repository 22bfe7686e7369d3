//! A trace is meant to be published: takes secrets, addresses and personal names out of text before it is stored.

use std::collections::BTreeMap;
use std::ops::Range;

mod addresses;
mod identity;
mod names;
mod secrets;

use identity::Identity;
pub use names::is_secret_name;

/// What stands in the place of a secret.
const MASKED: &str = "***";
/// Between the words of a command: no argument can hold it.
const WORD_END: char = '\0';

/// What of this machine's user and of secrets is not to be published.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    /// Only secrets are masked.
    keeps_identity: bool,
    identity: Identity,
}

impl Mask {
    /// Of the user and machine that this process runs as and on.
    pub fn of_this_user() -> Self {
        Self { keeps_identity: false, identity: Identity::of_this_user() }
    }

    /// Of secrets alone: whoever publishes the trace wants to be known.
    pub fn of_secrets() -> Self {
        Self { keeps_identity: true, ..Self::default() }
    }

    /// Of a user and machine made up for a test.
    #[cfg(test)]
    pub(crate) fn of(home: &str, user: &str, host: &str) -> Self {
        Self { keeps_identity: false, identity: Identity::new(vec![home.into()], vec![user.into()], host) }
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
        replace(&without_secrets(text), |text, at| self.identity.find(text, at))
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

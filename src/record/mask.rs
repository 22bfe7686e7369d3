//! A trace is meant to be published: takes secrets, addresses and personal names out of text before it is stored.

use std::collections::BTreeMap;
use std::ops::Range;

mod addresses;
mod common;
mod homes;
mod identity;
mod names;
mod secrets;
mod told;
mod words;

use identity::Identity;
pub use names::is_secret_name;

/// What stands in the place of a secret.
const MASKED: &str = "***";
/// Of a home folder, of a user's name, of a machine's, and of what the name of a machine ends with.
const HOME: &str = "~";
const USER: &str = "<user>";
const HOST: &str = "<host>";
const DOMAIN: &str = "<domain>";
/// Between the words of a command: no argument can hold it.
const WORD_END: char = '\0';
/// Of a process's name the kernel keeps no more.
const PROCESS_NAME_BYTES: usize = 15;
/// Stands before a value whose own key says that it tells a user or a machine.
const NAMED: &str = "user=";

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

    /// The name of a process. The kernel cuts it, so that neither a token nor a name need be there to its end.
    pub fn process_name(&self, name: &str) -> String {
        if secrets::begins_token(name) {
            return MASKED.to_owned();
        }
        // A letter that was cut is none.
        let whole = name.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let cut = (name.len() >= PROCESS_NAME_BYTES).then(|| self.identity.find_cut(whole)).flatten();
        cut.map_or_else(|| self.text(name), |(at, instead)| self.text(&name[..at]) + instead)
    }

    /// Settings by their names: the value of a secret one is masked whole, others as text.
    pub fn values(&self, values: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let masked = |(name, value): (&String, &String)| {
            let hide = is_secret_name(name) && !secrets::is_harmless(value);
            (self.text(name), if hide { MASKED.to_owned() } else { self.value(name, value) })
        };
        values.iter().map(masked).collect()
    }

    /// The value of a setting of this name.
    pub fn value(&self, name: &str, value: &str) -> String {
        if !told::is_key(name) {
            return self.text(value);
        }
        let told = self.text(&format!("{NAMED}{value}"));
        told.strip_prefix(NAMED).map_or_else(|| self.text(value), str::to_owned)
    }

    /// What of a setting's value is not to be published, if anything.
    pub fn found(&self, name: &str, value: &str) -> Option<Found> {
        let masked = self.value(name, value);
        let homes = |text: &str| text.matches(HOME).count();
        let of_user = || if homes(&masked) > homes(value) { Found::Home } else { Found::Name };
        (masked != value).then(|| found(value).unwrap_or_else(of_user))
    }
}

/// What a text holds that is not to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Secret,
    Address,
    Home,
    Name,
}

impl Found {
    /// As a sentence has it that says what is wrong.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Secret => "what looks like a secret",
            Self::Address => "the address of a machine",
            Self::Home => "a home folder",
            Self::Name => "the name of a user or a machine",
        }
    }
}

/// What a text holds that is not to be published whoever the user is.
pub fn found(text: &str) -> Option<Found> {
    if without_logins(text) != text {
        return Some(Found::Secret);
    }
    (without_secrets(text) != text).then_some(Found::Address)
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

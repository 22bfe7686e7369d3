//! A trace is meant to be published: takes secrets and personal names out of text before it is stored.

use std::path::Path;

/// What stands in the place of a secret.
const MASKED: &str = "***";

/// Parts of an option's or variable's name that say that its value is secret.
const SECRET_NAMES: [&str; 9] =
    ["token", "secret", "password", "passwd", "api-key", "api_key", "apikey", "credential", "auth"];
/// How well-known kinds of tokens begin.
const SECRET_VALUES: [&str; 10] =
    ["hf_", "ghp_", "gho_", "github_pat_", "glpat-", "sk-", "xoxb-", "AKIA", "ASIA", "eyJhbGci"];
/// Shorter words are no tokens: `sk-learn` is none.
const SECRET_VALUE_BYTES: usize = 16;

/// The names that this machine's user would not want to publish.
#[derive(Clone, Debug, Default)]
pub struct Mask {
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

    fn new(home: Option<String>, user: Option<String>, host: Option<String>) -> Self {
        // Names that everybody has, and those too short to be told from other words, are left as they are.
        let personal = |name: &String| {
            name.len() > 3 && !matches!(name.as_str(), "root" | "user" | "home" | "ubuntu" | "localhost")
        };
        let user = user.filter(personal).map(|name| (name, "<user>"));
        let host = host.filter(personal).map(|name| (name, "<host>"));
        Self { home: home.filter(|home| home.len() > 1), names: user.into_iter().chain(host).collect() }
    }

    /// A command's words: values of secret options and variables, well-known tokens, home path, user and host name.
    pub fn command(&self, words: &[String]) -> Vec<String> {
        let mut next_is_secret = false;
        let mut masked = Vec::with_capacity(words.len());
        for word in words {
            let hide = std::mem::replace(
                &mut next_is_secret,
                word.starts_with('-') && !word.contains('=') && is_secret_name(word),
            );
            masked.push(if hide { MASKED.to_owned() } else { self.text(word) });
        }
        masked
    }

    /// Free text: a word of a command, a line of output.
    pub fn text(&self, text: &str) -> String {
        let words = text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';'));
        let mut masked: String = words.map(mask_word).collect();
        if let Some(home) = &self.home {
            masked = masked.replace(home.as_str(), "~");
        }
        self.names.iter().fold(masked, |text, (name, instead)| text.replace(name.as_str(), instead))
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn mask_word(word: &str) -> String {
    if let Some((name, value)) = word.split_once(['=', ':'])
        && is_secret_name(name)
        && !value.trim().is_empty()
    {
        let separator = &word[name.len()..=name.len()];
        let end = value.trim_end_matches(|c: char| !c.is_whitespace());
        return format!("{name}{separator}{MASKED}{end}");
    }
    match SECRET_VALUES.iter().find_map(|start| word.find(start)) {
        Some(at) if word[at..].trim().len() >= SECRET_VALUE_BYTES => {
            let secret = word[at..]
                .find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)))
                .map_or("", |end| &word[at + end..]);
            format!("{}{MASKED}{secret}", &word[..at])
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask() -> Mask {
        Mask::new(Some("/home/alice".into()), Some("alice".into()), Some("lab-gpu-7".into()))
    }

    #[test]
    fn values_of_secret_options_are_masked_in_every_spelling() {
        let words: Vec<String> =
            ["train.py", "--hf-token", "abc", "--password=x", "API_KEY=y", "--epochs", "3", "--token"]
                .map(String::from)
                .into();
        let masked = mask().command(&words);
        assert_eq!(
            masked,
            ["train.py", "--hf-token", "***", "--password=***", "API_KEY=***", "--epochs", "3", "--token"]
        );
    }

    #[test]
    fn well_known_tokens_are_masked_wherever_they_stand() {
        let text = mask().text("login hf_abcdefghijklmnopqrst done, url=https://x/?k=ghp_0123456789abcdefXYZ&b=1");
        assert_eq!(text, "login *** done, url=https://x/?k=***&b=1");
        assert_eq!(mask().text("sk-learn and scikit"), "sk-learn and scikit");
    }

    #[test]
    fn home_user_and_host_do_not_reach_the_trace() {
        assert_eq!(mask().text("/home/alice/data on lab-gpu-7 by alice"), "~/data on <host> by <user>");
    }
}

//! Settings: what their keys and values may be, and all combinations of those that take several values in turn.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::record::mask::{self, Found};

/// More cases are a slip of the pen: at a second a run they would take hours for one repeat.
const MOST_CASES: usize = 10_000;

/// A setting with the values that it takes in turn; most take one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    pub key: String,
    pub values: Vec<String>,
    /// Where it was asked for, as errors begin: `--set threads`, `suite.toml:7: sweep.workers`.
    pub origin: String,
}

/// Whether a text is a key: `batch-size`.
pub fn is_key(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(plain) && !text.starts_with('-')
}

/// Checks a key as it was written.
///
/// # Errors
/// It is none; the sentence says how keys look.
pub fn check_key(key: &str) -> Result<(), String> {
    if is_key(key) {
        return Ok(());
    }
    Err(format!("{key:?} is no key; keys are like batch-size: lower-case letters, digits and hyphens"))
}

/// Checks the value of a key as it was written.
///
/// # Errors
/// It cannot be part of a case's name.
pub fn check_value(key: &str, value: &str) -> Result<(), String> {
    if value.is_empty() || value.chars().any(char::is_control) {
        return Err(format!("the value of {key:?} is empty or holds a control character; give it a value of one line"));
    }
    Ok(())
}

/// All combinations, the first axis changing slowest.
///
/// # Errors
/// A key stands twice, a value stands twice or there is none, there are too many combinations, or something is a secret.
pub fn combinations(axes: &[Axis]) -> Result<Vec<BTreeMap<String, String>>> {
    let mut found = vec![BTreeMap::new()];
    for (place, axis) in axes.iter().enumerate() {
        check(axis)?;
        if let Some(other) = axes[..place].iter().find(|other| other.key == axis.key) {
            bail!(
                "{}: the setting {:?} is given twice, here and by {}; leave one out",
                axis.origin,
                axis.key,
                other.origin
            );
        }
        if found.len().saturating_mul(axis.values.len()) > MOST_CASES {
            bail!("{}: this makes more than {MOST_CASES} cases; sweep fewer values", axis.origin);
        }
        let with = |settings: &BTreeMap<String, String>, value: &String| {
            let mut settings = settings.clone();
            settings.insert(axis.key.clone(), value.clone());
            settings
        };
        found = found.iter().flat_map(|settings| axis.values.iter().map(|value| with(settings, value))).collect();
    }
    Ok(found)
}

fn check(axis: &Axis) -> Result<()> {
    let Axis { key, values, origin } = axis;
    refuse_secrets(axis)?;
    if values.is_empty() {
        bail!("{origin}: there is no value to sweep over; give one or more");
    }
    if let Some((_, twice)) = values.iter().enumerate().find(|(place, value)| values[..*place].contains(value)) {
        bail!("{origin}: the value {twice:?} of {key:?} is given twice; name it once and use --repeats");
    }
    Ok(())
}

/// Settings are published and name the case's folder: no place for a secret, which the sentence does not repeat either.
/// What tells of the user or of a machine is looked for once it is known whether that may be told.
fn refuse_secrets(axis: &Axis) -> Result<()> {
    let origin = &axis.origin;
    if mask::is_secret_name(&axis.key) {
        bail!("{origin}: this looks like a secret, and settings are published; hand it on by an environment variable");
    }
    if axis.values.iter().any(|value| mask::found(value) == Some(Found::Secret)) {
        bail!(
            "{origin}: the value looks like a secret, and settings are published; hand it on by an environment variable"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(key: &str, values: &[&str]) -> Axis {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Axis { key: key.to_owned(), values, origin: format!("--set {key}") }
    }

    fn spelled(axes: &[Axis]) -> Vec<String> {
        let cases = combinations(axes).unwrap();
        cases.iter().map(|settings| crate::trace::run::case_name("w", settings)).collect()
    }

    #[test]
    fn every_value_meets_every_other_and_the_first_key_changes_slowest() {
        let axes = [axis("seed", &["1"]), axis("b", &["16", "32"]), axis("a", &["0", "2"])];
        assert_eq!(
            spelled(&axes),
            ["w a=0 b=16 seed=1", "w a=2 b=16 seed=1", "w a=0 b=32 seed=1", "w a=2 b=32 seed=1"]
        );
        assert_eq!(spelled(&[]), ["w"]);
    }

    #[test]
    fn each_thing_that_is_wrong_has_its_own_sentence() {
        let many: Vec<String> = (0..101).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (axes, expected) in [
            (vec![axis("a", &["1"]), axis("a", &["2"])], "\"a\" is given twice, here and by --set a"),
            (vec![axis("a", &["1", "2", "1"])], "the value \"1\" of \"a\" is given twice"),
            (vec![axis("a", &[])], "no value to sweep over"),
            (vec![axis("a", &many), axis("b", &many)], "more than 10000 cases"),
            (vec![axis("hf-token", &["x"])], "--set hf-token: this looks like a secret"),
            (vec![axis("a", &["1", "https://me:pw@host"])], "the value looks like a secret"),
        ] {
            let message = combinations(&axes).unwrap_err().to_string();
            assert!(message.contains(expected), "{message:?} should contain {expected:?}");
            assert!(!message.contains("pw"), "{message}");
        }
    }

    #[test]
    fn settings_that_only_sound_like_secrets_are_taken() {
        for key in ["tokenizer", "max-tokens", "author"] {
            assert!(combinations(&[axis(key, &["2.11.0"])]).is_ok(), "{key}");
        }
    }
}

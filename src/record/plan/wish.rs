//! What a command line or a suite asks for, in one form; each part knows where it was written, for errors.

use std::time::Duration;

use anyhow::{Result, bail};

use super::placeholders::Braces;
use super::settings::Axis;
use crate::record::mask;

/// The host's counters tick every 10 ms: sampling faster shows nothing new.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
const MOST_REPEATS: u32 = 10_000;

/// All that is asked for; what is left out has a default.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    pub environments: Vec<EnvironmentWish>,
    pub cases: Vec<CaseWish>,
    pub repeats: Option<u32>,
    pub interval: Option<Duration>,
}

/// An environment, and what starts a command in it.
#[derive(Clone, Debug)]
pub struct EnvironmentWish {
    pub name: String,
    /// Stands before every command; empty where commands run as they are.
    pub prefix: Vec<Word>,
    pub origin: String,
}

/// A workload with all its combinations of settings.
#[derive(Clone, Debug)]
pub struct CaseWish {
    pub workload: String,
    /// The user's own command; `None` for a shipped workload.
    pub command: Option<Vec<Word>>,
    /// Whether it is left out on devices that cannot be used here, instead of refused.
    pub optional: bool,
    pub axes: Vec<Axis>,
    /// How braces in `command` are read.
    pub braces: Braces,
    pub origin: String,
}

/// A word of a command.
#[derive(Clone, Debug)]
pub struct Word {
    pub text: String,
    pub origin: String,
}

/// Checks an environment's name.
///
/// # Errors
/// It could not be told from nothing, or breaks lines.
pub fn check_environment(origin: &str, name: &str) -> Result<()> {
    if name.trim().is_empty() {
        bail!("{origin} is empty; give the environment a name, such as cuda-v2.8");
    }
    if name.chars().any(char::is_control) {
        bail!("{origin} {name:?} holds a control character; use a name of one line");
    }
    if let Some(found) = mask::found(name) {
        bail!("{origin}: the name holds {}, and names are published; use another", found.in_words());
    }
    Ok(())
}

/// Checks how often runs are to be repeated.
///
/// # Errors
/// Not at all, or without end.
pub fn check_repeats(origin: &str, repeats: u32) -> Result<()> {
    if !(1..=MOST_REPEATS).contains(&repeats) {
        bail!("{origin} {repeats} is out of range; use 1 to {MOST_REPEATS} (5 give a spread worth comparing)");
    }
    Ok(())
}

/// Checks the time between samples.
///
/// # Errors
/// It is out of range.
pub fn check_interval(origin: &str, interval: Duration) -> Result<()> {
    if !(SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&interval) {
        bail!("{origin} {interval:?} is out of range; use {SHORTEST_INTERVAL:?} to {LONGEST_INTERVAL:?}");
    }
    Ok(())
}

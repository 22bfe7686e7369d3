//! `shice check`: is this environment ready to use?

use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::record::cgroup::Cgroups;
use crate::record::checks::facts::{Facts, Request};
use crate::record::checks::judge;
use crate::record::fingerprint::Machine;
use crate::record::probe::gpu::driver::Driver;
use crate::record::run::PROC;
use crate::report::checks;
use crate::report::language::Language;
use crate::trace::check::{Check, CheckState};
use crate::trace::version::SCHEMA_VERSION;

/// Exit code where something is not ready.
const NOT_READY: u8 = 1;

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    schema_version: &'static str,
    shice_version: &'static str,
    /// Whether no check failed.
    ready: bool,
    checks: &'a [Check],
}

/// Looks at this machine, prints what was found, and returns the exit code.
///
/// # Errors
/// The machine's inventory is not available, or standard output cannot be written.
pub fn run(json: bool, languages: &[Language]) -> Result<u8> {
    let cgroups = Cgroups::of_this_process(Path::new(PROC));
    let driver = Driver::open();
    let machine = Machine::inspect(Path::new(PROC), &cgroups, driver.as_ref().ok())?;
    let facts = Facts::gather(Request {
        machine: &machine,
        cgroups: &cgroups,
        driver: &driver,
        is_left_alone: false,
        wants_gpu: false,
        try_kernel: true,
        try_python: true,
    });
    let found = judge(&facts);
    let ready = found.iter().all(|check| check.state != CheckState::Failed);
    let text = if json { in_json(&found, ready)? } else { in_words(&found, languages)? };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(if ready { 0 } else { NOT_READY })
}

fn in_json(found: &[Check], ready: bool) -> Result<String> {
    let answer =
        Answer { schema_version: SCHEMA_VERSION, shice_version: env!("CARGO_PKG_VERSION"), ready, checks: found };
    let text = serde_json::to_string_pretty(&answer).context("cannot put the checks into JSON")?;
    Ok(format!("{text}\n"))
}

fn in_words(found: &[Check], languages: &[Language]) -> Result<String> {
    let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let texts = languages.iter().map(|language| checks::terminal(found, *language, coloured));
    Ok(texts.collect::<Result<Vec<_>>>()?.join("\n"))
}

/// The language that the locale asks for; of the variables the first that is set counts, locale(7).
pub fn language_of_locale() -> Language {
    let set = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].iter().find_map(set);
    Language::of_locale(locale.as_deref().unwrap_or_default())
}

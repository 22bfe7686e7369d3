//! The words of a command line as a wish.

use anyhow::{Result, bail};

use super::Request;
use super::placeholders::Braces;
use super::settings::Axis;
use super::shipped::{self, QUICK};
use super::wish::{CaseWish, Wish, Word, check_interval, check_repeats};

/// What the command line asks for.
///
/// # Errors
/// One clear sentence for the first thing that is wrong.
pub fn wish(request: &Request) -> Result<Wish> {
    let cases = if request.command.is_empty() { shipped_cases(request)? } else { vec![own_case(request)?] };
    Ok(Wish { cases, ..Wish::default() })
}

/// Checks what both the command line and a suite can say, and the command line did.
///
/// # Errors
/// A number is out of range.
pub fn check_numbers(request: &Request) -> Result<()> {
    request.repeats.map_or(Ok(()), |repeats| check_repeats("--repeats", repeats))?;
    request.interval.map_or(Ok(()), |interval| check_interval("--interval", interval))
}

fn own_case(request: &Request) -> Result<CaseWish> {
    let [workload] = request.workloads.as_slice() else {
        bail!("a command of your own needs one name: --workload NAME -- COMMAND…");
    };
    let word = |text: &String| Word { text: text.clone(), origin: "the command".to_owned() };
    Ok(CaseWish {
        workload: workload.clone(),
        optional: false,
        command: Some(request.command.iter().map(word).collect()),
        axes: axes(request),
        braces: Braces::AsTyped,
        origin: "--workload".to_owned(),
    })
}

fn shipped_cases(request: &Request) -> Result<Vec<CaseWish>> {
    if request.workloads.is_empty() {
        bail!(
            "nothing to record; name a workload ({}), your own (--workload NAME -- COMMAND…), or a --suite",
            shipped::names()
        );
    }
    if let Some(unknown) = request.workloads.iter().find(|name| !shipped::is_shipped(name)) {
        bail!(
            "unknown workload {unknown:?}; shipped are {}; for your own use --workload NAME -- COMMAND…",
            shipped::names()
        );
    }
    let case = |workload: &String| CaseWish {
        workload: workload.clone(),
        optional: false,
        command: None,
        axes: axes(request),
        braces: Braces::AsTyped,
        origin: workload.clone(),
    };
    Ok(request.workloads.iter().map(case).collect())
}

/// The device changes slowest, then what is swept, in the order of the command line.
fn axes(request: &Request) -> Vec<Axis> {
    let axis = |option: &str, key: &str, values: Vec<String>| Axis {
        key: key.to_owned(),
        values,
        origin: if option.is_empty() { format!("--{key}") } else { format!("{option} {key}") },
    };
    let device = (!request.devices.is_empty()).then(|| axis("", "device", request.devices.clone()));
    let quick = request.quick.then(|| axis("", QUICK, vec!["true".to_owned()]));
    let settings = request.settings.iter().map(|(key, value)| axis("--set", key, vec![value.clone()]));
    let sweeps = request.sweeps.iter().map(|(key, values)| axis("--sweep", key, values.clone()));
    device.into_iter().chain(settings).chain(sweeps).chain(quick).collect()
}

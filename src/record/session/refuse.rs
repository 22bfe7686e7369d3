//! What a session refuses before anything is started, because of what is recorded already.

use anyhow::{Result, bail};
use serde_json::Value;

use crate::record::container::Launch;
use crate::record::fingerprint::Machine;
use crate::record::mask::{Found, Mask};
use crate::record::plan::{Case, Existing, Plan, Target};
use crate::trace::fingerprint::{differing_keys, image_difference, is_of_container};
use crate::trace::open::{Environment, Run};

/// Checks a plan's part for one environment against the runs that are there.
///
/// # Errors
/// They would not go together; the sentence says what to do.
pub(super) fn check(
    target: &Target,
    existing: Existing,
    before: &Environment,
    machine: &Machine,
    mask: &Mask,
) -> Result<()> {
    match existing {
        Existing::Refuse => {
            refuse_another_command(target, before, mask)?;
            refuse_another_side(target, before.runs.last())?;
            refuse_another_machine(target, before.runs.last(), machine)?;
            refuse_another_image(target, before.runs.last(), mask)?;
            refuse_the_same_case(target, before)
        }
        Existing::Append => refuse_another_command(target, before, mask),
        Existing::Replace => {
            let stays = |run: &&Run| target.cases.iter().all(|case| case.name() != run.record.case());
            let kept = before.runs.iter().rfind(stays);
            refuse_another_side(target, kept)?;
            refuse_another_machine(target, kept, machine)?;
            refuse_another_image(target, kept, mask)
        }
    }
}

/// Settings are published and name the case's folder, so that they cannot be masked.
///
/// # Errors
/// One tells of the user or the machine what the mask would hide.
pub(super) fn names_in_settings(plan: &Plan, mask: &Mask) -> Result<()> {
    for case in plan.targets.iter().flat_map(|target| &target.cases) {
        for (key, value) in &case.settings {
            let Some(found) = mask.found(key, value) else { continue };
            let what = found.in_words();
            let masked = mask.value(key, value);
            let otherwise = match found {
                Found::Secret => bail!(
                    "the value of the setting {key:?} holds {what}, and settings are published as they are; hand it on by \
                     an environment variable"
                ),
                Found::Address => "a name that tells no machine",
                Found::Home => "a relative path",
                Found::Name => "another word",
            };
            bail!(
                "the value of the setting {key:?} holds {what} (masked it would be {masked:?}), and settings are published \
                 as they are; write it otherwise ({otherwise}), hand it on by an environment variable, or allow it with \
                 --keep-identity"
            );
        }
    }
    Ok(())
}

/// Runs of one case are repeats of one command, also with `--append`.
fn refuse_another_command(target: &Target, before: &Environment, mask: &Mask) -> Result<()> {
    for case in &target.cases {
        let command = mask.command(&case.command);
        let other = before.runs.iter().find(|run| run.record.case() == case.name() && run.record.command != command);
        if let Some(run) = other {
            bail!(
                "the case \"{}\" was recorded with another command ({}); use another --workload name, tell the two \
                 apart with --set KEY=VALUE, or record it anew with --replace",
                case.name(),
                run.record.command.join(" ")
            );
        }
    }
    Ok(())
}

/// Without `--append` an environment stays what the runs that it keeps were recorded on.
fn refuse_another_machine(target: &Target, kept: Option<&Run>, machine: &Machine) -> Result<()> {
    let Some(kept) = kept else { return Ok(()) };
    let mut differing = differing_keys(&kept.record.fingerprint, &machine.fingerprint);
    // What is a container's own is not this machine's to differ in, and is known only once it runs.
    let is_followed = target.cases.iter().any(|case| case.container.is_some());
    differing.retain(|key| !(is_followed || kept.record.container.is_some()) || !is_of_container(key));
    if !differing.is_empty() {
        bail!(
            "the environment {:?} was recorded on something else (different: {}); use another --env, or --append to mix them",
            target.environment,
            differing.join(", ")
        );
    }
    Ok(())
}

/// Nor does it move into a container or out of one.
fn refuse_another_side(target: &Target, kept: Option<&Run>) -> Result<()> {
    let Some(kept) = kept else { return Ok(()) };
    let was_inside = kept.record.container.is_some();
    let (before, now) = if was_inside {
        ("in a container that was followed", "without one")
    } else {
        ("without following a container", "with one")
    };
    if target.cases.iter().any(|case| case.container.is_some() != was_inside) {
        bail!(
            "the environment {:?} was recorded {before}, and this is {now}; use another --env, or --append to mix them",
            target.environment
        );
    }
    Ok(())
}

/// Nor does it change its image, as far as the client tells it before the run: images are built anew under their old names.
fn refuse_another_image(target: &Target, kept: Option<&Run>, mask: &Mask) -> Result<()> {
    let Some(kept) = kept.filter(|kept| kept.record.container.is_some()) else { return Ok(()) };
    let mut asked: Vec<&Launch> = Vec::new();
    for launch in target.cases.iter().filter_map(|case| case.container.as_ref()) {
        // The client takes its time, and most cases of an environment have one image.
        if asked.iter().any(|other| other.has_image_of(launch)) {
            continue;
        }
        asked.push(launch);
        let masked = |value: Value| value.as_str().map_or(value.clone(), |text| mask.text(text).into());
        let keys = launch.image_keys().into_iter().map(|(key, value)| (key, masked(value))).collect();
        if let Some((before, now)) = image_difference(&kept.record.fingerprint, &keys) {
            bail!(
                "the environment {:?} was recorded in another image ({before}, now {now}); use another --env, or \
                 --append to mix them",
                target.environment
            );
        }
    }
    Ok(())
}

fn refuse_the_same_case(target: &Target, before: &Environment) -> Result<()> {
    let recorded = |case: &&Case| before.runs.iter().any(|run| run.record.case() == case.name());
    if let Some(case) = target.cases.iter().find(recorded) {
        bail!(
            "the case \"{}\" is already recorded in {}; use --append to add runs, --replace to \
             record it anew, or another --env or --out",
            case.name(),
            before.dir.display()
        );
    }
    Ok(())
}

//! Containers of a plan's commands: those that they start, and one that runs already (`--container`).

use std::time::Duration;

use anyhow::{Result, bail};

use super::{Case, Plan, Request};
use crate::record::container::Launch;

/// A container that runs already, as asked for.
pub(super) struct Attach {
    given: String,
    /// Whether it is only watched, and how long at most.
    watch: Option<Option<Duration>>,
}

/// What is asked for with `--container`; the request is then for one run, of a stand-in command where there is none.
///
/// # Errors
/// The request wants several runs of what can be recorded once.
pub(super) fn wanted(request: &mut Request) -> Result<Option<Attach>> {
    let Some(given) = request.container.take() else { return Ok(None) };
    if request.repeats.is_some() {
        bail!("--repeats: a container that runs already is recorded once; leave --repeats out");
    }
    if !request.sweeps.is_empty() {
        bail!("--sweep: a container that runs already is recorded once; leave --sweep out");
    }
    if request.devices.len() > 1 {
        bail!("--device: a container that runs already is recorded once; name one device, or leave --device out");
    }
    request.repeats = Some(1);
    let watch = request.command.is_empty().then_some(request.duration);
    if watch.is_some() {
        // Stands for the command until the container is known.
        request.command = vec!["true".to_owned()];
    }
    Ok(Some(Attach { given, watch }))
}

/// Gives each case the container that its command works in.
///
/// # Errors
/// A container cannot be found or followed; nothing has been written or started yet.
pub(super) fn containers(plan: &mut Plan, attach: Option<Attach>) -> Result<()> {
    let Some(attach) = attach else {
        for case in plan.targets.iter_mut().flat_map(|target| &mut target.cases) {
            case.container = Launch::of(&case.command)?;
        }
        return Ok(());
    };
    plan.targets.iter_mut().flat_map(|target| &mut target.cases).try_for_each(|case| attach.to(case))
}

impl Attach {
    fn to(&self, case: &mut Case) -> Result<()> {
        case.container = Some(match self.watch {
            None => Launch::attach(&self.given, &case.command, None)?,
            Some(duration) => {
                case.command = vec!["--container".to_owned(), self.given.clone()];
                if let Some(duration) = duration {
                    case.command.extend(["--duration".to_owned(), humantime::format_duration(duration).to_string()]);
                }
                Launch::attach(&self.given, &[], duration)?
            }
        });
        Ok(())
    }
}

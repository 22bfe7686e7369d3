//! What decides whether a plan can be carried out: this machine, and what is recorded already.

use std::path::Path;

use anyhow::Result;

use super::estimate::Durations;
use super::folder::whole;
use super::refuse;
use crate::record::cgroup::Cgroups;
use crate::record::fingerprint::Machine;
use crate::record::mask::Mask;
use crate::record::plan::Plan;
use crate::record::probe::gpu::Gpus;
use crate::record::run::PROC;
use crate::trace::layout::environment_dir;
use crate::trace::open::{Environment, look_into_environment};

/// The machine, looked at once for a whole session.
pub(super) struct Ground {
    pub(super) cgroups: Cgroups,
    pub(super) gpus: Gpus,
    pub(super) machine: Machine,
    pub(super) mask: Mask,
}

impl Ground {
    /// # Errors
    /// The machine's inventory cannot be taken, there is no such GPU, or a setting tells who the user is.
    pub(super) fn look(plan: &Plan) -> Result<Self> {
        let cgroups = Cgroups::of_this_process(Path::new(PROC));
        let gpus = Gpus::open(&plan.gpus).map_err(anyhow::Error::msg)?;
        let machine = Machine::inspect(Path::new(PROC), &cgroups, gpus.driver())?;
        let mask = if plan.keep_identity { Mask::of_secrets() } else { Mask::of_this_user() };
        refuse::names_in_settings(plan, &mask)?;
        Ok(Self { cgroups, gpus, machine, mask })
    }

    /// Checks one of a plan's environments against the runs that it has, and learns from them.
    ///
    /// # Errors
    /// They would not go together; the sentence says what to do.
    pub(super) fn check(
        &self,
        plan: &Plan,
        target: usize,
        before: &Environment,
        durations: &mut Durations,
    ) -> Result<()> {
        refuse::check(&plan.targets[target], plan.existing, before, &self.machine, &self.mask)?;
        durations.learn(plan, target, before);
        Ok(())
    }
}

/// What a session would do.
#[derive(Clone, Debug)]
pub struct Preview {
    pub durations: Durations,
    /// The commands as the trace would hold them, by environment and case.
    pub commands: Vec<Vec<Vec<String>>>,
}

/// Checks a plan as a session would, without making, starting or holding anything.
///
/// # Errors
/// As [`super::record`], as far as that can be known before.
pub fn preview(plan: &Plan) -> Result<Preview> {
    let ground = Ground::look(plan)?;
    let mut durations = Durations::default();
    for (place, target) in plan.targets.iter().enumerate() {
        let folder = environment_dir(&plan.out, &target.environment);
        let before = if folder.is_dir() { whole(&folder, look_into_environment(&folder)?)? } else { None };
        before.map_or(Ok(()), |before| ground.check(plan, place, &before, &mut durations))?;
    }
    let commands = |target: &crate::record::plan::Target| {
        target.cases.iter().map(|case| ground.mask.command(&case.command)).collect()
    };
    Ok(Preview { durations, commands: plan.targets.iter().map(commands).collect() })
}

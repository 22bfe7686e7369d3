//! What CUDA calls the GPUs in the command: as its processes were started.

use super::inventory::Inventory;
use super::visible;
use crate::trace::run::GpuRef;

/// The variables by which CUDA chooses and orders GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Variables {
    pub(super) visible: Option<String>,
    pub(super) order: Option<String>,
}

impl Variables {
    /// Those that a command inherits.
    pub(super) fn inherited() -> Self {
        let variable = |name| std::env::var(name).ok();
        Self { visible: variable(VISIBLE), order: variable(ORDER) }
    }

    /// Those with which a process was started, of `/proc/PID/environ`. Nothing else of it is looked at.
    fn of(environ: &[u8]) -> Self {
        let variable = |name: &str| {
            let lines = environ.split(|byte| *byte == 0);
            let value = lines.filter_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b"=")).next()?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        Self { visible: variable(VISIBLE), order: variable(ORDER) }
    }
}

const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
const ORDER: &str = "CUDA_DEVICE_ORDER";

/// What is known of CUDA's numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Mapping {
    gpus: Vec<Inventory>,
    /// With which the last process on a GPU was started.
    seen: Option<Variables>,
    /// What CUDA calls device 0, 1, …; `None` where that is not known.
    pub(super) cuda: Option<Vec<GpuRef>>,
}

impl Mapping {
    /// At first the command is taken to keep what it inherits.
    pub(super) fn new(gpus: &[Inventory], cuda: Option<Vec<GpuRef>>) -> Self {
        Self { gpus: gpus.to_vec(), seen: None, cuda }
    }

    /// Takes the environment of a process that uses a GPU. Processes that see GPUs differently, such as the ranks of a
    /// distributed run, have no numbers in common.
    pub(super) fn learn(&mut self, environ: &[u8]) {
        let variables = Variables::of(environ);
        match &self.seen {
            None => self.cuda = select(&self.gpus, &variables).cuda,
            Some(seen) if *seen != variables => self.cuda = None,
            Some(_) => {}
        }
        self.seen = Some(variables);
    }
}

pub(super) fn select(gpus: &[Inventory], variables: &Variables) -> visible::Selection {
    visible::select(gpus, variables.visible.as_deref(), variables.order.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::probe::gpu::choice::whole;

    #[test]
    fn the_processes_that_use_gpus_tell_how_they_see_them() {
        let gpus = [Inventory::default(), Inventory::default()];
        let mut mapping = Mapping::new(&gpus, Some(vec![whole(0), whole(1)]));
        mapping.learn(b"HOME=/x\0CUDA_VISIBLE_DEVICES=1,0\0XCUDA_VISIBLE_DEVICES=0");
        assert_eq!(mapping.cuda, Some(vec![whole(1), whole(0)]));
        mapping.learn(b"CUDA_VISIBLE_DEVICES=1,0");
        assert_eq!(mapping.cuda, Some(vec![whole(1), whole(0)]));
        mapping.learn(b"CUDA_VISIBLE_DEVICES=0\0");
        assert_eq!(mapping.cuda, None);
    }
}

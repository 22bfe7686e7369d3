//! The GPUs of a recording session: the driver is opened once, because that can take seconds.

use std::path::Path;

use super::asleep;
use super::choice::{self, GpuChoice};
use super::driver::Driver;
use super::mapping::{self, Variables};
use crate::trace::run::{Coverage, CoverageState, GpuRef};

/// The driver, and which of its GPUs are to be recorded.
#[derive(Clone, Debug)]
pub struct Gpus {
    choice: GpuChoice,
    opened: Opened,
}

/// What came of opening the driver.
#[derive(Clone, Debug)]
pub(super) enum Opened {
    Driver(Driver),
    /// Why there is nothing to record.
    Absent(String),
    /// All GPUs sleep, and nobody has asked to wake them.
    Asleep,
}

/// What is recorded in a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Selected {
    pub(super) gpus: Vec<GpuRef>,
    pub(super) cuda: Option<Vec<GpuRef>>,
    /// What the ledger says of the choice.
    pub(super) remarks: Vec<Coverage>,
}

impl Gpus {
    /// Opens the driver, unless nobody wants it or that would wake a GPU.
    ///
    /// # Errors
    /// The user has named a GPU that is not there; the sentence says which there are.
    pub fn open(choice: &GpuChoice) -> Result<Self, String> {
        let gpus = Self { choice: choice.clone(), opened: Opened::of(choice, Path::new(asleep::DEVICES)) };
        if let GpuChoice::Listed(words) = choice {
            match &gpus.opened {
                Opened::Driver(driver) => drop(choice::find(&driver.gpus, words)?),
                Opened::Absent(reason) => return Err(format!("--gpu: no GPU can be recorded here: {reason}")),
                Opened::Asleep => {}
            }
        }
        Ok(gpus)
    }

    /// The driver, where it is open.
    pub fn driver(&self) -> Option<&Driver> {
        match &self.opened {
            Opened::Driver(driver) => Some(driver),
            Opened::Absent(_) | Opened::Asleep => None,
        }
    }

    /// The driver, or why it is not open.
    ///
    /// # Errors
    /// The reason, in one sentence.
    pub fn driver_or_reason(&self) -> Result<Driver, String> {
        match &self.opened {
            Opened::Driver(driver) => Ok(driver.clone()),
            Opened::Absent(reason) => Err(reason.clone()),
            Opened::Asleep => Err(asleep::REASON.to_owned()),
        }
    }

    /// Whether the driver is not open because nobody wants it, rather than because it cannot be opened.
    pub fn are_left_alone(&self) -> bool {
        self.choice == GpuChoice::Off || matches!(self.opened, Opened::Asleep)
    }

    pub(super) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Whether GPUs may be woken: only those that the user has named.
    pub(super) fn wakes(&self) -> bool {
        matches!(self.choice, GpuChoice::Listed(_))
    }

    /// What is to be recorded. The command inherits this process's environment, so it sees what that says.
    pub(super) fn select(&self, driver: &Driver) -> Selected {
        let seen = mapping::select(&driver.gpus, &Variables::inherited());
        if let GpuChoice::Listed(words) = &self.choice {
            // They were found when the session began.
            let gpus = choice::find(&driver.gpus, words).unwrap_or_default();
            let remarks = hidden(driver, &gpus, "--gpu").into_iter().collect();
            return Selected { gpus, cuda: seen.cuda, remarks };
        }
        let remark = if seen.gpus.is_empty() {
            Some(super::ledger::absent("CUDA_VISIBLE_DEVICES hides every GPU from the command"))
        } else if seen.doubt.is_empty() {
            hidden(driver, &seen.gpus, "CUDA_VISIBLE_DEVICES")
        } else {
            Some(remark("CUDA_VISIBLE_DEVICES", seen.doubt.to_owned()))
        };
        Selected { gpus: seen.gpus, cuda: seen.cuda, remarks: remark.into_iter().collect() }
    }
}

impl Opened {
    fn of(choice: &GpuChoice, devices: &Path) -> Self {
        match choice {
            GpuChoice::Off => Self::Absent("not looked at: --no-gpu".to_owned()),
            GpuChoice::Visible if asleep::all_asleep(devices) => Self::Asleep,
            GpuChoice::Visible | GpuChoice::Listed(_) => match Driver::open() {
                Ok(driver) => Self::Driver(driver),
                Err(reason) => Self::Absent(reason),
            },
        }
    }
}

/// That there are more GPUs than are recorded.
fn hidden(driver: &Driver, recorded: &[GpuRef], by: &str) -> Option<Coverage> {
    let is_recorded = |index: usize| recorded.iter().any(|gpu| gpu.gpu as usize == index);
    let left: Vec<String> =
        (0..driver.gpus.len()).filter(|index| !is_recorded(*index)).map(|i| i.to_string()).collect();
    (!left.is_empty()).then(|| remark(by, format!("left out by {by}: GPU {}", left.join(", "))))
}

fn remark(source: &str, reason: String) -> Coverage {
    Coverage { metric: "gpu.gpu".to_owned(), state: CoverageState::Measured, source: source.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeping_gpu_is_not_woken_unless_it_is_named_and_nothing_is_opened_that_nobody_wants() {
        let laptop = asleep::tests::devices(&[("0000:01:00.0", "0x10de", "0x030000", Some("suspended"))]);
        let opened = |choice: GpuChoice| Opened::of(&choice, laptop.path());
        assert!(matches!(opened(GpuChoice::Visible), Opened::Asleep));
        assert!(matches!(opened(GpuChoice::Off), Opened::Absent(reason) if reason.contains("--no-gpu")));
        assert!(!matches!(opened(GpuChoice::Listed(vec!["0".to_owned()])), Opened::Asleep));
        let gpus = Gpus { choice: GpuChoice::Visible, opened: Opened::Asleep };
        assert!(gpus.are_left_alone() && gpus.driver().is_none() && !gpus.wakes());
        assert!(gpus.driver_or_reason().unwrap_err().contains("asleep"));
    }
}

//! Where rows of the table `step` come from.

/// Who told of a step. A workload that tells of its steps itself is always preferred; the others are read from what it
/// printed, and in the order in which they stand here the first one with enough numbers is used for a run's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepSource {
    /// The workload itself, through the file that `SHICE_STEPS` names.
    ShiceSteps,
    /// Lines that the user's own pattern fits.
    Pattern,
    /// The line of DeepSpeed's throughput timer.
    Deepspeed,
    /// Progress bars as PyTorch Lightning writes them.
    Lightning,
    /// Other progress bars of tqdm; those of the Hugging Face Trainer too.
    Tqdm,
    /// Lines such as `Epoch 1/10` and `Epoch [1/10], Step [100/600]`.
    Epoch,
    /// The dictionaries that the Hugging Face Trainer prints: loss and rates, no number of the step.
    Trainer,
}

impl StepSource {
    /// In the order of preference.
    pub const ALL: [Self; 7] =
        [Self::ShiceSteps, Self::Pattern, Self::Deepspeed, Self::Lightning, Self::Tqdm, Self::Epoch, Self::Trainer];

    /// The word in the column `source`.
    pub fn word(self) -> &'static str {
        match self {
            Self::ShiceSteps => "shice_steps",
            Self::Pattern => "pattern",
            Self::Deepspeed => "deepspeed",
            Self::Lightning => "lightning",
            Self::Tqdm => "tqdm",
            Self::Epoch => "epoch",
            Self::Trainer => "trainer",
        }
    }
}

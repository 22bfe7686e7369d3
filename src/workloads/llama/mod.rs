//! The workload `llama2-finetune`: Llama-2's architecture in mixed precision, with the optimizer offloaded or not.
//!
//! ```text
//! config ─ model (attention) ─┬─ learner ── optimizer
//! weights ────────────────────┘       text ── loader
//! ```

mod attention;
pub(crate) mod config;
mod learner;
mod mapped;
pub(crate) mod memory;
mod model;
#[cfg(test)]
mod reference;
mod text;
mod tokenizer;
mod weights;

use std::path::Path;

use anyhow::{Context, Result, bail};
use tch::{Device, Kind};

use crate::cli::{LlamaOptions, TrainingOptions};
use crate::data::Source as _;
use crate::data::loader::Loader;
use crate::llama::config::{Config, Size};
use crate::llama::learner::{FineTuning, LARGEST_NORM};
use crate::llama::memory::{Estimate, Training};
use crate::llama::model::Model;
use crate::llama::text::Sequences;
use crate::optimizer::Optimizer;
use crate::optimizer::adamw::AdamW;
use crate::optimizer::partition::Rank;
use crate::steps::Steps;
use crate::training::plan::{Defaults, Manner, Plan};
use crate::training::precision::Precision;
use crate::training::{self, loss_scale::LossScale};

/// Sequences that a step is made of, however few a micro-batch has.
const STEP: u32 = 16;
const STEPS: u64 = 10;
const QUICK_STEPS: u64 = 5;
const LENGTH: u16 = 512;
const QUICK_LENGTH: u16 = 128;
/// What tells files of tokens from text.
const TOKENS: &str = "bin";

/// What the options became, before a device is looked for.
struct Setup {
    size: Size,
    config: Config,
    length: usize,
    plan: Plan,
}

impl Setup {
    /// # Errors
    /// A step would have more sequences than can be counted.
    fn new(options: &LlamaOptions) -> Result<Self> {
        let quick = options.training.quick;
        let size = options.model.unwrap_or(if quick { Size::Tiny } else { Size::SevenBillion });
        let config = Config::of(size);
        let length = usize::from(options.sequence_length.unwrap_or(if quick { QUICK_LENGTH } else { LENGTH }));
        let batch_size = options.training.batch_size.unwrap_or(if size == Size::Tiny { 4 } else { 1 });
        let accumulate = options.training.accumulate.unwrap_or((STEP / batch_size).max(1));
        let steps = if quick { QUICK_STEPS } else { STEPS };
        // A text may be long: the number of steps ends the training, unless something else is asked for.
        let ends = options.training.steps.is_some() || options.training.epochs.is_some();
        let training = TrainingOptions {
            steps: if ends { options.training.steps } else { Some(steps) },
            ..options.training.clone()
        };
        let defaults = Defaults { batch_size, epochs: 1, workers: 0, accumulate };
        // How many samples there are is known when a text has been read.
        let plan = Plan::new(&training, defaults, u32::MAX)?;
        Ok(Self { size, config, length, plan })
    }

    /// What is trained on.
    ///
    /// # Errors
    /// The text cannot be used, or a step would need more than there is of it.
    fn sequences(&self, options: &LlamaOptions) -> Result<Sequences> {
        let Self { config, length, plan, .. } = self;
        let sequences = match &options.text {
            Some(path) => read(path, options.tokenizer.as_deref(), config, *length)?,
            None => {
                // As many as the steps would take if none was to come twice.
                let steps = if options.training.quick { QUICK_STEPS } else { STEPS };
                let count = (u64::from(plan.batch_size) * u64::from(plan.accumulate)).saturating_mul(steps);
                let count = u32::try_from(count)
                    .context("a step has too many sequences; give a smaller --batch-size or --accumulate")?;
                Sequences::drawn(config.vocabulary, *length, count, plan.seed)?
            }
        };
        plan.refuse_too_large(sequences.count())?;
        Ok(sequences)
    }
}

/// Trains as asked.
///
/// # Errors
/// The device, the text or the weights cannot be used, a step would be larger than the data, there is not enough
/// memory, `SHICE_STEPS` cannot be written, or libtorch failed.
pub(crate) fn run(options: &LlamaOptions, steps: &Steps) -> Result<()> {
    let setup = Setup::new(options)?;
    let Setup { size, config, length, plan } = setup;

    steps.phase("setup")?;
    let device = plan.start(&options.training)?;
    let kind = kind(plan.precision, device);
    let offload = options.offload.unwrap_or(device.is_cuda());
    let places = u64::from(plan.batch_size) * length as u64;
    // Files first: their errors are told at once. A text is last: it may take a while.
    let folder = options.weights.as_deref().map(|path| weights::Folder::open(path, &config)).transpose()?;
    let training = Training { config, kind, places, offload, device };
    training.check(0)?;
    let sequences = setup.sequences(options)?;
    let estimate = training.check(sequences.held_bytes)?;
    tell(steps, &plan, device, kind, offload)?;
    steps.setting("offload", offload)?;
    tell_model(steps, size, length, options, &estimate)?;

    let positions = i64::try_from(length)?;
    let model = match folder {
        Some(mut folder) => Model::new(config, positions, kind, device, &mut folder),
        None => Model::new(config, positions, kind, device, &mut weights::Random),
    };
    let learner = learner(model.context("cannot set up the model")?, kind, offload)?;
    let loader = Loader::new(sequences, plan.shape(device));
    training::run(learner, &loader, &plan, device, steps)
}

/// A file of tokens, told by its name, or of text.
fn read(path: &Path, tokenizer: Option<&Path>, config: &Config, length: usize) -> Result<Sequences> {
    let has_tokens = path.extension().is_some_and(|extension| extension == TOKENS);
    match tokenizer {
        None if has_tokens => Sequences::of_token_file(path, config.vocabulary, length),
        Some(tokenizer) if !has_tokens => Sequences::of_text_file(path, tokenizer, config.vocabulary, length),
        Some(_) => bail!("{} holds tokens already; leave out --tokenizer", path.display()),
        None => bail!(
            "{} is no file of tokens (.{TOKENS}); give the --tokenizer for its text, Llama-2's tokenizer.json",
            path.display()
        ),
    }
}

/// Of weights and gradients. By default what the articles trained in: float16 on a GPU, which a CPU does not train in.
fn kind(precision: Precision, device: Device) -> Kind {
    match precision {
        Precision::Bf16 => Kind::BFloat16,
        Precision::Fp16 => Kind::Half,
        Precision::Default if device.is_cuda() => Kind::Half,
        Precision::Default | Precision::Fp32 | Precision::Tf32 => Kind::Float,
    }
}

fn learner(model: Model, kind: Kind, offload: bool) -> Result<FineTuning> {
    let parameters = model.parameters();
    let optimizer = if offload {
        Optimizer::offloaded(AdamW::default(), &parameters, Rank::ALONE)
    } else {
        Optimizer::resident(AdamW::default(), &parameters)
    };
    Ok(FineTuning { optimizer: optimizer?, model, scale: (kind == Kind::Half).then(LossScale::new) })
}

fn tell(steps: &Steps, plan: &Plan, device: Device, kind: Kind, offload: bool) -> Result<()> {
    let precision = match kind {
        Kind::Half => "weights and gradients in float16, dynamic loss scaling, optimizer in float32",
        Kind::BFloat16 => "weights and gradients in bfloat16, optimizer in float32",
        _ => plan.precision.effective(device),
    };
    // Offloaded, a step ends when all weights are back on the device.
    plan.tell(steps, device, Manner { precision, waits: offload })
}

fn tell_model(steps: &Steps, size: Size, length: usize, options: &LlamaOptions, estimate: &Estimate) -> Result<()> {
    let AdamW { learning_rate, betas: [first, second], epsilon, weight_decay } = AdamW::default();
    steps.setting("model", size)?;
    steps.setting("parameters", Config::of(size).count())?;
    steps.setting("sequence_length", length)?;
    steps.setting("weights", if options.weights.is_some() { "read" } else { "random" })?;
    steps.setting("data", if options.text.is_some() { "read" } else { "synthetic" })?;
    steps.setting("optimizer", format!("AdamW, learning rate {learning_rate}, betas {first} and {second}, epsilon {epsilon:e}, weight decay {weight_decay}"))?;
    steps.setting("gradient_clipping", LARGEST_NORM)?;
    steps.setting("estimated_host_bytes", estimate.host.total())?;
    steps.setting("estimated_gpu_bytes", estimate.gpu.total())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn options(words: &[&str]) -> LlamaOptions {
        let words = ["shice-workloads", "llama2-finetune"].iter().chain(words);
        match Cli::try_parse_from(words).unwrap().command {
            Command::Llama2Finetune(options) => options,
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn a_step_has_sixteen_sequences_whatever_a_micro_batch_has() {
        for (words, size, batch_size, accumulate, steps) in [
            (&[][..], Size::SevenBillion, 1, 16, Some(10)),
            (&["--quick"], Size::Tiny, 4, 4, Some(5)),
            (&["--model", "1b", "--batch-size", "2", "--quick"], Size::Billion, 2, 8, Some(5)),
            (&["--batch-size", "32", "--accumulate", "3", "--steps", "7"], Size::SevenBillion, 32, 3, Some(7)),
            (&["--batch-size", "32", "--epochs", "2"], Size::SevenBillion, 32, 1, None),
        ] {
            let Setup { size: became, plan, .. } = Setup::new(&options(words)).unwrap();
            assert_eq!((became, plan.batch_size, plan.accumulate, plan.steps), (size, batch_size, accumulate, steps));
        }
    }

    #[test]
    fn a_step_of_more_sequences_than_can_be_counted_is_refused() {
        let largest = u32::MAX.to_string();
        for accumulate in ["1", &largest] {
            let options = options(&["--batch-size", &largest, "--accumulate", accumulate]);
            let error = Setup::new(&options).and_then(|setup| setup.sequences(&options)).err().unwrap();
            let message = error.to_string();
            assert!(message.contains("step") && message.contains("--accumulate"), "{message}");
        }
    }

    #[test]
    fn a_text_needs_a_tokenizer_and_a_file_of_tokens_none() {
        for (words, told) in [
            (&["--text", "novel.txt"][..], "novel.txt is no file of tokens"),
            (&["--text", "novel.bin", "--tokenizer", "t.json"], "novel.bin holds tokens already"),
            (&["--text", "novel.txt", "--tokenizer", "/nowhere/t.json"], "/nowhere/t.json"),
        ] {
            let options = options(words);
            let message = Setup::new(&options).unwrap().sequences(&options).err().unwrap().to_string();
            assert!(message.contains(told), "{message}");
        }
    }

    #[test]
    fn float16_is_the_default_of_a_gpu_only() {
        assert_eq!(kind(Precision::Default, Device::Cuda(0)), Kind::Half);
        assert_eq!(kind(Precision::Default, Device::Cpu), Kind::Float);
        assert_eq!(kind(Precision::Fp32, Device::Cuda(0)), Kind::Float);
        assert_eq!(kind(Precision::Bf16, Device::Cpu), Kind::BFloat16);
    }
}

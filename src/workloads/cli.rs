//! The command line of `shice-workloads`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::device::Choice;
use crate::llama::config::Size;
use crate::training::precision::Precision;

/// Workloads to record: training loops, and a process that only holds libtorch.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the devices that can be used, as a JSON list; each was tried.
    Devices,
    /// Run a kernel on each GPU and print what came of it, as JSON.
    Cuda,
    /// Load libtorch (on a GPU its context and cuDNN too), then wait.
    Idle(IdleOptions),
    /// Train a small convolutional network on 10 000 random 128×128 images, 512 with --quick.
    ///
    /// In batches of 64, each a step, for 5 epochs; no workers.
    SmallCnn(SmallCnnOptions),
    /// Train torchvision's ResNet-50 on the 50 000 images of CIFAR-10, 512 with --quick.
    ///
    /// In batches of 32, each a step, for 5 epochs, with 4 workers; cut anew out of a border of 4, mirrored by chance.
    #[command(name = "resnet50-cifar10")]
    Resnet50Cifar10(Resnet50Cifar10Options),
    /// Fine-tune Llama-2 7B on sequences of 512 tokens; with --quick its tiny form on 128.
    ///
    /// Steps of 16 sequences, 10 of them, or 5 with --quick: micro-batches of 1 (4 of the tiny form) whose gradients are
    /// accumulated; no workers. On a GPU weights and gradients are float16 by default, with dynamic loss scaling, on
    /// the CPU float32. AdamW, its states in float32; gradients are clipped at a norm of 1.
    #[command(name = "llama2-finetune")]
    Llama2Finetune(LlamaOptions),
}

#[derive(Debug, Args)]
pub(crate) struct IdleOptions {
    /// `cpu`, `cuda:N`, or `auto`: the first GPU that works, else the CPU.
    #[arg(long, default_value = "auto")]
    pub(crate) device: Choice,
    /// How long to wait. [default: 10, or 5 with --quick]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: Option<u32>,
    /// Wait for less time.
    #[arg(long)]
    pub(crate) quick: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SmallCnnOptions {
    #[command(flatten)]
    pub(crate) training: TrainingOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Resnet50Cifar10Options {
    #[command(flatten)]
    pub(crate) training: TrainingOptions,
    /// Folder of CIFAR-10's binary version, cifar-10-batches-bin. [default: random images of the same shape and number]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LlamaOptions {
    #[command(flatten)]
    pub(crate) training: TrainingOptions,
    /// Size of the model. [default: 7b, or tiny with --quick]
    #[arg(long, value_enum)]
    pub(crate) model: Option<Size>,
    /// Tokens of a sequence. [default: 512, or 128 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) sequence_length: Option<u16>,
    /// Whether the optimizer works in main memory, on the CPU (ZeRO stage 1). [default: true on a GPU, else false]
    #[arg(long, value_name = "true|false")]
    pub(crate) offload: Option<bool>,
    /// Folder of weights in safetensors, named as by Hugging Face. [default: weights drawn at random]
    #[arg(long, value_name = "DIR")]
    pub(crate) weights: Option<PathBuf>,
    /// File to train on: text, with --tokenizer, or tokens of two bytes each, the lower one first (.bin).
    /// [default: tokens drawn at random]
    #[arg(long, value_name = "FILE")]
    pub(crate) text: Option<PathBuf>,
    /// Llama-2's tokenizer.json, for a --text that is no file of tokens.
    #[arg(long, value_name = "FILE", requires = "text")]
    pub(crate) tokenizer: Option<PathBuf>,
}

/// What all training loops have.
#[derive(Clone, Debug, Args)]
pub(crate) struct TrainingOptions {
    /// `cpu`, `cuda:N`, or `auto`: the first GPU that works, else the CPU.
    #[arg(long, default_value = "auto")]
    pub(crate) device: Choice,
    /// Samples in a batch; the last one of an epoch may be smaller. [default: see above]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: Option<u32>,
    /// Passes over the data. [default: see above, or 1 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) epochs: Option<u32>,
    /// Stop after N optimiser steps; without --epochs the data is passed over as often as that takes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) steps: Option<u64>,
    /// Threads that make batches ahead, two each; with 0 the training thread makes them itself. [default: see above]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=1024))]
    pub(crate) workers: Option<u16>,
    /// Threads that libtorch computes with. [default: libtorch's own choice]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Numbers to compute with.
    #[arg(long, value_enum, default_value_t = Precision::Default)]
    pub(crate) precision: Precision,
    /// Batches whose gradients are added up to one optimiser step. [default: see above]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) accumulate: Option<u32>,
    /// Seed of data, weights and shuffling.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u32,
    /// Train on less data; the network stays the same.
    #[arg(long)]
    pub(crate) quick: bool,
}

impl Command {
    /// The options of a training loop.
    pub(crate) fn training(&self) -> Option<&TrainingOptions> {
        match self {
            Self::SmallCnn(options) => Some(&options.training),
            Self::Resnet50Cifar10(options) => Some(&options.training),
            Self::Llama2Finetune(options) => Some(&options.training),
            Self::Devices | Self::Cuda | Self::Idle(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_recorder_knows_each_workload_with_its_settings() {
        let defined = Cli::command();
        // The other subcommands answer questions.
        let runs = |command: &&clap::Command| command.get_arguments().any(|option| option.get_long() == Some("device"));
        let workloads = defined.get_subcommands().filter(runs);
        let settings = |command: &clap::Command| {
            let options =
                command.get_arguments().filter_map(|argument| argument.get_long()).filter(|name| *name != "help");
            options.map(str::to_owned).collect::<Vec<_>>()
        };
        let defined: Vec<_> = workloads.map(|command| (command.get_name().to_owned(), settings(command))).collect();
        let known = shice::record::plan::shipped::SHIPPED;
        let known =
            known.map(|(name, settings)| (name.to_owned(), settings.iter().map(|key| (*key).to_owned()).collect()));
        assert_eq!(defined, known);
    }

    #[test]
    fn nothing_may_be_zero_and_no_device_unknown() {
        for arguments in [
            ["small-cnn", "--epochs", "0"],
            ["small-cnn", "--batch-size", "0"],
            ["small-cnn", "--threads", "0"],
            ["small-cnn", "--steps", "0"],
            ["small-cnn", "--steps", "-1"],
            ["small-cnn", "--accumulate", "0"],
            ["small-cnn", "--workers", "-1"],
            ["small-cnn", "--precision", "fp8"],
            ["small-cnn", "--device", "tpu"],
            ["llama2-finetune", "--sequence-length", "0"],
            ["llama2-finetune", "--model", "13b"],
            ["llama2-finetune", "--offload", "maybe"],
            ["idle", "--seconds", "0"],
            ["idle", "--device", "cuda:"],
        ] {
            let parsed = Cli::try_parse_from(std::iter::once("shice-workloads").chain(arguments));
            assert_eq!(parsed.unwrap_err().exit_code(), 2, "{arguments:?}");
        }
    }
}

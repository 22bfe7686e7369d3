//! The training loops themselves, with libtorch, under the recorder.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]
#![cfg(feature = "torch")]

mod common;

use std::process::{Command, Output};

use common::{Bench, column, text};
use shice::trace::tables::Step;

fn workload(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shice-workloads"))
        .arg("llama2-finetune")
        .args(words)
        .env("CUDA_VISIBLE_DEVICES", "")
        .output()
        .unwrap()
}

#[test]
fn a_language_model_trains_under_the_recorder_with_the_optimizer_offloaded() {
    let bench = Bench::new();
    let sweeps = ["steps=2", "sequence-length=16", "offload=true", "precision=bf16", "accumulate=2"];
    let mut words = vec!["record", "--env", "e", "--repeats", "1", "--quick", "--device", "cpu"];
    words.extend(sweeps.iter().flat_map(|sweep| ["--sweep", sweep]));
    words.push("llama2-finetune");
    let output = bench.shice(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run = bench.only_run();
    assert_eq!(column::<Step>(&run, "samples"), [8.0, 8.0]);
    let became = &run.record.effective;
    for (name, value) in [
        ("model", "tiny"),
        ("sequence_length", "16"),
        ("data", "synthetic"),
        ("offload", "true"),
        ("weights", "random"),
    ] {
        assert_eq!(became.get(name).map(String::as_str), Some(value), "{became:?}");
    }
}

#[test]
fn what_a_language_model_cannot_be_trained_with_is_told_in_one_line_before_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.bin");
    std::fs::write(&tokens, [0xff; 200]).unwrap();
    let weights = folder.path().to_str().unwrap();
    for (words, code, told) in [
        (["--text", tokens.to_str().unwrap()], 2, "token 0 is 65535"),
        (["--text", "/nowhere/tokens.bin"], 2, "/nowhere/tokens.bin"),
        (["--weights", weights], 2, "has neither model.safetensors.index.json nor model.safetensors"),
        // More than any machine has: an outcome like any other lack of memory.
        (["--batch-size", "100000000"], 12, "GB of memory in the host (weights 0.1 GB + "),
        (["--device", "cuda:99"], 2, "cuda:99"),
    ] {
        let output = workload(&[&["--quick"][..], &words].concat());
        let message = text(&output.stderr);
        assert_eq!((output.status.code(), message.lines().count()), (Some(code), 1), "{message}");
        assert!(message.contains(told), "{message}");
    }
}

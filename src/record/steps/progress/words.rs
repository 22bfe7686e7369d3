//! What formats have in common: words that name a phase, numbers as people print them, losses.

use std::sync::LazyLock;

use regex::Regex;

pub(super) const TRAIN: &str = "train";
/// Validation, testing, prediction.
pub(super) const EVAL: &str = "eval";
/// Loading, downloading, preparing data.
pub(super) const OTHER: &str = "other";

const EVAL_WORDS: &[&str] = &[
    "val",
    "valid",
    "validate",
    "validating",
    "validation",
    "eval",
    "evaluate",
    "evaluating",
    "evaluation",
    "test",
    "testing",
    "predict",
    "predicting",
    "prediction",
    "sanity",
    "infer",
    "inference",
];
const TRAIN_WORDS: &[&str] = &[
    "train",
    "training",
    "pretrain",
    "pretraining",
    "finetune",
    "finetuning",
    "step",
    "steps",
    "iter",
    "iters",
    "iteration",
    "iterations",
];
const OTHER_WORDS: &[&str] = &[
    "load",
    "loading",
    "download",
    "downloading",
    "upload",
    "uploading",
    "fetch",
    "fetching",
    "map",
    "mapping",
    "filter",
    "filtering",
    "tokenize",
    "tokenizing",
    "tokenization",
    "tokenizer",
    "preprocess",
    "preprocessing",
    "processing",
    "prepare",
    "preparing",
    "generate",
    "generating",
    "save",
    "saving",
    "cast",
    "casting",
    "extract",
    "extracting",
    "build",
    "building",
    "convert",
    "converting",
    "index",
    "indexing",
    "cache",
    "caching",
    "resolving",
    "creating",
    "flatten",
    "flattening",
    "split",
    "splitting",
    "skipping",
    "scanning",
    "reading",
    "writing",
    "parsing",
    "encoding",
    "packing",
    "grouping",
    "collecting",
    "compiling",
    "quantizing",
    "shards",
];
/// After a word such as `val` these make it the name of a figure, not of a phase: `val_loss`, `test acc`.
const FIGURES: &[&str] =
    &["loss", "acc", "accuracy", "auc", "f", "miou", "map", "score", "error", "err", "psnr", "ppl"];

/// The phase that a description names.
pub(super) fn phase(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).collect();
    let is_figure = |at: usize| words.get(at + 1).is_some_and(|next| FIGURES.contains(next));
    let names = |list: &[&str]| words.iter().enumerate().any(|(at, word)| list.contains(word) && !is_figure(at));
    [(EVAL, EVAL_WORDS), (OTHER, OTHER_WORDS), (TRAIN, TRAIN_WORDS)]
        .into_iter()
        .find_map(|(phase, list)| names(list).then_some(phase))
}

/// A whole number with what people put between digits: `12,800`, `1_000`.
pub(super) fn whole(text: &str) -> Option<i64> {
    let digits: String = text.chars().filter(|c| !matches!(c, ',' | '_' | ' ')).collect();
    digits.parse().ok()
}

/// A number with the prefix by which tqdm scales it: `1.23k` is 1230.
pub(super) fn scaled(text: &str) -> Option<f64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[number.len()..] {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * factor)
}

/// A loss that is printed as a name and a number: `loss=2.3`, `Loss: 6.9 (7.0)`. That of a validation is not taken.
pub(super) fn loss(text: &str) -> Option<f64> {
    #[allow(clippy::expect_used, reason = "a constant, compiled by a test")]
    static LOSS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?i)(?:\b|_)(?:([a-z]+)[ _])?loss\b['"]?[\s:=]*['"]?(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)"#)
            .expect("a constant")
    });
    let found = LOSS
        .captures_iter(text)
        .find(|found| found.get(1).is_none_or(|kind| !EVAL_WORDS.contains(&kind.as_str().to_lowercase().as_str())))?;
    found.get(2)?.as_str().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_name_phases_and_figures_do_not() {
        for (text, right) in [
            ("Training", Some(TRAIN)),
            ("Iteration", Some(TRAIN)),
            ("Validation DataLoader 0", Some(EVAL)),
            ("Sanity Checking", Some(EVAL)),
            ("Epoch 3 (val)", Some(EVAL)),
            ("train_loss 0.3 val_loss 0.4", None),
            ("Epoch 3 train | val acc 0.9", Some(TRAIN)),
            ("Loading checkpoint shards", Some(OTHER)),
            ("Generating train split", Some(OTHER)),
            ("Map (num_proc=4)", Some(OTHER)),
            ("value 3", None),
            ("", None),
        ] {
            assert_eq!(phase(text), right, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_as_people_print_them() {
        assert_eq!((whole("12,800"), whole("1_000"), whole("1.5")), (Some(12_800), Some(1000), None));
        assert_eq!(
            (scaled("1.23k"), scaled("2M"), scaled("7"), scaled("x")),
            (Some(1230.0), Some(2e6), Some(7.0), None)
        );
    }

    #[test]
    fn the_loss_of_training_is_taken_in_its_common_spellings() {
        for (text, right) in [
            (", loss=2.25, v_num=0", Some(2.25)),
            ("Loss: 6.9 (7.0)", Some(6.9)),
            ("train_loss 1e-3", Some(1e-3)),
            ("val_loss: 0.5 train_loss: 0.25", Some(0.25)),
            ("'eval_loss': 0.5", None),
            ("'loss': '0.75'", Some(0.75)),
            ("lossless 3", None),
            ("loss=nan", None),
        ] {
            assert_eq!(loss(text), right, "{text}");
        }
    }
}

//! Lines as the tools print them, written for these tests; the right values are what such a tool would have counted.

use std::sync::Arc;

use super::*;
use crate::trace::tables::Step;

fn auto() -> Formats {
    Formats::of(&StepReading::Auto).unwrap().unwrap()
}

fn read(line: &str) -> Option<Shown> {
    auto().read(line)
}

/// Source, phase, epoch, step, total, samples done.
type Told<'a> = (&'a str, Option<&'a str>, Option<i64>, Option<i64>, Option<i64>, Option<i64>);

fn told(shown: &Shown) -> Told<'_> {
    (shown.source.word(), shown.phase.as_deref(), shown.epoch, shown.step, shown.total, shown.samples_done)
}

fn assert_told(lines: &[(&str, Told<'_>)]) {
    for (line, right) in lines {
        let shown = read(line).unwrap_or_else(|| panic!("not read: {line}"));
        assert_eq!(told(&shown), *right, "{line}");
    }
}

#[test]
fn bars_of_tqdm_count_what_their_unit_says() {
    let train = Some("train");
    assert_told(&[
        (" 10%|█         | 3/30 [00:00<00:03,  7.90it/s]", ("tqdm", None, None, Some(3), Some(30), None)),
        (
            "steps:   5%|▌  | 891/17824 [0:30:00<10:00:00,  2.02s/it, loss=0.1]",
            ("tqdm", train, None, Some(891), Some(17_824), None),
        ),
        (
            "Epoch 2/10: 40%|████  | 40/100 [00:04<00:06, 10.0batch/s]",
            ("tqdm", train, Some(2), Some(40), Some(100), None),
        ),
        ("Epoch 1/5:  26%|██▌   | 512/2000 [00:01<00:02, 512.0img/s]", ("tqdm", train, Some(1), None, None, Some(512))),
        ("Epochs:  20%|██        | 1/5 [00:10<00:40, 10.0s/it]", ("tqdm", None, Some(1), None, None, None)),
        ("  0%|          | 2/5 [00:10<00:40, 10.0s/epoch]", ("tqdm", None, Some(2), None, None, None)),
        ("Validation:  10%|█ | 1/10 [00:00<00:01, 9.0it/s]", ("tqdm", Some("eval"), None, Some(1), Some(10), None)),
        (
            "model.bin:  10%|█ | 1.0M/10.0M [00:00<00:01, 9.0MB/s]",
            ("tqdm", Some("other"), None, None, Some(10_000_000), None),
        ),
        (
            "Map: 100%|██| 1000/1000 [00:01<00:00, 999.1 examples/s]",
            ("tqdm", Some("other"), None, None, None, Some(1000)),
        ),
        ("Training: 12step [00:02, 6.00step/s]", ("tqdm", train, None, Some(12), None, None)),
    ]);
    let shown = read("Epoch 1/5:  26%|██▌   | 512/2000 [00:01<00:02, 512.5img/s, loss (batch)=0.25]").unwrap();
    assert_eq!(shown.reported_samples_per_s, Some(512.5));
}

#[test]
fn bars_of_lightning_are_known_by_their_names() {
    let bar = "Epoch 0:  40%|████      | 12/30 [00:01<00:02,  7.90it/s, loss=2.25, v_num=0]";
    let eval = Some("eval");
    assert_told(&[
        (bar, ("lightning", Some("train"), Some(0), Some(12), Some(30), None)),
        (
            "Validation DataLoader 0:  50%|█ | 5/10 [00:00<00:00, 40.0it/s]",
            ("lightning", eval, None, Some(5), Some(10), None),
        ),
        (
            "Sanity Checking DataLoader 0:   0%| | 0/2 [00:00<?, ?it/s]",
            ("lightning", eval, None, Some(0), Some(2), None),
        ),
    ]);
    assert_eq!(read(bar).unwrap().loss, Some(2.25));
}

#[test]
fn dictionaries_of_the_trainer_have_loss_and_rates_but_no_step() {
    let train = Some("train");
    let (log, end) = (
        "{'loss': 2.25, 'grad_norm': 1.5, 'learning_rate': 5e-05, 'epoch': 1.75}",
        "{'train_runtime': 12.5, 'train_samples_per_second': 64.5, 'train_steps_per_second': 8.0, 'train_loss': 1.5, 'epoch': 3.0}",
    );
    assert_told(&[
        (log, ("trainer", train, Some(1), None, None, None)),
        (end, ("trainer", train, Some(3), None, None, None)),
        ("{'loss': '2.25', 'epoch': '0.5'}", ("trainer", train, Some(0), None, None, None)),
        ("{'eval_loss': 1.0, 'eval_runtime': 2.0, 'epoch': 1.0}", ("trainer", Some("eval"), None, None, None, None)),
    ]);
    assert_eq!((read(log).unwrap().loss, read(end).unwrap().reported_samples_per_s), (Some(2.25), Some(64.5)));
    for line in ["{'a': 1}", "{'loss': 2.25}", "{'epoch': 3}", "config {'loss': 1, 'epoch': 1}"] {
        assert_eq!(read(line), None, "{line}");
    }
}

#[test]
fn lines_of_epochs_are_read_in_their_common_spellings() {
    let (train, eval) = (Some("train"), Some("eval"));
    assert_told(&[
        ("Epoch 1/10", ("epoch", train, Some(1), None, None, None)),
        ("epoch 3 of 10: loss 0.5", ("epoch", train, Some(3), None, None, None)),
        ("Epoch: 1 | train loss 0.5 | val loss 0.6", ("epoch", train, Some(1), None, None, None)),
        ("EPOCH 4", ("epoch", train, Some(4), None, None, None)),
        ("Epoch [2/5], Step [100/600], Loss: 0.25", ("epoch", train, Some(2), Some(100), Some(600), None)),
        ("Epoch 2, batch 40: loss = 1", ("epoch", train, Some(2), Some(40), None, None)),
        (
            "Epoch: [0][  10/5005]\tTime  0.5 ( 0.6)\tLoss 6.9 (7.0)",
            ("epoch", train, Some(0), Some(10), Some(5005), None),
        ),
        (
            "Epoch: [0]  [  10/1875]  eta: 0:10:00  loss: 6.9 (7.0)",
            ("epoch", train, Some(0), Some(10), Some(1875), None),
        ),
        (
            "2030-01-01 10:00:00,123 - tool - INFO - Epoch [1][50/7330]  lr: 0.1",
            ("epoch", train, Some(1), Some(50), Some(7330), None),
        ),
        ("Epoch(train)  [1][ 50/196]  lr: 1e-2", ("epoch", train, Some(1), Some(50), Some(196), None)),
        ("Epoch(val)  [1][ 50/196]", ("epoch", eval, Some(1), Some(50), Some(196), None)),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.25", ("epoch", train, Some(1), None, None, Some(640))),
        ("Epoch: 1 [50/600 (8%)]", ("epoch", train, Some(1), Some(50), Some(600), None)),
        ("Validation epoch 2 [10/20]", ("epoch", eval, Some(2), Some(10), Some(20), None)),
        ("Epoch 0/9 ━━━━━╸━━━ 12/30 0:00:01 • 0:00:02 7.90it/s", ("epoch", train, Some(0), Some(12), Some(30), None)),
    ]);
    assert_eq!(read("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.25").unwrap().loss, Some(2.25));
    for line in [
        "Epochs: 10",
        "  Num Epochs = 3",
        "num_epochs: 3",
        "saved at epoch 3",
        "best epoch: 3",
        "loading checkpoint-epoch-3.pt",
        "--epochs 5",
        "an epoch of 3 things",
    ] {
        assert_eq!(read(line), None, "{line}");
    }
}

#[test]
fn the_timer_of_deepspeed_tells_steps_and_its_own_rate() {
    let line = "[2030-01-01 10:00:00,123] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10, \
                RunningAvgSamplesPerSec=25.5, CurrSamplesPerSec=26.5, MemAllocated=4.3GB, MaxMemAllocated=38.5GB";
    let old = "[INFO] [timer.py:198:stop] 0/20, RunningAvgSamplesPerSec=232.5, CurrSamplesPerSec=227.5";
    assert_told(&[
        (line, ("deepspeed", Some("train"), Some(0), Some(10), None, None)),
        (old, ("deepspeed", Some("train"), Some(0), Some(20), None, None)),
    ]);
    assert_eq!(read(line).unwrap().reported_samples_per_s, Some(25.5));
}

fn pattern(pattern: &str) -> Result<Option<Formats>> {
    Formats::of(&StepReading::Pattern { pattern: pattern.to_owned() })
}

#[test]
fn a_pattern_of_the_users_own_is_read_by_its_groups_and_nothing_else_is() {
    let formats =
        pattern(r"\[(?P<phase>\w+)\] it (?P<step>[\d,]+)/(?P<total>\d+) seen (?P<samples>\d+) l=(?P<loss>\S+)");
    let formats = formats.unwrap().unwrap();
    let shown = formats.read("12:00 [TRAIN] it 1,200/5000 seen 76800 l=0.25").unwrap();
    assert_eq!(told(&shown), ("pattern", Some("train"), None, Some(1200), Some(5000), Some(76_800)));
    assert_eq!(shown.loss, Some(0.25));
    assert_eq!(formats.read("[val] it 3/5 seen 9 l=1").unwrap().phase.as_deref(), Some("eval"));
    assert_eq!(formats.read("Epoch 1/10"), None);
}

#[test]
fn a_pattern_that_cannot_be_used_is_one_clear_sentence() {
    for (text, why) in [
        (r"(?P<step>\d+", "unclosed group"),
        (r"(?P<stepp>\d+)", "\"stepp\"; known are step, total, epoch, loss, samples, phase"),
        (r"step \d+", "names nothing to count"),
        (r"(?P<loss>\d+)", "a group of step, samples, epoch"),
    ] {
        let message = pattern(text).unwrap_err().to_string();
        assert!(message.contains(why) && message.lines().count() == 1, "{text}: {message}");
    }
}

/// The rows of output that came in pieces, each at its time in milliseconds.
fn rows(pieces: &[(i64, &str)]) -> Vec<Step> {
    let board = Board::new(auto());
    let mut reader = board.reader();
    for (ms, piece) in pieces {
        reader.take(piece.as_bytes(), ms * 1_000_000);
    }
    reader.end();
    board.take()
}

fn steps(rows: &[Step]) -> Vec<(i64, Option<i64>)> {
    rows.iter().map(|row| (row.t_ns / 1_000_000, row.step)).collect()
}

#[test]
fn a_bar_is_seen_when_it_is_drawn_and_not_when_it_is_drawn_over() {
    let rows = rows(&[
        (100, "start\n\r  0%|  | 0/9 [00:00<?, ?it/s]"),
        (400, "\r 33%|# | 3/9 [00:00<00:01, 1"),
        (401, "0.0it/s]\x1b[A"),
        (900, "\r 33%|# | 3/9 [00:00<00:01, 10.0it/s]"),
        (950, "\r\x1b[32m 66%|# | 6/9 [00:00<00:01, 10.0it/s]\x1b[0m\n\n"),
    ]);
    assert_eq!(steps(&rows), [(100, Some(0)), (401, Some(3)), (950, Some(6))]);
    assert!(rows.iter().all(|row| row.series == Some(0) && row.steps_total == Some(9)));
}

#[test]
fn bars_are_told_apart_and_changing_names_are_not() {
    let rows = rows(&[
        (0, "\rEpochs:  20%|# | 1/5 [00:10<00:40, 10.0s/it]\n"),
        (100, "\rEpoch 1 loss 0.5:  50%|# | 1/2 [00:00<00:01, 10.0it/s]"),
        (200, "\rEpoch 2 loss 0.25:  50%|# | 1/2 [00:00<00:01, 10.0it/s]"),
        (300, "\r  50%|# | 1/3 [00:00<00:01, 10.0it/s]\n"),
    ]);
    assert_eq!(rows.iter().map(|row| row.series.unwrap()).collect::<Vec<_>>(), [0, 1, 1, 2]);
}

#[test]
fn a_bar_that_is_drawn_without_pause_is_thinned_but_its_end_and_its_new_beginning_stay() {
    let draw = |n: i64| format!("\r  {n}%| | {n}/100 [00:00<00:01, 10.0it/s]");
    let mut pieces: Vec<(i64, String)> = (0..=100).map(|n| (n, draw(n))).collect();
    pieces.extend([(101, draw(0)), (102, draw(1))]);
    let pieces: Vec<(i64, &str)> = pieces.iter().map(|(ms, text)| (*ms, text.as_str())).collect();
    let rows = rows(&pieces);
    assert!(rows.len() <= 25, "{}", rows.len());
    assert!(steps(&rows).ends_with(&[(100, Some(100)), (102, Some(1))]) || steps(&rows).contains(&(100, Some(100))));
    assert_eq!(steps(&rows)[0], (0, Some(0)));
}

#[test]
fn a_flood_of_lines_costs_bounded_memory_and_its_end_is_seen() {
    let board = Board::new(auto());
    let mut reader = board.reader();
    let mut flood = String::new();
    for n in 0..100_000 {
        flood += &format!("Epoch [1/2], Step [{n}/100000], Loss: 0.5\n");
    }
    for (at, piece) in flood.as_bytes().chunks(64 << 10).enumerate() {
        reader.take(piece, at as i64 * 100_000);
    }
    reader.end();
    let rows = board.take();
    assert!(rows.len() < 100, "{}", rows.len());
    assert_eq!(rows.last().unwrap().step, Some(99_999));
}

#[test]
fn endless_lines_and_bytes_that_are_no_text_do_no_harm() {
    let board = Board::new(auto());
    let mut reader = board.reader();
    for _ in 0..1000 {
        reader.take(&[b'x'; 1000], 0);
    }
    reader.take(b" 10%| | 1/10 [00:00<00:01, 10.0it/s]\n", 0);
    reader.take(b"\xff\xfe 20%|\xff | 2/10 [00:00<00:01, 10.0it/s]\n", 0);
    let rows = board.take();
    assert_eq!(steps(&rows), [(0, Some(2))]);
}

#[test]
fn what_is_shown_after_the_end_is_not_kept() {
    let board = Board::new(auto());
    let mut reader = Arc::clone(&board).reader();
    board.close();
    reader.take(b"Epoch 1/10\nEpoch 2/10\n", 0);
    assert!(board.take().is_empty() && board.sources().is_empty());
}

//! What bars and lines showed, made by hand; the right values by hand arithmetic.

use super::*;
use crate::aggregate::steps::{StepClock, steps};
use crate::aggregate::testing::{frame, ns};
use crate::trace::tables::Step;

/// A drawing at a time in seconds.
fn shown(source: &str, series: i64, t: f64, step: i64) -> Step {
    Step {
        t_ns: ns(t),
        kind: "step".into(),
        source: Some(source.into()),
        series: Some(series),
        step: Some(step),
        ..Step::default()
    }
}

fn bar(series: i64, t: f64, step: i64) -> Step {
    shown("tqdm", series, t, step)
}

fn with_phase(phase: &str, row: Step) -> Step {
    Step { phase: Some(phase.into()), ..row }
}

fn in_epoch(epoch: i64, row: Step) -> Step {
    Step { epoch: Some(epoch), ..row }
}

fn summed_up(rows: Vec<Step>) -> Figures {
    let mut figures = Figures::default();
    // Other tables have been summed up before.
    figures.set(Metric::Duration, Some(100.0));
    steps(frame(rows), StepClock::Complete, &mut figures).unwrap();
    figures.values.remove(&Metric::Duration);
    figures
}

fn assert_values(figures: &Figures, right: &[(Metric, f64)]) {
    let metrics: Vec<Metric> = right.iter().map(|(metric, _)| *metric).collect();
    assert_eq!(figures.values.keys().copied().collect::<Vec<_>>(), metrics);
    for (metric, right) in right {
        let value = figures.values[metric];
        assert!((value - right).abs() < 1e-9, "{metric:?}: {value} {right}");
    }
}

#[test]
fn steps_between_two_drawings_are_averaged_and_a_redrawing_is_no_step() {
    // Warm-up: steps 1 and 2 until 1.0 s. Then 8 steps in 0.8 s, 4 in 0.8 s: 12 in 1.6 s, median 0.1 s.
    let rows = [(0.0, 0), (0.9, 1), (1.0, 2), (1.8, 10), (1.9, 10), (2.6, 14)].map(|(t, n)| bar(0, t, n));
    let figures = summed_up(rows.into());
    assert_eq!(figures.step_source, Some(StepSource::Tqdm));
    assert_values(&figures, &[(Metric::ShownStepTime, 0.1), (Metric::ShownStepRate, 7.5)]);
}

#[test]
fn a_bar_for_each_epoch_is_one_count_and_the_time_between_bars_is_no_step() {
    // 0.1 s a step, 10 steps an epoch, 5 s between the epochs.
    let mut rows = Vec::new();
    for epoch in 0..3 {
        let begin = 6.0 * epoch as f64;
        rows.extend((0..=10).map(|n| in_epoch(epoch, bar(0, begin + 0.1 * n as f64, n))));
    }
    let right = [(Metric::ShownStepTime, 0.1), (Metric::ShownStepRate, 10.0), (Metric::ShownEpochTime, 6.0)];
    assert_values(&summed_up(rows), &right);
}

#[test]
fn of_nested_bars_the_one_with_most_steps_counts() {
    let mut rows: Vec<Step> = (0..=3).map(|n| bar(0, 10.0 * n as f64, n)).collect();
    for epoch in 0..3 {
        rows.extend((0..=90).map(|n| bar(1, 10.0 * f64::from(epoch) + 0.1 * f64::from(n), n.into())));
    }
    assert_values(&summed_up(rows), &[(Metric::ShownStepTime, 0.1), (Metric::ShownStepRate, 10.0)]);
}

#[test]
fn a_bar_that_says_that_it_trains_wins_over_a_longer_one_that_does_not() {
    let mut rows: Vec<Step> = (0..=1000).map(|n| bar(0, 0.01 * f64::from(n), n.into())).collect();
    rows.extend((0..=10).map(|n| with_phase("train", bar(1, 10.0 + f64::from(n), n.into()))));
    assert_values(&summed_up(rows), &[(Metric::ShownStepTime, 1.0), (Metric::ShownStepRate, 1.0)]);
}

#[test]
fn a_short_bar_before_the_training_is_not_taken_for_it_whatever_its_source() {
    // A nameless bar for 2 s, then lines of steps for 20 s.
    let mut rows: Vec<Step> = (0..=200).map(|n| bar(0, 0.01 * f64::from(n), n.into())).collect();
    rows.extend((1..=20).map(|n| shown("epoch", 1, 2.0 + f64::from(n), (100 * n).into())));
    let figures = summed_up(rows);
    assert_eq!(figures.step_source, Some(StepSource::Epoch));
    assert_values(&figures, &[(Metric::ShownStepTime, 0.01), (Metric::ShownStepRate, 100.0)]);
}

#[test]
fn validation_and_preparing_are_never_training() {
    let mut rows: Vec<Step> = (0..=100).map(|n| with_phase("other", bar(0, 0.01 * f64::from(n), n.into()))).collect();
    rows.extend((0..=100).map(|n| with_phase("eval", bar(1, 2.0 + 0.01 * f64::from(n), n.into()))));
    let figures = summed_up(rows);
    assert!(figures.values.is_empty() && figures.step_source.is_none());
}

#[test]
fn time_in_which_a_validation_is_on_show_is_left_out() {
    // 1 s a step; a validation from 5.2 to 9.8 s, after which step 6 ends at 11 s.
    let mut rows: Vec<Step> = (0..=5).map(|n| bar(0, f64::from(n), n.into())).collect();
    rows.extend((0..=46).map(|n| with_phase("eval", bar(1, 5.2 + 0.1 * f64::from(n), n.into()))));
    rows.extend([bar(0, 11.0, 6), bar(0, 12.0, 7), bar(0, 13.0, 8)]);
    let right = [(Metric::ShownStepTime, 1.0), (Metric::ShownStepRate, 1.0)];
    assert_values(&summed_up(rows.clone()), &right);
    // The same where the bar of the validation does not say what it is: it begins while the other stands still.
    rows.iter_mut().for_each(|row| row.phase = None);
    assert_values(&summed_up(rows), &right);
}

#[test]
fn a_bar_that_counts_validation_too_is_not_believed_meanwhile() {
    // The bar of the epoch goes on through the validation, ten times as fast.
    let mut rows: Vec<Step> = (0..=6).map(|n| bar(0, f64::from(n), n.into())).collect();
    for n in 0..20 {
        rows.push(with_phase("eval", bar(1, 6.05 + 0.1 * f64::from(n), n.into())));
        rows.push(bar(0, 6.1 + 0.1 * f64::from(n), (7 + n).into()));
    }
    assert_values(&summed_up(rows), &[(Metric::ShownStepTime, 1.0), (Metric::ShownStepRate, 1.0)]);
}

#[test]
fn bars_of_several_processes_drawn_in_turn_are_one() {
    // Two processes, the second 0.05 s late and one step behind now and then.
    let mut rows = Vec::new();
    for n in 0..=40 {
        rows.push(bar(0, f64::from(n), n.into()));
        rows.push(bar(0, f64::from(n) + 0.05, i64::from(n - i32::from(n > 2))));
    }
    assert_values(&summed_up(rows), &[(Metric::ShownStepTime, 1.0), (Metric::ShownStepRate, 1.0)]);
}

#[test]
fn lines_that_count_samples_give_samples_a_second() {
    // 640 samples each second, and each epoch anew; the first lines are warm-up.
    let mut rows = Vec::new();
    for epoch in 1..=2 {
        let line = |n: i64| Step {
            step: None,
            samples_done: Some(640 * n),
            ..in_epoch(epoch, shown("epoch", 0, (20 * epoch + n) as f64, 0))
        };
        rows.extend((0..10).map(line));
    }
    assert_values(&summed_up(rows), &[(Metric::ShownThroughput, 640.0), (Metric::ShownEpochTime, 20.0)]);
}

#[test]
fn lines_of_epochs_alone_give_the_time_of_an_epoch() {
    let rows = (1..=4).map(|n| Step { step: None, ..in_epoch(n, shown("epoch", 0, 3.0 * n as f64, 0)) });
    let figures = summed_up(rows.collect());
    assert_eq!(figures.step_source, Some(StepSource::Epoch));
    assert_values(&figures, &[(Metric::ShownEpochTime, 3.0)]);
}

#[test]
fn one_source_is_used_and_a_tools_own_rate_stays_its_own() {
    let mut rows: Vec<Step> = (0..=10).map(|n| bar(0, 0.5 * f64::from(n), n.into())).collect();
    rows.extend((1..=10).map(|n| shown("deepspeed", 1, f64::from(n), n.into())));
    rows.push(Step { step: None, reported_samples_per_s: Some(64.0), ..shown("trainer", 2, 11.0, 0) });
    rows.push(Step { reported_samples_per_s: Some(25.5), ..shown("deepspeed", 1, 11.0, 11) });
    let figures = summed_up(rows);
    assert_eq!((figures.step_source, figures.reported_by), (Some(StepSource::Deepspeed), Some(StepSource::Deepspeed)));
    let right = [(Metric::ShownStepTime, 1.0), (Metric::ShownStepRate, 1.0), (Metric::ReportedThroughput, 25.5)];
    assert_values(&figures, &right);
}

#[test]
fn what_the_workload_tells_itself_wins() {
    let told = |t: i64| Step {
        t_ns: ns(t as f64),
        kind: "step".into(),
        source: Some("shice_steps".into()),
        samples: Some(64),
        ..Step::default()
    };
    let mut rows: Vec<Step> = (0..=10).map(|n| bar(0, 0.5 * f64::from(n), n.into())).collect();
    rows.extend((1..=5).map(told));
    let figures = summed_up(rows);
    assert_eq!(figures.step_source, Some(StepSource::ShiceSteps));
    assert_values(&figures, &[(Metric::Throughput, 64.0), (Metric::StepTime, 1.0)]);
}

#[test]
fn phases_that_the_workload_tells_stand_beside_steps_that_its_output_shows() {
    let phase = |t: f64, name: &str| Step {
        t_ns: ns(t),
        kind: "phase".into(),
        phase: Some(name.into()),
        source: Some("shice_steps".into()),
        ..Step::default()
    };
    let mut rows = vec![phase(0.0, "train"), phase(20.0, "done")];
    rows.extend((0..=10).map(|n| bar(0, f64::from(n), n.into())));
    let right = [(Metric::TrainTime, 20.0), (Metric::ShownStepTime, 1.0), (Metric::ShownStepRate, 1.0)];
    assert_values(&summed_up(rows), &right);
}

#[test]
fn two_numbers_are_too_few_for_a_rate() {
    let figures = summed_up(vec![bar(0, 0.0, 0), bar(0, 1.0, 1)]);
    assert!(figures.values.is_empty() && figures.step_source.is_none());
}

//! What a workload tells, and what its output shows instead.

use super::*;
use crate::record::clock::monotonic_ns;
use std::io::Write;

/// A started reader, its file open for writing, and a journal, all in one folder.
fn bench() -> (tempfile::TempDir, Journal, StepsReader, File) {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::create(&folder.path().join("journal.jsonl")).unwrap();
    let mut reader = StepsReader::create(&folder.path().join("steps.jsonl"), &StepReading::Auto).unwrap();
    reader.start(RunClock::start(), &Mask::default());
    let file = File::options().append(true).open(reader.path()).unwrap();
    (folder, journal, reader, file)
}

#[test]
fn lines_written_in_pieces_are_taken_when_whole() {
    let (_folder, journal, mut reader, mut file) = bench();
    let now = monotonic_ns();
    write!(file, "{{\"kind\":\"setting\",\"name\":\"threads\",\"value\":2}}\n{{\"kind\":\"step\",\"t_ns\":{now},")
        .unwrap();
    reader.poll(&journal);
    assert_eq!((reader.steps, reader.settings()["threads"].as_str()), (0, "2"));
    write!(file, "\"samples\":64}}\nnot json\n\n{{\"kind\":\"phase\",\"t_ns\":{now},\"phase\":\"train\"}}").unwrap();
    reader.poll(&journal);
    assert_eq!((reader.steps, reader.unreadable), (1, 1));
    let (coverage, event) = reader.close(&journal);
    assert_eq!((reader.steps, coverage.state), (2, CoverageState::Lost));
    assert!(coverage.reason.contains("1 line") && event[0].contains("1 could not be read"));
}

#[test]
fn odd_values_of_python_do_not_cost_the_step() {
    let (folder, journal, mut reader, mut file) = bench();
    let now = monotonic_ns();
    for rest in [
        "\"loss\":NaN",
        "\"loss\": -Infinity, \"phase\": \"NaN \\\" Infinity\"",
        "\"samples\":64.0,\"step\":1e3,\"loss\":1",
        "\"samples\":NaN,\"other\":[NaN]",
    ] {
        writeln!(file, "{{\"kind\":\"step\",\"t_ns\":{now},{rest}}}").unwrap();
    }
    writeln!(file, "{{\"kind\":\"step\",\"t_ns\":{now}.0}}").unwrap();
    let (coverage, event) = reader.close(&journal);
    assert_eq!((reader.steps, coverage.state, event), (5, CoverageState::Measured, vec![]));
    drop(journal);
    let written = std::fs::read_to_string(folder.path().join("journal.jsonl")).unwrap();
    assert!(written.contains("NaN \\\" Infinity") && written.contains("1000"), "{written}");
}

#[test]
fn a_time_of_another_clock_is_left_out_and_the_right_clock_is_named() {
    let (_folder, journal, mut reader, mut file) = bench();
    let now = monotonic_ns();
    let wrong = [0, i64::MIN, i64::MAX, 1_790_000_000_000_000_000, now + 60_000_000_000, now - 60_000_000_000];
    for t_ns in wrong.into_iter().chain([now, now + 500_000_000, now - 500_000_000]) {
        writeln!(file, "{{\"kind\":\"phase\",\"t_ns\":{t_ns},\"phase\":\"train\"}}").unwrap();
    }
    let (coverage, event) = reader.close(&journal);
    assert_eq!((reader.steps, reader.foreign, coverage.state), (3, 6, CoverageState::Lost));
    assert!(event[0].contains("6 told a time outside the run (t_ns is CLOCK_MONOTONIC"));
}

#[test]
fn numbers_that_are_no_integers_and_a_torn_last_line_are_counted() {
    let (_folder, journal, mut reader, mut file) = bench();
    let now = monotonic_ns();
    write!(
        file,
        "{{\"kind\":\"step\",\"t_ns\":{now},\"samples\":1.5}}\n{{\"kind\":\"step\",\"t_ns\":1e30}}\n{{\"kind\":"
    )
    .unwrap();
    let (coverage, _) = reader.close(&journal);
    assert_eq!((reader.steps, reader.unreadable, coverage.state), (0, 3, CoverageState::Lost));
}

#[test]
fn where_the_workload_tells_no_step_the_output_shows_them() {
    let (folder, journal, mut reader, mut file) = bench();
    writeln!(file, "{{\"kind\":\"phase\",\"t_ns\":{},\"phase\":\"train\"}}", monotonic_ns()).unwrap();
    let mut output = reader.output_reader().unwrap();
    output.take(b"\r 10%|# | 1/10 [00:00<00:01, 10.0it/s]\rVal: 10%|# | 1/10 [00:00<00:01, 1.0it/s]\n", monotonic_ns());
    let (coverage, events) = reader.close(&journal);
    assert_eq!((coverage.source.as_str(), coverage.state), ("output (tqdm)", CoverageState::Measured));
    assert!(coverage.reason.contains("times are those of printing") && events.is_empty());
    drop(journal);
    let written = std::fs::read_to_string(folder.path().join("journal.jsonl")).unwrap();
    assert!(written.contains("\"source\":\"tqdm\"") && written.contains("\"phase\":\"eval\""), "{written}");
}

#[test]
fn steps_that_the_workload_tells_itself_win_over_its_output() {
    let (_folder, journal, mut reader, mut file) = bench();
    let mut output = reader.output_reader().unwrap();
    output.take(b"Epoch 1/10\n", monotonic_ns());
    writeln!(file, "{{\"kind\":\"step\",\"t_ns\":{}}}", monotonic_ns()).unwrap();
    let (coverage, _) = reader.close(&journal);
    assert_eq!((coverage.source.as_str(), coverage.state), (VARIABLE, CoverageState::Measured));
    assert!(coverage.reason.is_empty());
}

#[test]
fn an_output_that_is_not_read_shows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let reader = StepsReader::create(&folder.path().join("steps.jsonl"), &StepReading::Off).unwrap();
    assert!(reader.output_reader().is_none());
}

#[test]
fn progress_that_is_no_training_is_kept_and_said_to_be_none() {
    let (_folder, journal, mut reader, _file) = bench();
    let mut output = reader.output_reader().unwrap();
    output.take(b"Loading: 10%|# | 1/10 [00:00<00:01, 10.0it/s]\n", monotonic_ns());
    let (coverage, _) = reader.close(&journal);
    assert_eq!((coverage.source.as_str(), coverage.state), ("output", CoverageState::Measured));
    assert!(coverage.reason.contains("other things than training"));
}
